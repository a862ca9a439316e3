//! Streamed answers: partial answers, one after the other.

use std::collections::BTreeSet;

use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{
    Calls, Place, call_meta, decode_part, encode_part, is_piece, kind, refuse_unknown, text_fields,
};
use super::error::decode_error;
use super::names::{canonical, list};
use super::partial::PartialArgs;
use super::response::{
    BODY_KNOWN, blocked, candidate_extra, candidates_of, extra_json, finish_reason, last_piece, stop, usage,
};
use crate::error::{WireError, out_of_order};
use crate::model::{ModelEvent, ModelResponse, ToolCallBuilder};
use crate::sse::SseEvent;
use crate::wire::call_ids::CallIds;
use crate::wire::json::{Object, parse};
use crate::wire::meta::wrap;

const WHAT: &str = "stream event";

/// Reads one streamed answer of one candidate.
///
/// The end of the bytes is the end of the answer, if a reason to stop was given.
#[derive(Debug, Default)]
pub(crate) struct StreamDecoder {
    done: bool,
    head: Head,
    /// `None` until it has begun.
    candidate: Option<CandidateDecoder>,
}

/// What the events of an answer say about the answer as a whole.
#[derive(Debug, Default)]
pub(crate) struct Head {
    started: bool,
    id: String,
    model: String,
    extra: Map<String, Value>,
    usage: TokenUsage,
}

/// Reads one candidate of a streamed answer.
///
/// Texts of one kind that follow each other are one part, up to a signature, which ends its part. A function
/// call comes whole, or argument by argument; then nothing may come between its pieces.
#[derive(Debug)]
pub(crate) struct CandidateDecoder {
    extra: Map<String, Value>,
    reason: Option<String>,
    ids: CallIds,
    open: Option<OpenPart>,
    finished: Vec<Part>,
    /// For each part in the last event the part of the answer that it belongs to; `None` if it says nothing.
    places: Vec<Option<usize>>,
}

#[derive(Debug)]
enum OpenPart {
    Text { thought: bool, text: String, meta: Map<String, Value> },
    ToolCall { call: ToolCallBuilder, has_id: bool, args: PartialArgs, meta: Map<String, Value> },
}

impl StreamDecoder {
    pub(crate) fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        if self.done {
            return Err(out_of_order("something follows the end"));
        }
        let value = parse(WHAT, &event.data)?;
        let mut events = self.head.push(event.event.as_deref(), &value)?;
        match candidates_of(&value)?.as_slice() {
            [] => {}
            [(0, only)] => {
                let new = || CandidateDecoder::new(0, &self.head);
                events.extend(self.candidate.get_or_insert_with(new).push(only)?);
            }
            _ => return Err(WireError::SeveralChoices),
        }
        events.extend(self.head.usage(&value)?);
        Ok(events)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        if self.done {
            return Ok(Vec::new());
        }
        let mut events = Vec::new();
        let new = || CandidateDecoder::new(0, &self.head);
        let candidate = self.candidate.get_or_insert_with(new);
        let response = candidate.finish(&self.head, &self.head.extra, &mut events)?;
        self.done = true;
        events.push(ModelEvent::Finished { response: Box::new(response) });
        Ok(events)
    }
}

impl Head {
    /// Reads what an event says about the answer.
    pub(crate) fn push(&mut self, name: Option<&str>, event: &Value) -> Result<Vec<ModelEvent>, WireError> {
        let body = canonical(WHAT, event)?;
        let body = Object::of(WHAT, &body)?;
        if body.get("error").is_some() || name == Some("error") {
            return Err(decode_error(0, event).into());
        }
        for (key, value) in body.rest(BODY_KNOWN) {
            if !value.is_null() {
                self.extra.insert(key, value);
            }
        }
        let mut events = Vec::new();
        if !std::mem::replace(&mut self.started, true) {
            self.id = body.string("responseId")?.unwrap_or_default().to_owned();
            self.model = body.string("modelVersion")?.unwrap_or_default().to_owned();
            events.push(ModelEvent::Started { id: self.id.clone(), model: self.model.clone() });
        }
        Ok(events)
    }

    /// Reads the counts of an event.
    pub(crate) fn usage(&mut self, event: &Value) -> Result<Option<ModelEvent>, WireError> {
        let body = canonical(WHAT, event)?;
        let Some(usage) = usage(Object::of(WHAT, &body)?, &mut self.extra)? else { return Ok(None) };
        self.usage = usage;
        Ok(Some(ModelEvent::Usage { usage }))
    }

    /// What was said besides the candidates.
    pub(crate) fn extra(&self) -> &Map<String, Value> {
        &self.extra
    }
}

