//! A batch that is made of a file.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_hooks::AgentId;
use backstop_llm::live::LiveDocument;
use backstop_llm::wire::parse_request;
use backstop_llm::{ProviderError, ProviderErrorKind};
use bytes::Bytes;
use serde_json::Value;

use super::states::{ONE_STATE_BYTES, is_state};
use super::{Judged, key};
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Requested, Step, Watch};
use crate::inspect::exchange::InspectedExchange;
use crate::inspect::heads::unjudgeable;
use crate::inspect::held::{HeldAnswer, HeldState};
use crate::inspect::lines::{has_only, unusable};
use crate::inspect::{ActiveHooks, Shared, reply};
use crate::readable::{BATCH, BATCHED};

/// What a batch is made with.
const FIELDS: [&str; 5] =
    ["input_file_id", "endpoint", "completion_window", "metadata", "output_expires_after"];

/// The creation of a batch and its inspection.
#[derive(Debug)]
pub(super) struct CreateExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    sample: InspectedExchange,
    agent: Option<AgentId>,
    provider: String,
    /// The file, until it is known what came of the batch.
    file: Option<Arc<Judged>>,
    state: HeldState,
    /// Whether the provider may have been asked.
    is_judged: bool,
}

impl CreateExchange {
    pub(super) fn new(
        shared: Arc<Shared>,
        active_hooks: ActiveHooks,
        sample: InspectedExchange,
        call: &Call<'_>,
    ) -> Self {
        let (provider, state) = (String::new(), HeldState::new(active_hooks, ONE_STATE_BYTES));
        Self {
            shared,
            active_hooks,
            sample,
            agent: call.agent.cloned(),
            provider,
            file: None,
            state,
            is_judged: false,
        }
    }

    fn judge(&self, body: &Body<'_>) -> Result<Arc<Judged>, Box<Requested>> {
        let refused = |why: &str| Box::new(self.refused(why));
        let said = parse_request(body.bytes).map_err(|error| Box::new(self.sample.unreadable(&error)))?;
        let fields = said.as_object().filter(|fields| has_only(fields, &FIELDS));
        let fields = fields.ok_or_else(|| refused("it has other fields than those of a batch"))?;
        let text = |field: &str| fields.get(field).and_then(Value::as_str);
        let file = text("input_file_id").ok_or_else(|| refused("it names no file"))?;
        let known = self.shared.judged_files.find(&key(body.provider, self.agent.as_ref(), file));
        let judged = known.ok_or_else(|| {
            refused("its file was not judged here\nhint: store the file through this proxy, with `purpose` batch and as a whole (`POST /v1/files`), and then make the batch")
        })?;
        if text("endpoint") != Some(&judged.url) {
            return Err(refused("its requests are for another `endpoint`"));
        }
        if !judged.take() {
            return Err(refused(
                "its file was used for another batch, with which its requests were counted\nhint: store it again",
            ));
        }
        Ok(judged)
    }

    fn refused(&self, why: &str) -> Requested {
        let message = format!("backstop: the batch can't be judged: {why}");
        let error = ProviderError::new(ProviderErrorKind::InvalidRequest, 400, None, &message);
        Requested::Reply(reply::error(self.sample.family(), &error))
    }

    /// Judges what is said about the batch.
    async fn texts(&mut self, body: &Body<'_>) -> Requested {
        let document = match LiveDocument::read(&BATCH, body.bytes.clone()) {
            Ok(document) => document,
            Err(error) => return self.sample.unreadable(&error),
        };
        if document.texts().next().is_none() && document.words().is_empty() {
            return Requested::Unchanged;
        }
        // No model is asked by it, and its requests were counted.
        self.sample.noted(&BATCHED, None, body).await
    }

    /// Nothing came of the batch.
    fn give_back(&mut self) {
        if let Some(file) = self.file.take() {
            file.give_back();
        }
    }
}

#[async_trait]
impl Exchange for CreateExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        body.provider.clone_into(&mut self.provider);
        let judged = match self.judge(body) {
            Ok(judged) => judged,
            Err(refused) => return *refused,
        };
        self.file = Some(judged);
        let said = self.texts(body).await;
        if matches!(said, Requested::Reply(_)) {
            self.give_back();
        }
        self.is_judged = true;
        said
    }

    /// Another provider may have another file of that name.
    fn stays(&self) -> bool {
        true
    }

    fn unanswered(&mut self) {
        self.give_back();
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        if let Some(why) = self.active_hooks.decides().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        if !answered.status.is_success() {
            self.give_back();
        }
        answered.provider.clone_into(&mut self.provider);
        let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, "batch", answered);
        self.state.begin(judge, answered.status)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.state.push(chunk, self.sample.family(), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        // Whatever else its answer says, the batch is made.
        let is_closed = |state: Option<&Value>| state.is_some_and(is_state);
        let (state, step) = self.state.finish(is_closed, self.sample.family(), out);
        let Some(state) = state else { return step };
        if let Some((id, file)) = state.get("id").and_then(Value::as_str).zip(self.file.take()) {
            self.shared.batched.keep(id, file.requests());
        }
        self.shared.answer_files.note(&self.provider, &state);
        step
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        self.state.decide(out).await
    }
}

/// A batch whose client went away while it was judged was never made.
impl Drop for CreateExchange {
    fn drop(&mut self) {
        if !self.is_judged {
            self.give_back();
        }
    }
}
