//! What a client has to add while it is answered (`response.steer`).
//!
//! A provider goes on with that by itself, in an answer that nobody asked for. Here it is a prompt like any other: it is kept
//! until the answer is over, and then asked with by a request of the gateway's own, which follows that answer under its settings
//! and is judged like one of the client. The wire allows for that: what was accepted is told of at once, and the next
//! `response.created` says that it was asked with.
//!
//! Limits: an answer that waits for results of its calls, or did not come to its end, is not gone on with; its client gets the
//! input back and sends it with its next request. Answers of a conversation that the provider keeps can't be steered, as there.

use backstop_llm::wire::{RESPONSES_ITEMS, TypeClass, parse_json};
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use uuid::Uuid;

use super::message::{Create, Kind, is_id};
use crate::server::load::Buffered;

/// Input of more bytes is not sent back to whom it came from.
const MAX_ECHO_BYTES: usize = 4 << 10;

/// Input for an answer that is under way.
#[derive(Debug)]
pub(super) struct Steer {
    id: String,
    /// What the client said, to be told of it.
    said: Map<String, Value>,
    /// The answer that it is for, and the items that it is; `None` if it makes no sense.
    asked: Option<(String, Vec<Value>)>,
}

/// Why input is not asked with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unsteered {
    Invalid,
    NotFound,
    Over,
    Unsupported,
    NotWhole,
}

impl Unsteered {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Invalid => ("invalid_input", "the input is no text and no list of messages of the user"),
            Self::NotFound => ("response_not_found", "this answer is not under way"),
            Self::Over => ("response_not_active", "the answer waits for results of its calls, or is over"),
            Self::Unsupported => (
                "steering_not_supported",
                "answers of a conversation that the provider keeps can't be steered",
            ),
            Self::NotWhole => ("successor_creation_failed", "the answer did not come to its end"),
        }
    }
}

impl Steer {
    /// Reads the fields of a message of so many bytes.
    pub(super) fn read(mut said: Map<String, Value>, bytes: usize) -> Self {
        said.remove("type");
        let previous = said.get("previous_response_id").filter(|id| is_id(id)).and_then(Value::as_str);
        let items = said.get("input").and_then(items);
        let asked = previous.map(str::to_owned).zip(items).filter(|_| said.len() == 2);
        if bytes > MAX_ECHO_BYTES {
            said.remove("input");
        }
        let id = format!("steer_{}", Uuid::new_v4().simple());
        Self { id, said, asked }
    }

    fn accepted(&self) -> String {
        let previous = self.asked.as_ref().map(|(previous, _)| previous);
        json!({
            "type": "response.steer.accepted",
            "sequence_number": 0,
            "steer": {"id": self.id, "previous_response_id": previous},
        })
        .to_string()
    }

    /// What the client is told if it is not asked with.
    pub(super) fn failed(&self, why: Unsteered) -> String {
        let (code, message) = why.words();
        let message = format!("backstop: {message}; send the input with the next `response.create`");
        let error = json!({"type": "invalid_request_error", "code": code, "message": message});
        json!({"type": "response.steer.failed", "sequence_number": 0, "steer": self.said, "error": error})
            .to_string()
    }
}

/// The messages that an input is.
fn items(input: &Value) -> Option<Vec<Value>> {
    if let Some(text) = input.as_str().filter(|text| !text.is_empty()) {
        return Some(vec![json!({"type": "message", "role": "user", "content": text})]);
    }
    let items = input.as_array().filter(|items| !items.is_empty())?;
    let fits = |item: &Value| {
        let known = |key: &str| matches!(key, "type" | "role" | "content");
        item.as_object().is_some_and(|fields| fields.keys().all(|key| known(key)))
            && item.get("type").is_none_or(|kind| kind == "message")
            && item.get("role").is_some_and(|role| role == "user")
            && item.get("content").is_some()
    };
    items.iter().all(fits).then(|| items.clone())
}

/// The answer under way, as one that can be gone on with.
#[derive(Debug)]
pub(super) struct Steering {
    create: Create,
    /// Its name, once it has begun.
    answer: Option<String>,
    waiting: Vec<(Steer, Buffered)>,
    /// How it ended for the client.
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    None,
    Whole,
    /// It waits for its client.
    Calls,
}

/// What is to be done about input once its answer is over.
#[derive(Debug)]
pub(super) enum Steered {
    /// The client is told why nothing is asked.
    Failed(Vec<String>),
    /// The next request, its message and what counts it.
    Ask(Create, Utf8Bytes, Vec<Buffered>),
}

impl Steering {
    /// For the answer to this request.
    pub(super) fn of(create: &Create) -> Self {
        Self { create: create.clone(), answer: None, waiting: Vec::new(), end: End::None }
    }

    /// The answer has begun, or goes on under another name.
    pub(super) fn begun(&mut self, id: Option<&str>) {
        self.answer = self.answer.take().or_else(|| id.map(str::to_owned));
    }

    /// Keeps input. Answers what the client is told.
    pub(super) fn take(&mut self, steer: Steer, buffered: Buffered) -> String {
        let Some((previous, _)) = &steer.asked else { return steer.failed(Unsteered::Invalid) };
        if self.answer.as_ref() != Some(previous) {
            return steer.failed(Unsteered::NotFound);
        }
        if self.create.has_conversation() {
            return steer.failed(Unsteered::Unsupported);
        }
        let told = steer.accepted();
        self.waiting.push((steer, buffered));
        told
    }

    /// Sees what the client is told, once somebody wants to go on with it.
    pub(super) fn see(&mut self, message: &str) {
        if self.waiting.is_empty() || Kind::of(message) != Kind::Last {
            return;
        }
        let Ok(event) = parse_json(message.as_bytes()) else { return };
        let is_whole = event.get("type").is_some_and(|kind| kind != "response.failed");
        let output =
            event.get("response").and_then(|response| response.get("output")).and_then(Value::as_array);
        let is_call = |item: &Value| {
            let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
            RESPONSES_ITEMS.class(kind).is_none_or(|class| class == TypeClass::Call)
        };
        self.end = match output {
            Some(items) if items.iter().any(is_call) => End::Calls,
            Some(_) if is_whole => End::Whole,
            _ => End::None,
        };
    }

    /// The answer is over.
    pub(super) fn end(self) -> Option<Steered> {
        if self.waiting.is_empty() {
            return None;
        }
        let failed = |why: Unsteered| {
            Steered::Failed(self.waiting.iter().map(|(steer, _)| steer.failed(why)).collect())
        };
        match self.end {
            End::Whole => {}
            End::Calls => return Some(failed(Unsteered::Over)),
            End::None => return Some(failed(Unsteered::NotWhole)),
        }
        let items = self.waiting.iter().filter_map(|(steer, _)| steer.asked.as_ref());
        let input: Vec<Value> = items.flat_map(|(_, items)| items.iter().cloned()).collect();
        let next = self.answer.as_deref().and_then(|answer| self.create.following(answer, input));
        let Some((create, message)) = next else {
            return Some(failed(Unsteered::NotWhole));
        };
        let buffered = self.waiting.into_iter().map(|(_, buffered)| buffered).collect();
        Some(Steered::Ask(create, message, buffered))
    }
}
