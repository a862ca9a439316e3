//! Streamed answers.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::called::{self, Called};
use super::frames::{Frames, message_item, part};
use super::items::{Item, ItemKind, Items, copy, splice_copy, splice_logprobs};
use super::{content, find_in_item, find_in_part, refuse_spoken};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::PartKey;
use crate::live::findings::{CITATIONS, ResultKey};
use crate::live::ledger::Ledger;
use crate::live::span::{Node, Splices};
use crate::live::stream::{Edits, Last, Reading, StreamWire, TextPiece, Waiting};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::openai_responses::{
    Change, Piece, Place, StreamDecoder, encode_frame, encode_stream_error, made_id,
};
use crate::wire::{
    RESPONSES_ANSWER, RESPONSES_ANSWERS, RESPONSES_BEGUN, RESPONSES_EVENTS, TypeClass, not_json,
    parse_message, responses_event,
};

const WHAT: &str = "stream event";

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct ResponsesStream {
    model: String,
    decoder: StreamDecoder,
    items: Items,
    /// The items that are results, as they were last.
    results: BTreeMap<usize, ResultKey>,
    /// The pieces of results that came ahead of them, by their item.
    pieces: BTreeMap<usize, ResultKey>,
    /// What the provider's tools were called with, as it came in pieces, by their item.
    called: Called,
    response: Option<ModelResponse>,
    /// The answer as its first event has it, and what it used, as its last one says.
    frame: Value,
    usage: Value,
    /// How many events were added, less those that were dropped.
    shift: i64,
    client: Client,
}

/// What the client was sent.
#[derive(Debug, Default)]
struct Client {
    started: bool,
    ended: bool,
    /// The number of the last event.
    last: Option<u64>,
    /// Whether the items that have begun are whole.
    items: BTreeMap<usize, bool>,
    texts: BTreeMap<(usize, Place), Stage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Begun,
    TextDone,
    PartDone,
}

/// What an event is, and its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    what: What,
    sequence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Created,
    ItemAdded(usize),
    ItemDone(usize),
    PartAdded(usize, Place),
    Delta(usize, Place),
    TextDone(usize, Place),
    PartDone(usize, Place),
    Annotation(usize, Place),
    /// A piece of a result, which leaves if that leaves as it came.
    ResultPiece(usize),
    /// Any other event of an item.
    InItem(usize),
    End,
    Other,
}

impl What {
    fn item(self) -> Option<usize> {
        match self {
            Self::ItemAdded(item)
            | Self::ItemDone(item)
            | Self::PartAdded(item, _)
            | Self::Delta(item, _)
            | Self::TextDone(item, _)
            | Self::PartDone(item, _)
            | Self::Annotation(item, _)
            | Self::ResultPiece(item)
            | Self::InItem(item) => Some(item),
            Self::Created | Self::End | Self::Other => None,
        }
    }
}

