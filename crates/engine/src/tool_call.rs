//! The path of one tool call through every gate.
//!
//! decision of `after_llm_call` -> trusted policies -> `tool.before` interceptors -> `before_tool_call`,
//! including verdict hooks -> gates judge the final value again -> a human, if one is asked ->
//! [`Permitted`]. The three points share one value, the arguments, and so one version counter: what an
//! interceptor passed and a typed hook then rewrote is judged by the interceptor again.

use std::time::Duration;

use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolCallEvent, TrustedToolPolicy};
use backstop_hooks::{
    ApprovalId, ApprovalRequest, ApprovalRequests, CallContext, Digest, Evidence, Fact, OwnerId, Params,
    PointId, Text, ToolName,
};
use backstop_store::ToolDecision;
use serde::Serialize;

use crate::foreign::too_deep;
use crate::permit::Permitted;
use crate::receipt::{BlockCause, Blocked, CallKey, Receipt, RecordedBlock, Verdict};
use crate::runner::Dispatch;
use crate::runner::chain::{Chain, Setting};
use crate::runner::seat::{Seat, ToolSeat};
use crate::runner::shadow::in_chain;

/// How long a tool call waits for the answer that asks for it to be judged.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A tool call that every hook has judged and no human yet.
#[derive(Debug)]
pub struct Reviewed {
    /// The call as the hooks left it.
    pub event: ToolCallEvent,
    /// Whether the arguments differ from those that came in.
    pub changed: bool,
    /// Whether it was stopped.
    pub blocked: Option<Blocked>,
    /// The questions for a human; empty when the call was stopped.
    pub requests: Vec<ApprovalRequest>,
    /// Questions that nobody needs to answer: they were asked before another hook stopped the call, or about a rewrite that
    /// gave way.
    pub moot: Vec<ApprovalRequest>,
    /// What hooks found besides the call and judged it by. The review counts as long as all of it is unchanged.
    pub facts: Vec<Fact>,
    /// The record so far.
    pub receipt: Receipt,
}

/// What a person put in the place of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Substituted {
    /// Other arguments: the verdict is about the changed call.
    Edited {
        /// The question that was answered so.
        approval: ApprovalId,
        /// Who changed the call.
        by: String,
    },
    /// A result, which the model is told as any other. There is no permit: nothing runs.
    Responded {
        /// The question that was answered so.
        approval: ApprovalId,
        /// Who gave it.
        by: String,
        /// The result.
        result: Text,
    },
}

/// The result for a tool call.
#[derive(Debug)]
pub struct ToolVerdict {
    /// The permit, or why there is none.
    pub permit: Result<Permitted<ToolCallEvent>, Blocked>,
    /// The call as the hooks left it, for records and for everybody who watches; what runs is in the permit, and may
    /// hold values that stand here as placeholders.
    pub event: ToolCallEvent,
    /// The record.
    pub receipt: Receipt,
    /// What a person put in the place of the call that was made, where the host can take that
    /// ([`Engine::permit_or_substitute`](crate::Engine::permit_or_substitute)).
    pub substituted: Option<Substituted>,
}

/// Returns the digest a tool call is judged, asked about and recorded under: tool, as called and
/// canonical, whose it is, and arguments, nothing else.
pub fn tool_call_digest(event: &ToolCallEvent) -> Digest {
    #[derive(Serialize)]
    struct Called<'a> {
        tool: &'a str,
        /// Another spelling may be another tool, so it is another call.
        #[serde(skip_serializing_if = "Option::is_none")]
        called_as: Option<&'a str>,
        /// The same name of another plugin is another tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        owner: Option<&'a OwnerId>,
        params: &'a Params,
    }
    let (tool, called_as) = (event.tool_name.canonical(), event.tool_name.called_as());
    let owner = event.tool_owner.as_ref();
    Digest::of("tool_call", &Called { tool, called_as, owner, params: &event.params })
}

