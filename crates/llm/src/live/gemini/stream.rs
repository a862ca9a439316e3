//! Streamed answers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::{
    API, Added, GROUNDING, LOG_PROBABILITIES, PartMark, candidates, check_form, edit_candidate, either,
    find_in_candidate, key, parts,
};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::Node;
use crate::live::steps::step;
use crate::live::stream::{Edits, Last, Reading, StreamWire, TextPiece, Waiting};
use crate::live::{PartKey, TextKind, choice_number, spaced_note};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::gemini::{CandidateDecoder, Head, candidates_of};
use crate::wire::{GEMINI_ANSWER, not_json, parse_message};

const WHAT: &str = "stream event";

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct GeminiStream {
    head: Head,
    /// What every event of this answer says besides its candidates.
    envelope: Map<String, Value>,
    usage: Option<Value>,
    candidates: BTreeMap<u32, Candidate>,
    responses: Vec<ModelResponse>,
}

#[derive(Debug)]
struct Candidate {
    decoder: CandidateDecoder,
    texts: BTreeMap<usize, TextId>,
    /// Calls in the order in which they began.
    calls: Vec<PartKey>,
    /// The signature of a removed call that no call has taken over yet.
    orphan: Option<String>,
    finished_at_client: bool,
}

/// What an event says in each candidate that it has, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Mark(Arc<[CandidateMark]>);

/// What an event says in one candidate.
#[derive(Debug)]
struct CandidateMark {
    choice: u32,
    parts: Vec<PartMark>,
    /// Texts that end with this event, and before which of its parts.
    ends: Vec<(usize, TextId)>,
    finishes: bool,
    /// It only adds to a text that has begun before.
    is_more: bool,
}

impl Candidate {
    fn new(choice: u32, head: &Head) -> Self {
        Self {
            decoder: CandidateDecoder::new(choice.into(), head),
            texts: BTreeMap::new(),
            calls: Vec::new(),
            orphan: None,
            finished_at_client: false,
        }
    }

