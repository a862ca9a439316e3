//! Traces, as OpenTelemetry's own messages for Python read them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Server, in_venv};

/// Asks over HTTP and gives the body of the answer.
fn ask(url: &str, method: &str, body: &str) -> String {
    let (address, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn a_trace_is_read_by_the_messages_of_opentelemetry() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let collector = Server::run(in_venv("sdks", "collector.py"));
    let script = home.join("script.json");
    std::fs::write(&script, json!({ "turns": [{ "repeat": true, "text": "an answer" }] }).to_string())
        .unwrap();
    let model = Server::start(home, &["model", "serve", "--script", script.to_str().unwrap()]);
    std::fs::create_dir_all(home.join("config/backstop")).unwrap();
    let config = format!(
        "providers: {{ gpt: {{ api: openai-chat, base_url: '{}', models: [scripted] }} }}\n\
         telemetry: {{ traces: {{ endpoint: '{}/v1/traces' }} }}\n",
        model.url, collector.url
    );
    std::fs::write(home.join("config/backstop/backstop.yaml"), config).unwrap();
    let gateway = Server::start(home, &["serve", "--port", "0"]);
    let body = json!({ "model": "scripted", "messages": [{ "role": "user", "content": "a question" }] });
    ask(&format!("{}/v1/chat/completions", gateway.url), "POST", &body.to_string());
    let end = Instant::now() + Duration::from_secs(60);
    let spans = loop {
        let spans: Vec<Value> =
            serde_json::from_str(&ask(&format!("{}/", collector.url), "GET", "")).unwrap();
        if spans.len() > 2 {
            break spans;
        }
        assert!(Instant::now() < end, "no spans came: {spans:?}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let named = |name: &str| {
        spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
    };
    let (request, call, gate) =
        (named("POST chat_completions"), named("chat scripted"), named("before_llm_call"));
    for (span, kind) in
        [(request, "SPAN_KIND_SERVER"), (call, "SPAN_KIND_CLIENT"), (gate, "SPAN_KIND_INTERNAL")]
    {
        assert_eq!((&span["kind"], &span["status"]), (&json!(kind), &json!("STATUS_CODE_UNSET")), "{span}");
        assert_eq!((&span["unknown"], &span["scope"]), (&json!(false), &json!("backstop")), "{span}");
        assert_eq!(span["resource"]["service.name"], "backstop");
        assert_eq!(span["trace"], request["trace"]);
    }
    assert_eq!((&call["parent"], &gate["parent"]), (&request["id"], &request["id"]));
    assert_eq!(call["attributes"]["gen_ai.provider.name"], "openai");
    assert_eq!(call["attributes"]["gen_ai.response.finish_reasons"], json!(["end_turn"]));
}
