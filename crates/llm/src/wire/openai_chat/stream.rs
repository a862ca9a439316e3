//! Streamed answers.

use std::collections::BTreeMap;

use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::API;
use super::calls::{CallPiece, OpenCall};
use super::content::{ASSISTANT_KNOWN, REASONING_FIELDS, is_refusal, reasoning, reasoning_field, refusal};
use super::error::decode_error;
use super::functions::{FUNCTION_CALL, call_meta, two_forms};
use super::response::{BODY_KNOWN, decode_stop, decode_usage, encode_stop, encode_usage, extra_json};
use crate::error::{WireError, out_of_order};
use crate::model::{ModelEvent, ModelRequest, ModelResponse, StopReason, ToolCallBuilder};
use crate::sse::SseEvent;
use crate::wire::call_ids::CallIds;
use crate::wire::json::{Object, parse};
use crate::wire::meta::wrap;

const WHAT: &str = "stream chunk";
const DONE: &str = "[DONE]";
/// The field with random text that hides the length of a delta.
pub(crate) const PADDING: &str = "obfuscation";

/// Reads one streamed answer of one choice.
///
/// The wire has no end of a part: all parts end with the finish reason. Counts come after it, so the answer
/// is whole at `[DONE]`, or at the end of the bytes if the finish reason has come.
#[derive(Debug, Default)]
pub(crate) struct StreamDecoder {
    done: bool,
    head: Head,
    choice: ChoiceDecoder,
}

/// What the chunks of an answer say about the answer as a whole.
#[derive(Debug, Default)]
pub(crate) struct Head {
    started: bool,
    id: String,
    model: String,
    extra: Map<String, Value>,
    usage: TokenUsage,
}

/// Reads one choice of a streamed answer.
///
/// Tool calls may interleave by `index`. A call whose id or name changes on the way is refused, because some
/// readers would join the pieces and others would not.
#[derive(Debug, Default)]
pub(crate) struct ChoiceDecoder {
    message_meta: Map<String, Value>,
    stop: Option<StopReason>,
    /// Parts in the order in which they began.
    parts: Vec<OpenPart>,
    /// From the wire's index of a tool call to its place in `parts`.
    calls: BTreeMap<usize, usize>,
    /// The place of the function call.
    function_call: Option<usize>,
    finished: Vec<Part>,
}

/// What a chunk said in one choice.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// As events. Texts come in the order reasoning, content, refusal.
    pub(crate) events: Vec<ModelEvent>,
    /// For each entry of `tool_calls` the wire's index of the call and its part.
    pub(crate) calls: Vec<(usize, usize)>,
    /// The part of its `function_call`.
    pub(crate) function_call: Option<usize>,
}

#[derive(Debug)]
enum OpenPart {
    Text(String),
    Refusal(String),
    Reasoning { text: String, field: &'static str },
    ToolCall(OpenCall),
}

impl StreamDecoder {
    pub(crate) fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        if self.done {
            return Err(out_of_order("something follows the end"));
        }
        if is_done(&event.data) {
            return self.finish();
        }
        let value = parse(WHAT, &event.data)?;
        let mut events = self.head.push(event.event.as_deref(), &value)?;
        match choices_of(&value)?.as_slice() {
            [] => {}
            [(0, only)] => events.extend(self.choice.push(*only, &self.head)?.events),
            _ => return Err(WireError::SeveralChoices),
        }
        events.extend(self.head.usage(&value)?);
        Ok(events)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        if self.done {
            return Ok(Vec::new());
        }
        let response = Box::new(self.choice.finish(&self.head)?);
        self.done = true;
        Ok(vec![ModelEvent::Finished { response }])
    }
}

/// Whether data is the mark after the last event.
pub(crate) fn is_done(data: &str) -> bool {
    data.trim() == DONE
}

impl Head {
    /// Reads what a chunk says about the answer.
    pub(crate) fn push(&mut self, name: Option<&str>, value: &Value) -> Result<Vec<ModelEvent>, WireError> {
        let chunk = Object::of(WHAT, value)?;
        if chunk.get("error").is_some() || name == Some("error") {
            return Err(decode_error(0, value).into());
        }
        for (key, value) in chunk.rest(BODY_KNOWN) {
            // Padding against guessing lengths, new in each chunk.
            if !value.is_null() && key != PADDING {
                self.extra.insert(key, value);
            }
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.started, true) {
            self.id = chunk.string("id")?.unwrap_or_default().to_owned();
            self.model = chunk.string("model")?.unwrap_or_default().to_owned();
            events.push(ModelEvent::Started { id: self.id.clone(), model: self.model.clone() });
        }
        Ok(events)
    }

