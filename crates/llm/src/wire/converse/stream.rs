//! Streamed answers.
//!
//! A block begins with its first event: texts and reasoning have no start of their own. Its kind is that of its start, or of
//! its first delta, and never another.

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::Text;
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::{CITED, Direction, decode_answer_block, decode_whole, encode_part, redacted};
use super::error::{decode_exception, is_exception};
use super::response::{
    check_role, encode_rest, encode_usage, extra_json, stop_name, stop_reason, update_usage,
};
use super::{API, member, object, union};
use crate::error::{WireError, out_of_order};
use crate::model::{ModelEvent, ModelResponse, StopReason, ToolCallBuilder};
use crate::sse::SseEvent;
use crate::wire::json::{Object, parse};
use crate::wire::meta::{own_field, wrap};

const WHAT: &str = "stream event";

/// Reads one streamed answer. Blocks may interleave; one that starts twice, or goes on after it stopped, is refused, because
/// readers differ in what they make of it.
#[derive(Debug, Default)]
pub(crate) struct StreamDecoder {
    phase: Phase,
    extra: Map<String, Value>,
    usage: TokenUsage,
    stop: Option<StopReason>,
    open: BTreeMap<usize, OpenBlock>,
    /// `None` for a block that said nothing.
    closed: BTreeMap<usize, Option<Part>>,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Phase {
    #[default]
    Before,
    Inside,
    /// The reason to stop has come, and the counts may follow.
    Stopped,
    Done,
}

#[derive(Debug)]
enum OpenBlock {
    /// It has not said what it is.
    Empty,
    Text {
        text: String,
        citations: Vec<Value>,
    },
    Thinking {
        text: String,
        meta: Map<String, Value>,
    },
    ToolUse {
        call: ToolCallBuilder,
    },
    /// A result, or a picture: its start, and what its deltas add.
    Whole {
        kind: String,
        fields: Map<String, Value>,
        content: Vec<Value>,
    },
    /// Of a type that nobody knows.
    Unknown {
        kind: String,
        start: Value,
    },
}

impl StreamDecoder {
    pub(crate) fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        let name = event.event.as_deref().unwrap_or_default();
        self.push_value(name, &parse(WHAT, &event.data)?)
    }

