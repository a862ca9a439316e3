//! Streamed answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::{
    API, Added, CHOICE, GROUNDING, LOG_PROBABILITIES, PartMark, candidate, check_form, edit_candidate,
    either, key, parts, spaced_note,
};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::Node;
use crate::live::stream::{Edits, Reading, StreamWire, TextPiece, Waiting};
use crate::live::{PartKey, TextKind};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::gemini::StreamDecoder;
use crate::wire::{not_json, parse_message};

const WHAT: &str = "stream event";

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct GeminiStream {
    decoder: StreamDecoder,
    /// What every event of this answer says besides its candidate.
    envelope: Map<String, Value>,
    usage: Option<Value>,
    texts: BTreeMap<usize, TextId>,
    /// Calls in the order in which they began.
    calls: Vec<PartKey>,
    responses: Vec<ModelResponse>,
    /// The signature of a removed call that no call has taken over yet.
    orphan: Option<String>,
    finished_at_client: bool,
}

/// What an event is.
#[derive(Clone, Debug)]
pub(crate) struct Mark(Arc<EventMark>);

#[derive(Debug, Default)]
struct EventMark {
    parts: Vec<PartMark>,
    /// Texts that end with this event, and before which of its parts.
    ends: Vec<(usize, TextId)>,
    finishes: bool,
}

impl GeminiStream {
    pub(crate) fn new(model: &str) -> Self {
        let envelope = json!({"modelVersion": model, "responseId": "withheld"});
        Self {
            decoder: StreamDecoder::default(),
            envelope: envelope.as_object().cloned().unwrap_or_default(),
            usage: None,
            texts: BTreeMap::new(),
            calls: Vec::new(),
            responses: Vec::new(),
            orphan: None,
            finished_at_client: false,
        }
    }

    fn take_head(&mut self, value: &Value) {
        for (spellings, name) in [
            (["modelVersion", "model_version"], "modelVersion"),
            (["responseId", "response_id"], "responseId"),
        ] {
            if let Some(said) = spellings.into_iter().find_map(|spelling| value.get(spelling)) {
                self.envelope.insert(name.to_owned(), said.clone());
            }
        }
        let usage = ["usageMetadata", "usage_metadata"].into_iter().find_map(|name| value.get(name));
        self.usage = usage.cloned().or_else(|| self.usage.take());
    }

