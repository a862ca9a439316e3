//! Streamed answers.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde_json::{Map, Value, json};

use super::{
    API, DELTA, KNOWN, REASONING, STOP, TOOL_CALLS, VISIBLE, check_misplaced, check_others, find_in_answer,
    find_in_choice, waits_for_calls,
};
use crate::error::{ProviderError, WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Slot, Splices, quote};
use crate::live::steps::step;
use crate::live::stream::{Edits, Last, Reading, StreamWire, TextPiece, Waiting};
use crate::live::{PartKey, TextKind, choice_number, spaced_note};
use crate::model::{ModelEvent, ModelResponse};
use crate::sse::SseEvent;
use crate::wire::openai_chat::{ChoiceDecoder, FUNCTION_CALL, Head, PADDING, Said, choices_of, is_done};
use crate::wire::{not_json, parse_message};

/// The fields of an answer that a chunk of our own has, too.
const ENVELOPE: [&str; 6] = ["created", "id", "model", "object", "service_tier", "system_fingerprint"];

const WHAT: &str = "stream chunk";
const DONE: &[u8] = b"data: [DONE]\n\n";

/// The wire's knowledge about one streamed answer.
#[derive(Debug)]
pub(crate) struct ChatStream {
    head: Head,
    /// The first chunk without its choices: what every chunk of this answer says.
    envelope: Map<String, Value>,
    choices: BTreeMap<u32, Choice>,
    responses: Vec<ModelResponse>,
    done: bool,
    done_at_client: bool,
}

#[derive(Debug, Default)]
struct Choice {
    decoder: ChoiceDecoder,
    /// Texts by part.
    texts: BTreeMap<usize, TextId>,
    /// Calls: part and the wire's index, in the order in which they began.
    calls: Vec<(PartKey, usize)>,
    /// The wire's indexes of the calls that were removed, in order; known once the calls are decided.
    removed: OnceCell<Vec<usize>>,
    begun_at_client: bool,
    finished_at_client: bool,
}

impl Choice {
    /// The wire's indexes of the calls that were removed, in order.
    fn removed(&self, edits: &Edits<'_>) -> &[usize] {
        self.removed.get_or_init(|| {
            let removed = self.calls.iter().filter(|(part, _)| edits.calls.is_removed(*part));
            let mut indexes: Vec<usize> = removed.map(|(_, wire_index)| *wire_index).collect();
            indexes.sort_unstable();
            indexes
        })
    }
}

/// What an event is.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// A chunk that adds to one text and says nothing else.
    Text {
        choice: u32,
        part: usize,
    },
    /// Any other chunk with choices.
    Chunk(Arc<[ChoiceMark]>),
    /// A chunk without choices.
    NoChoice {
        usage: bool,
    },
    Done,
}

/// What a chunk says in one choice.
#[derive(Debug)]
pub(crate) struct ChoiceMark {
    choice: u32,
    /// For each entry of `tool_calls` its part.
    calls: Vec<PartKey>,
    /// The part of `function_call`.
    function_call: Option<PartKey>,
    /// The part of the first text.
    text: Option<usize>,
    finishes: bool,
}

impl ChatStream {
    pub(crate) fn new(model: &str) -> Self {
        let envelope = json!({
            "id": "chatcmpl-withheld", "object": "chat.completion.chunk", "created": 0, "model": model,
        });
        Self {
            head: Head::default(),
            envelope: envelope.as_object().cloned().unwrap_or_default(),
            choices: BTreeMap::new(),
            responses: Vec::new(),
            done: false,
            done_at_client: false,
        }
    }

    fn end(&mut self) -> Result<(), WireError> {
        if self.choices.is_empty() {
            return Err(WireError::Truncated);
        }
        if self.choices.keys().zip(0..).any(|(index, expected)| *index != expected) {
            return Err(out_of_order("the indexes of the choices have a gap"));
        }
        self.responses = self
            .choices
            .values_mut()
            .map(|choice| choice.decoder.finish(&self.head))
            .collect::<Result<_, _>>()?;
        self.done = true;
        Ok(())
    }

    fn chunk(&self, choice: u32, delta: &Value, finish_reason: Option<&str>) -> Bytes {
        let mut body = self.envelope.clone();
        let choice =
            json!({"index": choice, "delta": delta, "logprobs": null, "finish_reason": finish_reason});
        body.insert("choices".to_owned(), json!([choice]));
        SseEvent::new(None, Value::Object(body).to_string()).encode()
    }