impl ResponsesStream {
    pub(crate) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            decoder: StreamDecoder::default(),
            items: Items::default(),
            results: BTreeMap::new(),
            pieces: BTreeMap::new(),
            called: Called::default(),
            response: None,
            frame: Value::Null,
            usage: Value::Null,
            shift: 0,
            client: Client::default(),
        }
    }

    /// What an event that the decoder took is, and the texts in it.
    fn classify(
        &mut self,
        value: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Reading<What>, WireError> {
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        let index = place(value, "output_index");
        Ok(match (kind, index) {
            ("response.created", _) => {
                self.frame = value.get("response").cloned().unwrap_or_default();
                if let Value::Object(fields) = &mut self.frame {
                    fields.retain(|name, value| {
                        RESPONSES_ANSWERS.class(name).is_some()
                            && ledger.findings.says_words(&RESPONSES_ANSWERS, name, value)
                    });
                }
                Reading::plain(What::Created)
            }
            ("response.completed" | "response.incomplete", _) => {
                let output = root.get_some("response").and_then(|answer| answer.get_some("output"));
                let items = output.map(|output| output.items()).unwrap_or_default();
                refuse_spoken(items.iter().flat_map(content))?;
                self.end(value, root, ledger)?
            }
            ("response.output_item.added" | "response.output_item.done", Some(index)) => {
                let Some(item) = root.get_some("item") else { return Ok(Reading::plain(What::Other)) };
                refuse_spoken(content(&item))?;
                let whole = kind == "response.output_item.done";
                self.items.begin(index, &item)?;
                if let Some(result) = find_in_item(&item, &mut ledger.findings)? {
                    self.results.insert(index, result);
                }
                if whole {
                    self.called.check(index, &item)?;
                    self.whole_result(index, ledger)?;
                }
                let texts = self.items.copies(index, &item, whole, ledger);
                let what = if whole { What::ItemDone(index) } else { What::ItemAdded(index) };
                Reading { texts, call: self.items.is_call(index), ..Reading::plain(what) }
            }
            ("response.output_text.annotation.added", Some(index)) => {
                if let Some(annotation) = root.get_some("annotation") {
                    ledger.findings.result(CITATIONS, "", &annotation)?;
                }
                let content = place(value, "content_index").unwrap_or_default();
                Reading::plain(What::Annotation(index, Place::Content(content)))
            }
            (_, index) if RESPONSES_EVENTS.class(kind) == Some(TypeClass::Result) => {
                let index = index.filter(|index| self.items.is_result(*index));
                let index = index.ok_or_else(|| out_of_order("a piece belongs to no result"))?;
                let known = self.pieces.get(&index).copied();
                if let Some(key) = ledger.findings.piece(known, root)? {
                    self.pieces.insert(index, key);
                }
                Reading::plain(What::ResultPiece(index))
            }
            (_, Some(index))
                if RESPONSES_EVENTS.class(kind) == Some(TypeClass::Ran) && called::says_something(root) =>
            {
                self.hold_call(index, kind, value, root, ledger)?;
                Reading::plain(What::ResultPiece(index))
            }
            (_, Some(index)) => {
                refuse_spoken(root.get_some("part"))?;
                if let Some(part) = root.get_some("part") {
                    find_in_part(&part, &mut ledger.findings)?;
                }
                let text = match Piece::of_event(value)? {
                    Some(piece) => self.piece(index, &piece, root, ledger),
                    None => None,
                };
                let call = self.items.is_call(index);
                text.unwrap_or_else(|| Reading { call, ..Reading::plain(What::InItem(index)) })
            }
            (_, None) => Reading::plain(What::Other),
        })
    }

    /// The result has come of which there may have been pieces.
    fn whole_result(&self, index: usize, ledger: &mut Ledger) -> Result<(), WireError> {
        match (self.pieces.get(&index), self.results.get(&index)) {
            (Some(pieces), Some(whole)) => ledger.findings.bind(*pieces, *whole),
            (Some(pieces), None) if !ledger.findings.is_settled(*pieces) => {
                return Err(out_of_order("a piece belongs to no result"));
            }
            _ => {}
        }
        Ok(())
    }

    /// Holds an event that says what the provider's tool is called with until its item was judged, which says the same.
    fn hold_call(
        &mut self,
        index: usize,
        kind: &str,
        event: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<(), WireError> {
        if !self.items.get(index).is_some_and(|item| matches!(item.kind, ItemKind::Other)) {
            return Err(out_of_order("a piece belongs to no call"));
        }
        self.called.read(index, kind, event)?;
        if let Some(key) = ledger.findings.piece(self.pieces.get(&index).copied(), root)? {
            self.pieces.insert(index, key);
        }
        Ok(())
    }

    /// A piece of a text that is judged, or a copy of it.
    fn piece(
        &mut self,
        index: usize,
        piece: &Piece<'_>,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Option<Reading<What>> {
        let text = self.items.text(index, piece.place, ledger)?;
        let place = piece.place;
        let holder = root.get_some("part");
        let field = if matches!(place, Place::Refusal(_)) { "refusal" } else { "text" };
        let in_part = holder.is_some();
        let literal = holder.unwrap_or_else(|| root.clone()).get_some(match piece.change {
            Change::Grows => "delta",
            Change::Begins | Change::Ends => field,
        });
        let (what, texts) = match (piece.change, literal) {
            (Change::Ends, literal) => {
                let what = if in_part { What::PartDone(index, place) } else { What::TextDone(index, place) };
                ledger.close(text.id);
                (what, literal.map(|literal| copy(text.id, &literal, true, ledger)))
            }
            (change, literal) => {
                text.streamed |= change == Change::Grows && !piece.text.is_empty();
                let piece = literal.map(|literal| TextPiece {
                    id: text.id,
                    piece: ledger.append(text.id, piece.text),
                    literal: literal.span(),
                });
                let what = match change {
                    Change::Begins => What::PartAdded(index, place),
                    Change::Grows | Change::Ends => What::Delta(index, place),
                };
                (what, piece)
            }
        };
        let repeats = spells_another_text(root, piece.text).then_some(0).into_iter().collect();
        Some(Reading { texts: texts.into_iter().collect(), repeats, ..Reading::plain(what) })
    }

    /// The last event, with the copies of all items.
    fn end(
        &mut self,
        value: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Reading<What>, WireError> {
        self.usage = value.pointer("/response/usage").cloned().unwrap_or_default();
        let output = root.get("response").and_then(|answer| answer.get("output"));
        let nodes = output.map(|output| output.items()).unwrap_or_default();
        if self.items.is_empty() {
            for (index, item) in nodes.iter().enumerate() {
                self.items.begin(index, item)?;
            }
        }
        ledger.end_choice(0);
        let mut texts = Vec::new();
        for (index, item) in self.items.indexes().into_iter().zip(&nodes) {
            if let Some(result) = find_in_item(item, &mut ledger.findings)? {
                // What stands at the client is the item as it was done.
                self.results.entry(index).or_insert(result);
            }
            self.whole_result(index, ledger)?;
            texts.extend(self.items.copies(index, item, true, ledger));
        }
        Ok(Reading { texts, call: self.items.has_calls(), repeats: vec![0], ..Reading::plain(What::End) })
    }

    /// The number of the event that the client is sent next.
    fn next_number(&self) -> u64 {
        self.client.last.map_or(0, |last| last.saturating_add(1))
    }

    fn number(&self, mark: &Mark) -> Option<u64> {
        mark.sequence.map(|number| number.saturating_add_signed(self.shift))
    }

    /// Adds events before the one that is written.
    fn add(&mut self, out: &mut BytesMut, write: impl FnOnce(&mut Frames)) {
        let first = self.next_number();
        let mut frames = Frames::from(first);
        write(&mut frames);
        out.extend_from_slice(&frames.bytes);
        self.shift = self.shift.saturating_add_unsigned(frames.next() - first);
        self.client.last = frames.next().checked_sub(1);
    }

    /// Whether an event says nothing any more.
    fn is_dropped(&self, frame: &Waiting<Mark>, what: What, edits: &Edits<'_>) -> bool {
        if what.item().is_some_and(|index| self.items.is_removed(index, edits)) {
            return true;
        }
        match (what, frame.texts()) {
            (What::Delta(..), [text]) => {
                let new = edits.ledger.replacement(text.id, text.piece.clone());
                !text.piece.is_empty() && new.is_some_and(|new| new.is_empty())
            }
            (What::ResultPiece(index), _) => {
                let key = self.pieces.get(&index);
                key.is_some_and(|key| edits.ledger.findings.edit(*key).is_some())
            }
            (What::Annotation(index, place), _) => {
                let text = self.items.known_text(index, place);
                text.is_some_and(|text| edits.ledger.has_edits(text.id))
            }
            _ => false,
        }
    }

    /// What has to stand before an event: text that was put behind the end of a text, and the note.
    fn write_before(&mut self, what: What, edits: &Edits<'_>, out: &mut BytesMut) {
        match what {
            What::TextDone(index, place) => {
                let Some(text) = self.items.known_text(index, place).filter(|text| text.streamed) else {
                    return;
                };
                let (Some(tail), Some(new_index), Some(item)) =
                    (edits.ledger.tail(text.id), self.items.new_index(index, edits), self.items.get(index))
                else {
                    return;
                };
                let (id, place) = (item.id.clone(), self.place_in(index, place));
                self.add(out, |frames| frames.delta(place, new_index, &id, &tail));
            }
            What::End => {
                if let Some(note) = edits.calls.note(0) {
                    let (index, id) = self.note_place(edits);
                    self.add(out, |frames| frames.message(index, &id, note));
                }
            }
            _ => {}
        }
    }

    /// Where the note about withheld calls stands.
    fn note_place(&self, edits: &Edits<'_>) -> (usize, String) {
        let index = self.items.next_index(edits);
        (index, made_id("message", self.id(), index))
    }

    fn id(&self) -> &str {
        self.frame.get("id").and_then(Value::as_str).unwrap_or_default()
    }

    fn place_in(&self, index: usize, place: Place) -> Place {
        match self.items.get(index).map(|item| &item.kind) {
            Some(ItemKind::Reasoning) => place.within("reasoning"),
            _ => place,
        }
    }

    fn splices(
        &self,
        frame: &Waiting<Mark>,
        mark: &Mark,
        root: &Node<'_>,
        note: Option<(&str, &str)>,
        edits: &Edits<'_>,
    ) -> Splices {
        let mut splices = Splices::default();
        let field = |place: Place| if matches!(place, Place::Refusal(_)) { "refusal" } else { "text" };
        match mark.what {
            What::ItemAdded(_) | What::PartAdded(..) => splices = frame.text_splices(edits.ledger),
            What::Delta(index, place) => {
                splices = frame.text_splices(edits.ledger);
                let text = self.items.known_text(index, place);
                if text.is_some_and(|text| edits.ledger.has_edits(text.id)) {
                    splice_logprobs(root, &mut splices);
                }
            }
            What::TextDone(index, place) | What::PartDone(index, place) => {
                let holder = root.get_some("part").unwrap_or_else(|| root.clone());
                if let Some(text) = self.items.known_text(index, place) {
                    splice_copy(text, &holder, holder.get(field(place)).as_ref(), edits, &mut splices);
                }
            }
            What::ItemDone(index) => {
                if let Some(item) = root.get("item") {
                    self.items.splice_item(index, &item, edits, &mut splices);
                }
            }
            What::End => {
                if let Some(answer) = root.get("response") {
                    self.items.splice_answer(&answer, note, edits, &mut splices);
                }
            }
            What::Created | What::Annotation(..) | What::ResultPiece(_) | What::InItem(_) | What::Other => {}
        }
        let index = mark.what.item();
        if let (Some(old), Some(new)) = (index, index.and_then(|index| self.items.new_index(index, edits)))
            && old != new
            && let Some(place) = root.get("output_index")
        {
            splices.replace(place.span(), new.to_string());
        }
        if self.shift != 0
            && let (Some(place), Some(number)) = (root.get("sequence_number"), self.number(mark))
        {
            splices.replace(place.span(), number.to_string());
        }
        splices
    }

    /// Ends an item that is open at the client. An empty text takes the note, if it was not `said`.
    fn close_item(
        &self,
        (index, new_index): (usize, usize),
        item: &Item,
        note: &mut Option<&str>,
        edits: &Edits<'_>,
        frames: &mut Frames,
    ) -> Value {
        let (mut content, mut summary) = (Vec::new(), Vec::new());
        let range = (index, Place::FIRST)..(index.saturating_add(1), Place::FIRST);
        for ((_, place), stage) in self.client.texts.range(range) {
            let Some(text) = item.texts.get(place) else { continue };
            let mut said = match stage {
                Stage::Begun => edits.ledger.sent(text.id),
                Stage::TextDone | Stage::PartDone => edits.ledger.says(text.id),
            };
            if said.is_empty()
                && *stage == Stage::Begun
                && matches!(place, Place::Content(_))
                && let (ItemKind::Message, Some(note)) = (&item.kind, note.take())
            {
                note.clone_into(&mut said);
                frames.delta(*place, new_index, &item.id, note);
            }
            if *stage < Stage::TextDone {
                frames.end_text(*place, new_index, &item.id, &said);
            }
            if *stage < Stage::PartDone {
                frames.end_part(*place, new_index, &item.id, &said);
            }
            let parts = if matches!(place, Place::Summary(_)) { &mut summary } else { &mut content };
            parts.push(part(*place, &said));
        }
        let value = match item.kind {
            ItemKind::Reasoning => {
                json!({"type": "reasoning", "id": item.id, "summary": summary, "content": content})
            }
            _ => json!({
                "type": "message", "id": item.id, "status": "completed", "role": "assistant",
                "content": content,
            }),
        };
        let done = json!({"output_index": new_index, "item": value});
        frames.push("response.output_item.done", done);
        value
    }

    /// The answer as it ends now.
    fn last_frame(&self, output: Vec<Value>, is_whole: bool) -> Value {
        let mut answer = match &self.frame {
            Value::Object(frame) => frame.clone(),
            _ => encode_frame("resp_withheld", &self.model, "completed"),
        };
        answer.insert("status".to_owned(), if is_whole { "completed" } else { "incomplete" }.into());
        answer.insert("output".to_owned(), output.into());
        answer.insert("usage".to_owned(), self.usage.clone());
        if !is_whole {
            answer.insert("incomplete_details".to_owned(), json!({"reason": "content_filter"}));
        }
        answer.into()
    }
}

fn place(event: &Value, field: &str) -> Option<usize> {
    event.get(field).and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok())
}

/// Whether the log probabilities beside a text spell something that is not in it.
fn spells_another_text(holder: &Node<'_>, text: &str) -> bool {
    let tokens = holder.get_some("logprobs").map(|logprobs| logprobs.items()).unwrap_or_default();
    let spelled: String =
        tokens.iter().filter_map(|token| Some(token.get("token")?.string()?.into_owned())).collect();
    !tokens.is_empty() && spelled != text
}

impl StreamWire for ResponsesStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        if data.trim() == "[DONE]" {
            self.decoder.finish()?;
            return Ok(Reading::plain(Mark { what: What::Other, sequence: None }));
        }
        let value = parse_message(data.as_bytes()).map_err(|error| not_json(WHAT, &error))?;
        for event in self.decoder.push_value(name, &value)? {
            if let ModelEvent::Finished { response } = event {
                self.response = Some(*response);
            }
        }
        let root = Node::root(data).ok_or(WireError::Truncated)?;
        let sequence = value.get("sequence_number").and_then(Value::as_u64);
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        if RESPONSES_EVENTS.class(kind).is_some() {
            ledger.findings.fields(&root, responses_event(kind), false);
            if let Some(answer) = root.get_some("response") {
                let has_ended = matches!(kind, "response.completed" | "response.incomplete");
                let level = if has_ended { &RESPONSES_ANSWER } else { &RESPONSES_BEGUN };
                ledger.findings.object("response", &answer, level);
            }
        }
        let reading = self.classify(&value, &root, ledger)?;
        let reading = reading.map(|what| Mark { what, sequence });
        Ok(match RESPONSES_EVENTS.class(kind) {
            Some(_) => reading,
            None => reading.of_unknown_type(kind.to_owned(), value),
        })
    }

    fn dropped(&mut self, mark: &Mark) {
        self.shift -= i64::from(mark.sequence.is_some());
    }

    /// Each event has a number, so none is like the one before.
    fn more_text(&mut self, _mark: &Mark, _more: &str) {}

    fn finish(&mut self, _ledger: &mut Ledger) -> Result<(), WireError> {
        self.decoder.finish().map(|_| ())
    }

    fn is_whole(&self) -> bool {
        self.response.is_some()
    }

    fn responses(&self) -> &[ModelResponse] {
        self.response.as_slice()
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.items.call_part(choice, call)
    }

    fn write(&mut self, frame: &Waiting<Mark>, mark: &Mark, edits: &Edits<'_>, out: &mut BytesMut) {
        if self.is_dropped(frame, mark.what, edits) {
            self.dropped(mark);
            return;
        }
        self.write_before(mark.what, edits, out);
        let (_, id) = self.note_place(edits);
        let note = edits.calls.note(0).map(|note| (id.as_str(), note));
        frame.write_edited(edits, out, |root| self.splices(frame, mark, root, note, edits));
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        self.client.last = self.number(mark).or(self.client.last);
        match mark.what {
            What::Created => self.client.started = true,
            What::End => self.client.ended = true,
            What::ItemAdded(index) => {
                self.client.items.insert(index, false);
            }
            What::ItemDone(index) => {
                self.client.items.insert(index, true);
                let texts = self.items.get(index).into_iter().flat_map(|item| item.texts.values());
                texts.for_each(|text| ledger.end_left(text.id));
            }
            What::PartAdded(index, place) | What::Delta(index, place) => {
                let key = (index, self.place_in(index, place));
                self.client.texts.entry(key).or_insert(Stage::Begun);
            }
            What::TextDone(index, place) | What::PartDone(index, place) => {
                if let Some(text) = self.items.known_text(index, place) {
                    ledger.end_left(text.id);
                }
                let is_text = matches!(mark.what, What::TextDone(..));
                let stage = if is_text { Stage::TextDone } else { Stage::PartDone };
                self.client.texts.insert((index, self.place_in(index, place)), stage);
            }
            What::Annotation(index, place) => {
                let text = self.items.known_text(index, place);
                if text.is_some_and(|text| !ledger.has_edits(text.id)) {
                    self.items.annotation_left(index, place);
                }
            }
            What::ResultPiece(_) | What::InItem(_) | What::Other => {}
        }
    }

    fn end_with(&mut self, note: &str, waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Last {
        if self.client.ended {
            return Last::Nothing;
        }
        let mut begun = Vec::new();
        if !self.client.started {
            let is_start = |frame: &&Waiting<Mark>| {
                frame.is_plain() && frame.mark().is_some_and(|mark| mark.what == What::Created)
            };
            match waiting.iter().find(is_start) {
                Some(start) => {
                    begun.extend_from_slice(start.bytes());
                    self.client.last = start.mark().and_then(|mark| mark.sequence);
                }
                None => {
                    let frame = encode_frame("resp_withheld", &self.model, "in_progress");
                    let mut frames = Frames::from(self.next_number());
                    frames.push("response.created", json!({"response": frame}));
                    begun.append(&mut frames.bytes);
                    self.client.last = frames.next().checked_sub(1);
                }
            }
        }
        let mut frames = Frames::from(self.next_number());
        frames.bytes = begun;
        let (mut output, mut left, mut is_whole, mut next) = (Vec::new(), Some(note), true, 0);
        for (index, whole) in &self.client.items {
            let (Some(new_index), Some(item)) = (self.items.new_index(*index, edits), self.items.get(*index))
            else {
                continue;
            };
            next = next.max(new_index + 1);
            match (whole, &item.kind) {
                (true, _) => {
                    let result = self.results.get(index).and_then(|key| edits.ledger.findings.edit(*key));
                    let result = result.and_then(|edited| serde_json::from_str(edited).ok());
                    let value = self.decoder.item(*index);
                    let as_it_reads = |value| self.items.edited(*index, value, edits.ledger);
                    output.extend(result.or_else(|| value.map(as_it_reads)));
                }
                (false, ItemKind::Message | ItemKind::Reasoning) => {
                    output.push(self.close_item((*index, new_index), item, &mut left, edits, &mut frames));
                }
                // Half a call must not look like one, nor what the provider has not done as if it had.
                (false, ItemKind::Call { .. } | ItemKind::Result { .. } | ItemKind::Other) => {
                    is_whole = false;
                }
            }
        }
        if let Some(note) = left {
            let id = made_id("message", self.id(), next);
            frames.message(next, &id, note);
            output.push(message_item(&id, "completed", note));
        }
        let kind = if is_whole { "response.completed" } else { "response.incomplete" };
        frames.push(kind, json!({"response": self.last_frame(output, is_whole)}));
        Last::Frames(frames.bytes)
    }

    fn has_ended(&self) -> bool {
        self.client.ended
    }

    fn error_event(&self, error: &ProviderError) -> SseEvent {
        encode_stream_error(error, self.next_number())
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }
}
