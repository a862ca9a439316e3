//! Streamed answers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::{API, END_TURN, end_turn, find_in_answer, find_in_union, member, text_of};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Splices};
use crate::live::steps::step;
use crate::live::stream::{Edits, Last, Reading, StreamWire, TextPiece, Waiting};
use crate::live::{PartKey, TextKind};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::converse::StreamDecoder;
use crate::wire::{
    CONVERSE_DELTAS, CONVERSE_EVENTS, CONVERSE_STARTS, TypeTable, converse_event, not_json, parse_message,
};

const INDEX: &str = "contentBlockIndex";

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct ConverseStream {
    decoder: StreamDecoder,
    /// By the wire's index, in the order of which they stand in the answer.
    blocks: BTreeMap<usize, Block>,
    response: Option<ModelResponse>,
    started: bool,
    open_at_client: BTreeSet<usize>,
    begun_at_client: BTreeSet<usize>,
    stopped_at_client: bool,
    /// Where blocks stand once calls are removed, and the calls; worked out once, since each event asks.
    moved: OnceCell<Moved>,
    calls: OnceCell<Vec<PartKey>>,
    calls_left: OnceCell<bool>,
}

/// Where blocks stand in an answer without those of removed calls.
#[derive(Debug)]
struct Moved {
    /// `None` for a removed one.
    indexes: BTreeMap<usize, Option<usize>>,
    /// Behind all others.
    next: usize,
}

#[derive(Clone, Debug)]
struct Block {
    part: PartKey,
    kind: BlockKind,
    /// The id of a call, and of the call that a result is of.
    id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    /// It has not said what it is.
    Empty,
    Text(TextId),
    Thinking(TextId),
    Call,
    Result,
    Other,
}

/// What an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    MessageStart,
    BlockStart(usize),
    TextDelta(usize),
    Citation(usize),
    /// Any other event within a block.
    BlockDelta(usize),
    BlockStop(usize),
    MessageStop,
    Other,
}

impl ConverseStream {
    pub(crate) fn new() -> Self {
        Self {
            decoder: StreamDecoder::default(),
            blocks: BTreeMap::new(),
            response: None,
            started: false,
            open_at_client: BTreeSet::new(),
            begun_at_client: BTreeSet::new(),
            stopped_at_client: false,
            moved: OnceCell::new(),
            calls: OnceCell::new(),
            calls_left: OnceCell::new(),
        }
    }

    fn kind(&self, index: usize) -> Option<BlockKind> {
        self.blocks.get(&index).map(|block| block.kind)
    }

    /// Says what a block is, which begins with this if it has not before.
    fn open(&mut self, index: usize, kind: impl FnOnce(PartKey) -> BlockKind, id: String) -> BlockKind {
        let place = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let known = self.blocks.get(&index);
        let part = known.map_or(PartKey { choice: 0, part: place }, |block| block.part);
        if let Some(block) = known
            && block.kind != BlockKind::Empty
        {
            return block.kind;
        }
        let kind = kind(part);
        self.blocks.insert(index, Block { part, kind, id });
        self.moved.take();
        self.calls.take();
        self.calls_left.take();
        kind
    }

    fn start_block(&mut self, index: usize, root: &Node<'_>) -> Reading<Mark> {
        let begun = root.get_some("start").and_then(|start| member(&start));
        let kind = match begun.as_ref().map(|(kind, _)| kind.as_str()) {
            None => BlockKind::Empty,
            Some("toolResult") => BlockKind::Result,
            Some("image") => BlockKind::Other,
            // A call, or something that nobody knows.
            Some(_) => BlockKind::Call,
        };
        let id = begun.map(|(_, inside)| text_of(&inside, "toolUseId")).unwrap_or_default();
        self.open(index, |_| kind, id);
        Reading { call: kind == BlockKind::Call, ..Reading::plain(Mark::BlockStart(index)) }
    }

