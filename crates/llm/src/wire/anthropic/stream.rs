//! Streamed answers.

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::{Direction, encode_part, is_redacted};
use super::error::decode_error;
use super::response::{encode_usage, extra_json, update_usage};
use super::{API, content};
use crate::error::{WireError, out_of_order};
use crate::model::{ModelEvent, ModelResponse, StopReason, ToolCallBuilder};
use crate::sse::SseEvent;
use crate::wire::json::{Object, parse};
use crate::wire::meta::{own_field, wrap};

const WHAT: &str = "stream event";

/// Reads one streamed answer. Blocks may interleave; a block that starts twice, grows before it starts or
/// after it stopped is refused, because readers differ in what they make of it.
#[derive(Debug, Default)]
pub(crate) struct StreamDecoder {
    phase: Phase,
    id: String,
    model: String,
    extra: Map<String, Value>,
    usage: TokenUsage,
    stop: Option<StopReason>,
    open: BTreeMap<usize, OpenBlock>,
    closed: BTreeMap<usize, Part>,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Phase {
    #[default]
    Before,
    Inside,
    Done,
}

#[derive(Debug)]
enum OpenBlock {
    Text { text: String, meta: Map<String, Value> },
    Thinking { text: String, meta: Map<String, Value> },
    ToolUse { call: ToolCallBuilder, input: Map<String, Value> },
    Whole { part: Part },
    Unknown { raw: Map<String, Value>, input: String },
}

impl StreamDecoder {
    pub(crate) fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        self.push_value(&parse(WHAT, &event.data)?)
    }

    /// Reads one event, parsed.
    pub(crate) fn push_value(&mut self, value: &Value) -> Result<Vec<ModelEvent>, WireError> {
        let event = Object::of(WHAT, value)?;
        let kind = event.required_string("type")?;
        match (kind, self.phase) {
            ("ping", _) => Ok(Vec::new()),
            ("error", _) => Err(decode_error(0, value).into()),
            ("message_start", Phase::Before) => self.start(event.required_object("message")?),
            ("content_block_start", Phase::Inside) => self.start_block(event),
            ("content_block_delta", Phase::Inside) => self.delta(event),
            ("content_block_stop", Phase::Inside) => self.stop_block(event),
            ("message_delta", Phase::Inside) => self.message_delta(event),
            ("message_stop", Phase::Inside) => self.stop(),
            (
                "message_start"
                | "content_block_start"
                | "content_block_delta"
                | "content_block_stop"
                | "message_delta"
                | "message_stop",
                _,
            ) => Err(out_of_order(format!("`{kind}` at the wrong place"))),
            // New kinds of events are announced as possible at any time, to be skipped.
            _ => Ok(Vec::new()),
        }
    }

    /// More text for an open block of text or thinking, as an event like the one before brings it.
    pub(crate) fn extend_text(&mut self, index: usize, more: &str) {
        if let Some(OpenBlock::Text { text, .. } | OpenBlock::Thinking { text, .. }) =
            self.open.get_mut(&index)
        {
            text.push_str(more);
        }
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        if self.phase == Phase::Done { Ok(Vec::new()) } else { Err(WireError::Truncated) }
    }

    fn start(&mut self, message: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        self.phase = Phase::Inside;
        self.id = message.string("id")?.unwrap_or_default().to_owned();
        self.model = message.string("model")?.unwrap_or_default().to_owned();
        self.extra = message.rest(&["id", "type", "role", "model", "content", "stop_reason", "usage"]);
        if message.array("content")?.is_some_and(|content| !content.is_empty()) {
            return Err(out_of_order("the answer starts with content"));
        }
        let mut events = vec![ModelEvent::Started { id: self.id.clone(), model: self.model.clone() }];
        if let Some(usage) = message.object("usage")? {
            update_usage(usage, &mut self.usage, &mut self.extra)?;
            events.push(ModelEvent::Usage { usage: self.usage });
        }
        Ok(events)
    }