    /// The text behind the end of a choice's texts, and the note.
    fn write_end_of_choice(&self, choice: u32, edits: &Edits<'_>, out: &mut BytesMut) {
        let texts = self.choices.get(&choice).into_iter().flat_map(|choice| choice.texts.values());
        for id in texts {
            if let Some(tail) = edits.ledger.tail(*id) {
                let field = edits.ledger.kind(*id).map_or("content", |kind| match kind {
                    TextKind::Visible => "content",
                    TextKind::Thinking => "reasoning_content",
                });
                out.extend_from_slice(&self.chunk(choice, &json!({field: tail}), None));
            }
        }
        if let Some(note) = edits.calls.note(choice) {
            let note = spaced_note(note, edits.ledger.choice_has_visible(choice));
            out.extend_from_slice(&self.chunk(choice, &json!({"content": note}), None));
        }
    }

    fn write_chunk(
        &self,
        frame: &Waiting<Mark>,
        marks: &[ChoiceMark],
        edits: &Edits<'_>,
        out: &mut BytesMut,
    ) {
        for mark in marks.iter().filter(|mark| mark.finishes) {
            self.write_end_of_choice(mark.choice, edits, out);
        }
        let mut is_void = false;
        let start = out.len();
        frame.write_edited(edits, out, |root| {
            let texts = frame.texts().iter().map(|text| (text.literal.start, text)).collect();
            let mut edit = ChunkEdit { texts, edits, splices: frame.text_splices(edits.ledger), took: false };
            edit.took = frame.texts().iter().any(|text| edit.is_emptied(&text.literal));
            let mut says_nothing = root.get_some("usage").is_none();
            let choices = root.get("choices").map(|choices| choices.items()).unwrap_or_default();
            for (node, mark) in choices.iter().zip(marks) {
                says_nothing &= self.edit_choice(node, mark, &mut edit);
            }
            is_void = says_nothing && edit.took;
            edit.splices
        });
        if is_void {
            out.truncate(start);
        }
    }

    /// Edits one choice of a chunk; says whether it says nothing any more.
    fn edit_choice(&self, node: &Node<'_>, mark: &ChoiceMark, edit: &mut ChunkEdit<'_>) -> bool {
        let edits = edit.edits;
        if edits.ledger.choice_is_edited(mark.choice)
            && let Some(copies) = node.get_some("logprobs")
        {
            edit.splices.replace(copies.span(), "null");
        }
        let reason = node.get_some("finish_reason");
        if let Some(reason) = &reason
            && edits.calls.lost_one(mark.choice)
            && waits_for_calls(reason)
            && self
                .choices
                .get(&mark.choice)
                .is_some_and(|choice| choice.removed(edits).len() == choice.calls.len())
        {
            edit.splices.replace(reason.span(), quote(STOP));
        }
        let Some(delta) = node.get_some("delta") else { return reason.is_none() };
        let no_call = self.edit_calls(&delta, mark, edit);
        let lost_function = mark.function_call.is_some_and(|part| edits.calls.is_removed(part));
        edit.took |= lost_function;
        let members = delta.members();
        let is_edited = members.iter().any(|member| edit.is_edited(&member.value.span()));
        let is_gone = |key: &str| match key {
            TOOL_CALLS => no_call,
            FUNCTION_CALL => lost_function,
            key => is_edited && !KNOWN.contains(&key),
        };
        let says_nothing = members.iter().all(|member| {
            member.value.is_null() || is_gone(&member.key) || edit.is_emptied(&member.value.span())
        });
        if members.iter().any(|member| is_gone(&member.key)) {
            edit.splices.remove_members(&delta, is_gone);
        }
        says_nothing && reason.is_none_or(|reason| reason.raw() == "\"\"")
    }