    /// Enters the texts and calls of an event into the ledger.
    fn enter(
        &mut self,
        events: &[ModelEvent],
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<(EventMark, Vec<TextPiece>), WireError> {
        for event in events {
            match event {
                ModelEvent::TextDelta { index, .. } | ModelEvent::ThinkingDelta { index, .. } => {
                    let kind = match event {
                        ModelEvent::ThinkingDelta { .. } => TextKind::Thinking,
                        _ => TextKind::Visible,
                    };
                    self.texts.entry(*index).or_insert_with(|| ledger.begin(key(*index), kind, false));
                }
                ModelEvent::ToolCallStarted { index, .. } => self.calls.push(key(*index)),
                _ => {}
            }
        }
        let candidate = candidate(root);
        let items = candidate.as_ref().and_then(parts).map(|parts| parts.items()).unwrap_or_default();
        if items.len() != self.decoder.places().len() {
            return Err(out_of_order("the parts of an event are not what they seem"));
        }
        let (mut mark, mut pieces) = (EventMark::default(), Vec::new());
        for (item, place) in items.iter().zip(self.decoder.places()) {
            mark.parts.push(match place.map(|part| (part, self.texts.get(&part))) {
                Some((_, Some(id))) => {
                    let literal = item.get_some("text").ok_or_else(|| out_of_order("a text without text"))?;
                    let piece = ledger.append(*id, &literal.string().unwrap_or_default());
                    pieces.push(TextPiece { id: *id, piece, literal: literal.span() });
                    PartMark::Text(*id)
                }
                Some((part, None)) if self.calls.contains(&key(part)) => PartMark::Call(key(part)),
                _ => PartMark::Other,
            });
        }
        for event in events {
            if let ModelEvent::PartFinished { index, .. } = event
                && let Some(id) = self.texts.get(index)
            {
                ledger.close(*id);
                let last = mark.parts.iter().rposition(|part| *part == PartMark::Text(*id));
                mark.ends.push((last.map_or(0, |last| last + 1), *id));
            }
        }
        let reason = candidate.and_then(|candidate| either(&candidate, ["finishReason", "finish_reason"]));
        mark.finishes = reason.is_some_and(|reason| reason.raw() != "\"\"");
        Ok((mark, pieces))
    }

    /// The text behind the end of texts that end with this event, and the note.
    fn added(&self, mark: &EventMark, edits: &Edits<'_>) -> Added {
        let mut added = Added::default();
        for (place, id) in &mark.ends {
            match (edits.ledger.tail(*id), edits.ledger.kind(*id)) {
                (Some(tail), Some(TextKind::Thinking)) => added.thought(*place, &tail),
                (Some(tail), _) => added.text(*place, &tail),
                (None, _) => {}
            }
        }
        if let Some(note) = edits.calls.note(CHOICE).filter(|_| mark.finishes) {
            added.text(mark.parts.len(), &spaced_note(note, edits.ledger.choice_has_visible(CHOICE)));
        }
        added
    }
}

impl StreamWire for GeminiStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        let value = parse_message(data.as_bytes()).map_err(|error| not_json(WHAT, &error))?;
        let events = self.decoder.push_value(name, &value)?;
        let root = Node::root(data).ok_or(WireError::Truncated)?;
        check_form(&root)?;
        self.take_head(&value);
        let began = self.texts.len();
        let (mark, texts) = self.enter(&events, &root, ledger)?;
        let call = mark.parts.iter().any(|part| matches!(part, PartMark::Call(_)));
        let quotes = candidate(&root).is_some_and(|candidate| may_quote(&candidate, &mark));
        // A text that has just begun or ends here is not like the events around it.
        let is_more = matches!(mark.parts.as_slice(), [PartMark::Text(_)])
            && began == self.texts.len()
            && mark.ends.is_empty()
            && candidate(&root).is_some_and(|candidate| says_nothing_else(&candidate));
        Ok(Reading {
            mark: Mark(Arc::new(mark)),
            texts,
            call,
            repeats: quotes.then_some(CHOICE),
            padding: is_more.then(Vec::new),
        })
    }

    fn more_text(&mut self, _mark: &Mark, more: &str) {
        self.decoder.extend_text(more);
    }

    fn finish(&mut self, ledger: &mut Ledger) -> Result<(), WireError> {
        for event in self.decoder.finish()? {
            if let ModelEvent::Finished { response } = event {
                self.responses = vec![*response];
            }
        }
        self.texts.values().for_each(|id| ledger.close(*id));
        Ok(())
    }

    fn is_whole(&self) -> bool {
        !self.responses.is_empty()
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls.get(call).copied().filter(|_| choice == CHOICE)
    }

    fn write(&mut self, frame: &Waiting<Mark>, mark: &Mark, edits: &Edits<'_>, out: &mut BytesMut) {
        let added = self.added(&mark.0, edits);
        let mut orphan = self.orphan.take();
        frame.write_edited(out, |root| {
            let mut splices = frame.text_splices(edits.ledger);
            if let Some(node) = candidate(root) {
                edit_candidate(&node, &mark.0.parts, added, edits, &mut orphan, &mut splices);
            }
            splices
        });
        self.orphan = orphan;
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        mark.0.ends.iter().for_each(|(_, id)| ledger.end_left(*id));
        self.finished_at_client |= mark.0.finishes;
    }

    fn end_with(&mut self, note: &str, _waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Vec<u8> {
        if self.finished_at_client {
            return Vec::new();
        }
        let mut texts = self.texts.values();
        let has_text =
            texts.any(|id| edits.ledger.kind(*id) == Some(TextKind::Visible) && edits.ledger.has_left(*id));
        let part = json!({"text": spaced_note(note, has_text)});
        let content = json!({"parts": [part], "role": "model"});
        let mut body = Map::new();
        let last = json!({"content": content, "finishReason": "STOP", "index": CHOICE});
        body.insert("candidates".to_owned(), json!([last]));
        body.extend(self.usage.clone().map(|usage| ("usageMetadata".to_owned(), usage)));
        body.extend(self.envelope.clone());
        SseEvent::new(None, Value::Object(body).to_string()).encode().to_vec()
    }

    fn error_frame(&self, error: &ProviderError) -> Bytes {
        API.encode_stream_error(error).encode()
    }

    fn keep_alive(&self) -> Bytes {
        // Readers of this wire take comments for data; a blank line without data is skipped by all.
        Bytes::from_static(b"\n\n")
    }
}

/// Whether a candidate has its content only: a copy of the text would differ from event to event.
fn says_nothing_else(candidate: &Node<'_>) -> bool {
    candidate.members().iter().all(|member| matches!(&*member.key, "content" | "index"))
}

/// Whether an event may quote text that it does not carry.
fn may_quote(candidate: &Node<'_>, mark: &EventMark) -> bool {
    if either(candidate, GROUNDING).is_some() {
        return true;
    }
    let Some(probabilities) = either(candidate, LOG_PROBABILITIES) else { return false };
    let chosen = either(&probabilities, ["chosenCandidates", "chosen_candidates"]);
    let tokens = chosen.map(|chosen| chosen.items()).unwrap_or_default();
    let spelled: String = tokens
        .iter()
        .filter_map(|token| token.get_some("token")?.string().map(std::borrow::Cow::into_owned))
        .collect();
    let items = parts(candidate).map(|parts| parts.items()).unwrap_or_default();
    let said: String = items
        .iter()
        .zip(&mark.parts)
        .filter(|(_, part)| matches!(part, PartMark::Text(_)))
        .filter_map(|(item, _)| item.get_some("text")?.string().map(std::borrow::Cow::into_owned))
        .collect();
    spelled != said
}