    fn delta(&mut self, index: usize, root: &Node<'_>, ledger: &mut Ledger) -> Reading<Mark> {
        let delta = root.get_some("delta").and_then(|delta| member(&delta));
        let Some((kind, inside)) = delta else { return self.other_event(index) };
        match kind.as_str() {
            "text" => {
                let begin = |part| BlockKind::Text(ledger.begin(part, TextKind::Visible, false));
                if let BlockKind::Text(id) = self.open(index, begin, String::new()) {
                    return text_delta_of(index, id, &inside, ledger);
                }
            }
            "citation" => {
                let begin = |part| BlockKind::Text(ledger.begin(part, TextKind::Visible, false));
                if let BlockKind::Text(_) = self.open(index, begin, String::new()) {
                    return Reading::plain(Mark::Citation(index));
                }
            }
            "reasoningContent" => {
                let begin = |part| BlockKind::Thinking(ledger.begin(part, TextKind::Thinking, true));
                let opened = self.open(index, begin, String::new());
                let said = member(&inside).filter(|(kind, _)| kind == "text");
                if let (BlockKind::Thinking(id), Some((_, literal))) = (opened, said) {
                    return text_delta_of(index, id, &literal, ledger);
                }
            }
            _ => drop(self.open(index, |_| BlockKind::Empty, String::new())),
        }
        self.other_event(index)
    }

    /// An event of a block that is not known here, or not understood.
    fn other_event(&self, index: usize) -> Reading<Mark> {
        let call = self.kind(index) == Some(BlockKind::Call);
        Reading { call, ..Reading::plain(Mark::BlockDelta(index)) }
    }

    fn stop_block(&mut self, index: usize, ledger: &mut Ledger) -> Reading<Mark> {
        let kind = self.open(index, |_| BlockKind::Empty, String::new());
        if let BlockKind::Text(id) | BlockKind::Thinking(id) = kind {
            ledger.close(id);
        }
        Reading { call: kind == BlockKind::Call, ..Reading::plain(Mark::BlockStop(index)) }
    }

    fn moved(&self, edits: &Edits<'_>) -> &Moved {
        self.moved.get_or_init(|| {
            let calls = self.blocks.values().filter(|block| block.kind == BlockKind::Call);
            let gone = calls.filter(|call| edits.calls.is_removed(call.part));
            let gone: BTreeSet<&str> = gone.map(|call| call.id.as_str()).collect();
            let (mut indexes, mut removed) = (BTreeMap::new(), 0);
            for (index, block) in &self.blocks {
                step();
                // The block of a removed call leaves the answer, and that of what came of it.
                let is_removed = match block.kind {
                    BlockKind::Result => gone.contains(block.id.as_str()),
                    _ => edits.calls.is_removed(block.part),
                };
                indexes.insert(*index, (!is_removed).then(|| index - removed));
                removed += usize::from(is_removed);
            }
            let next = indexes.values().flatten().max().map_or(0, |last| last + 1);
            Moved { indexes, next }
        })
    }

    /// The index of a block in an answer without the blocks of removed calls; `None` for those.
    fn new_index(&self, index: usize, edits: &Edits<'_>) -> Option<usize> {
        if !edits.calls.any_removed() {
            return Some(index);
        }
        self.moved(edits).indexes.get(&index).copied().unwrap_or(Some(index))
    }

