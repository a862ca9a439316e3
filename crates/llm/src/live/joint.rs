//! Two answers as one: what a model said before it was told that its calls were refused, and what it said then.
//!
//! The client reads one answer. So the first one loses its end ([`Joint::cut`]), and what the second one says follows as if
//! the provider had gone on ([`Joint::push`]): indexes and sequence numbers continue, the id is that of the answer that the
//! client knows, token usage is that of both. Where no second answer comes, the first gets its end back ([`Joint::end`]).
//!
//! What is joined was judged before, and edited where it had to be: these are the bytes that
//! [`AnswerEditor`](super::AnswerEditor)s let go.
//!
//! Limits: answers of one choice, as streams of events or in one piece; no streams that are JSON arrays.

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use backstop_hooks::conversation::TokenUsage;

use crate::error::{ProviderError, ProviderErrorKind};
use crate::sse::{SseDecoder, SseEvent, SseFrame};
use crate::wire::Api;

/// What stands between two texts of wires that have one text only.
const BETWEEN: &str = "\n\n";

/// The place where an answer goes on.
#[derive(Debug)]
pub struct Joint {
    api: Api,
    /// What is known of the first answer; all of it, if it is in one piece.
    first: First,
    end: Bytes,
    frames: SseDecoder,
    has_begun: bool,
}

#[derive(Debug)]
enum First {
    Whole(Value),
    Stream(Box<Stream>),
}

/// What a streamed answer said so far, as far as what follows depends on it.
#[derive(Debug, Default)]
struct Stream {
    id: Option<Value>,
    created: Option<Value>,
    usage: Value,
    /// Behind all blocks, or items.
    next_index: u64,
    /// Of the event that comes next.
    next_number: u64,
    /// The items, and the fields of an answer that say to what it was one.
    output: Vec<Value>,
    previous: Option<Value>,
    /// What the head of the second answer says of its usage.
    head_usage: Value,
    /// Its text has begun.
    has_text: bool,
}

impl Joint {
    /// Takes the end off an answer. `rest` is what of it has not left: all of it in one piece, or as many last events of a
    /// stream as there are, and the note about what was withheld among them. `usage` is that of the answer. Returns what leaves
    /// now, and where to go on; `None` if the answer has no end that could be taken off.
    pub fn cut(api: Api, streams: bool, rest: &Bytes, usage: TokenUsage) -> Option<(Bytes, Self)> {
        let (before, first, end) = if streams {
            let (before, stream, end) = Stream::cut(api, rest, usage)?;
            (before, First::Stream(Box::new(stream)), end)
        } else {
            let whole: Value = serde_json::from_slice(rest).ok()?;
            (Bytes::new(), First::Whole(whole), rest.clone())
        };
        Some((before, Self { api, first, end, frames: SseDecoder::default(), has_begun: false }))
    }

    /// What the client reads of these bytes of the second answer: whole events of it, or all of it.
    pub fn push(&mut self, bytes: &[u8]) -> Bytes {
        let stream = match &mut self.first {
            First::Stream(stream) => stream,
            First::Whole(first) => {
                let Ok(second) = serde_json::from_slice(bytes) else { return Bytes::new() };
                self.has_begun = true;
                return joined(self.api, first, second).to_string().into();
            }
        };
        let mut out = BytesMut::new();
        let mut frames = match self.frames.push(bytes) {
            Ok(frames) => frames,
            // What our editors let go is in whole events, and an edit made one of them too large.
            Err(error) => {
                self.has_begun = true;
                let told = format!("backstop: the answer can't go on: {error}");
                let error = ProviderError::new(ProviderErrorKind::Server, 502, None, &told);
                return self.api.encode_stream_error(&error).encode();
            }
        };
        // Only the last event of all may lack the line that ends it.
        frames.extend(self.frames.finish());
        for SseFrame { raw, event } in frames {
            let read = event.map(|event| (serde_json::from_str(&event.data), event.event));
            let Some((Ok(value), name)) = read else {
                out.extend_from_slice(&raw);
                continue;
            };
            if let Some(value) = stream.go_on(self.api, value) {
                self.has_begun = true;
                out.extend_from_slice(&SseEvent::new(name.as_deref(), value.to_string()).encode());
            }
        }
        out.freeze()
    }

    /// Whether the client reads anything of the second answer. If so, it needs the end of that one.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The end that was taken off.
    pub fn end(&self) -> Bytes {
        self.end.clone()
    }
}

