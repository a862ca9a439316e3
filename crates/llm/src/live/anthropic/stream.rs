//! Streamed answers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::Json;
use backstop_hooks::conversation::Part;
use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use super::{API, END_TURN, TOOL_USE, find_in_event, tool_of_call};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::findings::{Findings, ResultKey};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Splices, quote};
use crate::live::stream::{Edits, Last, Reading, StreamWire, TextPiece, Waiting};
use crate::live::{PartKey, TextKind};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::anthropic::StreamDecoder;
use crate::wire::{ANTHROPIC_BLOCKS, ANTHROPIC_DELTAS, ANTHROPIC_EVENTS, TypeClass, not_json, parse_message};

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct AnthropicStream {
    model: String,
    decoder: StreamDecoder,
    /// By the wire's index, in the order of which they stand in the answer.
    blocks: BTreeMap<usize, Block>,
    /// What the provider's tools were called with, block by block, while it comes.
    ran: BTreeMap<usize, ResultKey>,
    response: Option<ModelResponse>,
    output_tokens: u64,
    /// What the client was sent: the start, and the blocks that are open there.
    started: bool,
    open_at_client: BTreeSet<usize>,
    started_at_client: BTreeSet<usize>,
    reason_at_client: bool,
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

#[derive(Clone, Copy, Debug)]
struct Block {
    part: PartKey,
    kind: BlockKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BlockKind {
    Text(TextId),
    Thinking(TextId),
    Call,
    /// What the provider ran.
    Ran,
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
    MessageDelta,
    MessageStop,
    Other,
}

impl AnthropicStream {
    pub(crate) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            decoder: StreamDecoder::default(),
            blocks: BTreeMap::new(),
            ran: BTreeMap::new(),
            response: None,
            output_tokens: 0,
            started: false,
            open_at_client: BTreeSet::new(),
            started_at_client: BTreeSet::new(),
            reason_at_client: false,
            stopped_at_client: false,
            moved: OnceCell::new(),
            calls: OnceCell::new(),
            calls_left: OnceCell::new(),
        }
    }

    fn block(&self, index: usize) -> Option<Block> {
        self.blocks.get(&index).copied()
    }

    fn start_block(&mut self, index: usize, data: &str, ledger: &mut Ledger) -> Reading<Mark> {
        let block = Node::root(data).and_then(|root| root.get("content_block"));
        let kind_name = block.as_ref().and_then(|block| block.get("type")).and_then(|kind| kind.string());
        let part = PartKey { choice: 0, part: u32::try_from(self.blocks.len()).unwrap_or(u32::MAX) };
        let (kind, field) = match kind_name.as_deref() {
            Some("text") => (BlockKind::Text(ledger.begin(part, TextKind::Visible, false)), "text"),
            Some("thinking") => {
                (BlockKind::Thinking(ledger.begin(part, TextKind::Thinking, true)), "thinking")
            }
            Some(kind) => match ANTHROPIC_BLOCKS.class_or_call(kind) {
                TypeClass::Call => (BlockKind::Call, ""),
                TypeClass::Ran => (BlockKind::Ran, ""),
                TypeClass::Text | TypeClass::Result | TypeClass::Inert => (BlockKind::Other, ""),
            },
            None => (BlockKind::Other, ""),
        };
        self.blocks.insert(index, Block { part, kind });
        self.moved.take();
        self.calls.take();
        self.calls_left.take();
        let mut reading = Reading::plain(Mark::BlockStart(index));
        reading.call = kind == BlockKind::Call;
        let literal = block.and_then(|block| block.get_some(field));
        if let (BlockKind::Text(id) | BlockKind::Thinking(id), Some(literal)) = (kind, literal) {
            reading.texts.extend(piece(id, &literal, ledger).filter(|piece| !piece.piece.is_empty()));
        }
        reading
    }

    fn delta(&self, index: usize, data: &str, ledger: &mut Ledger) -> Reading<Mark> {
        let Some(block) = self.block(index) else { return Reading::plain(Mark::Other) };
        let delta = Node::root(data).and_then(|root| root.get("delta"));
        let kind = delta.as_ref().and_then(|delta| delta.get("type")).and_then(|kind| kind.string());
        let text = match (block.kind, kind.as_deref()) {
            (BlockKind::Text(id), Some("text_delta")) => Some((id, "text")),
            (BlockKind::Thinking(id), Some("thinking_delta")) => Some((id, "thinking")),
            (BlockKind::Text(_), Some("citations_delta")) => return Reading::plain(Mark::Citation(index)),
            _ => None,
        };
        let literal = text.zip(delta).and_then(|((id, field), delta)| Some((id, delta.get_some(field)?)));
        match literal.and_then(|(id, literal)| piece(id, &literal, ledger)) {
            Some(piece) => Reading {
                texts: vec![piece],
                padding: Some(Vec::new()),
                ..Reading::plain(Mark::TextDelta(index))
            },
            None => self.other_event(index),
        }
    }

    /// An event of a block that is not known here, or not understood.
    fn other_event(&self, index: usize) -> Reading<Mark> {
        let call = self.block(index).is_some_and(|block| block.kind == BlockKind::Call);
        Reading { call, ..Reading::plain(Mark::BlockDelta(index)) }
    }

    fn stop_block(&self, index: usize, ledger: &mut Ledger) -> Reading<Mark> {
        let kind = self.block(index).map(|block| block.kind);
        if let Some(BlockKind::Text(id) | BlockKind::Thinking(id)) = kind {
            ledger.close(id);
        }
        Reading { call: kind == Some(BlockKind::Call), ..Reading::plain(Mark::BlockStop(index)) }
    }

    /// Holds an event of a call that the provider ran until the call is there as a `whole`.
    fn hold_call(
        &mut self,
        index: usize,
        event: &Node<'_>,
        whole: Option<&Json>,
        findings: &mut Findings,
    ) -> Result<(), WireError> {
        if self.block(index).is_none_or(|block| block.kind != BlockKind::Ran) {
            return Ok(());
        }
        let Some(pieces) = findings.piece(self.ran.get(&index).copied(), event)? else { return Ok(()) };
        self.ran.insert(index, pieces);
        let Some(call) = whole else { return Ok(()) };
        let field = |name: &str| call.get(name).and_then(Value::as_str).unwrap_or_default();
        findings.ran_in(pieces, tool_of_call(field("type"), field("name")), field("id"), call.to_value())
    }

    fn moved(&self, edits: &Edits<'_>) -> &Moved {
        self.moved.get_or_init(|| {
            let (mut indexes, mut removed) = (BTreeMap::new(), 0);
            for (index, block) in &self.blocks {
                let is_removed = edits.calls.is_removed(block.part);
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
            && edits.ledger.replacement(text.id, text.piece.clone()).is_some_and(|new| new.is_empty())
        {
            return;
        }
        if let (Mark::Citation(_), Some(BlockKind::Text(id))) =
            (mark, self.block(index).map(|block| block.kind))
            && edits.ledger.has_edits(id)
        {
            return;
        }
        if let (Mark::BlockStop(_), Some(BlockKind::Text(id))) =
            (mark, self.block(index).map(|block| block.kind))
            && let Some(tail) = edits.ledger.tail(id)
        {
            out.extend_from_slice(&text_delta(new_index, &tail));
        }
        if new_index == index && texts.is_empty() {
            frame.write_plain(edits, out);
            return;
        }
        frame.write_edited(edits, out, |root| {
            let mut splices = texts;
            if new_index != index
                && let Some(place) = root.get("index")
            {
                splices.replace(place.span(), new_index.to_string());
            }
            splices
        });
    }

    fn write_message_delta(&self, frame: &Waiting<Mark>, edits: &Edits<'_>, out: &mut BytesMut) {
        if let Some(note) = edits.calls.note(0).filter(|_| !self.reason_at_client) {
            out.extend_from_slice(&text_block(self.next_index(edits), note));
        }
        frame.write_edited(edits, out, |root| {
            let mut splices = Splices::default();
            if edits.calls.any_removed() && !self.has_calls_left(edits) {
                end_turn(root.get("delta"), &mut splices);
            }
            splices
        });
    }
}

/// Writes `end_turn` in place of the stop reason `tool_use`.
pub(super) fn end_turn(holder: Option<Node<'_>>, splices: &mut Splices) {
    if let Some(reason) = holder.and_then(|holder| holder.get("stop_reason"))
        && reason.string().as_deref() == Some(TOOL_USE)
    {
        splices.replace(reason.span(), quote(END_TURN));
    }
}

fn piece(id: TextId, literal: &Node<'_>, ledger: &mut Ledger) -> Option<TextPiece> {
    let text = literal.string()?;
    Some(TextPiece { id, piece: ledger.append(id, &text), literal: literal.span() })
}

/// The type that nobody knows, of an event or of its delta.
fn unknown_type(kind: &str, event: &Value) -> Option<String> {
    if ANTHROPIC_EVENTS.class(kind).is_none() {
        return Some(kind.to_owned());
    }
    let delta = event.pointer("/delta/type").and_then(Value::as_str)?;
    ANTHROPIC_DELTAS.class(delta).is_none().then(|| delta.to_owned())
}

fn event(data: &Value) -> Bytes {
    let name = data.get("type").and_then(Value::as_str);
    SseEvent::new(name, data.to_string()).encode()
}

fn text_delta(index: usize, text: &str) -> Bytes {
    event(
        &json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": text}}),
    )
}

fn block_stop(index: usize) -> Bytes {
    event(&json!({"type": "content_block_stop", "index": index}))
}

fn text_block(index: usize, text: &str) -> Vec<u8> {
    let start = json!({
        "type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""},
    });
    [event(&start), text_delta(index, text), block_stop(index)].concat()
}

impl StreamWire for AnthropicStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        let value = parse_message(data.as_bytes()).map_err(|error| not_json("stream event", &error))?;
        let kind = value.get("type").and_then(Value::as_str).unwrap_or_default();
        // Some readers go by the name, some by the type.
        if name.is_some_and(|name| name != kind && name != "message") {
            return Err(out_of_order("an event's name is not its type"));
        }
        let mut whole = None;
        for event in self.decoder.push_value(&value)? {
            match event {
                ModelEvent::PartFinished { part: Part::Unknown { raw }, .. } => whole = Some(raw),
                ModelEvent::Finished { response } => self.response = Some(*response),
                ModelEvent::Usage { usage } => self.output_tokens = usage.output,
                _ => {}
            }
        }
        let index = value.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        let unknown = unknown_type(kind, &value);
        if unknown.is_none()
            && let Some(root) = Node::root(data)
        {
            find_in_event(kind, &root, &mut ledger.findings)?;
        }
        let reading = match (kind, index) {
            ("message_start", _) => Reading::plain(Mark::MessageStart),
            ("content_block_start", Some(index)) => self.start_block(index, data, ledger),
            ("content_block_delta", Some(index)) => self.delta(index, data, ledger),
            ("content_block_stop", Some(index)) => self.stop_block(index, ledger),
            ("message_delta", _) => Reading::plain(Mark::MessageDelta),
            ("message_stop", _) => Reading::plain(Mark::MessageStop),
            (_, Some(index)) if self.blocks.contains_key(&index) => self.other_event(index),
            _ => Reading::plain(Mark::Other),
        };
        if let (Some(index), Some(root)) = (index, Node::root(data)) {
            self.hold_call(index, &root, whole.as_ref(), &mut ledger.findings)?;
        }
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
        self.decoder.finish().map(|_| ())
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
            Mark::MessageDelta => self.write_message_delta(frame, edits, out),
            Mark::MessageStart | Mark::MessageStop | Mark::Other => frame.write_plain(edits, out),
        }
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        match mark {
            Mark::MessageStart => self.started = true,
            Mark::BlockStart(index) => {
                self.open_at_client.insert(*index);
                self.started_at_client.insert(*index);
            }
            Mark::BlockStop(index) => {
                self.open_at_client.remove(index);
                if let Some(BlockKind::Text(id) | BlockKind::Thinking(id)) =
                    self.block(*index).map(|block| block.kind)
                {
                    ledger.end_left(id);
                }
            }
            Mark::MessageDelta => self.reason_at_client = true,
            Mark::MessageStop => self.stopped_at_client = true,
            Mark::TextDelta(_) | Mark::Citation(_) | Mark::BlockDelta(_) | Mark::Other => {}
        }
    }

    fn end_with(&mut self, note: &str, waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Last {
        let stop = event(&json!({"type": "message_stop"}));
        match (self.reason_at_client, self.stopped_at_client) {
            (_, true) => return Last::Nothing,
            (true, false) => return Last::Frames(stop.to_vec()),
            (false, false) => {}
        }
        let mut out = Vec::new();
        if !self.started {
            let is_start =
                |frame: &&Waiting<Mark>| frame.mark() == Some(&Mark::MessageStart) && frame.is_plain();
            match waiting.iter().find(is_start) {
                Some(start) => out.extend_from_slice(start.bytes()),
                None => out.extend_from_slice(&message_start(&self.model)),
            }
        }
        // A text block that says nothing yet takes the note: clients can't send empty ones back.
        let mut note_said = false;
        for index in &self.open_at_client {
            let Some(new_index) = self.new_index(*index, edits) else { continue };
            if let Some(BlockKind::Text(id)) = self.block(*index).map(|block| block.kind)
                && !note_said
                && !edits.ledger.has_left(id)
            {
                out.extend_from_slice(&text_delta(new_index, note));
                note_said = true;
            }
            out.extend_from_slice(&block_stop(new_index));
        }
        if !note_said {
            let sent = self.started_at_client.iter().filter_map(|index| self.new_index(*index, edits)).max();
            out.extend(text_block(sent.map_or(0, |sent| sent + 1), note));
        }
        out.extend_from_slice(&event(&json!({
            "type": "message_delta",
            "delta": {"stop_reason": END_TURN, "stop_sequence": null},
            "usage": {"output_tokens": self.output_tokens},
        })));
        out.extend_from_slice(&stop);
        Last::Frames(out)
    }

    fn has_ended(&self) -> bool {
        self.stopped_at_client
    }

    fn error_event(&self, error: &ProviderError) -> SseEvent {
        API.encode_stream_error(error)
    }

    fn keep_alive(&self) -> Bytes {
        event(&json!({"type": "ping"}))
    }
}

fn message_start(model: &str) -> Bytes {
    event(&json!({"type": "message_start", "message": {
        "id": "msg_withheld", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 0, "output_tokens": 0},
    }}))
}
