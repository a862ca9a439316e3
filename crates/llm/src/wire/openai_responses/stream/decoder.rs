//! Reading.

use std::collections::BTreeMap;

use backstop_hooks::conversation::Part;
use serde_json::Value;

use super::event::Piece;
use super::item::{OpenItem, STATUS, is_state};
use crate::error::{WireError, out_of_order};
use crate::model::ModelEvent;
use crate::sse::SseEvent;
use crate::wire::json::{Object, parse};
use crate::wire::openai_responses::item::{Reader, decode_item};
use crate::wire::openai_responses::response::{decode_body, refuse_failed};
use crate::wire::openai_responses::{CallKind, decode_error};
use crate::wire::{Api, is_word_of};

const WHAT: &str = "stream event";

/// Reads one streamed answer.
///
/// Items come by `output_index`, in ascending order. They may overlap, but a part begins only in the last one,
/// so that the order in which parts begin is the order that they have. Every copy of a text, an id or a name
/// is compared with the first; so is the final answer, if it has an output.
#[derive(Debug, Default)]
pub(crate) struct StreamDecoder {
    phase: Phase,
    id: String,
    model: String,
    sequence: Option<u64>,
    items: BTreeMap<usize, Item>,
    /// The place of each item among all, by index.
    places: BTreeMap<usize, usize>,
    /// The index of the part that begins next.
    next: usize,
}

#[derive(Debug, Default, PartialEq, Eq, Clone, Copy)]
enum Phase {
    #[default]
    Before,
    Inside,
    Done,
}

#[derive(Debug)]
enum Item {
    Open(OpenItem),
    Whole { value: Value, parts: Vec<(usize, Part)> },
}

impl StreamDecoder {
    pub(crate) fn push(&mut self, event: &SseEvent) -> Result<Vec<ModelEvent>, WireError> {
        // Not of this wire, but some servers end with it.
        if event.data.trim() == "[DONE]" {
            return self.finish();
        }
        self.push_value(event.event.as_deref(), &parse(WHAT, &event.data)?)
    }

    /// Reads one event, parsed, and its name in the stream.
    pub(crate) fn push_value(
        &mut self,
        name: Option<&str>,
        value: &Value,
    ) -> Result<Vec<ModelEvent>, WireError> {
        let data = Object::of(WHAT, value)?;
        let kind = data.required_string("type")?;
        if name.is_some_and(|name| name != kind) {
            return Err(out_of_order("an event has two names"));
        }
        if kind == "error" {
            return Err(decode_error(0, value).into());
        }
        if self.phase == Phase::Done && kind.starts_with("response.") {
            return Err(out_of_order("something follows the end"));
        }
        let mut events = Vec::new();
        self.event(kind, data, &mut events)?;
        Ok(events)
    }

    pub(crate) fn finish(&mut self) -> Result<Vec<ModelEvent>, WireError> {
        if self.phase == Phase::Done { Ok(Vec::new()) } else { Err(WireError::Truncated) }
    }

    /// An item that is whole.
    pub(crate) fn item(&self, index: usize) -> Option<&Value> {
        match self.items.get(&index)? {
            Item::Whole { value, .. } => Some(value),
            Item::Open(_) => None,
        }
    }

    fn event(
        &mut self,
        kind: &str,
        event: Object<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        match kind {
            "response.created" => {
                self.count(event)?;
                self.start(event.required_object("response")?, events)
            }
            _ if !kind.starts_with("response.") => Ok(()),
            _ if self.phase == Phase::Before => Err(out_of_order("the answer has not been created")),
            "response.queued" | "response.in_progress" => {
                self.count(event)?;
                self.check_frame(event.required_object("response")?)
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.count(event)?;
                self.end(kind, event.required_object("response")?, events)
            }
            "response.output_item.added" => {
                self.count(event)?;
                self.begin_item(event, events)
            }
            "response.output_item.done" => {
                self.count(event)?;
                let index = required_index(event)?;
                match event.get("item") {
                    Some(item) => self.finish_item(index, item, events),
                    None => Err(event.error("item", "is missing")),
                }
            }
            "response.output_text.annotation.added" => {
                self.count(event)?;
                self.annotation(event)
            }
            // Nothing here could judge what is said aloud.
            _ if kind.starts_with("response.audio.") => Err(out_of_order("the answer is spoken")),
            _ => self.piece(kind, event, events),
        }
    }

    /// Sequence numbers ascend: clients that resume a stream skip what they have.
    fn count(&mut self, event: Object<'_>) -> Result<(), WireError> {
        let number = event.u64("sequence_number")?;
        if number.is_some() && number <= self.sequence {
            return Err(out_of_order("the sequence numbers do not ascend"));
        }
        self.sequence = number.or(self.sequence);
        Ok(())
    }