    fn start_block(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        if self.open.contains_key(&index) || self.closed.contains_key(&index) {
            return Err(out_of_order(format!("block {index} starts twice")));
        }
        let block = event.required_object("content_block")?;
        let (open, events) = match block.required_string("type")? {
            "text" => {
                let text = block.string("text")?.unwrap_or_default().to_owned();
                let first =
                    (!text.is_empty()).then(|| ModelEvent::TextDelta { index, text: text.as_str().into() });
                let meta = block.rest(&["type", "text"]);
                (OpenBlock::Text { text, meta }, first.into_iter().collect())
            }
            "thinking" => {
                let text = block.string("thinking")?.unwrap_or_default().to_owned();
                let first = (!text.is_empty())
                    .then(|| ModelEvent::ThinkingDelta { index, text: text.as_str().into() });
                let meta = content::signed_fields(block);
                (OpenBlock::Thinking { text, meta }, first.into_iter().collect())
            }
            "tool_use" => start_tool_use(index, block)?,
            "redacted_thinking" | "image" | "tool_result" => {
                let whole = content::decode_block(&Value::Object(block.rest(&[])))?;
                (OpenBlock::Whole { part: whole }, Vec::new())
            }
            _ => (OpenBlock::Unknown { raw: block.rest(&[]), input: String::new() }, Vec::new()),
        };
        self.open.insert(index, open);
        Ok(events)
    }

    fn delta(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        let delta = event.required_object("delta")?;
        let kind = delta.required_string("type")?;
        let block = self
            .open
            .get_mut(&index)
            .ok_or_else(|| out_of_order(format!("block {index} grows while it is not open")))?;
        let event = match (block, kind) {
            (OpenBlock::Text { text, .. }, "text_delta") => {
                let more = delta.required_string("text")?;
                text.push_str(more);
                ModelEvent::TextDelta { index, text: more.into() }
            }
            (OpenBlock::Text { meta, .. }, "citations_delta") => {
                if let Some(citation) = delta.get("citation") {
                    match meta.get_mut("citations") {
                        Some(Value::Array(citations)) => citations.push(citation.clone()),
                        _ => {
                            meta.insert("citations".to_owned(), json!([citation]));
                        }
                    }
                }
                return Ok(Vec::new());
            }
            (OpenBlock::Thinking { text, .. }, "thinking_delta") => {
                let more = delta.required_string("thinking")?;
                text.push_str(more);
                ModelEvent::ThinkingDelta { index, text: more.into() }
            }
            (OpenBlock::Thinking { meta, .. }, "signature_delta") => {
                meta.insert("signature".to_owned(), delta.required_string("signature")?.into());
                return Ok(Vec::new());
            }
            (OpenBlock::ToolUse { call, input }, "input_json_delta") => {
                let more = delta.required_string("partial_json")?;
                if !input.is_empty() && !more.is_empty() {
                    return Err(out_of_order(format!("block {index} has its input twice")));
                }
                call.arguments.push_str(more);
                ModelEvent::ToolCallArguments { index, delta: more.into() }
            }
            (OpenBlock::Unknown { raw, input }, "input_json_delta") => {
                let more = delta.required_string("partial_json")?;
                let says_nothing =
                    |input: &Value| input.is_null() || input.as_object().is_some_and(Map::is_empty);
                if raw.get("input").is_some_and(|input| !says_nothing(input)) && !more.is_empty() {
                    return Err(out_of_order(format!("block {index} has its input twice")));
                }
                input.push_str(more);
                return Ok(Vec::new());
            }
            (
                _,
                "text_delta" | "citations_delta" | "thinking_delta" | "signature_delta" | "input_json_delta",
            )
            | (OpenBlock::ToolUse { .. }, _) => {
                return Err(out_of_order(format!("block {index} takes no `{kind}`")));
            }
            _ => return Ok(Vec::new()),
        };
        Ok(vec![event])
    }