    /// Reads the counts of a chunk.
    pub(crate) fn usage(&mut self, chunk: &Value) -> Result<Option<ModelEvent>, WireError> {
        let Some(usage) = Object::of(WHAT, chunk)?.object("usage")? else { return Ok(None) };
        self.usage = decode_usage(usage)?;
        Ok(Some(ModelEvent::Usage { usage: self.usage }))
    }
}

/// The choices of a chunk with their indexes.
pub(crate) fn choices_of(chunk: &Value) -> Result<Vec<(u64, Object<'_>)>, WireError> {
    let choices = Object::of(WHAT, chunk)?.array("choices")?.unwrap_or_default().iter();
    let indexed = choices.map(|choice| {
        let choice = Object::of("choice", choice)?;
        Ok((choice.u64("index")?.unwrap_or(0), choice))
    });
    indexed.collect()
}

impl ChoiceDecoder {
    /// Reads one choice of a chunk.
    pub(crate) fn push(&mut self, choice: Object<'_>, head: &Head) -> Result<Said, WireError> {
        let mut said = Said::default();
        if let Some(delta) = choice.object("delta")? {
            let index = choice.u64("index")?.unwrap_or(0);
            self.delta(delta, || CallIds::of_answer(&head.id, index), &mut said)?;
        }
        if let Some(reason) = choice.string("finish_reason")?.filter(|reason| !reason.is_empty()) {
            if self.stop.is_some() {
                return Err(out_of_order("two finish reasons"));
            }
            self.stop = Some(decode_stop(reason));
            self.close_parts(&mut said.events);
        }
        Ok(said)
    }

    /// More of the text in a part, as a chunk like the one before brings it.
    pub(crate) fn extend_text(&mut self, place: usize, more: &str) {
        if let Some(OpenPart::Text(text) | OpenPart::Refusal(text) | OpenPart::Reasoning { text, .. }) =
            self.parts.get_mut(place)
        {
            text.push_str(more);
        }
    }

    /// The answer in this choice.
    pub(crate) fn finish(&mut self, head: &Head) -> Result<ModelResponse, WireError> {
        let stop = self.stop.clone().ok_or(WireError::Truncated)?;
        let content = std::mem::take(&mut self.finished);
        let meta = wrap(API, std::mem::take(&mut self.message_meta));
        Ok(ModelResponse {
            id: head.id.clone(),
            model: head.model.clone(),
            message: Message { meta, ..Message::new(Role::Assistant, content) },
            stop,
            usage: head.usage,
            extra: extra_json(head.extra.clone()),
        })
    }

    fn delta(
        &mut self,
        delta: Object<'_>,
        ids: impl FnOnce() -> CallIds,
        said: &mut Said,
    ) -> Result<(), WireError> {
        let events = &mut said.events;
        for field in REASONING_FIELDS {
            if let Some(text) = delta.string(field)?.filter(|text| !text.is_empty()) {
                self.reasoning(text, field, events);
                break;
            }
        }
        if let Some(text) = delta.string("content")?.filter(|text| !text.is_empty()) {
            self.text(text, false, events);
        }
        if let Some(text) = delta.string("refusal")?.filter(|text| !text.is_empty()) {
            self.text(text, true, events);
        }
        for call in delta.array("tool_calls")?.unwrap_or_default() {
            said.calls.push(self.tool_call(call, events)?);
        }
        if let Some(call) = delta.object(FUNCTION_CALL)? {
            said.function_call = Some(self.function_call(call, ids, events)?);
        }
        if self.function_call.is_some() && !self.calls.is_empty() {
            return Err(two_forms(delta));
        }
        if self.stop.is_some() && !events.is_empty() {
            return Err(out_of_order("content after the finish reason"));
        }
        for (key, value) in delta.rest(&[ASSISTANT_KNOWN, &["annotations"]].concat()) {
            match (self.message_meta.get_mut(&key), value) {
                (Some(Value::Array(so_far)), Value::Array(more)) => so_far.extend(more),
                (_, Value::Null) => {}
                (_, value) => {
                    self.message_meta.insert(key, value);
                }
            }
        }
        Ok(())
    }

