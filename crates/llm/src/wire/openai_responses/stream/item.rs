//! One item of an answer while it comes.

use std::collections::{BTreeMap, HashSet};

use backstop_hooks::Digest;
use backstop_hooks::conversation::Part;
use serde_json::{Map, Value, json};

use super::event::{Change, Piece, Place, places};
use crate::error::{WireError, out_of_order};
use crate::live::steps::{step, steps};
use crate::model::ModelEvent;
use crate::wire::json::Object;
use crate::wire::openai_chat::arguments_text;
use crate::wire::openai_responses::CallKind;
use crate::wire::{Api, states};

/// The field of a call that says to which server's tools its name belongs.
const NAMESPACE: &str = "namespace";
/// The field of a call that says which server's tool it is.
const SERVER: &str = "server_label";
/// The field of an item that says how far it has come.
pub(super) const STATUS: &str = "status";

/// An item that has begun. Its first part has an index from the start; others get theirs when they begin.
#[derive(Debug)]
pub(super) struct OpenItem {
    kind: String,
    id: Option<String>,
    call_id: Option<String>,
    name: Option<String>,
    namespace: Option<String>,
    /// Whether the call has been told on: its arguments come in pieces.
    is_told: bool,
    /// The indexes of parts, in the order in which they began.
    indexes: Vec<usize>,
    /// How many of them are taken.
    taken: usize,
    texts: BTreeMap<Place, Grown>,
    annotations: Vec<(usize, Value)>,
    /// What a call said of itself when it began, but for texts that grow.
    announced: Map<String, Value>,
}

#[derive(Debug, Default)]
struct Grown {
    text: String,
    whole: bool,
    /// The index of the part, if the text is one.
    part: Option<usize>,
}

/// How the pieces of a text are told on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Channel {
    Text,
    Thinking,
    Arguments,
    /// Free text, told on as the arguments of a call.
    Input,
    /// Not at all: the item is told as a whole.
    Silent,
}

/// Gives the index of a part that begins, if one may.
pub(super) type NextIndex<'a> = &'a mut dyn FnMut() -> Result<usize, WireError>;

impl OpenItem {
    pub(super) fn begin(
        item: Object<'_>,
        first: usize,
        events: &mut Vec<ModelEvent>,
    ) -> Result<Self, WireError> {
        let kind = item.required_string("type")?;
        let is_told = matches!(kind, "function_call" | "custom_tool_call");
        if is_told {
            let (id, name) = (item.string("call_id")?.unwrap_or_default(), item.required_string("name")?);
            events.push(ModelEvent::ToolCallStarted { index: first, id: id.into(), name: name.to_owned() });
        }
        Ok(Self {
            kind: kind.to_owned(),
            id: item.string("id")?.map(str::to_owned),
            call_id: item.string("call_id")?.map(str::to_owned),
            name: item.string("name")?.map(str::to_owned),
            namespace: item.string(NAMESPACE)?.map(str::to_owned),
            is_told,
            indexes: vec![first],
            taken: 0,
            texts: BTreeMap::new(),
            annotations: Vec::new(),
            announced: Map::new(),
        })
    }

    /// Keeps what a call says to do before it is whole: only the whole one is judged.
    pub(super) fn announce(&mut self, item: Object<'_>) {
        let Some(kind) = CallKind::in_answer(&self.kind) else { return };
        let is_text = |name: &str, value: &Value| {
            value.is_string() && places(&self.kind, &Value::Null).iter().flatten().any(|place| place.is(name))
        };
        self.announced = item.rest(&[]);
        self.announced.retain(|name, value| {
            let is_said =
                kind == CallKind::Whole || name == SERVER || kind.payload().contains(&name.as_str());
            is_said && !is_text(name, value)
        });
    }

    /// Whether it is a call, or something that the provider runs: nothing of it has been told as text.
    pub(super) fn is_silent(&self) -> bool {
        !matches!(self.kind.as_str(), "message" | "reasoning")
    }

    pub(super) fn check_id(&self, id: Option<&str>) -> Result<(), WireError> {
        check(self.id.as_deref(), id, "an item changes its id")
    }

    pub(super) fn check_name(&self, name: Option<&str>) -> Result<(), WireError> {
        check(self.name.as_deref(), name, "a call changes its name")
    }