impl Dispatch<'_> {
    pub(crate) async fn review(&self, mut event: ToolCallEvent, ruling: Option<ToolDecision>) -> Reviewed {
        let original = self.digests.then(|| tool_call_digest(&event));
        if let Some(ToolDecision::Deny { reason }) = ruling {
            let blocked =
                Blocked { cause: BlockCause::Withheld, reason: Some(reason.into()), hook: None, owner: None };
            return self.reviewed(event, None, Some(blocked), original);
        }
        if self.has_gates()
            && let Some(blocked) = too_deep(self.call)
        {
            return self.reviewed(event, None, Some(blocked), original);
        }
        let evidence = Evidence::default();
        let setting = Setting { evidence: Some(&evidence), ..self.setting() };
        let mut chain = Chain::new(self.seats(&event.tool_name), setting);
        chain.run(&mut event).await;
        let shadows = self.shadow_seats(&event, chain.blocked.as_ref());
        let shadows = match shadows.is_empty() {
            true => None,
            // Boxed: few calls meet hooks in shadow, and the others need not carry the room.
            false => Some(Box::pin(self.ask_shadows(shadows, &event, in_chain::<ToolSeat<'_>>)).await),
        };
        let stopped = chain.blocked.take();
        let mut reviewed = self.reviewed(event, Some(chain), stopped, original);
        if let Some(shadows) = shadows {
            reviewed.receipt.asked_in_shadow(shadows);
        }
        reviewed.facts = evidence.facts();
        if !reviewed.facts.is_empty() {
            reviewed.receipt.record_mut().facts = reviewed.facts.iter().map(Fact::digest).collect();
        }
        reviewed
    }

    fn has_gates(&self) -> bool {
        !self.snapshot.slot::<TrustedToolPolicy>().is_empty()
            || !self.snapshot.slot::<ToolBefore>().is_empty()
            || !self.snapshot.slot::<BeforeToolCall>().is_empty()
    }

    /// Returns the hooks in front of a tool call: the trusted policies, the interceptors, then the others.
    fn seats<'s>(&'s self, tool: &ToolName) -> impl Iterator<Item = ToolSeat<'s>> {
        let policies = self.snapshot.slot::<TrustedToolPolicy>().iter().map(ToolSeat::Policy);
        let interceptors = self.snapshot.slot::<ToolBefore>().iter().map(ToolSeat::Interceptor);
        let hooks = self.snapshot.slot::<BeforeToolCall>().iter().map(ToolSeat::Hook);
        policies
            .chain(interceptors)
            .chain(hooks)
            .filter(move |seat| seat.meta().is_about(Some(tool), self.call))
    }

    /// Returns the hooks in shadow at the three points that are asked about this call. INVARIANT (blocked is gone): none about
    /// one that was stopped.
    fn shadow_seats(&self, event: &ToolCallEvent, blocked: Option<&Blocked>) -> Vec<ToolSeat<'_>> {
        if blocked.is_some() {
            return Vec::new();
        }
        let policies = self.snapshot.shadows::<TrustedToolPolicy>().iter().map(ToolSeat::Policy);
        let interceptors = self.snapshot.shadows::<ToolBefore>().iter().map(ToolSeat::Interceptor);
        let hooks = self.snapshot.shadows::<BeforeToolCall>().iter().map(ToolSeat::Hook);
        policies
            .chain(interceptors)
            .chain(hooks)
            .filter(|seat| seat.meta().is_about(Some(&event.tool_name), self.call))
            .collect()
    }

    fn reviewed(
        &self,
        event: ToolCallEvent,
        chain: Option<Chain<'_, ToolSeat<'_>>>,
        blocked: Option<Blocked>,
        original: Option<Digest>,
    ) -> Reviewed {
        let (changed, elapsed, steps, asked, mut moot) = match chain {
            Some(chain) => {
                let (changed, elapsed) = (chain.changed(), chain.elapsed());
                (changed, elapsed, chain.steps.into_vec(), chain.merged.require_approval, chain.moot)
            }
            None => (false, Duration::ZERO, Vec::new(), None, Vec::new()),
        };
        let mut asked = asked.map(ApprovalRequests::into_vec).unwrap_or_default();
        let verdict = Verdict::of(blocked.is_some(), changed);
        let key = tool_key(&event, self.call);
        let mut receipt =
            Receipt::of(PointId::BeforeToolCall, verdict, key, steps, elapsed).of_set(self.hook_set());
        receipt.record_mut().judged =
            if changed { self.digests.then(|| tool_call_digest(&event)) } else { original };
        receipt.record_mut().original = original;
        receipt.record_mut().blocked = blocked.as_ref().map(RecordedBlock::from);
        if blocked.is_some() {
            moot.append(&mut asked);
        }
        Reviewed { event, changed, blocked, requests: asked, moot, facts: Vec::new(), receipt }
    }
}

pub(crate) fn tool_key(event: &ToolCallEvent, call: &CallContext) -> CallKey {
    CallKey {
        run_id: event.run_id.clone().or_else(|| call.run_id.clone()),
        tool_call_id: event.tool_call_id.clone(),
        tool: Some(event.tool_name.clone()),
        tool_owner: event.tool_owner.clone(),
        ..CallKey::of(call)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The vectors of `docs/digests.md`, beside which the contract has those of numbers and keys.
    #[test]
    fn the_documented_vectors_hold() {
        let params = || Params::from_value(json!({ "command": "ls" })).unwrap();
        let plain = ToolCallEvent::new(ToolName::new("exec"), params());
        let digest = tool_call_digest(&plain).to_string();
        assert_eq!(digest, "sha256:5ecca76fa46f6325d472c960f0f8d03342a1dac08e77fc31d2fae5ad298f44f5");
        let mut other = ToolCallEvent::new(ToolName::new("Bash"), params());
        other.tool_owner = Some(OwnerId::new("acme"));
        let digest = tool_call_digest(&other).to_string();
        assert_eq!(digest, "sha256:31f086b4c1323e33fea85f607896dcb12dd2fd1a1fe148fd7dfdc8a31aada401");
    }
}