    fn stop_block(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        let open = self
            .open
            .remove(&index)
            .ok_or_else(|| out_of_order(format!("block {index} stops while it is not open")))?;
        let mut events = Vec::new();
        let part = match open {
            OpenBlock::Text { text, meta } => Part::Text { text: text.into(), meta: wrap(API, meta) },
            OpenBlock::Thinking { text, meta } => Part::Thinking { text: text.into(), meta: wrap(API, meta) },
            OpenBlock::ToolUse { mut call, input } => {
                if !input.is_empty() {
                    call.arguments = Value::Object(input).to_string();
                    events
                        .push(ModelEvent::ToolCallArguments { index, delta: call.arguments.as_str().into() });
                }
                Part::ToolCall(call.finish())
            }
            OpenBlock::Whole { part } => part,
            OpenBlock::Unknown { mut raw, input } => {
                if !input.is_empty() {
                    let input = serde_json::from_str(&input).unwrap_or(Value::String(input));
                    raw.insert("input".to_owned(), input);
                }
                let raw = Value::Object(raw);
                content::decode_answer_block(&raw)?
            }
        };
        self.closed.insert(index, part.clone());
        events.push(ModelEvent::PartFinished { index, part });
        Ok(events)
    }

    fn message_delta(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let delta = event.required_object("delta")?;
        if let Some(reason) = delta.string("stop_reason")? {
            self.stop = Some(reason.into());
        }
        self.extra.extend(delta.rest(&["stop_reason"]));
        let Some(usage) = event.object("usage")? else { return Ok(Vec::new()) };
        update_usage(usage, &mut self.usage, &mut self.extra)?;
        Ok(vec![ModelEvent::Usage { usage: self.usage }])
    }

    fn stop(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        if !self.open.is_empty() {
            return Err(WireError::Truncated);
        }
        let stop = self.stop.take().ok_or(WireError::Truncated)?;
        self.phase = Phase::Done;
        let content = std::mem::take(&mut self.closed).into_values().collect();
        let response = ModelResponse {
            id: std::mem::take(&mut self.id),
            model: std::mem::take(&mut self.model),
            message: Message::new(Role::Assistant, content),
            stop,
            usage: self.usage,
            extra: extra_json(std::mem::take(&mut self.extra)),
        };
        Ok(vec![ModelEvent::Finished { response: Box::new(response) }])
    }
}

fn start_tool_use(index: usize, block: Object<'_>) -> Result<(OpenBlock, Vec<ModelEvent>), WireError> {
    let (id, name) = (block.string("id")?.unwrap_or_default(), block.required_string("name")?);
    let (arguments, input) = match block.get("input") {
        None => (String::new(), Map::new()),
        Some(Value::Object(input)) => (String::new(), input.clone()),
        Some(Value::String(text)) => (text.clone(), Map::new()),
        Some(other) => (other.to_string(), Map::new()),
    };
    let mut events = vec![ModelEvent::ToolCallStarted { index, id: id.into(), name: name.to_owned() }];
    if !arguments.is_empty() {
        events.push(ModelEvent::ToolCallArguments { index, delta: arguments.as_str().into() });
    }
    let meta = wrap(API, block.rest(&["type", "id", "name", "input"]));
    let call = ToolCallBuilder { id: id.into(), name: name.to_owned(), arguments, meta };
    Ok((OpenBlock::ToolUse { call, input }, events))
}

fn required_index(event: Object<'_>) -> Result<usize, WireError> {
    event.index("index")?.ok_or_else(|| event.error("index", "is missing"))
}

/// Writes one streamed answer.
#[derive(Debug, Default)]
pub(crate) struct StreamEncoder {
    /// The start is held until the first counts are known, since it carries them.
    held_start: Option<(String, String)>,
    open: BTreeSet<usize>,
}

