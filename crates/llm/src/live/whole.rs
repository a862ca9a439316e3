//! Answers in one piece: what all wires share.
//!
//! The body is read when it is there in full, its texts and calls are judged like those of a stream, and it
//! leaves as it came, or with the places spliced that were edited.

use std::fmt;
use std::mem;
use std::ops::Range;

use bytes::Bytes;

use super::asked::Asked;
use super::findings::{FieldPlace, Findings, FreshResult, ResultKey, Word};
use super::ledger::Ledger;
use super::span::{Node, Splices, quote};
use super::stream::{Calls, Edits, TextPiece};
use super::unknown::{UNKNOWN_CHOICE, UnknownFrames};
use super::{AlreadySent, AnswerEditor, FreshText, PartKey, TextEdit};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::model::{ModelResponse, StopReason};
use crate::wire::{Api, not_json, parse_message};
use backstop_hooks::conversation::Part;

/// What one wire knows about its whole answers.
pub(crate) trait WholeWire: fmt::Debug + Send {
    /// The wire.
    const API: Api;

    /// Reads a body that is strict JSON: checks it, and enters its texts into the ledger.
    fn read(
        &mut self,
        body: &serde_json::Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError>;

    /// What was said, one per choice.
    fn responses(&self) -> &[ModelResponse];

    /// The part of a tool call.
    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey>;

    /// Whether there is a tool call.
    fn has_calls(&self) -> bool;

    /// Edits what depends on the edits of texts and calls; the texts themselves are in `splices` already.
    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices);
}

/// A whole answer on its way.
#[derive(Debug)]
pub(crate) struct WholeEditor<W> {
    wire: W,
    model: String,
    body: Vec<u8>,
    texts: Vec<TextPiece>,
    ledger: Ledger,
    calls: Calls,
    /// Fields that nobody knows, as calls.
    unknown: UnknownFrames,
    fields: Vec<(PartKey, FieldPlace)>,
    results: Vec<(ResultKey, Range<usize>)>,
    phase: Phase,
    sent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Arriving,
    /// All there, and read.
    Whole,
    Failed,
    /// The body is one of ours.
    Closed,
    Sent,
}

impl<W: WholeWire> WholeEditor<W> {
    pub(crate) fn new(wire: W, model: &str, asked: Asked) -> Self {
        Self {
            wire,
            model: model.to_owned(),
            body: Vec::new(),
            texts: Vec::new(),
            ledger: Ledger::new(Findings::new(asked)),
            calls: Calls::default(),
            unknown: UnknownFrames::default(),
            fields: Vec::new(),
            results: Vec::new(),
            phase: Phase::Arriving,
            sent: false,
        }
    }

    fn read(&mut self) -> Result<(), WireError> {
        let value = parse_message(&self.body).map_err(|error| {
            if error.is_eof() { WireError::Truncated } else { not_json("the answer", &error) }
        })?;
        let text = str::from_utf8(&self.body).map_err(|_| WireError::Truncated)?;
        let root = Node::root(text).ok_or(WireError::Truncated)?;
        self.texts = self.wire.read(&value, &root, &mut self.ledger)?;
        self.results = self.ledger.findings.take_places();
        for field in self.ledger.findings.take_fields() {
            self.fields.push((self.unknown.add(field.name, field.value)?, field.place));
        }
        self.unknown.conclude(self.wire.responses());
        Ok(())
    }

    fn is_ready(&self) -> bool {
        match self.phase {
            Phase::Closed => true,
            Phase::Whole => {
                (self.calls.are_released() || (!self.wire.has_calls() && self.unknown.is_empty()))
                    && self.results.iter().all(|(result, _)| self.ledger.findings.is_settled(*result))
                    && self.texts.iter().all(|text| self.ledger.may_leave(text.id, text.piece.end))
            }
            Phase::Arriving | Phase::Failed | Phase::Sent => false,
        }
    }

