//! Exchanges that are parts of a larger one: the requests and the answers of a batch.

use std::sync::Arc;

use backstop_hooks::Trace;
use backstop_hooks::points::{LlmOutput, ModelCallEnded};

use super::{Answer, Traffic};
use crate::hooked::batched::Counted;
use crate::hooked::form::Kind;
use crate::hooked::identity::SESSION_HEADERS;

impl Traffic {
    /// Another exchange of the same client at the same address.
    pub(in crate::hooked) fn like(&self, kind: Kind) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            standing: self.standing,
            endpoint: self.endpoint,
            path: self.path.clone(),
            named_outside: self.named_outside.clone(),
            api: self.api,
            kind,
            agent: self.agent.clone(),
            headers: self.headers.clone(),
            span: None,
            is_utf8: self.is_utf8,
            is_plain: false,
            asked: None,
            answer: Answer::None,
            again: None,
            ended: false,
        }
    }

    /// The same, in the span in which it was counted.
    pub(in crate::hooked) fn in_span(mut self, span: Option<Trace>) -> Self {
        self.span = span;
        self
    }

    /// The same, whatever conversation its client names in a header.
    pub(in crate::hooked) fn of_no_session(mut self) -> Self {
        SESSION_HEADERS.iter().for_each(|name| drop(self.headers.remove(*name)));
        self
    }

    /// What was counted for a request that was let through, if somebody counts.
    pub(in crate::hooked) fn counted(&self) -> Option<Counted> {
        let engine = &self.shared.engine;
        let counts = engine.has_hooks::<LlmOutput>() || engine.has_hooks::<ModelCallEnded>();
        let asked = self.asked.as_ref().filter(|_| counts)?;
        Some(Counted {
            call: Arc::clone(&asked.call),
            id: asked.id.clone(),
            run: asked.identity.run.clone(),
            provider: asked.provider.clone(),
            model: asked.request.model.clone(),
        })
    }
}
