//! Passes decisions from a model's answer to the tool calls in it: the gate between `after_llm_call` and a tool call.
//!
//! An answer is judged in one place and its tools are started in another, possibly at the same time and
//! by another task. The laws:
//!
//! - While an answer of a run is being judged, the tool calls of that run wait. The wait is bounded, and a call
//!   whose wait times out is denied.
//! - Decisions are keyed by session, run and call. Two answers of one run (a sub-call, a retry) never
//!   clear each other's decisions, and a denial stays.
//! - Once hooks have named the calls that may stay, any other call is denied. So is a call that
//!   can't be identified because it has no id, or an id that is used twice.
//! - If a judgement ends without a decision because its task was dropped, the calls that wait for it are denied.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_hooks::conversation::ToolCall;
use backstop_hooks::points::{AfterLlmCallOutcome, ToolCallIds, times_named};
use backstop_hooks::{RunId, SessionId, ToolCallId};
use backstop_store::ToolDecision;
use tokio::sync::Notify;

use crate::receipt::Blocked;

type RunKey = (Option<SessionId>, RunId);

/// What was decided about the answers of the runs that are going on in this process.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    runs: Mutex<HashMap<RunKey, Arc<RunGate>>>,
}

#[derive(Debug, Default)]
struct RunGate {
    state: Mutex<RunState>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct RunState {
    /// Answers being judged.
    judging: u32,
    /// Some answer came with a list of the calls that may stay, or was given up.
    named_only: bool,
    rulings: HashMap<ToolCallId, ToolDecision>,
}

/// An answer is being judged; tool calls of its run wait until this is used up or dropped.
#[derive(Debug)]
pub(crate) struct Judging {
    gate: Arc<RunGate>,
    settled: bool,
}

impl Answers {
    /// Holds the run's tool calls back from now on.
    pub(crate) fn begin(&self, session: Option<&SessionId>, run: &RunId) -> Judging {
        let gate = self.gate(session, run);
        gate.state.lock().unwrap_or_else(PoisonError::into_inner).judging += 1;
        Judging { gate, settled: false }
    }

    fn gate(&self, session: Option<&SessionId>, run: &RunId) -> Arc<RunGate> {
        let key = (session.cloned(), run.clone());
        Arc::clone(self.runs.lock().unwrap_or_else(PoisonError::into_inner).entry(key).or_default())
    }

    fn known(&self, session: Option<&SessionId>, run: &RunId) -> Option<Arc<RunGate>> {
        let key = (session.cloned(), run.clone());
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Returns what was decided about a call; `None` if no answer of the run was judged here.
    pub(crate) async fn ruling(
        &self,
        session: Option<&SessionId>,
        run: &RunId,
        call: &ToolCallId,
        patience: Duration,
    ) -> Option<ToolDecision> {
        let gate = self.known(session, run)?;
        let settled = tokio::time::timeout(patience, gate.settled()).await;
        if settled.is_err() {
            return Some(deny("the answer that asks for this call is still being judged"));
        }
        let state = gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.rulings.get(call) {
            Some(ruling) => Some(ruling.clone()),
            _ if state.named_only => Some(deny(if call.is_empty() {
                "the tool call has no id and can't be verified against the calls that were allowed"
            } else {
                "the tool call is not among the calls that were allowed"
            })),
            _ => None,
        }
    }

    /// Forgets a run that is over.
    pub(crate) fn end(&self, session: Option<&SessionId>, run: &RunId) {
        let key = (session.cloned(), run.clone());
        self.runs.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }
}

impl RunGate {
    async fn settled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.state.lock().unwrap_or_else(PoisonError::into_inner).judging == 0 {
                return;
            }
            changed.await;
        }
    }
}

impl Judging {
    /// Lets the run's tool calls go on, each as decided.
    pub(crate) fn settle<'a>(
        mut self,
        rulings: impl IntoIterator<Item = (&'a ToolCallId, &'a ToolDecision)>,
        named_only: bool,
    ) {
        self.settled = true;
        let mut state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.named_only |= named_only;
        for (call, ruling) in rulings {
            let stays = matches!(state.rulings.get(call), Some(ToolDecision::Deny { .. }));
            // An empty id names nothing, so that no ruling is found under it.
            if !stays && !call.is_empty() {
                state.rulings.insert(call.clone(), ruling.clone());
            }
        }
    }
}

impl Drop for Judging {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.judging = state.judging.saturating_sub(1);
        // Given up without a decision: nothing that this answer asked for may run.
        state.named_only |= !self.settled;
        drop(state);
        self.gate.changed.notify_waiters();
    }
}

fn deny(reason: &str) -> ToolDecision {
    ToolDecision::Deny { reason: reason.into() }
}

/// Rules on each call of an answer, in order.
pub(crate) fn rule(
    calls: &[ToolCall],
    outcome: &AfterLlmCallOutcome,
    blocked: Option<&Blocked>,
) -> Vec<ToolDecision> {
    let blocked = blocked.map(Blocked::reason_or_default);
    let times = times_named(calls);
    let kept = outcome.tool_calls.as_ref().map(ToolCallIds::ids);
    calls
        .iter()
        .map(|call| match (&blocked, &kept) {
            (Some(reason), _) => deny(reason),
            (None, Some(_)) if call.id.is_empty() => {
                deny("the tool call has no id and can't be verified against the calls that were allowed")
            }
            (None, Some(_)) if times.get(&call.id).is_some_and(|times| *times > 1) => {
                deny("several tool calls have this id, so none can be verified")
            }
            (None, Some(kept)) if !kept.contains(&call.id) => {
                deny("the tool call was removed from the answer")
            }
            _ if call.malformed.is_some() => deny("the arguments of the tool call are not a JSON object"),
            _ => ToolDecision::Allow,
        })
        .collect()
}