    fn start(&mut self, response: Object<'_>, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        if self.phase != Phase::Before {
            return Err(out_of_order("a second answer begins"));
        }
        self.phase = Phase::Inside;
        self.id = response.string("id")?.unwrap_or_default().to_owned();
        self.model = response.string("model")?.unwrap_or_default().to_owned();
        self.check_frame(response)?;
        events.push(ModelEvent::Started { id: self.id.clone(), model: self.model.clone() });
        Ok(())
    }

    /// An answer that has begun says nothing yet.
    fn check_frame(&self, response: Object<'_>) -> Result<(), WireError> {
        self.check_id(response)?;
        match response.array("output")?.unwrap_or_default() {
            [] => Ok(()),
            _ => Err(out_of_order("the answer starts with content")),
        }
    }

    fn check_id(&self, response: Object<'_>) -> Result<(), WireError> {
        if response.string("id")?.unwrap_or_default() == self.id {
            Ok(())
        } else {
            Err(out_of_order("the answer changes its id"))
        }
    }

    fn begin_item(&mut self, event: Object<'_>, events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        let index = required_index(event)?;
        // An item that is announced and never comes.
        let Some(item) = event.object("item")? else { return Ok(()) };
        if self.items.last_key_value().is_some_and(|(last, _)| *last >= index) {
            return Err(out_of_order("the items do not ascend"));
        }
        let mut open = OpenItem::begin(item, self.next, events)?;
        open.announce(item);
        self.next += 1;
        self.place_of(index);
        self.items.insert(index, Item::Open(open));
        let begun = item.rest(&[]);
        self.begin_texts(index, &Value::Object(begun), events)
    }

    /// The place of an item among all: items ascend, so it is how many have begun before.
    fn place_of(&mut self, index: usize) -> usize {
        let count = self.places.len();
        *self.places.entry(index).or_insert(count)
    }

    /// Texts that an item has from the start.
    fn begin_texts(
        &mut self,
        index: usize,
        value: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        for piece in Piece::in_item(value) {
            self.with_item(index, |item, next| item.piece(&piece, next, events))?;
        }
        Ok(())
    }

    /// Changes an item that is open.
    fn with_item<T>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut OpenItem, super::item::NextIndex<'_>) -> Result<T, WireError>,
    ) -> Result<T, WireError> {
        let is_last = self.items.last_key_value().is_some_and(|(last, _)| *last == index);
        let Some(Item::Open(item)) = self.items.get_mut(&index) else {
            return Err(out_of_order("an item grows while it is not open"));
        };
        change(item, &mut || take_next(&mut self.next, is_last))
    }

    fn piece(
        &mut self,
        kind: &str,
        event: Object<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        // New kinds of events are to be skipped; what they add to an item is in the item when it is whole.
        let Some(piece) = Piece::read(kind, event)? else { return Ok(()) };
        self.count(event)?;
        let (id, name) = (event.string("item_id")?, event.string("name")?);
        self.with_item(required_index(event)?, |item, next| {
            item.check_id(id)?;
            item.check_name(name)?;
            item.piece(&piece, next, events)
        })
    }

    fn annotation(&mut self, event: Object<'_>) -> Result<(), WireError> {
        let content = event.index("content_index")?;
        let content = content.ok_or_else(|| event.error("content_index", "is missing"))?;
        let id = event.string("item_id")?;
        self.with_item(required_index(event)?, |item, _| {
            item.check_id(id)?;
            if let Some(annotation) = event.get("annotation") {
                item.annotation(content, annotation);
            }
            Ok(())
        })
    }

    fn finish_item(
        &mut self,
        index: usize,
        value: &Value,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let open = match self.items.get(&index) {
            Some(Item::Whole { .. }) => return Err(out_of_order("an item ends twice")),
            Some(Item::Open(_)) => self.items.remove(&index),
            None => None,
        };
        let is_last = self.items.last_key_value().is_none_or(|(last, _)| *last < index);
        let open = match open {
            Some(Item::Open(open)) => open,
            _ if !is_last => return Err(out_of_order("the items do not ascend")),
            _ => {
                let open = OpenItem::begin(Object::of("item", value)?, self.next, events)?;
                self.next += 1;
                open
            }
        };
        let place = self.place_of(index);
        let parts = decode_item(value, Reader::Answer { response: &self.id, place })?;
        let parts = open.finish(value, parts, &mut || take_next(&mut self.next, is_last), events)?;
        self.items.insert(index, Item::Whole { value: value.clone(), parts });
        Ok(())
    }

    fn end(
        &mut self,
        kind: &str,
        response: Object<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        self.check_id(response)?;
        refuse_failed(response)?;
        match (kind, response.string("status")?) {
            ("response.failed", _) => return Err(decode_error(0, &Value::Null).into()),
            ("response.completed", None | Some("completed"))
            | ("response.incomplete", Some("incomplete")) => {}
            _ => return Err(out_of_order("the answer ends in two ways")),
        }
        let output = response.array("output")?.unwrap_or_default();
        if kind == "response.incomplete" && !output.is_empty() {
            self.drop_halves(output.len());
        }
        self.take_output(output, events)?;
        let mut content = Vec::new();
        for item in self.items.values() {
            match item {
                Item::Whole { parts, .. } => content.extend(parts.iter().map(|(_, part)| part.clone())),
                Item::Open(_) => return Err(WireError::Truncated),
            }
        }
        let answer = decode_body(response, content)?;
        self.phase = Phase::Done;
        events.push(ModelEvent::Usage { usage: answer.usage });
        events.push(ModelEvent::Finished { response: Box::new(answer) });
        Ok(())
    }

    /// An answer that broke off may leave out the call that it broke off in: half a call is none.
    fn drop_halves(&mut self, count: usize) {
        let is_half = |item: &Item| matches!(item, Item::Open(open) if open.is_silent());
        if self.items.values().filter(|item| !is_half(item)).count() == count {
            self.items.retain(|_, item| !is_half(item));
        }
    }

    /// The final copy of all items. One that has not ended ends with it.
    fn take_output(&mut self, output: &[Value], events: &mut Vec<ModelEvent>) -> Result<(), WireError> {
        if output.is_empty() {
            return Ok(());
        }
        let mut indexes: Vec<usize> = self.items.keys().copied().collect();
        if indexes.is_empty() {
            indexes = (0..output.len()).collect();
        }
        if indexes.len() != output.len() {
            return Err(out_of_order("the final answer has other items"));
        }
        for (index, last) in indexes.into_iter().zip(output) {
            match self.items.get(&index) {
                Some(Item::Whole { value, .. }) if same_item(value, last) => {}
                Some(Item::Whole { .. }) => {
                    return Err(out_of_order("the final answer says something else"));
                }
                _ => self.finish_item(index, last, events)?,
            }
        }
        Ok(())
    }
}

