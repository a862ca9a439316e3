//! Sessions of OpenAI Realtime.

mod answers;
mod bounds;
mod media;
mod turns;

use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{BlockedForm, HookSettings};
use backstop_gateway::{Credential, Gateway};
use backstop_hooks::PointId;
use backstop_hooks::conversation::Message as Said;
use backstop_hooks::points::{
    AfterLlmCall, AfterLlmCallOutcome, BeforeLlmCall, BeforeLlmCallOutcome, ToolCallIds,
};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use super::support::*;
use super::{CUTS, gateway, hooked};
use crate::inspect::support::{House, SECRET};
use crate::support::{eventually, secret};

/// The events of an answer that says something and calls a tool, as OpenAI documents them.
pub(super) fn spoken(id: &str, text: &str, call: Option<(&str, Value)>) -> Vec<String> {
    let mut events = Vec::new();
    let mut say = |kind: &str, mut fields: Value| {
        let event = fields.as_object_mut().unwrap();
        event.insert("type".into(), kind.into());
        event.insert("event_id".into(), "event_1".into());
        if kind.starts_with("response.") && !event.contains_key("response") {
            event.insert("response_id".into(), id.into());
        }
        events.push(fields.to_string());
    };
    let response = |status: &str, output: &[Value], usage: Value| {
        json!({"response": {
            "object": "realtime.response", "id": id, "status": status, "status_details": null, "output": output,
            "conversation_id": "conv_1", "output_modalities": ["text"], "max_output_tokens": "inf",
            "audio": {"output": {"format": {"type": "audio/pcm", "rate": 24_000}, "voice": "marin"}},
            "usage": usage, "metadata": null,
        }})
    };
    say("response.created", response("in_progress", &[], Value::Null));
    let item = |status: &str, content: Value| json!({"id": "item_a", "object": "realtime.item", "type": "message", "status": status, "role": "assistant", "content": content});
    let begun = item("in_progress", json!([]));
    say("response.output_item.added", json!({"output_index": 0, "item": begun}));
    say("conversation.item.added", json!({"previous_item_id": "item_0", "item": begun}));
    let at = |more: Value| {
        let mut fields = json!({"item_id": "item_a", "output_index": 0, "content_index": 0});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    say("response.content_part.added", at(json!({"part": {"type": "text", "text": ""}})));
    for piece in text.as_bytes().chunks(5) {
        say("response.output_text.delta", at(json!({"delta": str::from_utf8(piece).unwrap()})));
    }
    say("response.output_text.done", at(json!({"text": text})));
    say("response.content_part.done", at(json!({"part": {"type": "text", "text": text}})));
    let whole = item("completed", json!([{"type": "output_text", "text": text}]));
    say("conversation.item.done", json!({"previous_item_id": "item_0", "item": whole}));
    say("response.output_item.done", json!({"output_index": 0, "item": whole}));
    let mut output = vec![whole];
    if let Some((name, arguments)) = call {
        let arguments = arguments.to_string();
        let item = |status: &str, arguments: &str| {
            json!({"id": "item_b", "object": "realtime.item", "type": "function_call", "status": status,
                "name": name, "call_id": "call_1", "arguments": arguments})
        };
        say("response.output_item.added", json!({"output_index": 1, "item": item("in_progress", "")}));
        say(
            "conversation.item.added",
            json!({"previous_item_id": "item_a", "item": item("in_progress", "")}),
        );
        let at = json!({"item_id": "item_b", "output_index": 1, "call_id": "call_1"});
        let with = |more: Value| {
            let mut fields = at.clone();
            fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            fields
        };
        say("response.function_call_arguments.delta", with(json!({"delta": arguments})));
        say("response.function_call_arguments.done", with(json!({"name": name, "arguments": arguments})));
        let whole = item("completed", &arguments);
        say("conversation.item.done", json!({"previous_item_id": "item_a", "item": whole}));
        say("response.output_item.done", json!({"output_index": 1, "item": whole}));
        output.push(whole);
    }
    let usage = json!({"total_tokens": 7, "input_tokens": 4, "output_tokens": 3,
        "input_token_details": {"text_tokens": 4, "audio_tokens": 0, "image_tokens": 0, "cached_tokens": 2},
        "output_token_details": {"text_tokens": 3, "audio_tokens": 0}});
    say("response.done", response("completed", &output, usage));
    say(
        "rate_limits.updated",
        json!({"rate_limits": [{"name": "tokens", "limit": 1, "remaining": 1, "reset_seconds": 0.1}]}),
    );
    events
}

fn denied() -> Vec<String> {
    spoken("resp_1", "I clean up.", Some(("shell", json!({"command": SECRET}))))
}

/// A provider that tells of its session, and answers request `n` with `answers(n)` in fragments of so many bytes.
pub(super) async fn provider(
    size: usize,
    answers: impl Fn(usize) -> Vec<String> + Send + Sync + 'static,
) -> Provider {
    let created = json!({"type": "session.created", "event_id": "event_0", "session": {"type": "realtime", "instructions": SECRET}});
    let asked = std::sync::atomic::AtomicUsize::new(0);
    Provider::greeting(&[created.to_string()], move |_, said| match &*kind(said) {
        "response.create" => {
            let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Play::cut(&answers(number), size)
        }
        "conversation.item.create" => {
            let item = serde_json::from_str::<Value>(said).unwrap()["item"].take();
            let added = json!({"type": "conversation.item.added", "event_id": "event_2", "item": item});
            Play::events(&[added.to_string()])
        }
        "response.cancel" | "conversation.item.delete" => {
            let event = serde_json::from_str::<Value>(said).unwrap()["event_id"].take();
            let error = json!({"type": "error", "event_id": "event_3", "error": {"type": "invalid_request_error", "message": "no such thing", "event_id": event}});
            Play::events(&[error.to_string()])
        }
        // Where sound passes, the provider is told how the session sounds.
        "session.update" => Play::default(),
        other => panic!("the provider is told of {other}"),
    })
    .await
}

pub(super) async fn open(gateway: &Gateway) -> Client {
    let mut client = Client::try_open(gateway, "/v1/realtime?model=gpt-realtime", "")
        .await
        .unwrap_or_else(|e| panic!("{e}"));
    let created = client.told().await;
    assert_eq!(created["type"], "session.created");
    assert_eq!(created["session"]["model"], "gpt-realtime");
    assert_eq!(created["session"]["instructions"], "");
    client
}

/// As [`open`], where sound passes.
async fn open_in_text(gateway: &Gateway) -> Client {
    let mut client = open(gateway).await;
    client
        .tell(
            json!({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}}),
        )
        .await;
    assert_eq!(client.told().await["session"]["output_modalities"], json!(["text"]));
    client
}

