//! What a provider says on a WebSocket of OpenAI Realtime, as events of OpenAI Responses, and back.
//!
//! The two are one wire in most of their words. What is taken off a message here is written anew when the event leaves: names
//! of answers and of what is an object. All else stays in the event and is judged with it, under the tables of Responses; what
//! leaves is made of what was judged alone.

use std::collections::BTreeMap;

use backstop_llm::wire::{REALTIME_EVENTS, parse_json};
use serde_json::{Map, Value, json};

use super::{ASIDE, Talk};
use crate::server::sockets::message::is_id;

/// Why an answer may end before it is whole.
const REASONS: [&str; 4] = ["turn_detected", "client_cancelled", "max_output_tokens", "content_filter"];

/// The answer under way, as both sides know it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    /// Its name at the provider.
    id: Option<String>,
    /// Its name for the client.
    shown: Option<String>,
    /// The calls that the client knows of, by their items.
    calls: BTreeMap<String, String>,
}

fn text<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key).and_then(Value::as_str)
}

fn put(fields: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    fields.insert(key.to_owned(), value.into());
}

/// Takes a field away if it is what it always is.
fn take(fields: &mut Map<String, Value>, key: &str, is_usual: impl FnOnce(&Value) -> bool) {
    if fields.get(key).is_some_and(is_usual) {
        fields.remove(key);
    }
}

impl Talk {
    /// A provider's message as an event of Responses; `None` for one that belongs to no answer and that nobody waits for.
    pub(in crate::server::sockets) fn read(&mut self, message: &str) -> Option<String> {
        // What can't be read is for those who judge: nothing of it leaves.
        let Ok(Value::Object(mut event)) = parse_json(message.as_bytes()) else {
            return Some(message.to_owned());
        };
        let kind = text(&event, "type").unwrap_or_default().to_owned();
        take(&mut event, "event_id", is_id);
        if kind == "error" {
            let of = event.get("error").and_then(|error| error.get("event_id")).and_then(Value::as_str);
            if of.is_some_and(|id| id.starts_with(ASIDE)) {
                return None;
            }
            self.request.is_refused = of == Some(self.request.event.as_str());
            if self.request.is_refused
                && self.request.is_ours
                && let Some(Value::Object(error)) = event.get_mut("error")
            {
                put(error, "event_id", Value::Null);
            }
            return Some(Value::Object(event).to_string());
        }
        if !kind.starts_with("response.") {
            let is_known = REALTIME_EVENTS.class(&kind).is_some();
            return (!is_known).then(|| Value::Object(event).to_string());
        }
        if kind == "response.created" {
            let id = event.get("response").and_then(|response| response.get("id"));
            let id = id.and_then(Value::as_str).map(str::to_owned);
            self.answer = Answer { id, ..Answer::default() };
        }
        // An event of another answer keeps its name, and is judged as something that nobody knows.
        let own = self.answer.id.clone();
        take(&mut event, "response_id", |id| own.is_some() && id.as_str() == own.as_deref());
        self.read_answer(&kind, &mut event);
        Some(Value::Object(event).to_string())
    }

    fn read_answer(&self, kind: &str, event: &mut Map<String, Value>) {
        if let Some(Value::Object(item)) = event.get_mut("item") {
            read_item(item);
        }
        match kind {
            "response.done" => {
                let Some(Value::Object(response)) = event.get_mut("response") else { return };
                let end = read_end(response);
                read_response(response, &self.model);
                put(event, "type", end);
            }
            "response.created" => {
                if let Some(Value::Object(response)) = event.get_mut("response") {
                    read_response(response, &self.model);
                }
            }
            "response.content_part.added" | "response.content_part.done" => {
                let part = event.get_mut("part").and_then(Value::as_object_mut);
                if let Some(part) = part.filter(|part| text(part, "type") == Some("text")) {
                    put(part, "type", "output_text");
                    put(part, "annotations", json!([]));
                }
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                // It is written again as the item has it.
                event.remove("call_id");
            }
            _ if kind.starts_with("response.output_audio") => put(event, "type", "response.audio.delta"),
            _ => {}
        }
    }

    /// An event of Responses as messages of Realtime.
    pub(in crate::server::sockets) fn write(&mut self, event: &str) -> Vec<String> {
        let Ok(Value::Object(mut event)) = parse_json(event.as_bytes()) else {
            return vec![event.to_owned()];
        };
        let kind = text(&event, "type").unwrap_or_default().to_owned();
        put(&mut event, "event_id", self.next_event());
        event.remove("sequence_number");
        take(&mut event, "logprobs", |probabilities| *probabilities == json!([]));
        let mut also = None;
        match kind.as_str() {
            "response.queued" | "response.in_progress" => return Vec::new(),
            "response.created" | "response.completed" | "response.incomplete" | "response.failed" => {
                let Some(Value::Object(response)) = event.get_mut("response") else { return Vec::new() };
                if kind == "response.created" {
                    self.answer.shown = text(response, "id").map(str::to_owned);
                    self.answer.calls.clear();
                } else {
                    put(response, "id", self.answer.shown.clone());
                }
                write_response(response, &kind);
                put(&mut event, "type", if kind == "response.created" { &kind } else { "response.done" });
            }
            "response.output_item.added" | "response.output_item.done" => {
                if let Some(Value::Object(item)) = event.get_mut("item") {
                    write_item(item);
                    if let (Some(id), Some(call)) = (text(item, "id"), text(item, "call_id")) {
                        self.answer.calls.insert(id.to_owned(), call.to_owned());
                    }
                    let kind = if kind.ends_with("added") { "added" } else { "done" };
                    also = Some((format!("conversation.item.{kind}"), item.clone()));
                }
            }
            "response.content_part.added" | "response.content_part.done" => {
                if let Some(Value::Object(part)) = event.get_mut("part") {
                    write_part(part);
                    take(part, "type", |kind| kind == "output_text");
                    part.entry("type").or_insert_with(|| "text".into());
                }
            }
            "response.function_call_arguments.delta" | "response.function_call_arguments.done" => {
                let call = text(&event, "item_id").and_then(|item| self.answer.calls.get(item)).cloned();
                if let Some(call) = call {
                    put(&mut event, "call_id", call);
                }
            }
            _ => {}
        }
        if kind.starts_with("response.") && !event.contains_key("response") {
            put(&mut event, "response_id", self.answer.shown.clone());
        }
        let mut messages = vec![Value::Object(event).to_string()];
        if let Some((kind, item)) = also {
            let previous = if kind.ends_with("added") { self.last.take() } else { None };
            let id = text(&item, "id").map(str::to_owned);
            let event = self.next_event();
            messages.push(
                json!({"type": kind, "event_id": event, "previous_item_id": previous, "item": item})
                    .to_string(),
            );
            self.last = id;
        }
        messages
    }
}