fn take_next(next: &mut usize, is_last: bool) -> Result<usize, WireError> {
    if !is_last {
        return Err(out_of_order("a part begins in an item that others follow"));
    }
    *next += 1;
    Ok(*next - 1)
}

fn required_index(event: Object<'_>) -> Result<usize, WireError> {
    event.index("output_index")?.ok_or_else(|| event.error("output_index", "is missing"))
}

/// Whether two copies of an item say the same. Of a call only one of them is judged, so that what it says to do stands in both of
/// them letter by letter, and every field of one that is judged as a whole.
fn same_item(one: &Value, other: &Value) -> bool {
    let kind = one.get("type").and_then(Value::as_str).and_then(CallKind::in_answer);
    let field = |name: &str| (one.get(name), other.get(name));
    match kind {
        None => same(one, other),
        Some(CallKind::Whole) => {
            let (Value::Object(fields), Value::Object(others)) = (one, other) else { return false };
            let names = || fields.keys().chain(others.keys());
            names().all(|name| match field(name) {
                (Some(one), Some(other)) if name == STATUS => is_state(one) && is_state(other),
                (Some(Value::Null), None) | (None, Some(Value::Null)) => {
                    is_word_of(Api::OpenAiResponses, name)
                }
                (one, other) => one == other,
            })
        }
        Some(kind) => {
            let says = |value: Option<&Value>| value.is_some_and(|value| !value.is_null());
            same(one, other)
                && kind.payload().iter().map(|name| field(name)).all(|(one, other)| {
                    match says(one) || says(other) {
                        true => one == other,
                        false => true,
                    }
                })
        }
    }
}

/// Whether two copies of a thing say the same. What is made anew for each copy is not compared, and what a copy
/// leaves out it says as nothing.
fn same(one: &Value, other: &Value) -> bool {
    const NOT_SAID: [&str; 3] = ["status", "encrypted_content", "logprobs"];
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            let keys = one.keys().chain(other.keys());
            keys.filter(|key| !NOT_SAID.contains(&key.as_str()))
                .all(|key| same(one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Null, Value::Array(items)) | (Value::Array(items), Value::Null) => items.is_empty(),
        (one, other) => one == other,
    }
}
