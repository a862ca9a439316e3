//! A configuration by which recorded calls are judged again, without anybody being reached.

use std::collections::BTreeSet;

use backstop::config::Loaded;
use backstop::engine::Said;
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Fact, HookId};
use backstop::tape::{CallDecision, CallJudgement, RecordedCall};
use backstop::{Backstop, NotAsked};

use crate::error::Error;
use crate::session::{Surroundings, builder};

/// The hooks of a configuration that judge by the call alone.
pub(in crate::commands) struct Policy {
    backstop: Backstop,
    not_asked: NotAsked,
    hooks: BTreeSet<HookId>,
}

/// How a judgement compares with the recorded one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Compared {
    Same,
    Stricter,
    Looser,
    /// Hooks decided that are not asked here, and it would be milder without them.
    Unknown,
    /// The same, but secrets in the call are masked, about which a hook might have said more.
    Masked,
    /// The same as far as hooks are asked here; the others might be stricter.
    Unasked,
}

impl Policy {
    pub(in crate::commands) async fn build(
        loaded: Loaded,
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        let not_asked = NotAsked::of(&loaded, surroundings.plugins_folder().ok().as_deref());
        let types = surroundings.types_with(&[]).harmless();
        // No point is fired here, so nothing is started, nobody is connected to, and no plugin is loaded.
        let builder = builder(loaded, surroundings).hook_types(types).only_points([]);
        let backstop = builder.hosts(backstop::all_hosts()).without_audit().build().await?;
        let hooks = backstop.engine().registry().list().iter().map(|meta| meta.id.clone()).collect();
        Ok(Self { backstop, not_asked, hooks })
    }

    pub(in crate::commands) fn not_asked(&self) -> &NotAsked {
        &self.not_asked
    }

    /// Judges a recorded call; `None` if it is none any more, or has no arguments.
    pub(in crate::commands) async fn judge(&self, call: &RecordedCall) -> Option<CallJudgement> {
        self.review(call).await.map(|(judgement, _)| judgement)
    }

    /// Judges a recorded call, and says whether the judgement rests on what files hold.
    pub(in crate::commands) async fn review(&self, call: &RecordedCall) -> Option<(CallJudgement, bool)> {
        if call.without_arguments {
            return None;
        }
        let event: ToolCallEvent = serde_json::from_value(call.event.clone()).ok()?;
        let context: CallContext = serde_json::from_value(call.context.clone()).ok()?;
        let reviewed = self.backstop.engine().review_tool_call(event, &context, false).await;
        Some((CallJudgement::of(&reviewed), reviewed.facts.iter().any(Fact::is_of_content)))
    }

    /// Compares a judgement with the recorded one.
    pub(in crate::commands) fn compare(&self, call: &RecordedCall, now: &CallJudgement) -> Compared {
        match self.as_asked(call, now) {
            // Nothing is stricter than what is stopped.
            Compared::Same if now.decision == CallDecision::Block => Compared::Same,
            Compared::Same if call.masked > 0 => Compared::Masked,
            Compared::Same if self.not_asked.names().next().is_some() => Compared::Unasked,
            compared => compared,
        }
    }

    /// Compares as if what is judged here were all there is.
    fn as_asked(&self, call: &RecordedCall, now: &CallJudgement) -> Compared {
        let was = &call.judgement;
        // What is recorded is what hooks wrote. One that is gone writes nothing any more, whatever the others say.
        let wrote = || call.hooks.iter().filter(|step| step.said == Said::Rewrote).map(|step| &step.hook);
        let is_asked = |hook: &HookId| self.hooks.contains(hook);
        if now.decision < CallDecision::Block && wrote().any(|hook| !is_asked(hook)) {
            let is_known = wrote().any(|hook| !is_asked(hook) && !self.not_asked.has(hook));
            return if is_known { Compared::Looser } else { Compared::Unknown };
        }
        if (was.decision, now.decision) == (CallDecision::Modify, CallDecision::Allow) {
            // They have no reason to write it anew.
            return Compared::Same;
        }
        match now.decision.cmp(&was.decision) {
            std::cmp::Ordering::Equal => Compared::Same,
            std::cmp::Ordering::Greater => Compared::Stricter,
            std::cmp::Ordering::Less if self.is_by_not_asked(was) => Compared::Unknown,
            std::cmp::Ordering::Less => Compared::Looser,
        }
    }

    /// Whether a judgement is one that hooks made which are not asked here.
    fn is_by_not_asked(&self, was: &CallJudgement) -> bool {
        let is_not_asked = |hook: &HookId| self.not_asked.has(hook);
        match was.decision {
            CallDecision::Allow => false,
            // Nobody is named for what was decided about the answer that asked for the call.
            CallDecision::Block => was.hook.as_ref().is_none_or(is_not_asked),
            CallDecision::Ask => was.asked_by.iter().any(is_not_asked),
            CallDecision::Modify => was.hook.as_ref().is_some_and(is_not_asked),
        }
    }

    pub(in crate::commands) async fn shut_down(self) {
        self.backstop.shut_down().await;
    }
}