impl StreamEncoder {
    pub(crate) fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        let mut out = Vec::new();
        if let ModelEvent::Started { id, model } = event {
            self.held_start = Some((id.clone(), model.clone()));
            return out;
        }
        if let Some((id, model)) = self.held_start.take() {
            let usage = if let ModelEvent::Usage { usage } = event { *usage } else { TokenUsage::default() };
            out.push(message_start(&id, &model, &usage));
        }
        match event {
            ModelEvent::Started { .. } | ModelEvent::Usage { .. } => {}
            ModelEvent::TextDelta { index, text } => {
                self.open(*index, || json!({"type": "text", "text": ""}), &mut out);
                out.push(delta(*index, json!({"type": "text_delta", "text": text})));
            }
            ModelEvent::ThinkingDelta { index, text } => {
                self.open(*index, || json!({"type": "thinking", "thinking": "", "signature": ""}), &mut out);
                out.push(delta(*index, json!({"type": "thinking_delta", "thinking": text})));
            }
            ModelEvent::ToolCallStarted { index, id, name } => {
                self.open(
                    *index,
                    || json!({"type": "tool_use", "id": id, "name": name, "input": {}}),
                    &mut out,
                );
            }
            ModelEvent::ToolCallArguments { index, delta: more } => {
                out.push(delta(*index, json!({"type": "input_json_delta", "partial_json": more})));
            }
            ModelEvent::PartFinished { index, part } => self.close(*index, part, &mut out),
            ModelEvent::Finished { response } => finish(response, &mut out),
        }
        out
    }

    fn open(&mut self, index: usize, block: impl FnOnce() -> Value, out: &mut Vec<SseEvent>) {
        if self.open.insert(index) {
            out.push(named(
                "content_block_start",
                json!({"type": "content_block_start", "index": index, "content_block": block()}),
            ));
        }
    }

    fn close(&mut self, index: usize, part: &Part, out: &mut Vec<SseEvent>) {
        if !self.open.contains(&index) {
            let block = encode_part(part, Direction::ToClient).unwrap_or_default();
            self.open(index, || block, out);
        } else {
            match part {
                Part::Thinking { meta, .. } if !is_redacted(meta.as_ref()) => {
                    if let Some(signature) = own_field(meta.as_ref(), API, "signature") {
                        out.push(delta(index, json!({"type": "signature_delta", "signature": signature})));
                    }
                }
                Part::Text { meta, .. } => {
                    let citations = own_field(meta.as_ref(), API, "citations").and_then(Value::as_array);
                    out.extend(citations.into_iter().flatten().map(|citation| {
                        delta(index, json!({"type": "citations_delta", "citation": citation}))
                    }));
                }
                _ => {}
            }
        }
        out.push(named("content_block_stop", json!({"type": "content_block_stop", "index": index})));
    }
}

fn message_start(id: &str, model: &str, usage: &TokenUsage) -> SseEvent {
    let message = json!({
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": encode_usage(usage, &Json::default()),
    });
    named("message_start", json!({"type": "message_start", "message": message}))
}

fn finish(response: &ModelResponse, out: &mut Vec<SseEvent>) {
    let mut delta = json!({"stop_reason": response.stop.as_str(), "stop_sequence": null});
    if let (Value::Object(delta), Some(extra)) = (&mut delta, response.extra.as_object()) {
        delta.extend(
            extra.iter().filter(|(key, _)| *key != "usage").map(|(key, value)| (key.clone(), value.clone())),
        );
    }
    let usage = encode_usage(&response.usage, &response.extra);
    out.push(named("message_delta", json!({"type": "message_delta", "delta": delta, "usage": usage})));
    out.push(named("message_stop", json!({"type": "message_stop"})));
}

fn delta(index: usize, delta: Value) -> SseEvent {
    named("content_block_delta", json!({"type": "content_block_delta", "index": index, "delta": delta}))
}

fn named(name: &str, data: Value) -> SseEvent {
    SseEvent::new(Some(name), data.to_string())
}
