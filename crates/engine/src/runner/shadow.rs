//! Hooks in shadow: asked like any other, and without effect.
//!
//! An operator who wants to know what a hook would do before it does it puts the hook into shadow. It is asked when all hooks whose
//! answers count have judged and none has stopped the value, about the value as they left it, at once with the others in shadow. Its
//! step says what it would have done.
//!
//! The law: *a shadow changes nothing*. Whatever such a hook answers, and however it fails, the value, the merged answer, the block, the
//! questions and the steps of all other hooks are those of a dispatch without it. What it read does not count as evidence, nor are
//! other forms of the value shared with it.
//!
//! The law: *blocked is gone*. What was stopped is shown to no hook in shadow, as it is shown to no hook behind the one that stopped
//! it. The receipt then has no step of a hook in shadow.
//!
//! A dispatch that asks hooks in shadow takes longer, by at most [`SHADOW_TIME`] for all of them together, whatever their budgets
//! are, and by at most a tenth of the time that its caller still has ([`CallContext::answer_by`]). What a hook would have done that was
//! cut short by this is unknown, and its step says no more than that it had no answer.
//!
//! Limits: a hook in shadow sees no value that another one in shadow proposes, and is asked once. It does not judge the values behind
//! placeholders. It is not asked where its host does not fire the point, which it need not do for a hook that is no gate, nor about a
//! call that came out of too many others. One that blocks its thread holds the dispatch up for as long as it does so.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{ApprovalRequest, CallContext, Outcome, Reason, RuleId, drop_contained};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::Dispatch;
use super::call::Beside;
use super::seat::{Reply, Seat};
use crate::foreign::too_deep;
use crate::receipt::{Failure, FailureKind, Said, Step, Would};
use crate::underway::Places;

/// The most time that all hooks in shadow of one dispatch have together.
pub(crate) const SHADOW_TIME: Duration = Duration::from_secs(2);

/// They have one part in so many of the time that the caller still waits.
const PARTS: u32 = 10;

/// Returns when the answers of hooks in shadow must be there that are asked now.
fn end_of_shadows(call: &CallContext, now: Instant) -> Instant {
    let left = call.answer_by.map(|by| by.saturating_duration_since(now.into_std()) / PARTS);
    now + left.map_or(SHADOW_TIME, |left| left.min(SHADOW_TIME))
}

/// What hooks in shadow said, and how long they took together.
#[derive(Default)]
pub(crate) struct Shadows {
    pub(crate) steps: Vec<Step>,
    pub(crate) elapsed: Duration,
}

impl Dispatch<'_> {
    /// Asks hooks in shadow about a value. `would` says what an answer would do to it.
    pub(crate) async fn ask_shadows<S: Seat>(
        &self,
        seats: Vec<S>,
        value: &S::Value,
        would: impl Fn(&S::Value, &S::Outcome) -> Option<Would> + Send + Sync,
    ) -> Shadows {
        if seats.is_empty() || too_deep(self.call).is_some() {
            return Shadows::default();
        }
        let (begin, places) = (Instant::now(), Places::new(self.progress));
        let until = end_of_shadows(self.call, begin);
        let asking = seats.iter().enumerate().map(|(place, seat)| {
            let (places, would) = (&places, &would);
            async move {
                let start = Instant::now();
                let budget = seat.meta().budget;
                let time = until.saturating_duration_since(start).min(budget);
                let reply = match time.is_zero() {
                    // Those before it have used up the time of all.
                    true => Reply {
                        answer: Err(Box::new(Failure::timed_out(time, None))),
                        end: start,
                        detail: None,
                    },
                    false => {
                        let beside = Beside { until: Some(until), ..Beside::default() };
                        seat.ask(value, self.call, beside, start, self.capture).await
                    }
                };
                let mut step = step(seat, value, reply, start, would);
                let is_late =
                    step.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::TimedOut);
                if is_late && time < budget {
                    step.would = None;
                }
                places.put(place, step);
            }
        });
        join_all(asking).await;
        Shadows { steps: places.into_vec(), elapsed: begin.elapsed() }
    }
}

fn step<S: Seat>(
    seat: &S,
    value: &S::Value,
    reply: Reply<S::Outcome>,
    start: Instant,
    would: impl Fn(&S::Value, &S::Outcome) -> Option<Would>,
) -> Step {
    let Reply { answer, end, detail } = reply;
    let meta = seat.meta();
    let mut step = Step { elapsed: end - start, detail, ..Step::of(Arc::clone(meta)) };
    match answer {
        Ok(None) => {}
        Ok(Some(answer)) => {
            step.would = would(value, &answer);
            step.would_by = rules(&*answer);
            // Requests have listeners, which are foreign code.
            drop_contained(answer);
        }
        Err(failure) => {
            let failure = Failure::clone(&failure);
            step.said = Said::Failed;
            step.would = failure.blocks(meta.on_failure).then_some(Would::Block);
            step.failure = Some(failure);
        }
    }
    step
}

/// Returns what an answer would do to a value in a chain.
pub(crate) fn in_chain<S: Seat>(value: &S::Value, answer: &S::Outcome) -> Option<Would> {
    Would::of(answer.blocks(), !answer.approvals().is_empty(), S::changes(value, answer))
}

/// Returns the rules that an answer names, each once.
fn rules(answer: &impl Outcome) -> Box<[RuleId]> {
    let of_block = answer.block_reason().map(Reason::rules).unwrap_or_default();
    let of_questions =
        answer.approvals().iter().flat_map(ApprovalRequest::rests_on).map(|ground| &ground.rule);
    let mut rules: Vec<RuleId> = Vec::new();
    for rule in of_block.iter().chain(of_questions) {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    rules.into()
}