    /// The index of a block that comes behind all others.
    fn next_index(&self, edits: &Edits<'_>) -> usize {
        if edits.calls.any_removed() {
            return self.moved(edits).next;
        }
        self.blocks.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// The calls in the order of their blocks.
    fn calls(&self) -> &[PartKey] {
        let parts =
            || self.blocks.values().filter(|block| block.kind == BlockKind::Call).map(|block| block.part);
        self.calls.get_or_init(|| parts().collect())
    }

    fn has_calls_left(&self, edits: &Edits<'_>) -> bool {
        *self.calls_left.get_or_init(|| self.calls().iter().any(|part| !edits.calls.is_removed(*part)))
    }

    fn write_in_block(
        &self,
        frame: &Waiting<Mark>,
        mark: Mark,
        index: usize,
        edits: &Edits<'_>,
        out: &mut BytesMut,
    ) {
        let Some(new_index) = self.new_index(index, edits) else { return };
        let texts = frame.text_splices(edits.ledger);
        if let (Mark::TextDelta(_), [text]) = (mark, frame.texts())
            && edits.ledger.kind(text.id) == Some(TextKind::Visible)
            && edits.ledger.replacement(text.id, text.piece.clone()).is_some_and(|new| new.is_empty())
        {
            return;
        }
        match (mark, self.kind(index)) {
            (Mark::Citation(_), Some(BlockKind::Text(id))) if edits.ledger.has_edits(id) => return,
            (Mark::BlockStop(_), Some(BlockKind::Text(id))) => {
                if let Some(tail) = edits.ledger.tail(id) {
                    out.extend_from_slice(&text_delta(new_index, &tail));
                }
            }
            _ => {}
        }
        if new_index == index && texts.is_empty() {
            frame.write_plain(edits, out);
            return;
        }
        frame.write_edited(edits, out, |root| {
            let mut splices = texts;
            if new_index != index
                && let Some(place) = root.get(INDEX)
            {
                splices.replace(place.span(), new_index.to_string());
            }
            splices
        });
    }

    fn write_message_stop(&self, frame: &Waiting<Mark>, edits: &Edits<'_>, out: &mut BytesMut) {
        if let Some(note) = edits.calls.note(0) {
            out.extend_from_slice(&text_block(self.next_index(edits), note));
        }
        frame.write_edited(edits, out, |root| {
            let mut splices = Splices::default();
            if edits.calls.any_removed() && !self.has_calls_left(edits) {
                end_turn(root, &mut splices);
            }
            splices
        });
    }
}

fn text_delta_of(index: usize, id: TextId, literal: &Node<'_>, ledger: &mut Ledger) -> Reading<Mark> {
    let Some(text) = literal.string() else { return Reading::plain(Mark::BlockDelta(index)) };
    let piece = TextPiece { id, piece: ledger.append(id, &text), literal: literal.span() };
    Reading { texts: vec![piece], padding: Some(Vec::new()), ..Reading::plain(Mark::TextDelta(index)) }
}

/// The type that nobody knows, of an event or of its delta.
fn unknown_type(name: &str, root: &Node<'_>) -> Option<String> {
    if CONVERSE_EVENTS.class(name).is_none() {
        return Some(name.to_owned());
    }
    let (kind, inside) = member(&root.get_some("delta")?)?;
    if CONVERSE_DELTAS.class(&kind).is_none() {
        return Some(kind);
    }
    let (piece, _) = member(&inside).filter(|_| kind == "reasoningContent")?;
    let is_known = matches!(piece.as_str(), "text" | "signature" | "redactedContent");
    (!is_known).then_some(piece)
}

/// The types of the union in an event of this name.
fn union_of(name: &str) -> Option<(&'static str, &'static TypeTable)> {
    match name {
        "contentBlockStart" => Some(("start", &CONVERSE_STARTS)),
        "contentBlockDelta" => Some(("delta", &CONVERSE_DELTAS)),
        _ => None,
    }
}

fn event(name: &str, data: &Value) -> Bytes {
    SseEvent::new(Some(name), data.to_string()).encode()
}

fn text_delta(index: usize, text: &str) -> Bytes {
    event("contentBlockDelta", &json!({"delta": {"text": text}, INDEX: index}))
}

fn block_stop(index: usize) -> Bytes {
    event("contentBlockStop", &json!({ INDEX: index }))
}

fn text_block(index: usize, text: &str) -> Vec<u8> {
    [text_delta(index, text), block_stop(index)].concat()
}

impl StreamWire for ConverseStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        let value = parse_message(data.as_bytes()).map_err(|error| not_json("stream event", &error))?;
        let name = name.ok_or_else(|| out_of_order("an event without a name"))?;
        for event in self.decoder.push_value(name, &value)? {
            if let ModelEvent::Finished { response } = event {
                self.response = Some(*response);
            }
        }
        let root = Node::root(data).ok_or(WireError::Truncated)?;
        let unknown = unknown_type(name, &root);
        if unknown.is_none() {
            find_in_answer(&root, converse_event(name), &mut ledger.findings)?;
            if let Some((field, table)) = union_of(name)
                && let Some(union) = root.get_some(field)
            {
                find_in_union(&union, table, &mut ledger.findings)?;
            }
        }
        let index = value.get(INDEX).and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        let reading = match (name, index) {
            ("messageStart", _) => Reading::plain(Mark::MessageStart),
            ("contentBlockStart", Some(index)) => self.start_block(index, &root),
            ("contentBlockDelta", Some(index)) => self.delta(index, &root, ledger),
            ("contentBlockStop", Some(index)) => self.stop_block(index, ledger),
            ("messageStop", _) => Reading::plain(Mark::MessageStop),
            (_, Some(index)) if self.blocks.contains_key(&index) => self.other_event(index),
            _ => Reading::plain(Mark::Other),
        };
        Ok(match unknown {
            Some(name) => reading.of_unknown_type(name, value),
            None => reading,
        })
    }

    fn more_text(&mut self, mark: &Mark, more: &str) {
        if let Mark::TextDelta(index) = mark {
            self.decoder.extend_text(*index, more);
        }
    }

    fn finish(&mut self, _ledger: &mut Ledger) -> Result<(), WireError> {
        for event in self.decoder.finish()? {
            if let ModelEvent::Finished { response } = event {
                self.response = Some(*response);
            }
        }
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.response.is_some()
    }

    fn responses(&self) -> &[ModelResponse] {
        self.response.as_slice()
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls().get(call).copied().filter(|part| part.choice == choice)
    }

    fn write(&mut self, frame: &Waiting<Mark>, mark: &Mark, edits: &Edits<'_>, out: &mut BytesMut) {
        match *mark {
            Mark::BlockStart(index)
            | Mark::TextDelta(index)
            | Mark::Citation(index)
            | Mark::BlockDelta(index)
            | Mark::BlockStop(index) => self.write_in_block(frame, *mark, index, edits, out),
            Mark::MessageStop => self.write_message_stop(frame, edits, out),
            Mark::MessageStart | Mark::Other => frame.write_plain(edits, out),
        }
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        match mark {
            Mark::MessageStart => self.started = true,
            Mark::BlockStart(index)
            | Mark::TextDelta(index)
            | Mark::Citation(index)
            | Mark::BlockDelta(index) => {
                self.open_at_client.insert(*index);
                self.begun_at_client.insert(*index);
            }
            Mark::BlockStop(index) => {
                self.open_at_client.remove(index);
                self.begun_at_client.insert(*index);
                if let Some(BlockKind::Text(id) | BlockKind::Thinking(id)) = self.kind(*index) {
                    ledger.end_left(id);
                }
            }
            Mark::MessageStop => self.stopped_at_client = true,
            Mark::Other => {}
        }
    }

    fn end_with(&mut self, note: &str, waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Last {
        if self.stopped_at_client {
            return Last::Nothing;
        }
        let mut out = Vec::new();
        if !self.started {
            let is_start =
                |frame: &&Waiting<Mark>| frame.mark() == Some(&Mark::MessageStart) && frame.is_plain();
            match waiting.iter().find(is_start) {
                Some(start) => out.extend_from_slice(start.bytes()),
                None => out.extend_from_slice(&event("messageStart", &json!({"role": "assistant"}))),
            }
        }
        // A text block that says nothing yet takes the note: clients can't send empty ones back.
        let mut note_said = false;
        for index in &self.open_at_client {
            let Some(new_index) = self.new_index(*index, edits) else { continue };
            if let Some(BlockKind::Text(id)) = self.kind(*index)
                && !note_said
                && !edits.ledger.has_left(id)
            {
                out.extend_from_slice(&text_delta(new_index, note));
                note_said = true;
            }
            out.extend_from_slice(&block_stop(new_index));
        }
        if !note_said {
            let sent = self.begun_at_client.iter().filter_map(|index| self.new_index(*index, edits)).max();
            out.extend(text_block(sent.map_or(0, |sent| sent + 1), note));
        }
        out.extend_from_slice(&event("messageStop", &json!({ "stopReason": END_TURN })));
        Last::Frames(out)
    }

    fn error_event(&self, error: &ProviderError) -> SseEvent {
        API.encode_stream_error(error)
    }

    /// A comment: a frame has none, so this one never leaves in frames.
    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }
}
