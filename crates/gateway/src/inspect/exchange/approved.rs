//! Calls of a server's tools that wait for a client's approval: remembered when they leave, judged when they come back.

use std::sync::Arc;

use backstop_engine::{BlockCause, Blocked};
use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use backstop_hooks::points::AfterLlmCallEvent;
use backstop_hooks::{CallContext, ToolCallId};
use backstop_llm::{Api, ModelRequest};
use backstop_store::ToolDecision;

use super::{Answer, InspectedExchange};
use crate::inspect::approvals::{Unjudged, turn_down};
use crate::inspect::identity::Identity;

/// Why a request with an approval does not go on.
pub(super) enum Stop {
    /// It can't be known what is approved.
    Unread(Unjudged),
    /// A hook stopped it.
    Blocked(Blocked),
}

impl InspectedExchange {
    /// Remembers which of the calls that leave may be approved, once the answer was judged.
    pub(super) fn let_be_approved(&self) {
        let Answer::Judged(judge) = &self.answer else { return };
        let is_refused = |call: &ToolCall| judge.refused().iter().any(|(refused, _)| refused.id == call.id);
        let calls = judge.responses().iter().flat_map(|response| response.message.tool_calls());
        self.remember(calls.filter(|call| !is_refused(call)));
    }

    /// Remembers the calls of an answer that is whole and whose calls nobody holds, before its last bytes leave: a client may
    /// approve one as soon as it has them.
    pub(super) fn let_be_approved_unjudged(&self) {
        let responses = match &self.answer {
            Answer::Judged(judge) if judge.is_whole() => judge.responses(),
            Answer::Watched(Some(editor)) if editor.is_whole() => editor.responses(),
            _ => return,
        };
        if !self.active_hooks.calls {
            self.remember(responses.iter().flat_map(|response| response.message.tool_calls()));
        }
    }

    fn remember<'c>(&self, calls: impl Iterator<Item = &'c ToolCall>) {
        if self.api == Api::OpenAiResponses && self.active_hooks.judges_approvals() {
            let are_judged = self.active_hooks.settles_calls(self.shared.settings.tool_calls);
            self.shared.approvals.keep(self.agent.as_ref(), calls, are_judged);
        }
    }

    /// Judges what is approved by the items that a request stores: nothing is turned down in their place, so a denial refuses them.
    pub(super) async fn approved_in_store(
        &mut self,
        items: &ModelRequest,
        identity: &Identity,
        call: &Arc<CallContext>,
    ) -> Result<(), Stop> {
        let mut judged = items.clone();
        self.approved(&mut judged, identity, call).await?;
        if judged == *items {
            return Ok(());
        }
        let told = "it approves a call of a server's tool that was refused";
        Err(Stop::Blocked(Blocked {
            cause: BlockCause::Withheld,
            reason: Some(told.into()),
            hook: None,
            owner: None,
        }))
    }

    /// Judges the calls that a request approves, where that was not done when they left. Those that are denied it turns down.
    pub(super) async fn approved(
        &mut self,
        request: &mut ModelRequest,
        identity: &Identity,
        call: &Arc<CallContext>,
    ) -> Result<(), Stop> {
        if !self.active_hooks.judges_approvals() || self.is_count() {
            return Ok(());
        }
        let calls = self.shared.approvals.unjudged(self.agent.as_ref(), request).map_err(Stop::Unread)?;
        if calls.is_empty() {
            return Ok(());
        }
        let event = AfterLlmCallEvent {
            run_id: identity.run.clone(),
            response: Message::new(Role::Assistant, calls.iter().cloned().map(Part::ToolCall).collect()),
            tool_calls: calls.clone(),
            iteration: identity.iteration,
            model: request.model.clone(),
            latency_ms: 0,
            token_usage: None,
        };
        let engine = &self.shared.engine;
        let unasked = self.shared.settings.tool_calls.unasked_of_provider();
        let judged = engine.judge_answer_and_calls(event, call, unasked).await;
        if let Some(blocked) = judged.decided.into_parts().blocked {
            return Err(Stop::Blocked(blocked));
        }
        let mut denied: Vec<&ToolCallId> = Vec::new();
        for (call, ruling) in calls.iter().zip(judged.rulings) {
            if let ToolDecision::Deny { reason } = ruling {
                denied.push(&call.id);
                turn_down(
                    request,
                    call,
                    &format!("[backstop] this call was refused and did not run: {reason}"),
                );
            }
        }
        let allowed = calls.iter().filter(|call| !denied.contains(&&call.id));
        self.shared.approvals.judged(self.agent.as_ref(), allowed);
        Ok(())
    }
}