impl CandidateDecoder {
    /// A decoder for the candidate of this index.
    pub(crate) fn new(index: u64, head: &Head) -> Self {
        Self {
            extra: Map::new(),
            reason: None,
            ids: CallIds::of_answer(&head.id, index),
            open: None,
            finished: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Reads what an event says in this candidate.
    pub(crate) fn push(&mut self, candidate: &Value) -> Result<Vec<ModelEvent>, WireError> {
        self.places.clear();
        let mut events = Vec::new();
        let candidate = canonical("candidate", candidate)?;
        let candidate = Object::of("candidate", &candidate)?;
        if let Some(content) = candidate.get("content") {
            let content = canonical("content", content)?;
            let content = Object::of("content", &content)?;
            for part in list("content", "parts", content.get("parts"))? {
                self.part(part, &mut events)?;
            }
        }
        candidate_extra(candidate, &mut self.extra);
        if let Some(reason) = finish_reason(candidate)? {
            if self.reason.as_deref().is_some_and(|known| known != reason) {
                return Err(out_of_order("two finish reasons"));
            }
            self.reason = Some(reason.into_owned());
            self.close(&mut events)?;
        }
        Ok(events)
    }

    /// For each part in the last event the part of the answer that it belongs to.
    pub(crate) fn places(&self) -> &[Option<usize>] {
        &self.places
    }

    /// Whether a reason to stop was given.
    pub(crate) fn has_ended(&self) -> bool {
        self.reason.is_some()
    }

    /// More text for the part that is open, in an event like the last one.
    pub(crate) fn extend_text(&mut self, more: &str) {
        if let Some(OpenPart::Text { text, .. }) = &mut self.open {
            text.push_str(more);
        }
    }

    /// The answer in this candidate, with `extra` said besides.
    pub(crate) fn finish(
        &mut self,
        head: &Head,
        extra: &Map<String, Value>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<ModelResponse, WireError> {
        if self.reason.is_none() && !blocked(&head.extra) {
            return Err(WireError::Truncated);
        }
        self.close(events)?;
        let mut extra = extra.clone();
        extra.append(&mut self.extra);
        let content = std::mem::take(&mut self.finished);
        let stop = stop(self.reason.as_deref(), &content, &mut extra);
        Ok(ModelResponse {
            id: head.id.clone(),
            model: head.model.clone(),
            message: Message::new(Role::Assistant, content),
            stop,
            usage: head.usage,
            extra: extra_json(extra),
        })
    }

    fn part(&mut self, value: &Value, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        let canonical_part = canonical("part", value)?;
        let part = Object::of("part", &canonical_part)?;
        let kind = kind(part)?;
        if kind.is_some() {
            refuse_unknown(part, &canonical_part)?;
        }
        if kind == Some("text") {
            return self.text(part, events);
        }
        self.refuse_after_end()?;
        if kind == Some("functionCall") {
            let call = canonical("function call", part.get("functionCall").unwrap_or(&Value::Null))?;
            let call = Object::of("function call", &call)?;
            if is_piece(call)? || matches!(self.open, Some(OpenPart::ToolCall { .. })) {
                return self.call_piece(part, call, events);
            }
        }
        self.close(events)?;
        let whole = decode_part(value, Place::Answer, &mut self.ids)?;
        let index = self.finished.len();
        self.places.push(Some(index));
        if let Part::ToolCall(call) = &whole {
            let arguments = match &call.malformed {
                Some(text) => text.to_string(),
                None => call.arguments.to_value().to_string(),
            };
            events.push(ModelEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() });
            events.push(ModelEvent::ToolCallArguments { index, delta: arguments.into() });
        }
        self.finish_part(whole, events);
        Ok(())
    }

    fn refuse_after_end(&self) -> Result<(), WireError> {
        if self.reason.is_some() { Err(out_of_order("content after the finish reason")) } else { Ok(()) }
    }

    fn text(&mut self, part: Object<'_>, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        let more = part.required_string("text")?;
        let is_thought = part.bool("thought")?.unwrap_or(false);
        let fields = text_fields(part);
        if more.is_empty() && fields.is_empty() {
            self.places.push(None);
            return Ok(());
        }
        self.refuse_after_end()?;
        match &self.open {
            Some(OpenPart::Text { thought, .. }) if *thought == is_thought => {}
            Some(OpenPart::ToolCall { .. }) => return Err(out_of_order("text inside a function call")),
            _ => {
                self.close(events)?;
                self.open =
                    Some(OpenPart::Text { thought: is_thought, text: String::new(), meta: Map::new() });
            }
        }
        let index = self.finished.len();
        self.places.push(Some(index));
        let signed = fields.contains_key("thoughtSignature");
        if let Some(OpenPart::Text { text, meta, .. }) = &mut self.open {
            text.push_str(more);
            meta.extend(fields);
        }
        if !more.is_empty() {
            let text = more.into();
            events.push(match is_thought {
                true => ModelEvent::ThinkingDelta { index, text },
                false => ModelEvent::TextDelta { index, text },
            });
        }
        if signed { self.close(events) } else { Ok(()) }
    }

    /// A piece of a call that comes argument by argument: the first one has the name, the last one says
    /// that nothing follows.
    fn call_piece(
        &mut self,
        part: Object<'_>,
        call: Object<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let name = call.string("name")?.filter(|name| !name.is_empty());
        if !matches!(self.open, Some(OpenPart::ToolCall { .. })) {
            let name = name.ok_or_else(|| out_of_order("a function call begins without a name"))?;
            self.close(events)?;
            self.start_call(name, call, events)?;
        } else if name.is_some() || call.get("args").is_some() || call.get("id").is_some() {
            return Err(out_of_order("a function call begins inside another one"));
        }
        self.places.push(Some(self.finished.len()));
        let Some(OpenPart::ToolCall { args, meta, .. }) = &mut self.open else { return Ok(()) };
        for piece in list("function call", "partialArgs", call.get("partialArgs"))? {
            args.take(piece)?;
        }
        meta.extend(part.rest(&["functionCall"]));
        if call.bool("willContinue")?.unwrap_or(false) { Ok(()) } else { self.close_call(events) }
    }

    fn start_call(
        &mut self,
        name: &str,
        call: Object<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let given = call.object("args")?.map(|args| args.rest(&[])).unwrap_or_default();
        let own_id = call.string("id")?.filter(|id| !id.is_empty());
        let id = match own_id {
            Some(id) => id.into(),
            None => self.ids.make_up(name, &Value::Null),
        };
        let index = self.finished.len();
        events.push(ModelEvent::ToolCallStarted { index, id: id.clone(), name: name.to_owned() });
        let builder = ToolCallBuilder { id, name: name.to_owned(), arguments: String::new(), meta: None };
        self.open = Some(OpenPart::ToolCall {
            call: builder,
            has_id: own_id.is_some(),
            args: PartialArgs::starting_with(given),
            meta: Map::new(),
        });
        Ok(())
    }

    fn close_call(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        match self.open.take() {
            Some(OpenPart::ToolCall { mut call, has_id, args, meta }) => {
                let index = self.finished.len();
                call.arguments = args.text();
                call.meta = call_meta(meta, has_id);
                events.push(ModelEvent::ToolCallArguments { index, delta: call.arguments.as_str().into() });
                self.finish_part(Part::ToolCall(call.finish()), events);
                Ok(())
            }
            other => {
                self.open = other;
                Ok(())
            }
        }
    }

    /// Ends the open part.
    ///
    /// # Errors
    /// If it is a call of which more was to come.
    fn close(&mut self, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        match self.open.take() {
            None => Ok(()),
            Some(OpenPart::ToolCall { .. }) => Err(out_of_order("a function call is left unfinished")),
            Some(OpenPart::Text { thought, text, mut meta }) => {
                let part = if thought {
                    meta.insert("thought".to_owned(), true.into());
                    Part::Thinking { text: text.into(), meta: wrap(API, meta) }
                } else {
                    Part::Text { text: text.into(), meta: wrap(API, meta) }
                };
                self.finish_part(part, events);
                Ok(())
            }
        }
    }

    fn finish_part(&mut self, part: Part, events: &mut Vec<ModelEvent>) {
        let index = self.finished.len();
        self.finished.push(part.clone());
        events.push(ModelEvent::PartFinished { index, part });
    }
}

/// Writes one streamed answer. Function calls are written whole.
#[derive(Debug, Default)]
pub(crate) struct StreamEncoder {
    id: String,
    model: String,
    /// Parts of which some text has been written.
    written: BTreeSet<usize>,
}

impl StreamEncoder {
    pub(crate) fn push(&mut self, event: &ModelEvent) -> Vec<SseEvent> {
        match event {
            ModelEvent::Started { id, model } => {
                self.id.clone_from(id);
                self.model.clone_from(model);
                Vec::new()
            }
            ModelEvent::TextDelta { index, text } => {
                self.written.insert(*index);
                vec![self.piece(json!({"text": text}))]
            }
            ModelEvent::ThinkingDelta { index, text } => {
                self.written.insert(*index);
                vec![self.piece(json!({"text": text, "thought": true}))]
            }
            ModelEvent::PartFinished { index, part } => self.end_of_part(*index, part),
            // Calls are written whole, counts with the end.
            ModelEvent::ToolCallStarted { .. }
            | ModelEvent::ToolCallArguments { .. }
            | ModelEvent::Usage { .. } => Vec::new(),
            ModelEvent::Finished { response } => {
                // Clients take an answer for broken if its last piece has no content.
                vec![SseEvent::new(None, last_piece(response, vec![json!({"text": ""})]).to_string())]
            }
        }
    }

    /// A part that came in one piece, or what is attached to one whose text is written already.
    fn end_of_part(&self, index: usize, part: &Part) -> Vec<SseEvent> {
        let Some(mut encoded) = encode_part(part, Place::Answer, &Calls::default()) else {
            return Vec::new();
        };
        if self.written.contains(&index) {
            let Value::Object(fields) = &mut encoded else { return Vec::new() };
            let attached = fields.keys().any(|key| !matches!(key.as_str(), "text" | "thought"));
            if !attached {
                return Vec::new();
            }
            fields.insert("text".to_owned(), "".into());
        }
        vec![self.piece(encoded)]
    }

    fn piece(&self, part: Value) -> SseEvent {
        let content = json!({"parts": [part], "role": "model"});
        let body = json!({
            "candidates": [{"content": content, "index": 0}],
            "modelVersion": self.model,
            "responseId": self.id,
        });
        SseEvent::new(None, body.to_string())
    }
}
