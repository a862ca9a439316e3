//! States of batches: they name the files that hold the answers, and no more than a state.
//!
//! A state is held until it was looked at, and passes if it has the fields of OpenAI's wire: others write the
//! answers into it. A field that nobody knows may hold a word or a number. What it says is judged like any [state](HeldAnswer).

use std::sync::Arc;

use async_trait::async_trait;
use backstop_llm::live::is_name;
use bytes::Bytes;
use serde_json::Value;

use crate::exchange::{Answered, Body, Exchange, Outgoing, Requested, Step, Watch};
use crate::inspect::exchange::InspectedExchange;
use crate::inspect::heads::unjudgeable;
use crate::inspect::held::{HeldAnswer, HeldState};
use crate::inspect::lines::unusable;
use crate::inspect::{ActiveHooks, Shared};

/// The most bytes of a list of states.
const STATE_BYTES: usize = 4 << 20;
/// The most bytes of one state.
pub(super) const ONE_STATE_BYTES: usize = 256 << 10;
/// Fields of the state of a file.
const FILE: [&str; 14] = [
    "id",
    "object",
    "bytes",
    "created_at",
    "expires_at",
    "filename",
    "purpose",
    "status",
    "status_details",
    // Mistral's.
    "sample_type",
    "num_lines",
    "mimetype",
    "source",
    "signature",
];
/// Fields of a state that hold more than a word.
const HOLDING: [&str; 4] = ["errors", "request_counts", "usage", "metadata"];

/// A query of the state of a batch, or of a list of them, and its inspection.
#[derive(Debug)]
pub(super) struct StateExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    sample: InspectedExchange,
    provider: String,
    state: HeldState,
}

impl StateExchange {
    pub(super) fn new(shared: Arc<Shared>, active_hooks: ActiveHooks, sample: InspectedExchange) -> Self {
        let state = HeldState::new(active_hooks, STATE_BYTES);
        Self { shared, active_hooks, sample, provider: String::new(), state }
    }
}

#[async_trait]
impl Exchange for StateExchange {
    async fn request(&mut self, _: &Body<'_>) -> Requested {
        Requested::Unchanged
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        answered.provider.clone_into(&mut self.provider);
        if let Some(why) = self.active_hooks.decides().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, "batch", answered);
        self.state.begin(judge, answered.status)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.state.push(chunk, self.sample.family(), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        let is_closed = |state: Option<&Value>| state.is_some_and(is_state);
        let (state, step) = self.state.finish(is_closed, self.sample.family(), out);
        if let Some(state) = state.filter(|state| is_state(state) || !self.active_hooks.gates_answers()) {
            self.shared.answer_files.note(&self.provider, &state);
        }
        step
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        self.state.decide(out).await
    }
}

/// Whether a document is the state of a file that was stored under this name: with fields of OpenAI's wire, and those that
/// others have in it, and a word in each.
pub(super) fn is_file(state: &Value, stored: Option<&str>) -> bool {
    let Value::Object(fields) = state else { return false };
    fields.iter().all(|(field, value)| match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => FILE.contains(&field.as_str()),
        Value::String(name) if field == "filename" => Some(name.as_str()) == stored || is_name(name),
        Value::String(word) => FILE.contains(&field.as_str()) && is_name(word),
        Value::Array(_) | Value::Object(_) => false,
    })
}

/// Whether a document is the state of a batch, or a list of such.
pub(super) fn is_state(state: &Value) -> bool {
    let Value::Object(fields) = state else { return false };
    fields.iter().all(|(name, value)| match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => is_name(name),
        Value::String(word) => is_name(name) && is_name(word),
        Value::Array(batches) => {
            name == "data" && batches.iter().all(|batch| batch.get("data").is_none() && is_state(batch))
        }
        Value::Object(_) => HOLDING.contains(&name.as_str()),
    })
}