    fn channel(&self, place: Place) -> Result<Channel, WireError> {
        match (self.kind.as_str(), place) {
            ("message", Place::Content(_) | Place::Refusal(_)) => Ok(Channel::Text),
            ("reasoning", Place::Summary(_) | Place::Reasoning(_)) => Ok(Channel::Thinking),
            ("function_call", Place::Arguments) => Ok(Channel::Arguments),
            ("custom_tool_call", Place::Input) => Ok(Channel::Input),
            ("message" | "reasoning" | "function_call" | "custom_tool_call", _)
            // Clients show texts and run calls by the names of their events, whatever the item.
            | (
                _,
                Place::Content(_)
                | Place::Refusal(_)
                | Place::Summary(_)
                | Place::Reasoning(_)
                | Place::Arguments
                | Place::Input,
            ) => Err(out_of_order("an item grows by what it does not have")),
            (_, Place::ServerArguments | Place::Code | Place::Command(_) | Place::Diff) => Ok(Channel::Silent),
        }
    }

    /// Takes a piece of a text.
    pub(super) fn piece(
        &mut self,
        piece: &Piece<'_>,
        next: NextIndex<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let place = piece.place.within(&self.kind);
        let begun = self.texts.contains_key(&place);
        match piece.change {
            Change::Begins if begun => Err(out_of_order("a part begins twice")),
            Change::Begins | Change::Grows => self.grow(place, piece.text, next, events),
            Change::Ends => self.settle(place, piece.text, next, events),
        }
    }

    fn grow(
        &mut self,
        place: Place,
        more: &str,
        next: NextIndex<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let channel = self.channel(place)?;
        if !self.texts.contains_key(&place) {
            let part = (channel != Channel::Silent).then(|| self.take_index(next)).transpose()?;
            self.texts.insert(place, Grown { part, ..Grown::default() });
        }
        let Some(grown) = self.texts.get_mut(&place) else { return Ok(()) };
        if grown.whole {
            return Err(out_of_order("a text grows after it was whole"));
        }
        let first = grown.text.is_empty();
        grown.text.push_str(more);
        if let (Some(index), false) = (grown.part, more.is_empty()) {
            events.extend(delta(channel, index, more, first));
        }
        Ok(())
    }

    /// A text is whole: what came in pieces must be it.
    fn settle(
        &mut self,
        place: Place,
        text: &str,
        next: NextIndex<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), WireError> {
        let so_far = self.texts.get(&place);
        let untold = so_far.is_none_or(|grown| grown.text.is_empty() && !grown.whole);
        if untold {
            self.grow(place, text, next, events)?;
        } else if so_far.is_some_and(|grown| grown.text != text) {
            return Err(out_of_order("a text is not what its pieces were"));
        }
        if let Some(grown) = self.texts.get_mut(&place) {
            grown.whole = true;
        }
        Ok(())
    }

    fn take_index(&mut self, next: NextIndex<'_>) -> Result<usize, WireError> {
        let index = match self.indexes.get(self.taken) {
            Some(index) => *index,
            None => {
                let index = next()?;
                self.indexes.push(index);
                index
            }
        };
        self.taken += 1;
        Ok(index)
    }

    pub(super) fn annotation(&mut self, content: usize, annotation: &Value) {
        self.annotations.push((content, annotation.clone()));
    }

    /// The item as a whole, which holds `parts`. Tells what was not told yet; gives the parts their indexes.
    pub(super) fn finish(
        mut self,
        value: &Value,
        parts: Vec<Part>,
        next: NextIndex<'_>,
        events: &mut Vec<ModelEvent>,
    ) -> Result<Vec<(usize, Part)>, WireError> {
        let item = Object::of("item", value)?;
        self.check_item(item, value)?;
        for (place, grown) in &self.texts {
            let told = grown.whole || !grown.text.is_empty();
            if told && place.of(value).unwrap_or_default() != grown.text {
                return Err(out_of_order("an item is not what its pieces were"));
            }
        }
        let mut indexed = Vec::with_capacity(parts.len());
        for (part, place) in parts.into_iter().zip(places(&self.kind, value)) {
            let index = match place {
                Some(place) => {
                    let text = place.of(value).unwrap_or_default().to_owned();
                    self.settle(place, &text, next, events)?;
                    self.texts.get(&place).and_then(|grown| grown.part)
                }
                None => None,
            };
            let index = index.map_or_else(|| self.take_index(next), Ok)?;
            if indexed.last().is_some_and(|(last, _)| *last >= index) {
                return Err(out_of_order("parts of an item begin in another order than they have in it"));
            }
            indexed.push((index, part));
        }
        for (index, part) in &indexed {
            if let Part::ToolCall(call) = part {
                self.tell_call(*index, call, events);
            }
            events.push(ModelEvent::PartFinished { index: *index, part: part.clone() });
        }
        Ok(indexed)
    }