impl Stream {
    fn cut(api: Api, rest: &Bytes, usage: TokenUsage) -> Option<(Bytes, Self, Bytes)> {
        let mut decoder = SseDecoder::default();
        let mut frames = decoder.push(rest).ok()?;
        frames.extend(decoder.finish());
        let (mut before, mut end) = (BytesMut::new(), BytesMut::new());
        let mut stream = Self::default();
        for SseFrame { raw, event } in frames {
            let value = event.as_ref().and_then(|event| serde_json::from_str::<Value>(&event.data).ok());
            let name = event.and_then(|event| event.event);
            if let Some(value) = &value {
                stream.hear(api, value);
            }
            match value {
                Some(value) if end.is_empty() && is_end(api, &value) => {
                    let encoded = |value: &Value| SseEvent::new(name.as_deref(), value.to_string()).encode();
                    match split(api, &value) {
                        Some((text, last)) => {
                            before.extend_from_slice(&encoded(&text));
                            end.extend_from_slice(&encoded(&last));
                        }
                        None => end.extend_from_slice(&raw),
                    }
                }
                _ if end.is_empty() => before.extend_from_slice(&raw),
                _ => end.extend_from_slice(&raw),
            }
        }
        if api == Api::AnthropicMessages {
            stream.usage = anthropic_usage(usage);
        }
        (!end.is_empty()).then(|| (before.freeze(), stream, end.freeze()))
    }

    /// Learns from an event of the first answer.
    fn hear(&mut self, api: Api, value: &Value) {
        let at = |pointer: &str| value.pointer(pointer).filter(|value| !value.is_null());
        match api {
            Api::AnthropicMessages => self.saw_index(at("/index")),
            Api::BedrockConverse => {
                self.saw_index(at("/contentBlockIndex"));
                self.usage = at("/usage").cloned().unwrap_or_else(|| self.usage.take());
            }
            Api::OpenAiChat => {
                self.id = at("/id").cloned().or_else(|| self.id.take());
                self.created = at("/created").cloned().or_else(|| self.created.take());
                self.usage = at("/usage").cloned().unwrap_or_else(|| self.usage.take());
            }
            Api::OpenAiResponses => {
                self.saw_index(at("/output_index"));
                let Some(response) = at("/response") else { return };
                let of = |field: &str| response.get(field).filter(|value| !value.is_null()).cloned();
                self.id = of("id");
                self.created = of("created_at");
                self.previous = response.get("previous_response_id").cloned();
                self.usage = of("usage").unwrap_or_default();
                self.output = match of("output") {
                    Some(Value::Array(items)) => items,
                    _ => Vec::new(),
                };
                self.next_index = self.next_index.max(self.output.len() as u64);
                self.next_number = at("/sequence_number").and_then(Value::as_u64).unwrap_or_default();
            }
            Api::Gemini => {
                self.id = at("/responseId").cloned().or_else(|| self.id.take());
                self.usage = at("/usageMetadata").cloned().unwrap_or_else(|| self.usage.take());
            }
        }
    }

    fn saw_index(&mut self, index: Option<&Value>) {
        if let Some(index) = index.and_then(Value::as_u64) {
            self.next_index = self.next_index.max(index.saturating_add(1));
        }
    }

    /// An event of the second answer as one of the first; `None` if that has no such event.
    fn go_on(&mut self, api: Api, mut value: Value) -> Option<Value> {
        match api {
            Api::AnthropicMessages => self.go_on_anthropic(&mut value)?,
            Api::OpenAiChat => self.go_on_chat(&mut value),
            Api::OpenAiResponses => self.go_on_responses(&mut value)?,
            Api::Gemini => self.go_on_gemini(&mut value),
            Api::BedrockConverse => self.go_on_converse(&mut value)?,
        }
        Some(value)
    }

