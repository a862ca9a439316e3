//! Hooks that are servers on loopback.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use backstop_engine::{Engine, FailureKind};
use backstop_hooks::{PointId, Secret};
use backstop_plugins::external::http::{Authorization, HttpHook, HttpSettings};

use crate::support::{engine_of, failure, judge, observe, passes};

/// A server that answers every request with `answer`, and tells what it was sent.
fn server(answer: String) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let (heard, requests) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut request = Vec::new();
            let mut chunk = [0; 65536];
            while let Ok(read @ 1..) = stream.read(&mut chunk) {
                request.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let length = text.to_lowercase().split("content-length: ").nth(1).and_then(|rest| {
                    rest.split("\r\n").next().and_then(|length| length.parse::<usize>().ok())
                });
                let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
                if length.is_some() && body >= length {
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes());
            if heard.send(String::from_utf8_lossy(&request).into_owned()).is_err() {
                return;
            }
        }
    });
    (url, requests)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn settings(url: &str, authorization: Option<Authorization>) -> HttpSettings {
    HttpSettings { url: Secret::new(url.to_owned()), authorization, timeout: Duration::from_secs(5) }
}

fn hook(url: &str) -> HttpHook {
    HttpHook::new("mine", &settings(url, None), &|_| None).unwrap()
}

fn gate(url: &str) -> Engine {
    engine_of(PointId::BeforeToolCall, hook(url))
}

#[tokio::test]
async fn a_server_judges() {
    let (url, requests) = server(ok(r#"{"block": true, "blockReason": "no"}"#));
    let credentials = ["Bear", "er abc"].concat();
    let environment = |name: &str| (name == "HOOK_TOKEN").then(|| credentials.clone());
    let from = Authorization::Variable("HOOK_TOKEN".to_owned());
    let hook = HttpHook::new("named", &settings(&url, Some(from)), &environment).unwrap();
    assert!(!format!("{hook:?}").contains(&credentials));
    let blocked = judge(&engine_of(PointId::BeforeToolCall, hook), "ls").await.permit.unwrap_err();
    assert_eq!(blocked.reason.unwrap().text().as_str(), "no");
    let request = requests.recv().unwrap();
    assert!(request.to_lowercase().contains(&format!("authorization: {}", credentials.to_lowercase())));
    let body: serde_json::Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        (&body["hook"], &body["point"], &body["protocol"]),
        (&"named".into(), &"before_tool_call".into(), &1.into())
    );
    assert_eq!(body["event"]["params"]["command"], "ls");
    let (url, _requests) = server(ok("null"));
    assert!(passes(&gate(&url), "ls").await);
}

#[tokio::test]
async fn law_05_whatever_is_no_answer_blocks_at_a_gate_and_is_recorded_at_an_observer() {
    let redirect = "HTTP/1.1 307 Elsewhere\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
    let long = "x".repeat((1 << 20) + 1);
    for (answer, kind, said) in [
        (ok(""), FailureKind::Malformed, "empty"),
        (ok("yes"), FailureKind::Malformed, "no JSON"),
        (ok("\"yes\""), FailureKind::Malformed, "an outcome is an object"),
        (ok(r#"{"block": "true"}"#), FailureKind::Malformed, "malformed"),
        (ok(r#"{"block": true, "block": false}"#), FailureKind::Malformed, "a key twice (line 1"),
        (ok(&long), FailureKind::Malformed, "more than 1 MiB"),
        (redirect.to_owned(), FailureKind::Failed, "307"),
        ("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n".to_owned(), FailureKind::Failed, "401"),
        ("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n".to_owned(), FailureKind::Unreachable, "503"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{}".to_owned(), FailureKind::Malformed, "broke off"),
        ("SSH-2.0-x\r\n".to_owned(), FailureKind::Malformed, "no HTTP"),
        (String::new(), FailureKind::Unreachable, "connection"),
    ] {
        let (url, _requests) = server(answer);
        let (found, message) = failure(&gate(&url), "ls").await;
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(said), "{message}");
        let receipt = observe(&engine_of(PointId::AfterToolCall, hook(&url)), "ls").await;
        assert!(receipt.steps[0].failure.is_some() && receipt.blocked.is_none());
    }
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (kind, message) = failure(&gate(&format!("http://{closed}/")), "ls").await;
    assert!(kind == FailureKind::Unreachable && message.contains("no connection"), "{message}");
}

#[test]
fn settings_that_leak_or_miss_something_are_errors_that_show_no_secret() {
    let made = |url: &str, from: Option<Authorization>| {
        HttpHook::new("h", &settings(url, from), &|_| None).map(drop).unwrap_err().to_string()
    };
    assert!(made("http://example.com/?token=hunter2", None).contains("unencrypted"));
    assert!(made("ftp://127.0.0.1/", None).contains("https://"));
    let variable = Authorization::Variable("NO_SUCH_TOKEN".to_owned());
    assert!(
        made("https://127.0.0.1/", Some(variable)).contains("the variable `NO_SUCH_TOKEN`: it is not set")
    );
    let folder = tempfile::tempdir().unwrap();
    for (text, said) in [("", "it is empty"), ("hunter2\nhunter2", "more than one line")] {
        let file = folder.path().join("token");
        std::fs::write(&file, text).unwrap();
        let error = made("https://127.0.0.1/", Some(Authorization::File(file)));
        assert!(error.contains(said) && !error.contains("hunter2"), "{error}");
    }
    let file = folder.path().join("token");
    std::fs::write(&file, "Bearer x\n").unwrap();
    HttpHook::new("h", &settings("https://127.0.0.1/", Some(Authorization::File(file))), &|_| None).unwrap();
    assert!(!format!("{:?}", settings("https://127.0.0.1/?token=hunter2", None)).contains("hunter2"));
}