    /// The body with all edits; `None` if there are none.
    fn edited(&self) -> Option<String> {
        if !self.ledger.is_edited() && !self.calls.any_removed() {
            return None;
        }
        let text = str::from_utf8(&self.body).ok()?;
        let root = Node::root(text)?;
        let mut splices = Splices::default();
        for piece in &self.texts {
            if let Some(new) = self.ledger.whole_replacement(piece.id) {
                splices.replace(piece.literal.clone(), quote(&new));
            }
        }
        let edits = Edits { ledger: &self.ledger, calls: &self.calls };
        self.wire.edit(&root, &edits, &mut splices);
        for (result, span) in &self.results {
            if let Some(new) = self.ledger.findings.edit(*result) {
                splices.replace(span.clone(), new);
            }
        }
        for (part, place) in self.fields.iter().filter(|(part, _)| self.calls.is_removed(*part)) {
            splices.replace(place.span(), place.refused(*part));
        }
        (!splices.is_empty()).then(|| splices.apply(text))
    }

    fn close(&mut self, body: String) {
        if self.phase != Phase::Sent {
            self.body = body.into_bytes();
            self.phase = Phase::Closed;
        }
    }
}

impl<W: WholeWire> AnswerEditor for WholeEditor<W> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        match self.phase {
            Phase::Arriving => self.body.extend_from_slice(bytes),
            Phase::Failed => return Err(out_of_order("the answer has failed before")),
            Phase::Whole | Phase::Closed | Phase::Sent => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), WireError> {
        if self.phase != Phase::Arriving {
            return self.push(&[]);
        }
        let result = self.read();
        self.phase = if result.is_ok() { Phase::Whole } else { Phase::Failed };
        result
    }

    fn fresh(&mut self) -> Vec<FreshText> {
        self.ledger.fresh()
    }

    fn settle(&mut self, part: PartKey, up_to: usize, edits: Vec<TextEdit>) {
        self.ledger.settle(part, up_to, edits);
    }

    fn replace_text(&mut self, part: PartKey, text: &str) -> Result<(), AlreadySent> {
        self.ledger.replace(part, text)
    }

    fn is_whole(&self) -> bool {
        matches!(self.phase, Phase::Whole | Phase::Closed | Phase::Sent)
    }

    fn responses(&self) -> &[ModelResponse] {
        self.unknown.responses().unwrap_or_else(|| self.wire.responses())
    }

    fn keep_calls(&mut self, removed: &[PartKey], note: Option<&str>) {
        self.calls.decide(removed, note);
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        let of_unknown = || (choice == UNKNOWN_CHOICE).then(|| self.unknown.part(call)).flatten();
        of_unknown().or_else(|| self.wire.call_part(choice, call))
    }

    fn release_calls(&mut self) {
        self.calls.decide(&[], None);
    }

    fn results(&mut self) -> Vec<FreshResult> {
        self.ledger.findings.fresh()
    }

    fn words(&mut self) -> Vec<Word> {
        self.ledger.findings.words()
    }

    fn settle_result(&mut self, result: ResultKey, new: Option<&serde_json::Value>) {
        self.ledger.findings.settle(result, new);
    }

    fn release_results(&mut self) {
        self.ledger.findings.release();
    }

    fn end_with(&mut self, note: &str) {
        let answer = self.wire.responses().first();
        let mut response =
            ModelResponse::new("", self.model.as_str(), vec![Part::text(note)], StopReason::EndTurn);
        if let Some(answer) = answer {
            response.id.clone_from(&answer.id);
            response.model.clone_from(&answer.model);
            response.usage = answer.usage;
        }
        if response.id.is_empty() {
            "withheld".clone_into(&mut response.id);
        }
        self.close(W::API.encode_response(&response).to_string());
    }

    fn fail(&mut self, error: &ProviderError) {
        self.close(W::API.encode_error(error).to_string());
    }

    fn take(&mut self) -> Bytes {
        if !self.is_ready() {
            return Bytes::new();
        }
        let edited = if self.phase == Phase::Whole { self.edited() } else { None };
        let body = mem::take(&mut self.body);
        self.phase = Phase::Sent;
        self.sent |= !body.is_empty();
        for text in &self.texts {
            self.ledger.left(text.id, text.piece.end);
            self.ledger.end_left(text.id);
        }
        edited.map_or_else(|| body.into(), Bytes::from)
    }

    fn has_sent(&self) -> bool {
        self.sent
    }

    fn held_bytes(&self) -> usize {
        self.body.len()
    }

    fn kept_bytes(&self) -> usize {
        0
    }

    fn keep_alive(&self) -> Option<Bytes> {
        None
    }
}