    fn check_item(&self, item: Object<'_>, value: &Value) -> Result<(), WireError> {
        self.check_id(item.string("id")?)?;
        self.check_name(item.string("name")?)?;
        if item.string("type")? != Some(&self.kind) {
            return Err(out_of_order("an item changes its type"));
        }
        if self.is_told && self.call_id.as_deref() != item.string("call_id")? {
            return Err(out_of_order("a call changes its id"));
        }
        check(self.call_id.as_deref(), item.string("call_id")?, "a call changes its id")?;
        // It is half of the tool's name, and judged with the item that is whole. Who runs a call once its arguments are whole
        // knows only the one that it began with, also where that was none.
        if self.namespace.as_deref() != item.string(NAMESPACE)? {
            return Err(out_of_order("a call changes its namespace"));
        }
        if !self.announced.iter().all(|(name, begun)| keeps(name, begun, value)) {
            return Err(out_of_order("a call does not do what it began with"));
        }
        // What stands in the text, in the order in which it was given: each is looked for behind the one before it.
        let mut next: BTreeMap<usize, usize> = BTreeMap::new();
        let mut given: BTreeMap<usize, HashSet<Digest>> = BTreeMap::new();
        for (content, annotation) in &self.annotations {
            step();
            let place = || value.pointer(&format!("/content/{content}/annotations"));
            let there = place().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            let at = next.entry(*content).or_default();
            if there.get(*at) == Some(annotation) {
                *at += 1;
                continue;
            }
            let all = given.entry(*content).or_insert_with(|| {
                steps(there.len());
                there.iter().map(digest).collect()
            });
            if !all.contains(&digest(annotation)) {
                return Err(out_of_order("an annotation is not in the text that it was given for"));
            }
        }
        Ok(())
    }

    /// What is missing of the events of a call.
    fn tell_call(
        &self,
        index: usize,
        call: &backstop_hooks::conversation::ToolCall,
        events: &mut Vec<ModelEvent>,
    ) {
        let has_input = self.texts.get(&Place::Input).is_some_and(|grown| !grown.text.is_empty());
        if !self.is_told {
            events.push(ModelEvent::ToolCallStarted { index, id: call.id.clone(), name: call.name.clone() });
        }
        let rest = match self.kind.as_str() {
            "function_call" => return,
            "custom_tool_call" if has_input => "\"}".into(),
            _ => arguments_text(call).into(),
        };
        events.push(ModelEvent::ToolCallArguments { index, delta: rest });
    }
}

/// Whether a call that is whole has what it began with in the field `name`. Only its state may be another one.
fn keeps(name: &str, begun: &Value, whole: &Value) -> bool {
    let Some(now) = whole.get(name) else { return name == STATUS && is_state(begun) };
    is_beginning(begun, now) || (name == STATUS && is_state(begun))
}

/// Whether what is said first stands in what is said last. What says nothing is yet to come.
fn is_beginning(first: &Value, last: &Value) -> bool {
    match (first, last) {
        (Value::Null, _) => true,
        (Value::String(text), _) if text.is_empty() => true,
        (Value::Array(items), _) if items.is_empty() => true,
        (Value::Object(first), Value::Object(last)) => {
            first.iter().all(|(name, value)| last.get(name).is_some_and(|last| is_beginning(value, last)))
        }
        (Value::Object(first), _) if first.is_empty() => true,
        (first, last) => first == last,
    }
}

/// Whether a value is a word for how far an item has come.
pub(super) fn is_state(value: &Value) -> bool {
    let known = states(Api::OpenAiResponses, STATUS).unwrap_or_default();
    value.as_str().is_none_or(|word| word.is_empty() || known.contains(&word))
        && !value.is_array()
        && !value.is_object()
}

/// An annotation, in whatever order its fields stand.
fn digest(annotation: &Value) -> Digest {
    Digest::of("annotation", annotation)
}

/// What is said twice is said alike.
fn check(one: Option<&str>, other: Option<&str>, problem: &str) -> Result<(), WireError> {
    match (one, other) {
        (Some(one), Some(other)) if one != other => Err(out_of_order(problem)),
        _ => Ok(()),
    }
}

fn delta(channel: Channel, index: usize, more: &str, first: bool) -> Option<ModelEvent> {
    Some(match channel {
        Channel::Text => ModelEvent::TextDelta { index, text: more.into() },
        Channel::Thinking => ModelEvent::ThinkingDelta { index, text: more.into() },
        Channel::Arguments => ModelEvent::ToolCallArguments { index, delta: more.into() },
        Channel::Input => {
            let quoted = json!(more).to_string();
            let inside = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(&quoted);
            let begin = if first { "{\"input\":\"" } else { "" };
            ModelEvent::ToolCallArguments { index, delta: format!("{begin}{inside}").into() }
        }
        Channel::Silent => return None,
    })
}
