//! The webhook against a real socket: verdicts, outages, nonsense, notifications.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backstop_engine::{
    BlockCause, DecidedParts, Engine, FailureKind, FailureSource, HookOptions, Said, VerdictSlot,
    VerdictTypes,
};
use backstop_guards::verdicts::register_types;
use backstop_hooks::conversation::Message;
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, BeforeLlmCall, BeforeLlmCallEvent, LlmOutput, LlmOutputEvent, ToolInfo,
};
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
    for (slot, id) in [(VerdictSlot::ToolPreCall, "webhook"), (VerdictSlot::LlmPreCall, "model-webhook")] {
        let options = HookOptions::new(OwnerId::operator()).id(id).configured();
        hook.register(slot, &mut snapshot, options).unwrap();
    }
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
        json!({"tool_name": "bash", "arguments": {"command": "ls -la"}, "session_id": "session-1"})
    );
}

#[tokio::test]
async fn a_webhook_that_denies_by_its_own_names_denies() {
    // The server's own rule, which knows nothing of canonical names.
    let endpoint = Endpoint::deciding(|body| {
        let call: Value = serde_json::from_str(body).unwrap();
        let verdict = if call["tool_name"] == "run_command" { "deny" } else { "approve" };
        http("200 OK", &json!({ "verdict": verdict, "reasoning": "run_command is not allowed" }).to_string())
    })
    .await;
    let engine = hooked(&endpoint.url, json!({}));
    let denied = review(&engine, "run_command", json!({"command": "ls"})).await;
    assert_eq!(why(&denied), "run_command is not allowed");
    assert!(review(&engine, "read_file", json!({"path": "a"})).await.blocked.is_none());
}

