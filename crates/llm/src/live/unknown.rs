//! Frames of a stream whose type nobody knows, and fields that nobody knows.
//!
//! What such a frame makes a client do is unknown, so it is judged as a call: named after its type, with what it says
//! as arguments. Frames of one type are one call; of several, the arguments are `{"type": ..., "events": [...]}`. They
//! wait like calls do, and leave or go together.

use backstop_hooks::conversation::{Part, ToolCall};
use backstop_hooks::{Params, ShownName};
use serde_json::{Map, Value};

use super::PartKey;
use super::steps::step;
use crate::error::{WireError, out_of_order};
use crate::model::ModelResponse;
use crate::wire::{Api, is_whole_call};

/// The choice to which such frames belong.
pub(super) const UNKNOWN_CHOICE: u32 = 0;
/// More types than any provider adds at once.
const MOST_TYPES: u32 = 64;

/// What the ids of calls begin with that are frames or fields.
const PREFIX: &str = "unknown_";

/// Whether a call of an answer may be something that nobody knows: a frame or a field, or a thing of a type without a form.
pub fn is_unknown_call(call: &ToolCall) -> bool {
    call.id.as_str().starts_with(PREFIX) || Api::ALL.into_iter().any(|api| is_whole_call(call, api))
}

/// The frames of one answer whose types nobody knows.
#[derive(Debug, Default)]
pub(super) struct UnknownFrames {
    types: Vec<UnknownType>,
    /// What was said, these calls included; empty before the answer is whole.
    responses: Vec<ModelResponse>,
    /// How many calls of the choice come before them.
    known_calls: usize,
    /// The answer is whole: its calls are being decided about.
    concluded: bool,
}

#[derive(Debug)]
struct UnknownType {
    name: String,
    part: PartKey,
    events: Vec<Value>,
}

impl UnknownFrames {
    /// A frame; gives the call that it belongs to.
    pub(super) fn add(&mut self, name: String, event: Value) -> Result<PartKey, WireError> {
        if let Some(known) = self.types.iter_mut().inspect(|_| step()).find(|known| known.name == name) {
            // Some servers say the same in every frame.
            if known.events.last() != Some(&event) {
                known.events.push(event);
            }
            return Ok(known.part);
        }
        let place = u32::try_from(self.types.len()).ok().filter(|place| *place < MOST_TYPES);
        let place = place.ok_or_else(|| out_of_order("there are events of too many unknown types"))?;
        // Other parts are counted from below.
        let part = PartKey { choice: UNKNOWN_CHOICE, part: u32::MAX - place };
        self.types.push(UnknownType { name, part, events: vec![event] });
        Ok(part)
    }

    /// Whether something may still be added.
    pub(super) fn is_open(&self) -> bool {
        !self.concluded
    }

    pub(super) fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The answer is whole, and says `responses` besides.
    pub(super) fn conclude(&mut self, responses: &[ModelResponse]) {
        self.concluded = true;
        if self.types.is_empty() || !self.responses.is_empty() {
            return;
        }
        self.responses = responses.to_vec();
        if let Some(response) = self.responses.first_mut() {
            self.known_calls = response.message.tool_calls().count();
            response.message.content.extend(self.types.iter_mut().map(UnknownType::take_call));
        }
    }

    /// What was said, these calls included; `None` if there are none.
    pub(super) fn responses(&self) -> Option<&[ModelResponse]> {
        (!self.responses.is_empty()).then_some(self.responses.as_slice())
    }

    /// The part of the `call`-th call of the choice, if it is one of these.
    pub(super) fn part(&self, call: usize) -> Option<PartKey> {
        let place = call.checked_sub(self.known_calls).filter(|_| !self.responses.is_empty())?;
        self.types.get(place).map(|known| known.part)
    }
}

impl UnknownType {
    fn take_call(&mut self) -> Part {
        let mut events = std::mem::take(&mut self.events);
        let only = if events.len() == 1 { events.pop() } else { None };
        let arguments = match only {
            Some(Value::Object(event)) => event,
            // The value of a field.
            Some(only) => Map::from_iter([("value".to_owned(), only)]),
            None => {
                let name = Value::from(self.name.as_str());
                Map::from_iter([("type".to_owned(), name), ("events".to_owned(), events.into())])
            }
        };
        Part::ToolCall(ToolCall {
            // One that no other call of the answer has: a hook names calls by their ids.
            id: format!("{PREFIX}{}", ShownName::new(&self.name)).into(),
            name: self.name.clone(),
            arguments: Params::new(arguments),
            malformed: None,
            meta: None,
        })
    }
}
