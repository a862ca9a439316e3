//! Calls of a server's tools that wait for a client's approval: remembered when they leave, judged when they come back.

use std::sync::Arc;

use backstop_engine::{BlockCause, Blocked};
use backstop_hooks::CallContext;
use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use backstop_hooks::points::AfterLlmCallEvent;
use backstop_llm::{Api, ModelRequest};
use backstop_store::ToolDecision;

use super::{Answer, InspectedExchange};
use crate::inspect::approvals::{Unjudged, turn_down};
use crate::inspect::identity::Identity;
use crate::inspect::settings::ToolCalls;

/// Why a request with an approval does not go on.
pub(super) enum Stop {
    /// It can't be known what is approved.
    Unread(Unjudged),
    /// A hook stopped it.
    Blocked(Blocked),
}

impl InspectedExchange {
    /// Remembers which of the calls that leave may be approved.
    pub(super) fn let_be_approved(&self) {
        let Answer::Judged(judge) = &self.answer else { return };
        if self.api != Api::OpenAiResponses {
            return;
        }
        let is_refused = |call: &ToolCall| judge.refused().iter().any(|(refused, _)| refused.id == call.id);
        let calls = judge.responses().iter().flat_map(|response| response.message.tool_calls());
        self.shared.approvals.keep(self.agent.as_ref(), calls.filter(|call| !is_refused(call)));
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
        if !self.active_hooks.calls || self.is_count() {
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
        let judged = match self.shared.settings.tool_calls {
            ToolCalls::Judge(unasked) => engine.judge_answer_and_calls(event, call, unasked).await,
            ToolCalls::Leave => engine.judge_answer(event, call).await,
        };
        if let Some(blocked) = judged.decided.into_parts().blocked {
            return Err(Stop::Blocked(blocked));
        }
        for (call, ruling) in calls.iter().zip(judged.rulings) {
            if let ToolDecision::Deny { reason } = ruling {
                turn_down(
                    request,
                    call,
                    &format!("[backstop] this call was refused and did not run: {reason}"),
                );
            }
        }
        Ok(())
    }
}