#[tokio::test]
async fn a_webhook_without_fail_open_fails_closed_and_the_receipt_tells_whose_word_it_was() {
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
        let more = json!({"timeout": 0.3, "fail_open": true});
        let open = review(&hooked(url, more), "exec", json!({"command": "ls"})).await;
        assert!(open.blocked.is_none(), "{url}");
        let step = &open.receipt.steps[0];
        assert_eq!(step.said, Said::Failed);
        assert!(step.passed_despite_failure);
        assert_eq!(step.failure.as_ref().unwrap().kind, kind);
        assert_eq!(step.hook.failure_source, FailureSource::Entry);

        // Law 5: what is not said is closed.
        for (more, source) in [
            (json!({"timeout": 0.3, "fail_open": false}), FailureSource::Entry),
            (json!({"timeout": 0.3}), FailureSource::Default),
        ] {
            let closed = review(&hooked(url, more), "exec", json!({"command": "ls"})).await;
            assert_eq!(closed.blocked.unwrap().cause, BlockCause::Failure { kind });
            assert_eq!(closed.receipt.steps[0].hook.failure_source, source);
        }
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
        // Somebody answered, and what they said can't be understood.
        b"no HTTP at all\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ncontent-length: nine\r\n\r\n".to_vec(),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{\"verdict\"".to_vec(),
    ] {
        let reviewed = against(answer.clone(), json!({"fail_open": true})).await;
        let shown: String = String::from_utf8_lossy(&answer).chars().take(60).collect();
        assert!(reviewed.blocked.is_some(), "{shown}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_no_outage_and_a_connection_without_one_is() {
    let cut = http("200 OK", r#"{"verdict": "deny", "reasoning": "no"}"#);
    let cut = cut.get(..cut.len() - 9).unwrap().to_vec();
    for (answer, outage) in [(cut, false), (Vec::new(), true)] {
        let endpoint = Endpoint::hanging_up(answer).await;
        let reviewed =
            review(&hooked(&endpoint.url, json!({"fail_open": true})), "exec", json!({"command": "ls"}))
                .await;
        assert_eq!(reviewed.blocked.is_none(), outage);
        let kind = if outage { FailureKind::Unreachable } else { FailureKind::Malformed };
        assert_eq!(reviewed.receipt.steps[0].failure.as_ref().unwrap().kind, kind);
    }
}

#[tokio::test]
async fn redirects_never_carry_the_header_on() {
    let elsewhere = Endpoint::answering(http("200 OK", r#"{"verdict": "approve"}"#)).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let answer = format!("HTTP/1.1 {status}\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", elsewhere.url);
        let reviewed =
            against(answer.into_bytes(), json!({"auth_header": "Bearer abc", "fail_open": true})).await;
        assert!(reviewed.blocked.is_some(), "{status}");
    }
    assert!(elsewhere.requests().is_empty());
}

async fn model_call(engine: &Engine) -> DecidedParts<BeforeLlmCall> {
    let tools = vec![ToolInfo::named("read")];
    let event = BeforeLlmCallEvent {
        other_models: None,
        run_id: "run-1".into(),
        messages: vec![Message::user("hi")],
        system_prompt: "be kind".into(),
        model: "some-model".to_owned(),
        provider: "main".to_owned(),
        iteration: 2,
        tools,
        answer_tokens: None,
        token_estimate: 1,
    };
    engine.decide::<BeforeLlmCall>(event, &context()).await.into_parts()
}

#[tokio::test]
async fn model_calls_are_judged_on_a_wire_of_their_own() {
    let endpoint = Endpoint::answering(http("200 OK", r#"{"verdict": "deny", "reasoning": "quota"}"#)).await;
    let engine = hooked(&endpoint.url, json!({}));
    assert_eq!(model_call(&engine).await.blocked.unwrap().reason.unwrap().as_str(), "quota");
    let asked = json!({
        "event": "llm_pre_call",
        "provider": "main",
        "model": "some-model",
        "iteration": 2,
        "system_prompt": "be kind",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        "tools": [{"name": "read"}],
        "session_id": "session-1",
    });
    assert_eq!(endpoint.requests().remove(0).1, asked);

    let output = LlmOutputEvent::new("run-1", "session-1", "main", "some-model", Vec::new())
        .last_assistant(Message::assistant("hello"));
    engine.observe::<LlmOutput>(&output, &context()).await;
    let told = json!({
        "event": "llm_post_call",
        "provider": "main",
        "model": "some-model",
        "result": {
            "output": "hello",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "hello"}]},
            "usage": null,
        },
        "session_id": "session-1",
    });
    assert_eq!(endpoint.requests().remove(1).1, told);
}

#[tokio::test]
async fn model_calls_are_modified_and_fail_as_tool_calls_do() {
    let answer = r#"{"verdict": "modify", "modified_system_prompt": "be brief", "modified_tools": [],
        "modified_messages": [{"role": "user", "content": [{"type": "text", "text": "ho"}]}]}"#;
    let endpoint = Endpoint::answering(http("200 OK", answer)).await;
    let decided = model_call(&hooked(&endpoint.url, json!({}))).await;
    assert!(decided.blocked.is_none());
    assert_eq!(decided.event.system_prompt.as_str(), "be brief");
    assert_eq!(decided.event.messages[0].visible_text(), "ho");
    assert!(decided.event.tools.is_empty());

    let down = Endpoint::answering(http("503 Service Unavailable", "")).await;
    assert!(model_call(&hooked(&down.url, json!({}))).await.blocked.is_some());
    assert!(model_call(&hooked(&down.url, json!({"fail_open": true}))).await.blocked.is_none());
    let nonsense = Endpoint::answering(http("200 OK", r#"{"verdict": "fine"}"#)).await;
    assert!(model_call(&hooked(&nonsense.url, json!({"fail_open": true}))).await.blocked.is_some());
}

#[tokio::test]
async fn a_webhook_may_ask() {
    let answer = r#"{"verdict": "ask", "reasoning": "it lists files", "severity": "info"}"#;
    let asked = against(http("200 OK", answer), json!({})).await;
    assert!(asked.blocked.is_none());
    assert_eq!(asked.requests[0].description().as_str(), "it lists files");
    let endpoint = Endpoint::answering(http("200 OK", answer)).await;
    let denied = model_call(&hooked(&endpoint.url, json!({}))).await.blocked.unwrap();
    assert!(denied.reason.unwrap().as_str().contains("nobody can be asked"));
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
