//! The webhook against a real socket: verdicts, outages, nonsense, notifications.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstop_engine::{
    BlockCause, Engine, FailureKind, HookOptions, Said, VerdictTypes, register_verdict_hook,
};
use backstop_guards::verdicts::register_types;
use backstop_hooks::points::{AfterToolCall, AfterToolCallEvent};
use backstop_hooks::{OwnerId, Params, ToolName};
use serde_json::{Value, json};

use super::support::{Endpoint, context, engine, http, review, snapshot, why};

fn hooked(url: &str, more: Value) -> Engine {
    let mut types = VerdictTypes::default();
    register_types(&mut types, &[ToolName::new("exec")]);
    let mut config = json!({ "url": url });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let hook = types.build("webhook", &config).unwrap();
    let mut snapshot = snapshot();
    register_verdict_hook(&mut snapshot, &hook, HookOptions::new(OwnerId::operator()).id("webhook")).unwrap();
    engine(snapshot)
}

async fn against(answer: Vec<u8>, more: Value) -> backstop_engine::Reviewed {
    let endpoint = Endpoint::answering(answer).await;
    review(&hooked(&endpoint.url, more), "exec", json!({"command": "ls -la"})).await
}

#[tokio::test]
async fn verdicts_are_obeyed() {
    let approved = against(http("200 OK", r#"{"verdict": "approve"}"#), json!({})).await;
    assert!(approved.blocked.is_none());

    let denied = against(http("200 OK", r#"{"verdict": "deny", "reasoning": "not today"}"#), json!({})).await;
    assert_eq!(why(&denied), "not today");

    let answer = r#"{"verdict": "modify", "modified_arguments": {"command": "ls"}}"#;
    let modified = against(http("200 OK", answer), json!({})).await;
    assert_eq!(modified.event.params.to_value(), json!({"command": "ls"}));
    assert!(modified.changed);
}

#[tokio::test]
async fn the_request_says_what_is_asked() {
    let endpoint = Endpoint::answering(http("200 OK", r#"{"verdict": "approve"}"#)).await;
    let engine = hooked(&endpoint.url, json!({"auth_header": "Bearer abc"}));
    review(&engine, "bash", json!({"command": "ls -la"})).await;
    let (head, body) = endpoint.requests().remove(0);
    assert!(head.starts_with("post /hook"), "{head}");
    assert!(head.contains("authorization: bearer abc"), "{head}");
    assert_eq!(
        body,
        json!({"tool_name": "exec", "arguments": {"command": "ls -la"}, "session_id": "session-1"})
    );
}

#[tokio::test]
async fn an_outage_is_what_fail_open_says_and_the_receipt_tells() {
    let closed_port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    let silent = Endpoint::answering(Vec::new()).await;
    let failing = Endpoint::answering(http("503 Service Unavailable", "")).await;
    for (url, kind) in [
        (&closed_port, FailureKind::Unreachable),
        (&silent.url, FailureKind::Unreachable),
        (&failing.url, FailureKind::Unreachable),
    ] {
        let open = review(&hooked(url, json!({"timeout": 0.3})), "exec", json!({"command": "ls"})).await;
        assert!(open.blocked.is_none(), "{url}");
        let step = &open.receipt.steps[0];
        assert_eq!(step.said, Said::Failed);
        assert!(step.passed_despite_failure);
        assert_eq!(step.failure.as_ref().unwrap().kind, kind);

        let more = json!({"timeout": 0.3, "fail_open": false});
        let closed = review(&hooked(url, more), "exec", json!({"command": "ls"})).await;
        assert_eq!(closed.blocked.unwrap().cause, BlockCause::Failure { kind });
    }
}

#[tokio::test]
async fn nonsense_is_a_failure_even_with_fail_open() {
    let huge = format!(r#"{{"verdict": "approve", "reasoning": "{}"}}"#, "x".repeat(2 << 20));
    for answer in [
        http("200 OK", "approve"),
        http("200 OK", r#"{"verdict": "maybe"}"#),
        http("200 OK", r#"{"verdict": "modify"}"#),
        http("401 Unauthorized", r#"{"verdict": "approve"}"#),
        http("404 Not Found", ""),
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n".to_vec(),
        http("200 OK", &huge),
    ] {
        let reviewed = against(answer.clone(), json!({"fail_open": true})).await;
        let shown: String = String::from_utf8_lossy(&answer).chars().take(60).collect();
        assert!(reviewed.blocked.is_some(), "{shown}");
    }
}

#[tokio::test]
async fn errors_never_quote_the_address_or_the_header() {
    let more = json!({"auth_header": "Bearer hunter2", "fail_open": false, "timeout": 0.2});
    let reviewed =
        review(&hooked("http://127.0.0.1:9/hook?key=hunter2", more), "exec", json!({"command": "ls"})).await;
    let receipt = serde_json::to_string(&reviewed.receipt).unwrap();
    assert!(!receipt.contains("hunter2") && !format!("{reviewed:?}").contains("hunter2"));
}

#[tokio::test]
async fn results_are_told_and_connections_are_kept() {
    let endpoint = Endpoint::answering(http("200 OK", r#"{"verdict": "approve"}"#)).await;
    let engine = hooked(&endpoint.url, json!({}));
    for _ in 0..5 {
        review(&engine, "exec", json!({"command": "ls"})).await;
    }
    let event = AfterToolCallEvent::new(
        ToolName::new("exec"),
        Params::from_value(json!({"command": "ls"})).unwrap(),
        3,
    )
    .tool_call_id(backstop_hooks::ToolCallId::from("call-1"))
    .error(backstop_hooks::Text::from("boom"));
    engine.observe::<AfterToolCall>(&event, &context()).await;
    let (_, body) = endpoint.requests().pop().unwrap();
    assert_eq!(body["event"], json!("post_call"));
    assert_eq!(body["result"]["success"], json!(false));
    assert_eq!(endpoint.connections.load(Ordering::SeqCst), 1, "one connection carries all requests");
}

#[tokio::test]
async fn a_failing_notification_changes_nothing() {
    let engine = Arc::new(hooked("http://127.0.0.1:9/", json!({})));
    let event = AfterToolCallEvent::new(ToolName::new("exec"), Params::default(), 0);
    let receipt = engine.observe::<AfterToolCall>(&event, &context()).await;
    assert_eq!(receipt.steps[0].said, Said::Failed);
}