    /// Edits the tool calls of a delta; says whether there were some and none is left.
    fn edit_calls(&self, delta: &Node<'_>, mark: &ChoiceMark, edit: &mut ChunkEdit<'_>) -> bool {
        let edits = edit.edits;
        let Some(calls) = delta.get_some(TOOL_CALLS).filter(|_| edits.calls.lost_one(mark.choice)) else {
            return false;
        };
        let Some(choice) = self.choices.get(&mark.choice) else { return false };
        let items = calls.items();
        // How many removed calls stand before one; looked up for each of a great many calls.
        let gone = choice.removed(edits);
        let is_removed =
            |place: usize| mark.calls.get(place).is_some_and(|part| edits.calls.is_removed(*part));
        let kept: Vec<usize> = (0..items.len()).filter(|place| !is_removed(*place)).collect();
        edit.took |= kept.len() < items.len();
        if kept.is_empty() {
            return !items.is_empty();
        }
        for place in &kept {
            let index = items.get(*place).and_then(|item| item.get_some("index"));
            if let Some(index) = index
                && let Ok(old) = index.raw().parse::<usize>()
            {
                let before = gone.partition_point(|index| *index < old);
                if before > 0 {
                    edit.splices.replace(index.span(), (old - before).to_string());
                }
            }
        }
        if kept.len() < items.len() {
            let spans: Vec<_> = items.iter().map(Node::span).collect();
            edit.splices.set_list(&calls, &spans, kept.into_iter().map(Slot::Keep).collect());
        }
        false
    }
}

/// Edits of one chunk.
struct ChunkEdit<'a> {
    /// The texts of the chunk, by where they stand.
    texts: BTreeMap<usize, &'a TextPiece>,
    edits: &'a Edits<'a>,
    splices: Splices,
    /// Something that the chunk said is gone.
    took: bool,
}

impl ChunkEdit<'_> {
    fn replacement(&self, literal: &std::ops::Range<usize>) -> Option<String> {
        step();
        let text = self.texts.get(&literal.start).filter(|text| text.literal == *literal)?;
        self.edits.ledger.replacement(text.id, text.piece.clone())
    }

    fn is_edited(&self, literal: &std::ops::Range<usize>) -> bool {
        self.replacement(literal).is_some()
    }

    fn is_emptied(&self, literal: &std::ops::Range<usize>) -> bool {
        self.replacement(literal).is_some_and(|new| new.is_empty())
    }
}

/// Enters what a choice of a chunk says into the ledger.
fn read_choice(
    index: u32,
    choice: &mut Choice,
    said: &Said,
    node: &Node<'_>,
    ledger: &mut Ledger,
) -> Result<(Vec<TextPiece>, ChoiceMark), WireError> {
    let key = |part: usize| PartKey { choice: index, part: u32::try_from(part).unwrap_or(u32::MAX) };
    let delta = node.get_some("delta");
    delta.as_ref().map_or(Ok(()), check_others)?;
    let field = |name: &str| delta.as_ref().and_then(|delta| delta.get_some(name));
    let has_text = |node: &Node<'_>| node.raw() != "\"\"";
    let (mut pieces, mut first) = (Vec::new(), None);
    // Pieces of one call have one place.
    let places: BTreeMap<usize, usize> = said.calls.iter().rev().map(|(at, part)| (*part, *at)).collect();
    let mut visible = VISIBLE.into_iter().filter_map(field).filter(has_text);
    for event in &said.events {
        let (part, text, kind, literals) = match event {
            ModelEvent::ThinkingDelta { index, text } => {
                let copies = REASONING.into_iter().filter_map(field).filter(has_text).collect();
                (*index, text, TextKind::Thinking, copies)
            }
            ModelEvent::TextDelta { index, text } => {
                (*index, text, TextKind::Visible, visible.next().into_iter().collect::<Vec<_>>())
            }
            ModelEvent::ToolCallStarted { index, .. } => {
                step();
                choice.calls.push((key(*index), places.get(index).copied().unwrap_or_default()));
                continue;
            }
            _ => continue,
        };
        if literals.is_empty() || literals.iter().any(|copy| copy.string().as_deref() != Some(text.as_str()))
        {
            return Err(out_of_order("the copies of a text disagree"));
        }
        first = first.or(Some(part));
        let id = *choice.texts.entry(part).or_insert_with(|| ledger.begin(key(part), kind, false));
        let piece = ledger.append(id, text);
        pieces.extend(literals.iter().map(|literal| TextPiece {
            id,
            piece: piece.clone(),
            literal: literal.span(),
        }));
    }
    let finishes = said.events.iter().any(|event| matches!(event, ModelEvent::PartFinished { .. }))
        || node.get_some("finish_reason").is_some_and(|reason| has_text(&reason));
    if finishes {
        choice.texts.values().for_each(|id| ledger.close(*id));
        ledger.end_choice(index);
    }
    let calls = said.calls.iter().map(|(_, part)| key(*part)).collect();
    let function_call = said.function_call.map(key);
    Ok((pieces, ChoiceMark { choice: index, calls, function_call, text: first, finishes }))
}