    /// Reads one event, parsed.
    pub(crate) fn push_value(&mut self, name: &str, value: &Value) -> Result<Vec<ModelEvent>, WireError> {
        let event = object(WHAT, value)?;
        match (name, self.phase) {
            (name, _) if is_exception(name) => Err(decode_exception(name, value).into()),
            ("messageStart", Phase::Before) => self.start(event),
            ("contentBlockStart", Phase::Inside) => self.start_block(event),
            ("contentBlockDelta", Phase::Inside) => self.delta(event),
            ("contentBlockStop", Phase::Inside) => self.stop_block(event),
            ("messageStop", Phase::Inside) => self.message_stop(event),
            ("metadata", Phase::Stopped) => self.metadata(event),
            ("", _) => Err(out_of_order("an event without a name")),
            (
                "messageStart" | "contentBlockStart" | "contentBlockDelta" | "contentBlockStop"
                | "messageStop" | "metadata",
                _,
            ) => Err(out_of_order(format!("`{name}` at the wrong place"))),
            // The SDKs skip what they do not know.
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
        match self.phase {
            Phase::Done => Ok(Vec::new()),
            Phase::Stopped => self.done(),
            Phase::Before | Phase::Inside => Err(WireError::Truncated),
        }
    }

    fn start(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        check_role(event)?;
        self.phase = Phase::Inside;
        Ok(vec![ModelEvent::Started { id: String::new(), model: String::new() }])
    }

    fn start_block(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        if self.open.contains_key(&index) || self.closed.contains_key(&index) {
            return Err(out_of_order(format!("block {index} starts twice")));
        }
        let start = event.get("start").cloned().unwrap_or_else(|| json!({}));
        let (open, events) = match member("start", &start)? {
            None => (OpenBlock::Empty, Vec::new()),
            Some(("toolUse", inside)) => start_tool_use(index, object("toolUse", inside)?)?,
            Some((kind @ ("toolResult" | "image"), inside)) => {
                let mut fields = object("start", inside)?.rest(&[]);
                let content = match fields.shift_remove("content") {
                    Some(Value::Array(content)) => content,
                    _ => Vec::new(),
                };
                (OpenBlock::Whole { kind: kind.to_owned(), fields, content }, Vec::new())
            }
            Some((kind, _)) => {
                (OpenBlock::Unknown { kind: kind.to_owned(), start: start.clone() }, Vec::new())
            }
        };
        self.open.insert(index, open);
        Ok(events)
    }

    fn delta(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        if self.closed.contains_key(&index) {
            return Err(out_of_order(format!("block {index} grows after it stopped")));
        }
        let delta = event.get("delta").cloned().unwrap_or_else(|| json!({}));
        let block = self.open.entry(index).or_insert(OpenBlock::Empty);
        let Some((kind, inside)) = member("delta", &delta)? else { return Ok(Vec::new()) };
        match kind {
            "text" | "citation" => {
                open_as(block, || OpenBlock::Text { text: String::new(), citations: Vec::new() });
            }
            "reasoningContent" => {
                open_as(block, || OpenBlock::Thinking { text: String::new(), meta: Map::new() });
            }
            _ => {}
        }
        let event = match (block, kind, inside) {
            (OpenBlock::Text { text, .. }, "text", Value::String(more)) => {
                text.push_str(more);
                (!more.is_empty()).then(|| ModelEvent::TextDelta { index, text: more.as_str().into() })
            }
            (OpenBlock::Text { citations, .. }, "citation", citation) => {
                citations.push(citation.clone());
                None
            }
            (OpenBlock::Thinking { text, meta }, "reasoningContent", said) => {
                let more = think(said, text, meta)?;
                more.map(|text| ModelEvent::ThinkingDelta { index, text })
            }
            (OpenBlock::ToolUse { call }, "toolUse", said) => {
                let more = object("toolUse", said)?.required_string("input")?;
                call.arguments.push_str(more);
                Some(ModelEvent::ToolCallArguments { index, delta: more.into() })
            }
            (OpenBlock::Whole { kind, content, .. }, "toolResult", Value::Array(more))
                if kind == "toolResult" =>
            {
                content.extend(more.iter().cloned());
                None
            }
            (OpenBlock::Whole { kind, fields, .. }, "image", said) if kind == "image" => {
                fields.extend(object("image", said)?.rest(&[]));
                None
            }
            (_, "text" | "citation" | "reasoningContent" | "toolUse" | "toolResult" | "image", _)
            | (OpenBlock::ToolUse { .. }, _, _) => {
                return Err(out_of_order(format!("block {index} takes no `{kind}`")));
            }
            _ => None,
        };
        Ok(event.into_iter().collect())
    }

    fn stop_block(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let index = required_index(event)?;
        if self.closed.contains_key(&index) {
            return Err(out_of_order(format!("block {index} stops twice")));
        }
        // An empty text has no event but this one.
        let part = match self.open.remove(&index).unwrap_or(OpenBlock::Empty) {
            OpenBlock::Empty => None,
            OpenBlock::Text { text, citations } => Some(text_part(text, citations)),
            OpenBlock::Thinking { text, meta } => {
                Some(Part::Thinking { text: text.into(), meta: wrap(API, meta) })
            }
            OpenBlock::ToolUse { call } => Some(Part::ToolCall(call.finish())),
            OpenBlock::Whole { kind, mut fields, content } => {
                if kind == "toolResult" {
                    fields.insert("content".to_owned(), content.into());
                }
                Some(decode_answer_block(&union(&kind, fields))?)
            }
            OpenBlock::Unknown { kind, start } => Some(Part::ToolCall(decode_whole(&kind, &start))),
        };
        self.closed.insert(index, part.clone());
        Ok(part.map(|part| ModelEvent::PartFinished { index, part }).into_iter().collect())
    }

    fn message_stop(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        if !self.open.is_empty() {
            return Err(WireError::Truncated);
        }
        self.stop = Some(stop_reason(event.required_string("stopReason")?));
        self.extra.extend(event.rest(&["stopReason"]));
        self.phase = Phase::Stopped;
        Ok(Vec::new())
    }

    fn metadata(&mut self, event: Object<'_>) -> Result<Vec<ModelEvent>, WireError> {
        let mut events = Vec::new();
        self.extra.extend(event.rest(&["usage"]));
        if let Some(usage) = event.object("usage")? {
            update_usage(usage, &mut self.usage, &mut self.extra)?;
            events.push(ModelEvent::Usage { usage: self.usage });
        }
        events.extend(self.done()?);
        Ok(events)
    }

    fn done(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        let stop = self.stop.take().ok_or(WireError::Truncated)?;
        self.phase = Phase::Done;
        let content = std::mem::take(&mut self.closed).into_values().flatten().collect();
        let response = ModelResponse {
            id: String::new(),
            model: String::new(),
            message: Message::new(Role::Assistant, content),
            stop,
            usage: self.usage,
            extra: extra_json(std::mem::take(&mut self.extra)),
        };
        Ok(vec![ModelEvent::Finished { response: Box::new(response) }])
    }
}

/// Says what a block is, if it has not.
fn open_as(block: &mut OpenBlock, make: impl FnOnce() -> OpenBlock) {
    if matches!(block, OpenBlock::Empty) {
        *block = make();
    }
}

fn text_part(text: String, citations: Vec<Value>) -> Part {
    let cited = || Map::from_iter([(CITED.to_owned(), json!({ "citations": citations }))]);
    let meta = if citations.is_empty() { None } else { wrap(API, cited()) };
    Part::Text { text: text.into(), meta }
}

/// Takes a piece of reasoning in; gives its text.
fn think(said: &Value, text: &mut String, meta: &mut Map<String, Value>) -> Result<Option<Text>, WireError> {
    match member("reasoningContent", said)? {
        Some(("text", Value::String(more))) => {
            text.push_str(more);
            Ok((!more.is_empty()).then(|| more.as_str().into()))
        }
        Some((kind @ ("signature" | "redactedContent"), Value::String(more))) => {
            match meta.get_mut(kind) {
                Some(Value::String(known)) => known.push_str(more),
                _ => drop(meta.insert(kind.to_owned(), more.as_str().into())),
            }
            Ok(None)
        }
        Some(("text" | "signature" | "redactedContent", _)) => {
            Err(out_of_order("a piece of reasoning is no text"))
        }
        // A thing of tomorrow, which is judged as a call.
        Some(_) | None => Ok(None),
    }
}

fn start_tool_use(index: usize, block: Object<'_>) -> Result<(OpenBlock, Vec<ModelEvent>), WireError> {
    let (id, name) = (block.string("toolUseId")?.unwrap_or_default(), block.required_string("name")?);
    if block.get("input").is_some() {
        return Err(block.error("input", "belongs to the deltas"));
    }
    let meta = wrap(API, block.rest(&["toolUseId", "name"]));
    let call = ToolCallBuilder { id: id.into(), name: name.to_owned(), arguments: String::new(), meta };
    let started = ModelEvent::ToolCallStarted { index, id: id.into(), name: name.to_owned() };
    Ok((OpenBlock::ToolUse { call }, vec![started]))
}

fn required_index(event: Object<'_>) -> Result<usize, WireError> {
    event.index("contentBlockIndex")?.ok_or_else(|| event.error("contentBlockIndex", "is missing"))
}

/// Writes one streamed answer.
#[derive(Debug, Default)]
pub(crate) struct StreamEncoder {
    /// The blocks of which something was written.
    begun: BTreeSet<usize>,
}

impl StreamEncoder {
    pub(crate) fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        match event {
            ModelEvent::Started { .. } => vec![named("messageStart", &json!({"role": "assistant"}))],
            ModelEvent::Usage { .. } => Vec::new(),
            ModelEvent::TextDelta { index, text } => self.delta(*index, union("text", text.as_str())),
            ModelEvent::ThinkingDelta { index, text } => {
                self.delta(*index, union("reasoningContent", union("text", text.as_str())))
            }
            ModelEvent::ToolCallStarted { index, id, name } => {
                self.start(*index, &json!({"toolUse": {"toolUseId": id, "name": name}}))
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                self.delta(*index, json!({"toolUse": {"input": delta}}))
            }
            ModelEvent::PartFinished { index, part } => self.close(*index, part),
            ModelEvent::Finished { response } => finish(response),
        }
    }

