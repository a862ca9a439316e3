//! Operations that pass because they are known to be harmless ([`Permission::Listed`]): lists of models, files, states.
//!
//! No codec reads them, but they say something in both directions. What such a request brings besides the bytes of a file (its
//! purpose, its name, ids) is shown to `before_llm_call` as [words](super::incoming); the answer is [held](super::held) and judged as a
//! state. Nothing of it is counted: no model is asked.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_hooks::points::NO_MODEL;
use bytes::Bytes;
use http::HeaderMap;

use super::batched::withdraw;
use super::exchange::InspectedExchange;
use super::form::{Form, Kind, parts_of};
use super::heads::unjudgeable;
use super::held::{HeldAnswer, HeldState};
use super::lines::unusable;
use super::{ActiveHooks, Shared};
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Requested, Step, Watch};
use crate::operations::Permission;
use crate::readable::{NOTED, Readable};
use backstop_llm::{Api, RequestTarget};

/// A request for a listed operation and its inspection.
#[derive(Debug)]
pub(super) struct ListedExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    sample: InspectedExchange,
    /// The type of a body in parts.
    parts: Option<HeaderMap>,
    state: HeldState,
}

impl ListedExchange {
    /// What judges this request; `None` if it is for another operation.
    pub(super) fn of(shared: &Arc<Shared>, active_hooks: ActiveHooks, call: &Call<'_>) -> Option<Self> {
        if call.permission != Permission::Listed {
            return None;
        }
        let form = Form { api: Api::OpenAiChat, kind: Kind::Ask(RequestTarget::default()) };
        let limit = shared.settings.answer_bytes;
        Some(Self {
            shared: Arc::clone(shared),
            active_hooks,
            sample: InspectedExchange::new(Arc::clone(shared), active_hooks, form, call).of_no_session(),
            parts: parts_of(call.headers),
            state: HeldState::new(active_hooks, limit),
        })
    }
}

impl InspectedExchange {
    /// Shows hooks what a body says that [no model](NO_MODEL) is asked by, and that another exchange judges besides.
    pub(super) async fn noted(
        &mut self,
        readable: &'static Readable,
        parts: Option<HeaderMap>,
        body: &Body<'_>,
    ) -> Requested {
        let kind = Kind::Texts { readable, model: Some(NO_MODEL.to_owned()), parts };
        let mut one = self.like(kind).in_batch().asking_no_model();
        let said = one.request(body).await;
        withdraw(self.shared(), one.counted().map(Arc::new).into_iter().collect());
        said
    }

    /// Shows hooks words that stand beside what else was judged of a request; `None` if they may pass.
    pub(super) async fn noted_words(&mut self, words: &[&str], provider: &str) -> Option<Requested> {
        let bytes = Bytes::from(serde_json::json!({ "ids": words }).to_string());
        match self.noted(&NOTED, None, &Body { bytes: &bytes, provider }).await {
            Requested::Unchanged => None,
            // Words stay as they are.
            Requested::Replaced(_) => Some(self.unreadable(&"a hook would change an id in it")),
            reply @ Requested::Reply(_) => Some(reply),
        }
    }
}

#[async_trait]
impl Exchange for ListedExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        if !self.active_hooks.request || body.bytes.is_empty() {
            return Requested::Unchanged;
        }
        self.sample.noted(&NOTED, self.parts.take(), body).await
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        if let Some(why) = self.active_hooks.decides().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, "", answered);
        if judge.is_none() {
            return Watch::Opaque;
        }
        self.state.begin(judge, answered.status)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.state.push(chunk, self.sample.family(), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        self.state.finish(|_| true, self.sample.family(), out).1
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        self.state.decide(out).await
    }
}
