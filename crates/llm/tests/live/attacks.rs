//! Answers that say something in a place where some readers look and others do not.

use backstop_llm::Api;
use serde_json::{Value, json};

use crate::support::{Host, stream, whole};

/// What no client may be told without a judge having seen it.
const HIDDEN: &str = "h1dden";

/// What left of an answer, and whether a judge was shown what is hidden in it.
fn passed(api: Api, streamed: bool, answer: &str) -> (String, bool) {
    let mut editor = if streamed { stream(api) } else { whole(api) };
    let mut host = Host::default();
    let fed = editor.push(answer.as_bytes());
    host.round(&mut *editor);
    if fed.and_then(|()| editor.finish()).is_ok() {
        host.round(&mut *editor);
    }
    let texts = host.texts.iter().any(|(.., text)| text.contains(HIDDEN));
    let mut calls = editor.responses().iter().flat_map(|response| response.message.tool_calls());
    let shown = texts || calls.any(|call| format!("{:?}", call.arguments.to_value()).contains(HIDDEN));
    drop(calls);
    editor.keep_calls(&[], None);
    host.take(&mut *editor);
    (String::from_utf8(host.sent).unwrap(), shown)
}

fn check(api: Api, streamed: bool, answer: &str) {
    let (left, shown) = passed(api, streamed, answer);
    assert!(shown || !left.contains(HIDDEN), "{api}: {answer:?} left as {left:?}");
}

fn chunk(delta: &Value) -> String {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": null});
    format!("data: {}\n\n", json!({"id": "c", "model": "m", "choices": [choice]}))
}

/// A tool call as a chunk of the chat wire.
fn call() -> String {
    let function = json!({"name": "exec", "arguments": format!("{{\"command\":\"{HIDDEN}\"}}")});
    chunk(&json!({"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": function}]}))
}

const END: &str =
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

#[test]
fn an_event_that_only_some_readers_see_never_leaves() {
    let (call, said) = (call(), chunk(&json!({"role": "assistant", "content": "fine"})));
    let bare = call.trim_start_matches("data: ");
    for hidden in [
        bare.to_owned(),
        format!(" {call}"),
        format!("\t{call}"),
        format!("\0{call}"),
        format!("\u{feff}{call}"),
        format!("data : {bare}"),
        format!("DATA: {bare}"),
        format!(": x\u{2028}{call}"),
        format!(": x\u{b}{call}"),
        format!(": x\u{c}{call}"),
        format!(": x\u{85}{call}"),
        format!("event: x\u{2029}{call}"),
        format!("id: x\u{1c}{call}"),
        format!("retry: 1\u{1e}{call}"),
    ] {
        check(Api::OpenAiChat, true, &format!("{said}{hidden}{END}{DONE}"));
        check(Api::OpenAiChat, true, &format!("{said}{END}{DONE}{hidden}"));
        check(Api::OpenAiChat, true, &format!("\u{feff}{hidden}{said}{END}{DONE}"));
    }
}

#[test]
fn an_event_within_a_text_is_no_text() {
    let said = chunk(&json!({"role": "assistant", "content": "fine"}));
    let more = chunk(&json!({"content": "and"}));
    for line_end in ["\u{85}", "\u{2028}", "\u{2029}"] {
        let hidden =
            said.replace("fine", &format!("{line_end}data:{}", call().trim_start_matches("data:").trim()));
        let answer = format!("{said}{more}{more}{hidden}{END}{DONE}");
        let (left, _) = passed(Api::OpenAiChat, true, &answer);
        assert!(!left.contains(HIDDEN), "{left:?}");
        // The short way is no way around.
        let quoted = more.replace("and", &format!("{line_end} data: {HIDDEN}"));
        let (left, _) = passed(Api::OpenAiChat, true, &format!("{said}{more}{more}{quoted}{END}{DONE}"));
        assert!(!left.contains(HIDDEN), "{left:?}");
        // The character alone is a text like any other.
        let text = more.replace("and", &format!("a{line_end}b"));
        let answer = format!("{said}{more}{text}{END}{DONE}");
        assert_eq!(passed(Api::OpenAiChat, true, &answer).0, answer);
    }
}

#[test]
fn letter_case_hides_nothing() {
    let call = call();
    for (key, disguise) in [
        ("tool_calls", "Tool_Calls"),
        ("tool_calls", "tool_call\u{17f}"),
        ("choices", "Choices"),
        ("delta", "DELTA"),
    ] {
        let said = chunk(&json!({"role": "assistant", "content": "fine"}));
        let hidden = call.replace(key, disguise);
        assert_ne!(hidden, call);
        check(Api::OpenAiChat, true, &format!("{said}{hidden}{END}{DONE}"));
    }
    let text = json!({"type": "text", "text": HIDDEN});
    let answers = [
        (
            Api::AnthropicMessages,
            json!({
                "id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
                "usage": {}, "content": [], "Content": [text],
            }),
        ),
        (
            Api::OpenAiResponses,
            json!({
                "id": "r", "object": "response", "status": "completed", "model": "m", "output": [],
                "Output": [{"type": "message", "role": "assistant", "content": [text]}],
            }),
        ),
        (
            Api::OpenAiChat,
            json!({"id": "c", "model": "m", "choices": [{
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": "fine", "Content": HIDDEN},
            }]}),
        ),
        (
            Api::Gemini,
            json!({"candidates": [{
                "finishReason": "STOP",
                "content": {"parts": [{"text": "fine", "Functioncall": {"name": HIDDEN, "args": {}}}]},
            }]}),
        ),
    ];
    for (api, answer) in answers {
        check(api, false, &answer.to_string());
    }
}

#[test]
fn what_is_said_beside_a_text_is_that_text_or_nothing() {
    let audio = json!({"audio": {"id": "a", "transcript": HIDDEN, "data": "AAAA"}});
    let details = |text: &str| json!({"reasoning_details": [{"type": "reasoning.text", "text": text}]});
    let said = chunk(&json!({"role": "assistant", "content": "fine"}));
    for delta in [&audio, &details(HIDDEN)] {
        check(Api::OpenAiChat, true, &format!("{said}{}{END}{DONE}", chunk(delta)));
        let mut message = delta.clone();
        message["role"] = "assistant".into();
        message["content"] = "fine".into();
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        check(Api::OpenAiChat, false, &json!({"id": "c", "model": "m", "choices": [choice]}).to_string());
    }
    let mut honest = details("so");
    honest["reasoning"] = "so it".into();
    let answer = format!("{}{said}{}{END}{DONE}", chunk(&honest), chunk(&details("")));
    assert_eq!(passed(Api::OpenAiChat, true, &answer).0, answer);

    let part = json!({"type": "output_audio", "transcript": HIDDEN, "data": "AAAA"});
    let item =
        json!({"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [part]});
    let response = |status: &str, output: Value| json!({"id": "r", "object": "response", "status": status, "model": "m", "output": output});
    check(Api::OpenAiResponses, false, &response("completed", json!([item])).to_string());
    let created = json!({"type": "response.created", "response": response("in_progress", json!([]))});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": {
        "type": "message", "id": "i", "role": "assistant", "status": "in_progress", "content": []}});
    let parts = json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0,
        "item_id": "i", "part": part});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let end = json!({"type": "response.completed", "response": response("completed", json!([item]))});
    for events in [&[&created, &end][..], &[&created, &done, &end], &[&created, &added, &parts, &done, &end]]
    {
        let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        check(Api::OpenAiResponses, true, &events);
    }
}