    fn start(&mut self, index: usize, start: &Value) -> Vec<SseEvent> {
        self.begun.insert(index);
        vec![named("contentBlockStart", &json!({"start": start, "contentBlockIndex": index}))]
    }

    fn delta(&mut self, index: usize, delta: Value) -> Vec<SseEvent> {
        self.begun.insert(index);
        vec![named("contentBlockDelta", &json!({"delta": delta, "contentBlockIndex": index}))]
    }

    fn close(&mut self, index: usize, part: &Part) -> Vec<SseEvent> {
        let mut out = match part {
            _ if self.begun.contains(&index) => Vec::new(),
            Part::Text { .. } => self.delta(index, union("text", "")),
            Part::Thinking { meta, .. } if redacted(meta.as_ref()).is_none() => {
                self.delta(index, union("reasoningContent", union("text", "")))
            }
            Part::Thinking { .. } => Vec::new(),
            other => encode_part(other, Direction::ToClient)
                .map(|block| self.start(index, &block))
                .unwrap_or_default(),
        };
        for delta in last_deltas(part) {
            out.extend(self.delta(index, delta));
        }
        out.push(named("contentBlockStop", &json!({"contentBlockIndex": index})));
        out
    }
}

/// What stands behind the text of a block.
fn last_deltas(part: &Part) -> Vec<Value> {
    match part {
        Part::Text { meta, .. } => {
            let cited = own_field(meta.as_ref(), API, CITED).and_then(|cited| cited.get("citations"));
            let each = cited.and_then(Value::as_array).into_iter().flatten();
            each.map(|citation| union("citation", citation.clone())).collect()
        }
        Part::Thinking { meta, .. } => {
            let signed = |kind| Some(union(kind, own_field(meta.as_ref(), API, kind)?.clone()));
            let found = signed("redactedContent").or_else(|| signed("signature"));
            found.map(|found| union("reasoningContent", found)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn finish(response: &ModelResponse) -> Vec<SseEvent> {
    let mut stop = Map::from_iter([("stopReason".to_owned(), Value::from(stop_name(&response.stop)))]);
    let mut rest = encode_rest(&response.extra);
    let more = rest.shift_remove("additionalModelResponseFields");
    stop.extend(more.map(|more| ("additionalModelResponseFields".to_owned(), more)));
    let mut metadata = Map::from_iter([("usage".to_owned(), encode_usage(&response.usage, &response.extra))]);
    metadata.extend(rest);
    vec![named("messageStop", &stop.into()), named("metadata", &metadata.into())]
}

fn named(name: &str, data: &Value) -> SseEvent {
    SseEvent::new(Some(name), data.to_string())
}