    fn reasoning(&mut self, more: &str, field: &'static str, events: &mut Vec<ModelEvent>) {
        let place = self.place(
            |part| matches!(part, OpenPart::Reasoning { .. }),
            || OpenPart::Reasoning { text: String::new(), field },
        );
        if let Some(OpenPart::Reasoning { text, .. }) = self.parts.get_mut(place) {
            text.push_str(more);
        }
        events.push(ModelEvent::ThinkingDelta { index: place, text: more.into() });
    }

    fn text(&mut self, more: &str, refused: bool, events: &mut Vec<ModelEvent>) {
        let place = if refused {
            self.place(|part| matches!(part, OpenPart::Refusal(_)), || OpenPart::Refusal(String::new()))
        } else {
            self.place(|part| matches!(part, OpenPart::Text(_)), || OpenPart::Text(String::new()))
        };
        if let Some(OpenPart::Text(text) | OpenPart::Refusal(text)) = self.parts.get_mut(place) {
            text.push_str(more);
        }
        events.push(ModelEvent::TextDelta { index: place, text: more.into() });
    }

    /// The place of the part that is meant, which begins now if there is none.
    fn place(&mut self, is_it: impl Fn(&OpenPart) -> bool, begin: impl FnOnce() -> OpenPart) -> usize {
        self.parts.iter().position(is_it).unwrap_or_else(|| {
            self.parts.push(begin());
            self.parts.len() - 1
        })
    }

    /// Reads a piece of a call; gives the wire's index of the call and its part.
    fn tool_call(&mut self, call: &Value, events: &mut Vec<ModelEvent>) -> Result<(usize, usize), WireError> {
        let piece = CallPiece::read(call)?;
        let index = match piece.index {
            Some(index) => index,
            // Some servers send each call in one piece and leave the index out.
            None if piece.begins()? => self.calls.last_key_value().map_or(0, |(last, _)| last + 1),
            None => self.calls.last_key_value().map(|(last, _)| *last).unwrap_or_default(),
        };
        let place = match self.calls.get(&index) {
            Some(place) => *place,
            None => {
                let place = self.begin_call(piece.open()?, events);
                self.calls.insert(index, place);
                place
            }
        };
        let more = self.open_call(place)?.grow(&piece)?;
        told(place, more, events);
        Ok((index, place))
    }

    /// Reads a piece of the function call; gives its part.
    fn function_call(
        &mut self,
        call: Object<'_>,
        ids: impl FnOnce() -> CallIds,
        events: &mut Vec<ModelEvent>,
    ) -> Result<usize, WireError> {
        let name = call.string("name")?.unwrap_or_default();
        let place = match self.function_call {
            Some(place) => place,
            None if name.is_empty() => return Err(out_of_order("a function call begins without a name")),
            None => {
                let id = ids().make_up(name, &Value::Null);
                let meta = call_meta(call);
                let builder = ToolCallBuilder { id, name: name.to_owned(), arguments: String::new(), meta };
                let place = self.begin_call(OpenCall::function(builder), events);
                *self.function_call.insert(place)
            }
        };
        let open = self.open_call(place)?;
        open.check("", name)?;
        let more = open.grow_arguments(call.get("arguments"));
        told(place, more, events);
        Ok(place)
    }

    fn open_call(&mut self, place: usize) -> Result<&mut OpenCall, WireError> {
        match self.parts.get_mut(place) {
            Some(OpenPart::ToolCall(call)) => Ok(call),
            _ => Err(out_of_order("a tool call that never started")),
        }
    }

    fn begin_call(&mut self, call: OpenCall, events: &mut Vec<ModelEvent>) -> usize {
        let index = self.parts.len();
        let (id, name) = (call.builder.id.clone(), call.builder.name.clone());
        events.push(ModelEvent::ToolCallStarted { index, id, name });
        self.parts.push(OpenPart::ToolCall(call));
        index
    }

    fn close_parts(&mut self, events: &mut Vec<ModelEvent>) {
        for (index, part) in std::mem::take(&mut self.parts).into_iter().enumerate() {
            let part = match part {
                OpenPart::Text(text) => Part::text(text),
                OpenPart::Refusal(text) => refusal(&text),
                OpenPart::Reasoning { text, field } => reasoning(&text, field),
                OpenPart::ToolCall(call) => {
                    let (call, untold) = call.finish();
                    told(index, untold.unwrap_or_default(), events);
                    Part::ToolCall(call)
                }
            };
            self.finished.push(part.clone());
            events.push(ModelEvent::PartFinished { index, part });
        }
        self.calls.clear();
        self.function_call = None;
    }
}