/// Whether log probabilities spell something else than the text beside them.
fn spell_otherwise(choice: &Value) -> bool {
    let spelled = |field: &str| -> Option<Vec<u8>> {
        let tokens = choice.get("logprobs")?.get(field)?.as_array()?;
        let mut text = Vec::new();
        for token in tokens {
            match token.get("bytes").and_then(Value::as_array) {
                Some(bytes) => {
                    text.extend(
                        bytes.iter().filter_map(Value::as_u64).filter_map(|byte| u8::try_from(byte).ok()),
                    );
                }
                None => text.extend_from_slice(token.get("token")?.as_str()?.as_bytes()),
            }
        }
        Some(text)
    };
    let said = |field: &str| choice.get("delta").and_then(|delta| delta.get(field)).and_then(Value::as_str);
    let has_copies = choice.get("logprobs").is_some_and(|copies| !copies.is_null());
    has_copies
        && VISIBLE
            .into_iter()
            .any(|field| spelled(field).unwrap_or_default() != said(field).unwrap_or_default().as_bytes())
}

impl StreamWire for ChatStream {
    type Mark = Mark;

    fn read(
        &mut self,
        name: Option<&str>,
        data: &str,
        ledger: &mut Ledger,
    ) -> Result<Reading<Mark>, WireError> {
        if self.done {
            return Err(out_of_order("something follows the end"));
        }
        if is_done(data) {
            self.end()?;
            return Ok(Reading::plain(Mark::Done));
        }
        let value = parse_message(data.as_bytes()).map_err(|error| not_json(WHAT, &error))?;
        let is_first = self.choices.is_empty();
        self.head.push(name, &value)?;
        let choices = choices_of(&value)?;
        let usage = self.head.usage(&value)?.is_some();
        let root = Node::root(data).ok_or(WireError::Truncated)?;
        find_in_answer(&root, &mut ledger.findings)?;
        if choices.is_empty() {
            return Ok(Reading::plain(Mark::NoChoice { usage }));
        }
        if is_first && let Value::Object(fields) = &value {
            self.envelope = fields.clone();
            self.envelope.retain(|key, _| ENVELOPE.contains(&key.as_str()));
        }
        let nodes = root.get("choices").map(|choices| choices.items()).unwrap_or_default();
        check_misplaced(&root, &nodes, "message")?;
        let (mut texts, mut marks, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        let values = value.get("choices").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (((index, object), node), choice_value) in choices.iter().zip(&nodes).zip(values) {
            let index = choice_number(*index)?;
            find_in_choice(node, DELTA, &mut ledger.findings)?;
            if !seen.insert(index) {
                return Err(out_of_order("a chunk has a choice twice"));
            }
            let choice = self.choices.entry(index).or_default();
            let said = choice.decoder.push(*object, &self.head)?;
            let (pieces, mark) = read_choice(index, choice, &said, node, ledger)?;
            texts.extend(pieces);
            marks.push(mark);
            if spell_otherwise(choice_value) {
                repeats.push(index);
            }
        }
        let padding = root.get_some(PADDING);
        let part = marks.first().filter(|_| !usage).and_then(|mark: &ChoiceMark| mark.text);
        Ok(Reading { repeats, ..reading(&nodes, texts, marks, part, padding) })
    }

    fn more_text(&mut self, mark: &Mark, more: &str) {
        if let Mark::Text { choice, part } = mark
            && let Some(choice) = self.choices.get_mut(choice)
        {
            choice.decoder.extend_text(*part, more);
        }
    }

    fn finish(&mut self, _ledger: &mut Ledger) -> Result<(), WireError> {
        if self.done { Ok(()) } else { self.end() }
    }

    fn is_whole(&self) -> bool {
        self.done
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.choices.get(&choice)?.calls.get(call).map(|(part, _)| *part)
    }

    fn write(&mut self, frame: &Waiting<Mark>, mark: &Mark, edits: &Edits<'_>, out: &mut BytesMut) {
        match mark {
            Mark::Text { .. } if frame.text_splices(edits.ledger).is_empty() => {
                frame.write_plain(edits, out);
            }
            Mark::Text { choice, .. } => {
                let mark = ChoiceMark {
                    choice: *choice,
                    calls: Vec::new(),
                    function_call: None,
                    text: None,
                    finishes: false,
                };
                self.write_chunk(frame, &[mark], edits, out);
            }
            Mark::Chunk(marks) => self.write_chunk(frame, marks, edits, out),
            Mark::NoChoice { .. } | Mark::Done => frame.write_plain(edits, out),
        }
    }

    fn left(&mut self, mark: &Mark, ledger: &mut Ledger) {
        match mark {
            Mark::NoChoice { .. } => {}
            Mark::Text { choice, .. } => {
                if let Some(choice) = self.choices.get_mut(choice) {
                    choice.begun_at_client = true;
                }
            }
            Mark::Chunk(marks) => {
                for mark in marks.iter() {
                    let Some(choice) = self.choices.get_mut(&mark.choice) else { continue };
                    choice.begun_at_client = true;
                    if mark.finishes {
                        choice.finished_at_client = true;
                        choice.texts.values().for_each(|id| ledger.end_left(*id));
                    }
                }
            }
            Mark::Done => self.done_at_client = true,
        }
    }

    fn end_with(&mut self, note: &str, waiting: &[Waiting<Mark>], edits: &Edits<'_>) -> Last {
        let mut out = Vec::new();
        if self.done_at_client {
            return Last::Nothing;
        }
        let known: Vec<u32> =
            if self.choices.is_empty() { vec![0] } else { self.choices.keys().copied().collect() };
        for index in known {
            let choice = self.choices.get(&index);
            if choice.is_some_and(|choice| choice.finished_at_client) {
                continue;
            }
            let texts = choice.into_iter().flat_map(|choice| choice.texts.values());
            let has_text = texts
                .into_iter()
                .any(|id| edits.ledger.kind(*id) == Some(TextKind::Visible) && edits.ledger.has_left(*id));
            let note = spaced_note(note, has_text);
            let delta = if choice.is_some_and(|choice| choice.begun_at_client) {
                json!({"content": note})
            } else {
                json!({"role": "assistant", "content": note})
            };
            out.extend_from_slice(&self.chunk(index, &delta, None));
            out.extend_from_slice(&self.chunk(index, &json!({}), Some(STOP)));
        }
        for frame in waiting {
            if let (Some(Mark::NoChoice { usage: true }), true) = (frame.mark(), frame.is_plain()) {
                out.extend_from_slice(frame.bytes());
            }
        }
        out.extend_from_slice(DONE);
        Last::Frames(out)
    }

    fn has_ended(&self) -> bool {
        self.done_at_client
    }

    fn error_event(&self, error: &ProviderError) -> SseEvent {
        API.encode_stream_error(error)
    }

    fn keep_alive(&self) -> Bytes {
        Bytes::from_static(b": keep-alive\n\n")
    }
}

/// What a chunk is: one that only adds to one text, or any other.
fn reading(
    choices: &[Node<'_>],
    texts: Vec<TextPiece>,
    marks: Vec<ChoiceMark>,
    part: Option<usize>,
    padding: Option<Node<'_>>,
) -> Reading<Mark> {
    let call = marks.iter().any(|mark| !mark.calls.is_empty() || mark.function_call.is_some());
    if let ([node], [mark], [_], Some(part), false) =
        (choices, marks.as_slice(), texts.as_slice(), part, call)
        && !mark.finishes
        && node.get_some("logprobs").is_none()
        && node.get_some("delta").is_some_and(|delta| {
            delta.members().iter().all(|member| member.value.is_null() || KNOWN.contains(&&*member.key))
        })
    {
        let padding =
            Some(padding.filter(|padding| padding.raw().starts_with('"')).iter().map(Node::span).collect());
        let mark = Mark::Text { choice: mark.choice, part };
        return Reading { texts, call, padding, ..Reading::plain(mark) };
    }
    Reading { texts, call, ..Reading::plain(Mark::Chunk(marks.into())) }
}
