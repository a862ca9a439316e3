//! States of batches: they name the files that hold the answers, and no more than a state.
//!
//! A state is held until it was looked at, and passes as it came if it has the fields of OpenAI's wire: others write the
//! answers into it. A field that nobody knows may hold a word or a number.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_llm::live::is_name;
use bytes::{Bytes, BytesMut};
use serde_json::Value;

use crate::exchange::{Answered, Body, Exchange, Outgoing, Requested, Step, Watch};
use crate::hooked::heads::unjudgeable;
use crate::hooked::lines::unusable;
use crate::hooked::traffic::Traffic;
use crate::hooked::{Shared, Standing};

/// The most bytes of a list of states.
const STATE_BYTES: usize = 4 << 20;
/// Fields of a state that hold more than a word.
const HOLDING: [&str; 4] = ["errors", "request_counts", "usage", "metadata"];

/// The state of a batch, or a list of them, on its way to the client.
#[derive(Debug)]
pub(super) struct StateTraffic {
    shared: Arc<Shared>,
    standing: Standing,
    sample: Traffic,
    provider: String,
    state: BytesMut,
}

impl StateTraffic {
    pub(super) fn new(shared: Arc<Shared>, standing: Standing, sample: Traffic) -> Self {
        Self { shared, standing, sample, provider: String::new(), state: BytesMut::new() }
    }

    fn refuse(&self, why: &str, out: &mut Outgoing) -> Step {
        let _ = out.replace(unusable(self.sample.family(), why));
        Step::End
    }
}

#[async_trait]
impl Exchange for StateTraffic {
    async fn request(&mut self, _: &Body<'_>) -> Requested {
        Requested::Unchanged
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        answered.provider.clone_into(&mut self.provider);
        if let Some(why) = self.standing.decides().then(|| unjudgeable(answered)).flatten() {
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
            Ok(state) if is_state(&state) || !self.standing.gates_answers() => {
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

/// Whether a document is the state of a batch, or a list of such.
fn is_state(state: &Value) -> bool {
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
