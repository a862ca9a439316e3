//! Calls of a server's tools that a client approves on a WebSocket.

use backstop_gateway::inspect::ToolCalls;

use super::realtime;
use super::*;
use crate::inspect::approved::{CALLS, gated};

const ASKED: &str = "mcp_approval_request";

fn approval() -> Value {
    json!({"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true})
}

/// The events of an answer that asks whether a tool may be called.
fn asks(name: &str) -> Vec<String> {
    let item =
        json!({"type": ASKED, "id": "mcpr_1", "server_label": "shop", "name": name, "arguments": "{}"});
    let response = |status: &str, output: Value| json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output});
    let events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": response("completed", json!([item]))}),
    ];
    events.iter().map(Value::to_string).collect()
}

/// The same on OpenAI Realtime.
fn asks_in_realtime(name: &str) -> Vec<String> {
    let item = json!({"type": ASKED, "id": "mcpr_1", "object": "realtime.item", "server_label": "shop", "name": name, "arguments": "{}"});
    let response = |status: &str, output: Value| json!({"id": "resp_1", "object": "realtime.response", "status": status, "output": output});
    let events = [
        json!({"type": "response.created", "event_id": "e", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "event_id": "e", "response_id": "resp_1", "output_index": 0, "item": item}),
        json!({"type": "response.output_item.done", "event_id": "e", "response_id": "resp_1", "output_index": 0, "item": item}),
        json!({"type": "response.done", "event_id": "e", "response": response("completed", json!([item]))}),
    ];
    events.iter().map(Value::to_string).collect()
}

/// What the provider was told of approvals.
fn is_approved(provider: &Provider) -> Vec<bool> {
    let heard = provider.heard();
    let items = heard.iter().flat_map(|message| {
        let mut message: Value = serde_json::from_str(message).unwrap();
        let item = message["item"].take();
        let mut items: Vec<Value> = message["input"].as_array().cloned().unwrap_or_default();
        items.push(item);
        items
    });
    items.filter_map(|item| item.get("approve")?.as_bool()).collect()
}

#[tokio::test]
async fn what_is_approved_in_a_turn_passes_the_gates_whoever_judges_the_calls_of_answers() {
    for tool_calls in CALLS {
        for (name, passes) in [("look_up", true), ("drop_all", false)] {
            for previous in [json!("resp_1"), Value::Null] {
                let first = asks(name);
                let provider = Provider::start(move |n| {
                    Play::events(&if n == 0 { first.clone() } else { answer("Done.", None) })
                })
                .await;
                let (house, _) = gated();
                let settings = HookSettings { tool_calls, refusals: 0, ..HookSettings::default() };
                let gateway = gateway(&house, &provider, settings).await;
                let mut client = Client::open(&gateway).await;
                client.ask("hi").await;
                client.answer().await;
                let more = json!({"role": "user", "content": "go on"});
                client.tell(json!({"type": "response.create", "model": "m", "previous_response_id": previous, "input": [approval(), more]})).await;
                client.answer().await;
                // Nobody knows to what a call belongs that was taken out, where nothing says what is continued.
                let is_refused = !passes && tool_calls != ToolCalls::Leave && previous.is_null();
                let expected: &[bool] = if is_refused { &[] } else { &[passes] };
                assert_eq!(is_approved(&provider), expected, "{tool_calls:?} {name} {previous}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_approved_in_a_session_passes_the_gates_whoever_judges_the_calls_of_answers() {
    for tool_calls in CALLS {
        for (name, passes) in [("look_up", true), ("drop_all", false)] {
            let provider = realtime::provider(usize::MAX, move |n| match n {
                0 => asks_in_realtime(name),
                _ => realtime::spoken("resp_2", "Done.", None),
            })
            .await;
            let (house, _) = gated();
            let settings = HookSettings { tool_calls, refusals: 0, ..HookSettings::default() };
            let gateway = gateway(&house, &provider, settings).await;
            let mut client = realtime::open(&gateway).await;
            client.tell(json!({"type": "response.create"})).await;
            client.answer().await;
            client.tell(json!({"type": "conversation.item.create", "item": approval()})).await;
            client.tell(json!({"type": "response.create"})).await;
            client.answer().await;
            assert_eq!(is_approved(&provider), [passes], "{tool_calls:?} {name}");
        }
    }
}
