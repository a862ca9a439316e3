//! Streamed answers: what all wires share.
//!
//! Frames wait in one queue and leave in order. A frame that carries text knows which piece of which text it
//! is, a frame of a tool call that it is one; a wire adds a mark of its own. As long as nothing is edited a
//! frame leaves as the bytes that came. Once something is, each frame that leaves is asked whether it has to
//! be written anew, which parses it again: edits are rare, frames are not.
//!
//! # The short way
//!
//! Most frames of an answer differ from the one before in the text they carry and in nothing else. After a
//! frame that carries one text, what stands around that text is kept (a [template](super::template)); a frame with the same
//! bytes around a JSON string is the same event with another text, and is read without parsing.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use serde_json::Value;

use super::asked::Asked;
use super::findings::{FieldPlace, Findings, FreshResult, ResultKey, Word};
use super::frame::{Frame, FrameLines};
use super::framing::Framing;
use super::ledger::{Ledger, TextId};
use super::steps::step;
use super::template::{MOST_TEMPLATES, Template};
use super::unknown::{UNKNOWN_CHOICE, UnknownFrames};
use super::waiting::Texts;
use super::{AlreadySent, AnswerEditor, FreshText, PartKey, TextEdit};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::model::ModelResponse;
use crate::sse::SseEvent;

pub(crate) use super::waiting::{Calls, Edits, Waiting};

/// What one wire knows about its streams.
pub(crate) trait StreamWire: fmt::Debug + Send {
    /// What a frame is, in the wire's words.
    type Mark: fmt::Debug + Send + Clone;

    /// Reads a frame that has data: checks that it fits, and enters its texts into the ledger.
    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Self::Mark>, WireError>;

    /// A frame that is like the one marked `mark`, with the text `more`.
    fn more_text(&mut self, mark: &Self::Mark, more: &str);

    /// The end of the bytes.
    fn finish(&mut self, ledger: &mut Ledger) -> Result<(), WireError>;

    /// Whether the last event has come.
    fn is_whole(&self) -> bool;

    /// What was said, one per choice.
    fn responses(&self) -> &[ModelResponse];

    /// The part of a tool call.
    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey>;

    /// Writes a frame that leaves after something was edited, which need not concern it.
    fn write(
        &mut self,
        frame: &Waiting<Self::Mark>,
        mark: &Self::Mark,
        edits: &Edits<'_>,
        out: &mut BytesMut,
    );

    /// A frame that belongs to nothing else in the answer has been left out.
    fn dropped(&mut self, _mark: &Self::Mark) {}

    /// A frame has left, as it came or as it was written.
    fn left(&mut self, mark: &Self::Mark, ledger: &mut Ledger);

    /// What ends the answer now, with `note` as its last text. `waiting` are the frames that have not left.
    fn end_with(&mut self, note: &str, waiting: &[Waiting<Self::Mark>], edits: &Edits<'_>) -> Last;

    /// Whether the client has an end behind which it reads nothing.
    fn has_ended(&self) -> bool {
        false
    }

    /// The event that ends the answer with an error.
    fn error_event(&self, error: &ProviderError) -> SseEvent;

    /// A frame that every reader skips.
    fn keep_alive(&self) -> Bytes;
}

/// What a wire writes itself to end an answer.
#[derive(Debug)]
pub(crate) enum Last {
    /// Nothing: the client has the end.
    Nothing,
    /// Frames of a stream of events.
    Frames(Vec<u8>),
    /// One event, however the stream is framed.
    Event(SseEvent),
}

/// What a frame says.
#[derive(Debug)]
pub(crate) struct Reading<M> {
    pub(crate) mark: M,
    /// The texts in the frame.
    pub(crate) texts: Vec<TextPiece>,
    /// Whether it belongs to a tool call.
    pub(crate) call: bool,
    /// The frame repeats texts of these choices that may come later: it waits until they are settled.
    pub(crate) repeats: Vec<u32>,
    /// String literals of the data that say nothing and differ from frame to frame; `None` if a frame like
    /// this one must be read in full.
    pub(crate) padding: Option<Vec<Range<usize>>>,
    /// The frame is of a type that nobody knows: its name, and what it says.
    pub(crate) unknown: Option<(String, Value)>,
}

impl<M> Reading<M> {
    /// A frame without text that leaves when it is its turn.
    pub(crate) fn plain(mark: M) -> Self {
        Self { mark, texts: Vec::new(), call: false, repeats: Vec::new(), padding: None, unknown: None }
    }

    /// The same with another mark.
    pub(crate) fn map<N>(self, mark: impl FnOnce(M) -> N) -> Reading<N> {
        let Self { mark: old, texts, call, repeats, padding, unknown } = self;
        Reading { mark: mark(old), texts, call, repeats, padding, unknown }
    }