pub(super) fn user(text: &str) -> Value {
    json!({"type": "conversation.item.create", "item": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}})
}

impl Client {
    /// Adds an item, and asks for an answer.
    async fn say(&mut self, text: &str) -> Vec<String> {
        self.tell(user(text)).await;
        for kind in ["conversation.item.added", "conversation.item.done"] {
            let told = self.told().await;
            assert_eq!((&told["type"], &told["item"]["content"][0]["text"]), (&json!(kind), &json!(text)));
        }
        self.tell(json!({"type": "response.create"})).await;
        self.answer_or_rest().await
    }
}

/// The events of an answer without what is written anew.
fn essence(events: &[String]) -> Vec<Value> {
    let events = events.iter().map(|event| serde_json::from_str::<Value>(event).unwrap());
    let of_answer = events.filter(|event| event["type"].as_str().unwrap().starts_with("response."));
    of_answer
        .map(|mut event| {
            let fields = event.as_object_mut().unwrap();
            assert!(fields.remove("event_id").unwrap().is_string());
            if let Some(response) = fields.get_mut("response") {
                for gone in ["audio", "conversation_id", "max_output_tokens", "metadata"] {
                    response.as_object_mut().unwrap().remove(gone);
                }
                if let Some(usage) = response["usage"].as_object_mut() {
                    usage["input_token_details"] =
                        json!({"cached_tokens": usage["input_token_details"]["cached_tokens"]});
                    usage["output_token_details"] = json!({});
                }
            }
            event
        })
        .collect()
}
