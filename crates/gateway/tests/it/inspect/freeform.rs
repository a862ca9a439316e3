//! Freeform (`custom`) tools of Chat Completions: their calls have a text in place of arguments.

use backstop_gateway::inspect::HookSettings;
use backstop_hooks::points::{BeforeToolCall, ToolCallOutcome};
use backstop_llm::Api;
use serde_json::{Value, json};

use super::support::*;
use crate::support::{Answer, Script, Upstream};

const INPUT: &str = "any text, \"quoted\",\nin lines";

fn call(name: &str, input: &str) -> Value {
    json!({"id": "call_1", "type": "custom", "custom": {"name": name, "input": input}})
}

/// An answer that says something, and calls a tool if one is given.
fn script(stream: bool, text: &str, call: Option<&Value>) -> Script {
    let stop = if call.is_some() { "tool_calls" } else { "stop" };
    if !stream {
        let mut message = json!({"role": "assistant", "content": text});
        if let Some(call) = call {
            message["tool_calls"] = json!([call]);
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": stop});
        let body =
            json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]});
        return Script::json("200 OK", &body.to_string());
    }
    let mut deltas = vec![json!({"role": "assistant", "content": ""}), json!({"content": text})];
    if let Some(call) = call {
        let input = call["custom"]["input"].as_str().unwrap();
        let mut first = call.clone();
        first["index"] = 0.into();
        first["custom"]["input"] = "".into();
        deltas.push(json!({"tool_calls": [first]}));
        let pieces = input.as_bytes().chunks(3).map(|piece| str::from_utf8(piece).unwrap());
        deltas.extend(pieces.map(|piece| json!({"tool_calls": [{"index": 0, "custom": {"input": piece}}]})));
    }
    let chunk = |delta: &Value, stop: Value| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let mut body: String = deltas.iter().map(|delta| chunk(delta, Value::Null)).collect();
    body.push_str(&chunk(&json!({}), stop.into()));
    body.push_str("data: [DONE]\n\n");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    Script::whole(head + &body)
}

fn asked(stream: bool) -> Value {
    let mut asked = ask(Api::OpenAiChat, stream, "hi");
    let tool = |name: &str| json!({"type": "custom", "custom": {"name": name, "format": {"type": "text"}}});
    asked["tools"] = json!([tool("read"), tool("exec")]);
    asked
}

async fn answered(house: &House, stream: bool, answers: Vec<Script>) -> (Answer, Vec<Value>) {
    let upstream = Upstream::start(move |number| answers[number].clone()).await;
    let settings = HookSettings { refusals: 1, ..HookSettings::default() };
    let gateway = house.gateway(&upstream.url(), settings).await;
    let answer = send_to(&gateway, Api::OpenAiChat, stream, &asked(stream)).await;
    let body = |number: usize| {
        let request = upstream.request(number);
        serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    (answer, (0..upstream.count()).map(body).collect())
}

#[tokio::test]
async fn a_freeform_call_is_judged_by_its_text() {
    for stream in [true, false] {
        let house = House::new();
        house.judge::<BeforeToolCall>("looks", |event| {
            let input = event.params.get("input").and_then(Value::as_str).unwrap_or_default().to_owned();
            (input != INPUT).then(|| ToolCallOutcome::block("another text"))
        });
        let (answer, asked) =
            answered(&house, stream, vec![script(stream, "I read.", Some(&call("read", INPUT)))]).await;
        let said = read(Api::OpenAiChat, &answer);
        let calls: Vec<_> = said.message.tool_calls().collect();
        assert_eq!(calls.len(), 1, "stream={stream}: {}", answer.text());
        assert_eq!((calls[0].name.as_str(), &calls[0].arguments["input"]), ("read", &json!(INPUT)));
        assert!(answer.text().contains("\"custom\""), "stream={stream}: {}", answer.text());
        assert_eq!(asked.len(), 1);
    }
}

#[tokio::test]
async fn a_model_goes_on_after_its_freeform_call_was_refused() {
    for stream in [true, false] {
        let house = House::new();
        house.withhold("exec");
        let refused = script(stream, "I try.", Some(&call("exec", SECRET)));
        let (answer, asked) = answered(&house, stream, vec![refused, script(stream, "Then.", None)]).await;
        let said = read(Api::OpenAiChat, &answer).message;
        let text = said.visible_text();
        assert!(text.starts_with("I try.") && text.ends_with("Then."), "stream={stream}: {text}");
        assert!(text.contains("[backstop] withheld `exec`"), "stream={stream}: {text}");
        assert_eq!(said.tool_calls().count(), 0, "stream={stream}");
        assert!(!answer.text().contains(SECRET), "stream={stream}: {}", answer.text());
        // The provider gets its call back as it was, and what became of it.
        let [_, again] = asked.as_slice() else { panic!("stream={stream}: {}", asked.len()) };
        let messages = again["messages"].as_array().unwrap();
        let [_, assistant, result] = messages.as_slice() else { panic!("stream={stream}: {again}") };
        assert_eq!(assistant["tool_calls"], json!([call("exec", SECRET)]), "stream={stream}");
        assert_eq!((&result["role"], &result["tool_call_id"]), (&json!("tool"), &json!("call_1")));
        assert!(result["content"].to_string().contains("was refused and did not run"), "{result}");
    }
}