    /// The same as a call that is named after the frame's type.
    pub(crate) fn of_unknown_type(self, name: String, value: Value) -> Self {
        Self { call: true, padding: None, unknown: Some((name, value)), ..self }
    }
}

/// A piece of a text in a frame.
#[derive(Clone, Debug)]
pub(crate) struct TextPiece {
    pub(crate) id: TextId,
    /// Where it stands in the text.
    pub(crate) piece: Range<usize>,
    /// Where its string literal stands in the frame's data, quotes included.
    pub(crate) literal: Range<usize>,
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    Running,
    /// The answer makes no sense; only [`AnswerEditor::fail`] helps.
    Failed,
    /// The end has been written; what comes is not read.
    Closed,
}

/// A streamed answer on its way.
#[derive(Debug)]
pub(crate) struct StreamEditor<W: StreamWire> {
    wire: W,
    framing: Framing,
    waiting: VecDeque<Waiting<W::Mark>>,
    waiting_bytes: usize,
    /// Of frames without texts, and of results and unknown fields beside texts, which are kept by who reads them.
    kept_bytes: usize,
    ledger: Ledger,
    calls: Calls,
    unknown: UnknownFrames,
    /// At most one per text, and [`MOST_TEMPLATES`].
    templates: Vec<Template<W::Mark>>,
    phase: Phase,
    out: BytesMut,
    sent: bool,
}

impl<W: StreamWire> StreamEditor<W> {
    pub(crate) fn new(wire: W, framing: Framing, asked: Asked) -> Self {
        Self {
            wire,
            framing,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            kept_bytes: 0,
            ledger: Ledger::new(Findings::new(asked)),
            calls: Calls::default(),
            unknown: UnknownFrames::default(),
            templates: Vec::new(),
            phase: Phase::Running,
            out: BytesMut::new(),
            sent: false,
        }
    }

    fn read_frames(&mut self) -> Result<(), WireError> {
        while let Some(raw) = self.framing.next_frame()? {
            self.read_frame(raw)?;
        }
        Ok(())
    }

    fn read_frame(&mut self, raw: Frame) -> Result<(), WireError> {
        let templates = self.templates.iter().inspect(|_| step());
        let findings = &mut self.ledger.findings;
        if let Some((template, (text, length))) = templates
            .filter_map(|template| {
                Some((template, template.text_of(&raw.bytes, &mut |it| findings.padding(it))?))
            })
            .next()
        {
            let piece = self.ledger.append(template.text, &text);
            self.wire.more_text(&template.mark, &text);
            let literal = template.literal_start..template.literal_start + length;
            let texts = Texts::One(TextPiece { id: template.text, piece, literal });
            let mark = template.mark.clone();
            self.wait(Waiting::plain(raw, Some(mark), texts));
            return Ok(());
        }
        let lines = FrameLines::read(&raw)?;
        for word in &lines.beside {
            self.ledger.findings.word(Word::new(*word));
        }
        let Some(data) = &lines.data else {
            self.wait(Waiting::plain(raw, None, Texts::None));
            return Ok(());
        };
        let mut reading = self.wire.read(lines.name, data, &mut self.ledger)?;
        let results = self.ledger.findings.take_places();
        let fields = self.strange_fields()?;
        if !results.is_empty() || !fields.is_empty() {
            // Another frame may look the same and say something else there.
            reading.padding = None;
        }
        reading.call |= !fields.is_empty();
        // A call counts as long as it waits, and texts in the ledger.
        if !reading.call || self.calls.are_released() {
            let results = results.iter().map(|(_, span)| span.clone());
            let spans = results.chain(fields.iter().map(|(_, place)| place.span()));
            let found = || spans.map(|span| span.len()).sum();
            self.kept_bytes += if reading.texts.is_empty() { data.len() } else { found() };
        }
        match Template::of(&raw, lines.place.as_ref(), &reading) {
            Some(template) => {
                self.templates.retain(|old| old.text != template.text);
                self.templates.truncate(MOST_TEMPLATES - 1);
                self.templates.push(template);
            }
            // What this frame says may change what frames with text mean.
            None => self.templates.clear(),
        }
        let Reading { mark, texts, call, repeats, unknown, .. } = reading;
        let unknown = match unknown {
            // Its calls are decided about when an answer is whole.
            Some(_) if !self.unknown.is_open() => {
                return Err(out_of_order("an event of an unknown type follows the end"));
            }
            unknown => unknown.map(|(name, value)| self.unknown.add(name, value)).transpose()?,
        };
        let texts = texts.into();
        self.wait(Waiting { raw, mark: Some(mark), texts, call, repeats, unknown, results, fields });
        Ok(())
    }

    /// The calls that are fields of the frame that was read.
    fn strange_fields(&mut self) -> Result<Vec<(PartKey, FieldPlace)>, WireError> {
        let fields = self.ledger.findings.take_fields();
        if !fields.is_empty() && !self.unknown.is_open() {
            return Err(out_of_order("a field that nobody knows follows the end"));
        }
        let named =
            fields.into_iter().map(|field| Ok((self.unknown.add(field.name, field.value)?, field.place)));
        named.collect()
    }

