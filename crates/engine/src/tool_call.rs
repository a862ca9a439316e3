//! The way of one tool call through every gate.
//!
//! decision of `after_llm_call` -> trusted policies -> `tool.before` interceptors -> `before_tool_call`
//! with the verdict hooks among it -> gates judge the final value again -> a human, if one is asked ->
//! [`Permitted`]. The three points share one value, the arguments, and so one version of it: what an
//! interceptor let pass and a typed hook then rewrote is judged by the interceptor again.

use std::time::Duration;

use backstop_hooks::points::{BeforeToolCall, ToolBefore, ToolBeforeEvent, ToolCallEvent, TrustedToolPolicy};
use backstop_hooks::{ApprovalRequest, CallContext, Digest, Outcome, Params, PointId, ToolName};
use backstop_store::ToolDecision;
use serde::Serialize;

use crate::foreign::too_deep;
use crate::permit::Permitted;
use crate::receipt::{BlockCause, Blocked, CallKey, Receipt, Step, Verdict};
use crate::runner::Dispatch;
use crate::runner::chain::{Chain, Course, Round};

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
    /// What a human is to be asked; empty when the call was stopped.
    pub requests: Vec<ApprovalRequest>,
    /// What was asked by hooks before another one stopped the call: nobody needs to answer these.
    pub moot: Vec<ApprovalRequest>,
    /// The record so far.
    pub receipt: Receipt,
}

/// What came out for a tool call.
#[derive(Debug)]
pub struct ToolVerdict {
    /// The permit, or why there is none.
    pub permit: Result<Permitted<ToolCallEvent>, Blocked>,
    /// The call as the hooks left it, for records and for everybody who watches; what runs is in the permit, and may
    /// hold values that stand here as placeholders.
    pub event: ToolCallEvent,
    /// The record.
    pub receipt: Receipt,
}

/// The digest a tool call is judged, asked about and recorded under: tool and arguments, nothing else.
pub fn tool_call_digest(event: &ToolCallEvent) -> Digest {
    #[derive(Serialize)]
    struct Called<'a> {
        tool: &'a ToolName,
        params: &'a Params,
    }
    Digest::of("tool_call", &Called { tool: &event.tool_name, params: &event.params })
}

impl Dispatch<'_> {
    pub(crate) async fn review(&self, mut event: ToolCallEvent, ruling: Option<ToolDecision>) -> Reviewed {
        let mut course = Course::begin();
        let original = self.digests.then(|| tool_call_digest(&event));
        let before = event.params.clone();
        if let Some(ToolDecision::Deny { reason }) = ruling {
            let blocked =
                Blocked { cause: BlockCause::Withheld, reason: Some(reason), hook: None, owner: None };
            return self.reviewed(
                event,
                false,
                Some(blocked),
                Vec::new(),
                Vec::new(),
                original,
                course.elapsed(),
            );
        }
        if self.has_gates()
            && let Some(blocked) = too_deep(self.call)
        {
            let (asked, steps, took) = (Vec::new(), Vec::new(), course.elapsed());
            return self.reviewed(event, false, Some(blocked), asked, steps, original, took);
        }
        let tool = event.tool_name.clone();
        let mut policies =
            Chain::<TrustedToolPolicy>::new(self.snapshot.slot(), Some(&tool), self.call, self.capture);
        let mut interceptors =
            Chain::<ToolBefore>::new(self.snapshot.slot(), Some(&tool), self.call, self.capture);
        let mut hooks =
            Chain::<BeforeToolCall>::new(self.snapshot.slot(), Some(&tool), self.call, self.capture);

        for round in [Round::First, Round::Again] {
            if round == Round::Again && !course.changed() {
                break;
            }
            policies.ask(round, &mut event, &mut course).await;
            if policies.blocked.is_some() {
                break;
            }
            let mut edited = as_interceptor_event(&event);
            interceptors.ask(round, &mut edited, &mut course).await;
            take_back(&mut event, edited);
            if interceptors.blocked.is_some() {
                break;
            }
            hooks.ask(round, &mut event, &mut course).await;
            if hooks.blocked.is_some() {
                break;
            }
        }
        let stopped = policies.blocked.or(interceptors.blocked).or(hooks.blocked);
        let asked = [policies.merged.approvals(), hooks.merged.approvals()].concat();
        let steps = [policies.steps, interceptors.steps, hooks.steps].into_iter().flatten().collect();
        let changed = event.params != before;
        self.reviewed(event, changed, stopped, asked, steps, original, course.elapsed())
    }

    fn has_gates(&self) -> bool {
        !self.snapshot.slot::<TrustedToolPolicy>().is_empty()
            || !self.snapshot.slot::<ToolBefore>().is_empty()
            || !self.snapshot.slot::<BeforeToolCall>().is_empty()
    }

    #[expect(clippy::too_many_arguments, reason = "one private seam for the two ends of a review")]
    fn reviewed(
        &self,
        event: ToolCallEvent,
        changed: bool,
        blocked: Option<Blocked>,
        asked: Vec<ApprovalRequest>,
        steps: Vec<Step>,
        original: Option<Digest>,
        elapsed: Duration,
    ) -> Reviewed {
        let verdict = Verdict::of(blocked.is_some(), changed);
        let key = tool_key(&event, self.call);
        let mut receipt = Receipt::of(PointId::BeforeToolCall, verdict, key, steps, elapsed);
        receipt.record_mut().judged =
            if changed { self.digests.then(|| tool_call_digest(&event)) } else { original };
        receipt.record_mut().original = original;
        receipt.record_mut().blocked.clone_from(&blocked);
        let (requests, moot) = if blocked.is_some() { (Vec::new(), asked) } else { (asked, Vec::new()) };
        Reviewed { event, changed, blocked, requests, moot, receipt }
    }
}

fn as_interceptor_event(event: &ToolCallEvent) -> ToolBeforeEvent {
    ToolBeforeEvent::new(
        event.tool_name.clone(),
        event.tool_call_id.clone().unwrap_or_else(|| "".into()),
        event.params.clone(),
    )
}

/// Takes over the arguments that interceptors left. What was derived from other arguments goes.
fn take_back(event: &mut ToolCallEvent, edited: ToolBeforeEvent) {
    if !edited.args.same(&event.params) {
        event.params = edited.args;
        event.derived_paths = None;
    }
}

fn tool_key(event: &ToolCallEvent, call: &CallContext) -> CallKey {
    CallKey {
        agent_id: call.agent_id.clone(),
        session_key: call.session_key.clone(),
        session_id: call.session_id.clone(),
        run_id: event.run_id.clone().or_else(|| call.run_id.clone()),
        tool_call_id: event.tool_call_id.clone(),
        tool: Some(event.tool_name.as_str().to_owned()),
    }
}