    fn go_on_anthropic(&mut self, value: &mut Value) -> Option<()> {
        match value.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                self.head_usage = value.pointer("/message/usage").cloned().unwrap_or_default();
                return None;
            }
            Some("message_delta") => {
                let mut usage = self.head_usage.take();
                if !usage.is_object() {
                    usage = json!({});
                }
                let last = value.get("usage").and_then(Value::as_object);
                if let (Value::Object(usage), Some(last)) = (&mut usage, last) {
                    usage.extend(last.clone());
                }
                add(&mut usage, &self.usage);
                set(value, "usage", usage);
            }
            _ => shift(value, "index", self.next_index),
        }
        Some(())
    }

    fn go_on_converse(&self, value: &mut Value) -> Option<()> {
        // The client has the start.
        if value.get("role").is_some() {
            return None;
        }
        shift(value, "contentBlockIndex", self.next_index);
        if let Some(usage) = value.get_mut("usage").filter(|usage| usage.is_object()) {
            add(usage, &self.usage);
        }
        Some(())
    }

    fn go_on_chat(&mut self, value: &mut Value) {
        replace(value, "id", self.id.as_ref());
        replace(value, "created", self.created.as_ref());
        if let Some(usage) = value.get_mut("usage").filter(|usage| usage.is_object()) {
            add(usage, &self.usage);
        }
        let choices = value.get_mut("choices").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            let Some(Value::Object(delta)) = choice.get_mut("delta") else { continue };
            // Readers put strings of a field together, and this one has left.
            delta.remove("role");
            self.space(delta.get_mut("content"));
        }
    }

    fn go_on_gemini(&mut self, value: &mut Value) {
        replace(value, "responseId", self.id.as_ref());
        if let Some(usage) = value.get_mut("usageMetadata").filter(|usage| usage.is_object()) {
            add(usage, &self.usage);
        }
        let parts = value.pointer_mut("/candidates/0/content/parts").and_then(Value::as_array_mut);
        for part in parts.into_iter().flatten() {
            if part.get("thought").and_then(Value::as_bool) != Some(true) {
                self.space(part.get_mut("text"));
            }
        }
    }

    /// Puts room in front of the first text of the second answer.
    fn space(&mut self, text: Option<&mut Value>) {
        if let Some(Value::String(text)) = text
            && !text.is_empty()
            && !std::mem::replace(&mut self.has_text, true)
        {
            text.insert_str(0, BETWEEN);
        }
    }

    fn go_on_responses(&mut self, value: &mut Value) -> Option<()> {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        if matches!(kind, "response.created" | "response.in_progress" | "response.queued") {
            return None;
        }
        if value.get("sequence_number").is_some() {
            set(value, "sequence_number", self.next_number.into());
            self.next_number = self.next_number.saturating_add(1);
        }
        shift(value, "output_index", self.next_index);
        if let Some(response) = value.get_mut("response").filter(|response| response.is_object()) {
            replace(response, "id", self.id.as_ref());
            replace(response, "created_at", self.created.as_ref());
            replace(response, "previous_response_id", self.previous.as_ref());
            prepend(response.get_mut("output"), &self.output);
            if let Some(usage) = response.get_mut("usage") {
                add(usage, &self.usage);
            }
        }
        Some(())
    }
}

/// Whether an event ends an answer; all that follow it do, too.
fn is_end(api: Api, value: &Value) -> bool {
    let says = |pointer: &str| value.pointer(pointer).is_some_and(|value| !value.is_null());
    match api {
        Api::AnthropicMessages => value.get("type").and_then(Value::as_str) == Some("message_delta"),
        Api::OpenAiChat => says("/choices/0/finish_reason"),
        // Others that end an answer say that it is not whole.
        Api::OpenAiResponses => value.get("type").and_then(Value::as_str) == Some("response.completed"),
        Api::Gemini => says("/candidates/0/finishReason"),
        Api::BedrockConverse => says("/stopReason"),
    }
}

/// An event that both says something and ends the answer, as two.
fn split(api: Api, value: &Value) -> Option<(Value, Value)> {
    let (mut text, mut last) = (value.clone(), value.clone());
    match api {
        Api::AnthropicMessages | Api::OpenAiResponses | Api::BedrockConverse => return None,
        Api::OpenAiChat => {
            value.pointer("/choices/0/delta").and_then(Value::as_object).filter(|delta| !delta.is_empty())?;
            *text.pointer_mut("/choices/0/finish_reason")? = Value::Null;
            text.as_object_mut()?.remove("usage");
            *last.pointer_mut("/choices/0/delta")? = json!({});
        }
        Api::Gemini => {
            value.pointer("/candidates/0/content/parts")?;
            let candidate = text.pointer_mut("/candidates/0")?.as_object_mut()?;
            candidate.retain(|key, _| !matches!(key.as_str(), "finishReason" | "finishMessage"));
            *last.pointer_mut("/candidates/0/content/parts")? = json!([{"text": ""}]);
        }
    }
    Some((text, last))
}