    /// Reads what an event says here, and enters its texts and calls into the ledger.
    fn read(
        &mut self,
        choice: u32,
        said: &Value,
        node: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<(CandidateMark, Vec<TextPiece>), WireError> {
        let (began, had_ended) = (self.texts.len(), self.decoder.has_ended());
        let events = self.decoder.push(said)?;
        for event in &events {
            match event {
                ModelEvent::TextDelta { index, .. } | ModelEvent::ThinkingDelta { index, .. } => {
                    let kind = match event {
                        ModelEvent::ThinkingDelta { .. } => TextKind::Thinking,
                        _ => TextKind::Visible,
                    };
                    let begin = || ledger.begin(key(choice, *index), kind, false);
                    self.texts.entry(*index).or_insert_with(begin);
                }
                ModelEvent::ToolCallStarted { index, .. } => self.calls.push(key(choice, *index)),
                _ => {}
            }
        }
        let items = parts(node).map(|parts| parts.items()).unwrap_or_default();
        if items.len() != self.decoder.places().len() {
            return Err(out_of_order("the parts of an event are not what they seem"));
        }
        let (mut marks, mut ends, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
        for (item, place) in items.iter().zip(self.decoder.places()) {
            marks.push(match place.map(|part| (part, self.texts.get(&part))) {
                Some((_, Some(id))) => {
                    let literal = item.get_some("text").ok_or_else(|| out_of_order("a text without text"))?;
                    let piece = ledger.append(*id, &literal.string().unwrap_or_default());
                    pieces.push(TextPiece { id: *id, piece, literal: literal.span() });
                    PartMark::Text(*id)
                }
                // In order, since parts are numbered as they begin.
                Some((part, None)) if self.calls.binary_search(&key(choice, part)).is_ok() => {
                    PartMark::Call(key(choice, part))
                }
                _ => PartMark::Other,
            });
        }
        let texts = self.decoder.places().iter().zip(0..).filter_map(|(part, at)| Some(((*part)?, at)));
        let last: BTreeMap<usize, usize> = texts.collect();
        for event in &events {
            step();
            if let ModelEvent::PartFinished { index, .. } = event
                && let Some(id) = self.texts.get(index)
            {
                ledger.close(*id);
                ends.push((last.get(index).map_or(0, |last| last + 1), *id));
            }
        }
        // A text that has just begun or ends here is not like the events around it.
        let is_more = matches!(marks.as_slice(), [PartMark::Text(_)])
            && began == self.texts.len()
            && ends.is_empty()
            && says_nothing_else(node);
        let finishes = self.decoder.has_ended() && !had_ended;
        if finishes {
            ledger.end_choice(choice);
        }
        Ok((CandidateMark { choice, parts: marks, ends, finishes, is_more }, pieces))
    }
}

impl GeminiStream {
    pub(crate) fn new(model: &str) -> Self {
        let envelope = json!({"modelVersion": model, "responseId": "withheld"});
        Self {
            head: Head::default(),
            envelope: envelope.as_object().cloned().unwrap_or_default(),
            usage: None,
            candidates: BTreeMap::new(),
            responses: Vec::new(),
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
}

/// The text behind the end of texts that end with this event, and the note.
fn added(mark: &CandidateMark, edits: &Edits<'_>) -> Added {
    let mut added = Added::default();
    for (place, id) in &mark.ends {
        match (edits.ledger.tail(*id), edits.ledger.kind(*id)) {
            (Some(tail), Some(TextKind::Thinking)) => added.thought(*place, &tail),
            (Some(tail), _) => added.text(*place, &tail),
            (None, _) => {}
        }
    }
    if let Some(note) = edits.calls.note(mark.choice).filter(|_| mark.finishes) {
        added.text(mark.parts.len(), &spaced_note(note, edits.ledger.choice_has_visible(mark.choice)));
    }
    added
}

impl StreamWire for GeminiStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        if self.is_whole() {
            return Err(out_of_order("something follows the end"));
        }
        let value = parse_message(data.as_bytes()).map_err(|error| not_json(WHAT, &error))?;
        self.head.push(name, &value)?;
        self.head.usage(&value)?;
        let root = Node::root(data).ok_or(WireError::Truncated)?;
        check_form(&root)?;
        ledger.findings.fields(&root, &GEMINI_ANSWER, false);
        self.take_head(&value);
        let (mut marks, mut texts, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for ((index, said), node) in candidates_of(&value)?.into_iter().zip(candidates(&root)) {
            let choice = choice_number(index)?;
            if !seen.insert(choice) {
                return Err(out_of_order("an event has a candidate twice"));
            }
            let candidate =
                self.candidates.entry(choice).or_insert_with(|| Candidate::new(choice, &self.head));
            find_in_candidate(&node, &mut ledger.findings)?;
            let (mark, pieces) = candidate.read(choice, said, &node, ledger)?;
            if may_quote(&node, &mark.parts) {
                repeats.push(choice);
            }
            texts.extend(pieces);
            marks.push(mark);
        }
        let call = marks.iter().flat_map(|mark| &mark.parts).any(|part| matches!(part, PartMark::Call(_)));
        let is_more = matches!(marks.as_slice(), [only] if only.is_more);
        let padding = is_more.then(Vec::new);
        Ok(Reading { texts, call, repeats, padding, ..Reading::plain(Mark(marks.into())) })
    }

    fn more_text(&mut self, mark: &Mark, more: &str) {
        if let [only] = &*mark.0
            && let Some(candidate) = self.candidates.get_mut(&only.choice)
        {
            candidate.decoder.extend_text(more);
        }
    }

    fn finish(&mut self, ledger: &mut Ledger) -> Result<(), WireError> {
        if self.is_whole() {
            return Ok(());
        }
        if self.candidates.is_empty() {
            // The provider refused the prompt, or has said nothing yet.
            self.candidates.insert(0, Candidate::new(0, &self.head));
        }
        if self.candidates.keys().zip(0..).any(|(index, expected)| *index != expected) {
            return Err(out_of_order("the indexes of the candidates have a gap"));
        }
        let alone = self.candidates.len() == 1;
        let (head, nothing) = (&self.head, Map::new());
        let extra = if alone { head.extra() } else { &nothing };
        let each = self.candidates.values_mut();
        self.responses = each
            .map(|candidate| candidate.decoder.finish(head, extra, &mut Vec::new()))
            .collect::<Result<_, _>>()?;
        for (choice, candidate) in &self.candidates {
            candidate.texts.values().for_each(|id| ledger.close(*id));
            ledger.end_choice(*choice);
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        !self.responses.is_empty()
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.candidates.get(&choice)?.calls.get(call).copied()
    }

    fn write(&mut self, frame: &Waiting<Mark>, mark: &Mark, edits: &Edits<'_>, out: &mut BytesMut) {
        frame.write_edited(edits, out, |root| {
            let mut splices = frame.text_splices(edits.ledger);
            for (mark, node) in mark.0.iter().zip(candidates(root)) {
                let Some(candidate) = self.candidates.get_mut(&mark.choice) else { continue };
                let (added, orphan) = (added(mark, edits), &mut candidate.orphan);
                edit_candidate(&node, mark.choice, &mark.parts, added, edits, orphan, &mut splices);
            }
            splices
        });
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        for mark in mark.0.iter() {
            mark.ends.iter().for_each(|(_, id)| ledger.end_left(*id));
            if let Some(candidate) = self.candidates.get_mut(&mark.choice) {
                candidate.finished_at_client |= mark.finishes;
            }
        }
    }

    fn end_with(&mut self, note: &str, _waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Last {
        let has_left =
            |id: &TextId| edits.ledger.kind(*id) == Some(TextKind::Visible) && edits.ledger.has_left(*id);
        let last = |choice: u32, has_text: bool| {
            let part = json!({"text": spaced_note(note, has_text)});
            let content = json!({"parts": [part], "role": "model"});
            json!({"content": content, "finishReason": "STOP", "index": choice})
        };
        let open = self.candidates.iter().filter(|(_, candidate)| !candidate.finished_at_client);
        let mut ended: Vec<Value> =
            open.map(|(choice, open)| last(*choice, open.texts.values().any(has_left))).collect();
        if self.candidates.is_empty() {
            ended.push(last(0, false));
        }
        if ended.is_empty() {
            return Last::Nothing;
        }
        let mut body = Map::new();
        body.insert("candidates".to_owned(), ended.into());
        body.extend(self.usage.clone().map(|usage| ("usageMetadata".to_owned(), usage)));
        body.extend(self.envelope.clone());
        Last::Event(SseEvent::new(None, Value::Object(body).to_string()))
    }

    fn error_event(&self, error: &ProviderError) -> SseEvent {
        API.encode_stream_error(error)
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
fn may_quote(candidate: &Node<'_>, marks: &[PartMark]) -> bool {
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
        .zip(marks)
        .filter(|(_, part)| matches!(part, PartMark::Text(_)))
        .filter_map(|(item, _)| item.get_some("text")?.string().map(std::borrow::Cow::into_owned))
        .collect();
    spelled != said
}