/// Tells on more of the arguments of a call, if there is more.
fn told(index: usize, more: String, events: &mut Vec<ModelEvent>) {
    if !more.is_empty() {
        events.push(ModelEvent::ToolCallArguments { index, delta: more.into() });
    }
}

/// Writes one streamed answer. Parts that the wire has no deltas for are left out.
#[derive(Debug, Default)]
pub(crate) struct StreamEncoder {
    /// Clients that did not ask for counts do not expect a chunk without choices.
    with_usage: bool,
    id: String,
    model: String,
    /// From the index of a part to the wire's index of a tool call.
    calls: BTreeMap<usize, usize>,
    /// Parts of which some text has been written.
    written: std::collections::BTreeSet<usize>,
}

impl StreamEncoder {
    /// An encoder for the answer to `request`.
    pub(crate) fn new(request: &ModelRequest) -> Self {
        let options = request.extra.get("stream_options");
        let asked = options.and_then(|options| options.get("include_usage")).and_then(Value::as_bool);
        Self { with_usage: asked.unwrap_or(false), ..Self::default() }
    }

    pub(crate) fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        match event {
            ModelEvent::Started { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                vec![self.chunk(json!({"role": "assistant", "content": ""}), None)]
            }
            ModelEvent::TextDelta { index, text } => {
                self.written.insert(*index);
                vec![self.chunk(json!({"content": text}), None)]
            }
            ModelEvent::ThinkingDelta { index, text } => {
                self.written.insert(*index);
                vec![self.chunk(json!({"reasoning_content": text}), None)]
            }
            ModelEvent::ToolCallStarted { index, id, name } => {
                let wire_index = self.calls.len();
                self.calls.insert(*index, wire_index);
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": wire_index, "id": id, "type": "function", "function": function});
                vec![self.chunk(json!({"tool_calls": [call]}), None)]
            }
            ModelEvent::ToolCallArguments { index, delta } => {
                let call = json!({"index": self.calls.get(index), "function": {"arguments": delta}});
                vec![self.chunk(json!({"tool_calls": [call]}), None)]
            }
            ModelEvent::PartFinished { index, part } => self.whole_part(*index, part),
            ModelEvent::Usage { .. } => Vec::new(),
            ModelEvent::Finished { response } => {
                let mut out = vec![self.chunk(json!({}), Some(encode_stop(&response.stop)))];
                if self.with_usage {
                    let mut usage = self.chunk_body();
                    usage.insert("choices".to_owned(), json!([]));
                    usage.insert("usage".to_owned(), encode_usage(&response.usage));
                    out.push(SseEvent::new(None, Value::Object(usage).to_string()));
                }
                out.push(SseEvent::new(None, DONE));
                out
            }
        }
    }

    /// A part that came in one piece.
    fn whole_part(&mut self, index: usize, part: &Part) -> Vec<SseEvent> {
        if self.written.contains(&index) || self.calls.contains_key(&index) {
            return Vec::new();
        }
        match part {
            Part::Text { text, meta } if is_refusal(meta.as_ref()) => {
                vec![self.chunk(json!({"refusal": text}), None)]
            }
            Part::Text { text, .. } if !text.is_empty() => vec![self.chunk(json!({"content": text}), None)],
            Part::Thinking { text, meta } if !text.is_empty() => {
                let field = reasoning_field(meta.as_ref(), true).unwrap_or_default();
                vec![self.chunk(Value::Object(Map::from_iter([(field, text.as_str().into())])), None)]
            }
            Part::ToolCall(call) => {
                let start =
                    ModelEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() };
                let arguments = super::content::arguments_text(call).into();
                let mut out = self.push(&start);
                out.extend(self.push(&ModelEvent::ToolCallArguments { index, delta: arguments }));
                out
            }
            _ => Vec::new(),
        }
    }

    fn chunk(&self, delta: Value, finish_reason: Option<&str>) -> SseEvent {
        let mut body = self.chunk_body();
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        body.insert("choices".to_owned(), json!([choice]));
        SseEvent::new(None, Value::Object(body).to_string())
    }

    fn chunk_body(&self) -> Map<String, Value> {
        Map::from_iter([
            ("id".to_owned(), Value::from(self.id.as_str())),
            ("object".to_owned(), Value::from("chat.completion.chunk")),
            ("created".to_owned(), Value::from(0)),
            ("model".to_owned(), Value::from(self.model.as_str())),
        ])
    }
}
