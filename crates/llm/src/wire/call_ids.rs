//! Ids for tool calls of wires on which calls have none, or may leave theirs out. Hooks need one.

use std::collections::{BTreeMap, VecDeque};

use backstop_hooks::{Digest, ToolCallId};
use serde_json::{Value, json};

/// Makes up the ids that the provider left out, the same ones for the same input.
#[derive(Clone, Debug)]
pub(crate) struct CallIds {
    prefix: String,
    /// What tells the ids of one choice from those of the others.
    choice: String,
    made_up: usize,
    /// Calls without an id that have no result yet, by name.
    unanswered: BTreeMap<String, VecDeque<ToolCallId>>,
    /// How often somebody asked for one.
    asked: usize,
}

impl CallIds {
    /// Ids for the calls of a conversation.
    pub(crate) fn of_request() -> Self {
        Self::of_answer("call", 0)
    }

    /// Ids for the calls of a choice of the answer `id`, which differ from those of any other.
    pub(crate) fn of_answer(id: &str, choice: u64) -> Self {
        let choice = if choice == 0 { String::new() } else { format!("c{choice}_") };
        Self { prefix: id.to_owned(), choice, made_up: 0, unanswered: BTreeMap::new(), asked: 0 }
    }

    /// An id for a call of this name. `arguments` tell it from others where the answer has no id.
    pub(crate) fn make_up(&mut self, name: &str, arguments: &Value) -> ToolCallId {
        self.asked += 1;
        self.made_up += 1;
        let place = format!("{}{}", self.choice, self.made_up);
        let id: ToolCallId = if self.prefix.is_empty() {
            // An answer without an id of its own is told apart by what it asks for.
            let digest = Digest::of("made_up_call", &json!([name, arguments]));
            format!("call_{}_{place}", digest.short())
        } else {
            format!("{}_{place}", self.prefix)
        }
        .into();
        self.unanswered.entry(name.to_owned()).or_default().push_back(id.clone());
        id
    }

    /// How many calls without an id of their own have no result yet.
    pub(crate) fn waiting(&self) -> usize {
        self.unanswered.values().map(VecDeque::len).sum()
    }

    /// How often somebody asked for an id: what was read meanwhile depends on what was read before.
    pub(crate) fn asked(&self) -> usize {
        self.asked
    }

    /// The id of the oldest call of this name that has no result yet.
    pub(crate) fn answered(&mut self, name: &str) -> Option<ToolCallId> {
        self.asked += 1;
        self.unanswered.get_mut(name)?.pop_front()
    }
}