    fn wait(&mut self, frame: Waiting<W::Mark>) {
        self.waiting_bytes += frame.raw.bytes.len();
        self.waiting.push_back(frame);
    }

    /// Lets go what may leave.
    fn release(&mut self) {
        while let Some(frame) = self.waiting.pop_front_if(|frame| frame.may_leave(&self.ledger, &self.calls))
        {
            if self.out.is_empty() {
                self.out.reserve(self.waiting_bytes);
            }
            self.waiting_bytes -= frame.raw.bytes.len();
            self.framing.left(&frame.raw);
            if frame.unknown.is_some_and(|part| self.calls.is_removed(part)) {
                frame.mark.iter().for_each(|mark| self.wire.dropped(mark));
                continue;
            }
            if let Some(mark) = &frame.mark {
                if self.ledger.is_edited() || self.calls.any_removed() {
                    let edits = Edits { ledger: &self.ledger, calls: &self.calls };
                    self.wire.write(&frame, mark, &edits, &mut self.out);
                } else {
                    self.out.extend_from_slice(&frame.raw.bytes);
                }
                for text in frame.texts.as_slice() {
                    self.ledger.left(text.id, text.piece.end);
                }
                self.wire.left(mark, &mut self.ledger);
            } else {
                self.out.extend_from_slice(&frame.raw.bytes);
            }
        }
    }

    /// Drops what waits and ends with `last`.
    fn close(&mut self, last: Last) {
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.templates.clear();
        self.phase = Phase::Closed;
        match last {
            Last::Nothing => {}
            Last::Frames(frames) => self.out.extend_from_slice(&frames),
            Last::Event(event) => self.framing.write(&event, &mut self.out),
        }
        self.framing.close(&mut self.out);
    }

    fn guard(&mut self, result: Result<(), WireError>) -> Result<(), WireError> {
        if result.is_err() {
            self.waiting.clear();
            self.waiting_bytes = 0;
            self.phase = Phase::Failed;
        }
        result
    }

    /// Nothing is read any more: the answer has ended, or failed before.
    fn is_over(&self) -> Option<Result<(), WireError>> {
        match self.phase {
            Phase::Running => None,
            Phase::Closed => Some(Ok(())),
            Phase::Failed => Some(Err(out_of_order("the answer has failed before"))),
        }
    }
}

impl<W: StreamWire> AnswerEditor for StreamEditor<W> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        if let Some(over) = self.is_over() {
            return over;
        }
        self.framing.push(bytes);
        let result = self.read_frames();
        if self.wire.is_whole() {
            self.unknown.conclude(self.wire.responses());
        }
        self.guard(result)
    }

    fn finish(&mut self) -> Result<(), WireError> {
        if let Some(over) = self.is_over() {
            return over;
        }
        let rest = self.framing.rest();
        let result = rest
            .and_then(|rest| rest.map_or(Ok(()), |raw| self.read_frame(raw)))
            .and_then(|()| self.wire.finish(&mut self.ledger))
            .and_then(|()| if self.wire.is_whole() { Ok(()) } else { Err(WireError::Truncated) });
        self.unknown.conclude(self.wire.responses());
        self.guard(result)
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
        self.phase == Phase::Closed || (self.phase == Phase::Running && self.wire.is_whole())
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

    fn settle_result(&mut self, result: ResultKey, new: Option<&Value>) {
        self.ledger.findings.settle(result, new);
    }

    fn release_results(&mut self) {
        self.ledger.findings.release();
    }

    fn end_with(&mut self, note: &str) {
        if self.phase == Phase::Closed {
            return;
        }
        let waiting = self.waiting.make_contiguous();
        let edits = Edits { ledger: &self.ledger, calls: &self.calls };
        let last = self.wire.end_with(note, waiting, &edits);
        self.close(last);
    }

    fn fail(&mut self, error: &ProviderError) {
        if self.phase == Phase::Closed {
            return;
        }
        let last = match self.wire.has_ended() {
            true => Last::Nothing,
            false => Last::Event(self.wire.error_event(error)),
        };
        self.close(last);
    }

    fn take(&mut self) -> Bytes {
        self.release();
        self.sent |= !self.out.is_empty();
        mem::take(&mut self.out).freeze()
    }

    fn has_sent(&self) -> bool {
        self.sent
    }

    fn has_ended(&self) -> bool {
        self.wire.has_ended()
    }

    fn held_bytes(&self) -> usize {
        self.waiting_bytes + self.framing.pending() + self.out.len()
    }

    fn kept_bytes(&self) -> usize {
        self.kept_bytes + self.ledger.bytes()
    }

    fn keep_alive(&self) -> Option<Bytes> {
        Some(self.framing.keep_alive().unwrap_or_else(|| self.wire.keep_alive()))
    }
}
