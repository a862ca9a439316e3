//! What the provider's tools are called with, where it comes in pieces ahead of its item.
//!
//! The item is what is judged, and it says the same as its pieces, or the answer makes no sense.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{WireError, out_of_order};
use crate::live::span::Node;

/// The fields of events and items that say it.
const FIELDS: [&str; 3] = ["delta", "code", "arguments"];

/// What calls say so far, by their item.
#[derive(Debug, Default)]
pub(super) struct Called(BTreeMap<usize, String>);

/// Whether an event says something of a call.
pub(super) fn says_something(event: &Node<'_>) -> bool {
    FIELDS.iter().any(|field| event.get_some(field).is_some())
}

impl Called {
    /// An event of the type `kind` says more of a call, or all of it.
    pub(super) fn read(&mut self, index: usize, kind: &str, event: &Value) -> Result<(), WireError> {
        let said = FIELDS.iter().find_map(|field| event.get(field)?.as_str()).unwrap_or_default();
        let called = self.0.entry(index).or_default();
        match kind.ends_with(".delta") {
            true => called.push_str(said),
            false if called.is_empty() => said.clone_into(called),
            false if called != said => return Err(disagrees()),
            false => {}
        }
        Ok(())
    }

    /// The item is whole.
    pub(super) fn check(&self, index: usize, item: &Node<'_>) -> Result<(), WireError> {
        let Some(called) = self.0.get(&index) else { return Ok(()) };
        let says =
            |field: &&str| item.get_some(field).and_then(|node| node.string()).as_deref() == Some(called);
        if FIELDS.iter().any(says) { Ok(()) } else { Err(disagrees()) }
    }
}

fn disagrees() -> WireError {
    out_of_order("the copies of a call disagree")
}