/// Two answers in one piece as one. Of an answer that the provider keeps, the id is that of the second, which follows the
/// first there.
fn joined(api: Api, first: &Value, mut second: Value) -> Value {
    let field = |value: &Value, pointer: &str| value.pointer(pointer).cloned().unwrap_or_default();
    let list = |value: Value| if let Value::Array(items) = value { items } else { Vec::new() };
    match api {
        Api::AnthropicMessages => {
            replace(&mut second, "id", first.get("id"));
            prepend(second.get_mut("content"), &list(field(first, "/content")));
        }
        Api::OpenAiChat => {
            replace(&mut second, "id", first.get("id"));
            replace(&mut second, "created", first.get("created"));
            let said = field(first, "/choices/0/message/content");
            if let (Some(before), Some(message)) = (said.as_str(), second.pointer_mut("/choices/0/message")) {
                let more = message.get("content").and_then(Value::as_str).filter(|text| !text.is_empty());
                let text = more.map_or_else(|| before.to_owned(), |more| format!("{before}{BETWEEN}{more}"));
                set(message, "content", text.into());
            }
        }
        Api::OpenAiResponses => {
            replace(&mut second, "previous_response_id", first.get("previous_response_id"));
            prepend(second.get_mut("output"), &list(field(first, "/output")));
        }
        Api::Gemini => {
            replace(&mut second, "responseId", first.get("responseId"));
            let mut parts = list(field(first, "/candidates/0/content/parts"));
            parts.push(json!({"text": BETWEEN}));
            prepend(second.pointer_mut("/candidates/0/content/parts"), &parts);
        }
        Api::BedrockConverse => {
            let content = "/output/message/content";
            prepend(second.pointer_mut(content), &list(field(first, content)));
        }
    }
    let usage = if api == Api::Gemini { "usageMetadata" } else { "usage" };
    match (second.get_mut(usage), first.get(usage)) {
        (Some(more), Some(usage)) => add(more, usage),
        (None, Some(known)) => set(&mut second, usage, known.clone()),
        (_, None) => {}
    }
    second
}

fn anthropic_usage(usage: TokenUsage) -> Value {
    let TokenUsage { input, output, cache_read, cache_write } = usage;
    let mut told = Map::from_iter([
        ("input_tokens".to_owned(), Value::from(input)),
        ("output_tokens".to_owned(), output.into()),
    ]);
    let cached = [("cache_read_input_tokens", cache_read), ("cache_creation_input_tokens", cache_write)];
    told.extend(
        cached
            .into_iter()
            .filter(|(_, tokens)| *tokens > 0)
            .map(|(name, tokens)| (name.to_owned(), tokens.into())),
    );
    told.into()
}

/// Adds the numbers of `more` to those of `into`, and what it alone has.
fn add(into: &mut Value, more: &Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                match into.get_mut(key) {
                    Some(known) => add(known, value),
                    None => {
                        into.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (into @ Value::Number(_), Value::Number(_)) => {
            *into = match (into.as_u64(), more.as_u64()) {
                (Some(known), Some(more)) => known.saturating_add(more).into(),
                _ => (into.as_f64().unwrap_or_default() + more.as_f64().unwrap_or_default()).into(),
            };
        }
        (into @ Value::Null, more) => *into = more.clone(),
        _ => {}
    }
}

fn set(value: &mut Value, field: &str, new: Value) {
    if let Value::Object(fields) = value {
        fields.insert(field.to_owned(), new);
    }
}

/// Sets a field that is there.
fn replace(value: &mut Value, field: &str, new: Option<&Value>) {
    if let (Some(place), Some(new)) = (value.get_mut(field), new) {
        place.clone_from(new);
    }
}

fn shift(value: &mut Value, field: &str, by: u64) {
    if let Some(place) = value.get_mut(field)
        && let Some(index) = place.as_u64()
    {
        *place = index.saturating_add(by).into();
    }
}

fn prepend(list: Option<&mut Value>, items: &[Value]) {
    if let Some(Value::Array(list)) = list {
        list.splice(0..0, items.iter().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some servers leave out the line that ends the last event, and clients read it all the same.
    #[test]
    fn the_last_event_of_the_second_answer_needs_no_end() {
        let said = |text: &str, reason: Value| {
            let content = json!({"role": "model", "parts": [{"text": text}]});
            format!(
                "data: {}",
                json!({"candidates": [{"index": 0, "content": content, "finishReason": reason}]})
            )
        };
        let first = Bytes::from(said("Look.", json!("STOP")) + "\n\n");
        let (_, mut joint) = Joint::cut(Api::Gemini, true, &first, TokenUsage::default()).unwrap();
        let begun = joint.push((said("Fine", Value::Null) + "\n\n").as_bytes());
        let ended = joint.push(said(" now.", json!("STOP")).as_bytes());
        let both = String::from_utf8([begun, ended].concat()).unwrap();
        assert!(both.contains("Fine") && both.contains(" now.") && both.ends_with("\n\n"), "{both}");
    }
}
