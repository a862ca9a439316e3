//! Events of our own.

use serde_json::{Map, Value, json};

use crate::sse::SseEvent;
use crate::wire::openai_responses::Place;

/// Events that are added to a stream, numbered from where it stands.
#[derive(Debug)]
pub(super) struct Frames {
    next: u64,
    pub(super) bytes: Vec<u8>,
}

impl Frames {
    pub(super) fn from(next: u64) -> Self {
        Self { next, bytes: Vec::new() }
    }

    /// The number of the event that comes next.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn push(&mut self, kind: &str, mut data: Value) {
        if let Value::Object(data) = &mut data {
            data.insert("type".to_owned(), kind.into());
            data.insert("sequence_number".to_owned(), self.next.into());
        }
        self.next += 1;
        self.bytes.extend_from_slice(&SseEvent::new(Some(kind), data.to_string()).encode());
    }

    /// A whole message of one text.
    pub(super) fn message(&mut self, index: usize, id: &str, text: &str) {
        let mut item = message_item(id, "in_progress", "");
        if let Value::Object(item) = &mut item {
            item.insert("content".to_owned(), json!([]));
        }
        self.push("response.output_item.added", json!({"output_index": index, "item": item}));
        let place = Place::Content(0);
        self.push("response.content_part.added", with(position(place, index, id), "part", part(place, "")));
        self.delta(place, index, id, text);
        self.end_text(place, index, id, text);
        self.end_part(place, index, id, text);
        let item = message_item(id, "completed", text);
        self.push("response.output_item.done", json!({"output_index": index, "item": item}));
    }

    pub(super) fn delta(&mut self, place: Place, index: usize, id: &str, text: &str) {
        let data = with(position(place, index, id), "delta", text.into());
        self.push(&format!("{}.delta", names(place).1), with_logprobs(place, data));
    }

    pub(super) fn end_text(&mut self, place: Place, index: usize, id: &str, text: &str) {
        let field = if matches!(place, Place::Refusal(_)) { "refusal" } else { "text" };
        let data = with(position(place, index, id), field, text.into());
        self.push(&format!("{}.done", names(place).1), with_logprobs(place, data));
    }

    pub(super) fn end_part(&mut self, place: Place, index: usize, id: &str, text: &str) {
        let data = with(position(place, index, id), "part", part(place, text));
        self.push(&format!("{}.done", names(place).0), data);
    }
}

/// A message of one text.
pub(super) fn message_item(id: &str, status: &str, text: &str) -> Value {
    json!({
        "type": "message", "id": id, "status": status, "role": "assistant",
        "content": [part(Place::Content(0), text)],
    })
}

/// A part of an item's content or summary.
pub(super) fn part(place: Place, text: &str) -> Value {
    match place {
        Place::Refusal(_) => json!({"type": "refusal", "refusal": text}),
        Place::Summary(_) => json!({"type": "summary_text", "text": text}),
        Place::Reasoning(_) => json!({"type": "reasoning_text", "text": text}),
        _ => json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []}),
    }
}

/// The names of the events of a part and of its text.
fn names(place: Place) -> (&'static str, &'static str) {
    match place {
        Place::Refusal(_) => ("response.content_part", "response.refusal"),
        Place::Summary(_) => ("response.reasoning_summary_part", "response.reasoning_summary_text"),
        Place::Reasoning(_) => ("response.content_part", "response.reasoning_text"),
        _ => ("response.content_part", "response.output_text"),
    }
}

fn position(place: Place, index: usize, id: &str) -> Value {
    let (field, at) = match place {
        Place::Summary(at) => ("summary_index", at),
        Place::Content(at) | Place::Refusal(at) | Place::Reasoning(at) => ("content_index", at),
        _ => ("content_index", 0),
    };
    Value::Object(Map::from_iter([
        ("item_id".to_owned(), id.into()),
        ("output_index".to_owned(), index.into()),
        (field.to_owned(), at.into()),
    ]))
}

fn with(mut data: Value, field: &str, value: Value) -> Value {
    if let Value::Object(data) = &mut data {
        data.insert(field.to_owned(), value);
    }
    data
}

fn with_logprobs(place: Place, data: Value) -> Value {
    if matches!(place, Place::Content(_)) { with(data, "logprobs", json!([])) } else { data }
}