/// What an answer has here and not in Responses.
fn read_response(response: &mut Map<String, Value>, model: &str) {
    for key in ["object", "conversation_id", "output_modalities", "audio", "status_details"] {
        response.remove(key);
    }
    take(response, "max_output_tokens", |most| *most == "inf");
    put(response, "model", model);
    for item in response.get_mut("output").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(item) = item {
            read_item(item);
        }
    }
    if let Some(Value::Object(usage)) = response.get_mut("usage") {
        let details = |usage: &Map<String, Value>, key: &str| {
            usage.get(key).and_then(|details| details.get("cached_tokens")).and_then(Value::as_u64)
        };
        let cached = details(usage, "input_token_details").unwrap_or_default();
        usage.remove("input_token_details");
        usage.remove("output_token_details");
        put(usage, "input_tokens_details", json!({"cached_tokens": cached}));
        put(usage, "output_tokens_details", json!({"reasoning_tokens": 0}));
    }
}

/// How an answer ended: the event of Responses that says so.
fn read_end(response: &mut Map<String, Value>) -> &'static str {
    let details = response.get("status_details");
    let reason = details.and_then(|details| details.get("reason")).and_then(Value::as_str);
    let reason = reason.filter(|reason| REASONS.contains(reason)).unwrap_or("unknown");
    match text(response, "status") {
        Some("completed") => "response.completed",
        Some("cancelled" | "incomplete") => {
            let reason = reason.to_owned();
            put(response, "status", "incomplete");
            put(response, "incomplete_details", json!({"reason": reason}));
            "response.incomplete"
        }
        _ => {
            let error = details.and_then(|details| details.get("error")).cloned();
            put(response, "error", error.unwrap_or_else(|| json!({"code": "server_error", "message": ""})));
            put(response, "status", "failed");
            "response.failed"
        }
    }
}

fn read_item(item: &mut Map<String, Value>) {
    take(item, "object", |object| object == "realtime.item");
    for part in item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(part) = part
            && text(part, "type") == Some("output_text")
        {
            part.entry("annotations").or_insert_with(|| json!([]));
        }
    }
}

fn write_item(item: &mut Map<String, Value>) {
    put(item, "object", "realtime.item");
    for part in item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Value::Object(part) = part {
            write_part(part);
        }
    }
}

fn write_part(part: &mut Map<String, Value>) {
    take(part, "annotations", |annotations| *annotations == json!([]));
    take(part, "logprobs", |probabilities| *probabilities == json!([]));
}

/// An answer as Realtime has it, made of what was judged.
fn write_response(response: &mut Map<String, Value>, kind: &str) {
    let mut output = response.remove("output").unwrap_or_else(|| json!([]));
    for item in output.as_array_mut().into_iter().flatten() {
        if let Value::Object(item) = item {
            write_item(item);
        }
    }
    let reason = response.get("incomplete_details").and_then(|details| details.get("reason")).cloned();
    let was_cancelled =
        matches!(reason.as_ref().and_then(Value::as_str), Some("turn_detected" | "client_cancelled"));
    let status = match kind {
        "response.created" => "in_progress",
        "response.completed" => "completed",
        "response.incomplete" if was_cancelled => "cancelled",
        "response.incomplete" => "incomplete",
        _ => "failed",
    };
    let details = match kind {
        "response.incomplete" => json!({"type": status, "reason": reason}),
        "response.failed" => json!({"type": status, "error": response.get("error")}),
        _ => Value::Null,
    };
    let number = |key: &str| response.get("usage").and_then(|usage| usage.get(key)).and_then(Value::as_u64);
    let cached = response.get("usage").and_then(|usage| usage.get("input_tokens_details"));
    let cached = cached.and_then(|details| details.get("cached_tokens")).and_then(Value::as_u64);
    let usage = number("total_tokens").map_or(Value::Null, |total| {
        json!({
            "total_tokens": total,
            "input_tokens": number("input_tokens"),
            "output_tokens": number("output_tokens"),
            "input_token_details": {"cached_tokens": cached.unwrap_or_default()},
            "output_token_details": {},
        })
    });
    let written = json!({
        "object": "realtime.response",
        "id": response.get("id"),
        "status": status,
        "status_details": details,
        "output": output,
        "output_modalities": ["text"],
        "usage": usage,
        "metadata": response.get("metadata"),
    });
    if let Value::Object(written) = written {
        *response = written;
    }
}
