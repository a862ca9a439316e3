//! States of batches: they name the files that hold the answers, and no more than a state.
//!
//! A state is held until it was looked at, and passes as it came if it has the fields of OpenAI's wire: others write the
//! answers into it. A field that nobody knows may hold a word or a number.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_llm::live::is_name;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::endpoint::Family;
use crate::exchange::{Answered, Body, Exchange, Outgoing, Requested, Step, Watch};
use crate::inspect::exchange::InspectedExchange;
use crate::inspect::heads::unjudgeable;
use crate::inspect::lines::unusable;
use crate::inspect::{ActiveHooks, Shared};

/// The most bytes of a list of states.
const STATE_BYTES: usize = 4 << 20;
/// The most bytes of one state.
const ONE_STATE_BYTES: usize = 256 << 10;
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
    state: BytesMut,
}

impl StateExchange {
    pub(super) fn new(shared: Arc<Shared>, active_hooks: ActiveHooks, sample: InspectedExchange) -> Self {
        Self { shared, active_hooks, sample, provider: String::new(), state: BytesMut::new() }
    }

    fn refuse(&self, why: &str, out: &mut Outgoing) -> Step {
        let _ = out.replace(unusable(self.sample.family(), why));
        Step::End
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
        if answered.status.is_success() { Watch::Look { keep_alive: None } } else { Watch::Opaque }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.state.extend_from_slice(&chunk);
        if self.state.len() <= STATE_BYTES {
            return Step::Continue;
        }
        self.refuse(&format!("it is the state of a batch, and has more than {STATE_BYTES} bytes"), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        let bytes = self.state.split().freeze();
        match backstop_llm::wire::parse_json(&bytes) {
            Ok(state) if is_state(&state) || !self.active_hooks.gates_answers() => {
                self.shared.answer_files.note(&self.provider, &state);
                out.push(bytes);
                Step::Continue
            }
            Ok(_) | Err(_) => self.refuse("it is no state of a batch", out),
        }
    }

    async fn decide(&mut self, _: &mut Outgoing) -> Step {
        Step::End
    }
}

/// What a provider answers who made or took something, on its way to the client: held until it was looked at, unless nobody
/// judges answers.
#[derive(Debug)]
pub(super) struct MadeState {
    is_held: bool,
    came: BytesMut,
}

impl MadeState {
    pub(super) fn new(active_hooks: ActiveHooks) -> Self {
        Self { is_held: active_hooks.gates_answers(), came: BytesMut::new() }
    }

    pub(super) fn push(&mut self, chunk: Bytes, family: Family, out: &mut Outgoing) -> Step {
        // What is too long is not kept, but the byte that says so.
        let room = (ONE_STATE_BYTES + 1).saturating_sub(self.came.len());
        self.came.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if !self.is_held {
            out.push(chunk);
        } else if self.came.len() > ONE_STATE_BYTES {
            let _ = out.replace(unusable(
                family,
                &format!("it is a state, and has more than {ONE_STATE_BYTES} bytes"),
            ));
            return Step::End;
        }
        Step::Continue
    }

    /// What it says, if that can be read; it leaves if it is one of the closed form.
    pub(super) fn finish(
        &mut self,
        is_closed: impl Fn(&Value) -> bool,
        family: Family,
        out: &mut Outgoing,
    ) -> (Option<Value>, Step) {
        let bytes = self.came.split().freeze();
        let state = backstop_llm::wire::parse_json(&bytes).ok();
        if !self.is_held {
            return (state, Step::Continue);
        }
        if state.as_ref().is_some_and(is_closed) {
            out.push(bytes);
            return (state, Step::Continue);
        }
        let _ = out.replace(unusable(family, "it is no state of what was asked for"));
        (state, Step::End)
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
