//! The chain: hooks of one decide point over one value, in order, and once more over the final value.
//!
//! Laws that live here:
//!
//! - *Chain.* Each hook sees the value as the one before left it.
//! - *What was judged is what runs.* The value has a version that grows with each real change. Every hook
//!   remembers the version it judged; those that judged an older one than the final judge again. In that
//!   round the value stands: a hook that would still change it makes the call block as
//!   `unstable_rewrite`, also where a latch would have refused the change.
//! - *Failing is not passing.* A failed hook stops the value, unless its failure policy is open; then the
//!   step says so.
//!
//! A block ends a round: hooks behind it are not asked.

use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{CallContext, Context, Event, Outcome, Point, Text, ToolName, event_json};
use tokio::time::Instant;

use super::call::{Asked, ask, ask_now};
use crate::receipt::{BlockCause, Blocked, Failure, Said, Step, StepDetail};
use crate::redaction::Whole;
use crate::registry::{Entry, HookMeta};

/// Counts the real changes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32);

/// One value on its way past hooks: how often it changed, since when it is under way, and the moment
/// the last hook was done, which is when the next one begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    version: Version,
    begin: Instant,
    now: Instant,
}

impl Course {
    pub(crate) fn begin() -> Self {
        let begin = Instant::now();
        Self { version: Version::default(), begin, now: begin }
    }

    pub(crate) fn changed(&self) -> bool {
        self.version != Version::default()
    }

    /// The value has passed something that is no hook of a chain.
    pub(crate) fn pass(&mut self, changed: bool) {
        self.version = Version(self.version.0.saturating_add(u32::from(changed)));
        self.now = Instant::now();
    }

    /// How often the value really changed.
    pub(crate) fn changes(&self) -> u32 {
        self.version.0
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.now - self.begin
    }
}

/// Which time the hooks are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// Every hook, each seeing what the one before left.
    First,
    /// The hooks that judged an older value than the final one.
    Again,
}

pub(crate) struct Chain<'a, P: Point> {
    seats: Vec<Seat<'a, P>>,
    call: &'a CallContext,
    capture: bool,
    pub(crate) merged: P::Outcome,
    pub(crate) steps: Vec<Step>,
    pub(crate) blocked: Option<Blocked>,
}

struct Seat<'a, P: Point> {
    entry: &'a Entry<P>,
    judged: Version,
    /// Fields of its first answer that a latch refused.
    refused: Vec<&'static str>,
}

impl<'a, P: Point> Chain<'a, P> {
    pub(crate) fn new(
        slot: &'a [Entry<P>],
        tool: Option<&ToolName>,
        call: &'a CallContext,
        capture: bool,
    ) -> Self {
        let mut seats = Vec::with_capacity(slot.len());
        seats.extend(
            slot.iter()
                .filter(|entry| entry.meta.applies_to(tool, call.agent_id.as_ref()))
                .map(|entry| Seat { entry, judged: Version::default(), refused: Vec::new() }),
        );
        let steps = Vec::with_capacity(seats.len());
        Self { seats, call, capture, merged: P::Outcome::default(), steps, blocked: None }
    }

    /// Takes over what the span redactors did with the value.
    pub(crate) fn join(&mut self, redacted: Whole) {
        self.steps.extend(redacted.steps);
        if self.blocked.is_none() {
            self.blocked = redacted.blocked;
        }
    }

    /// Asks the hooks of a round. The course is the value's, shared with the chains of other points over
    /// the same value.
    pub(crate) async fn ask(&mut self, round: Round, event: &mut P::Event, course: &mut Course) {
        let last = course.version;
        for index in 0..self.seats.len() {
            let Some(entry) = self.due(index, round, last) else { continue };
            let (said, end) = ask(entry, event, self.call, course.now).await;
            let elapsed = end - std::mem::replace(&mut course.now, end);
            self.settle(index, round, said, elapsed, event, &mut course.version);
            if self.blocked.is_some() {
                return;
            }
        }
    }

    /// As [`Self::ask`], on a path where nothing may wait.
    pub(crate) fn ask_now(&mut self, round: Round, event: &mut P::Event, course: &mut Course) {
        let last = course.version;
        for index in 0..self.seats.len() {
            let Some(entry) = self.due(index, round, last) else { continue };
            let (said, end) = ask_now(entry, event, self.call, course.now);
            let elapsed = end - std::mem::replace(&mut course.now, end);
            self.settle(index, round, said, elapsed, event, &mut course.version);
            if self.blocked.is_some() {
                return;
            }
        }
    }

    fn due(&self, index: usize, round: Round, last: Version) -> Option<&'a Entry<P>> {
        self.seats
            .get(index)
            .filter(|seat| round == Round::First || seat.judged != last)
            .map(|seat| seat.entry)
    }

    fn settle(
        &mut self,
        index: usize,
        round: Round,
        asked: Asked<P>,
        elapsed: Duration,
        event: &mut P::Event,
        version: &mut Version,
    ) {
        let Some(seat) = self.seats.get(index) else { return };
        let entry = seat.entry;
        let detail = self.capture.then(|| detail(entry, event, self.call, &asked));
        let mut step = Step {
            hook: Arc::clone(&entry.meta),
            said: Said::Nothing,
            again: round == Round::Again,
            refused: Vec::new(),
            spans: Vec::new(),
            failure: None,
            passed_despite_failure: false,
            elapsed,
            detail,
        };
        match asked {
            Ok(None) => {}
            Ok(Some(outcome)) => match round {
                Round::First => self.take(index, outcome, &mut step, event, version),
                Round::Again => self.compare(index, outcome, &mut step, event),
            },
            Err(failure) => {
                step.said = Said::Failed;
                if failure.blocks(entry.meta.on_failure) {
                    self.blocked = Some(failed(&entry.meta, &failure));
                } else {
                    step.passed_despite_failure = failure.blocks(P::INFO.failure);
                }
                step.failure = Some(failure);
            }
        }
        if let Some(seat) = self.seats.get_mut(index) {
            seat.judged = *version;
        }
        self.steps.push(step);
    }

    /// First round: the answer is merged, and the next hook sees what it changed.
    fn take(
        &mut self,
        index: usize,
        outcome: P::Outcome,
        step: &mut Step,
        event: &mut P::Event,
        version: &mut Version,
    ) {
        let (blocks, asks) = (outcome.blocks(), !outcome.approvals().is_empty());
        step.refused = self.merged.merge(outcome);
        let changed = event.absorb(&self.merged);
        if changed {
            *version = Version(version.0.saturating_add(1));
        }
        step.said = match (blocks, asks, changed) {
            (true, ..) => Said::Blocked,
            (_, true, _) => Said::Asked,
            (_, _, true) => Said::Rewrote,
            _ => Said::Pass,
        };
        let Some(seat) = self.seats.get_mut(index) else { return };
        seat.refused.clone_from(&step.refused);
        if blocks {
            self.blocked = Some(decided(seat.entry, &self.merged));
        }
    }

    /// Second round: the answer is merged but the value stands. INVARIANT (what was judged is what runs):
    /// whoever wants another value blocks, unless all that is wanted was refused before.
    fn compare(&mut self, index: usize, outcome: P::Outcome, step: &mut Step, event: &P::Event) {
        let (blocks, asks) = (outcome.blocks(), !outcome.approvals().is_empty());
        let wants = event.clone().absorb(&outcome);
        step.refused = self.merged.merge(outcome);
        let Some(seat) = self.seats.get(index) else { return };
        let refused_before = !step.refused.is_empty() && step.refused == seat.refused;
        if !wants {
            // A latch refuses to be told twice what it already holds; that is no news.
            step.refused.clear();
        }
        let unstable = wants && (!refused_before || event.clone().absorb(&self.merged));
        step.said = match (blocks, asks, unstable) {
            (true, ..) => Said::Blocked,
            (_, _, true) => Said::Rewrote,
            (_, true, _) => Said::Asked,
            _ => Said::Pass,
        };
        if blocks {
            self.blocked = Some(decided(seat.entry, &self.merged));
        } else if unstable {
            self.blocked = Some(blocked(
                &seat.entry.meta,
                BlockCause::UnstableRewrite,
                Some("unstable_rewrite: a hook changed a value that was already judged".into()),
            ));
        }
    }
}

pub(crate) fn blocked(hook: &HookMeta, cause: BlockCause, reason: Option<Text>) -> Blocked {
    Blocked { cause, reason, hook: Some(hook.id.clone()), owner: Some(hook.owner.clone()) }
}

fn decided<P: Point>(entry: &Entry<P>, merged: &P::Outcome) -> Blocked {
    blocked(&entry.meta, BlockCause::Decision, merged.block_reason().cloned())
}

pub(crate) fn failed(hook: &HookMeta, failure: &Failure) -> Blocked {
    let reason = format!("hook `{}` failed: {failure}", hook.id);
    blocked(hook, BlockCause::Failure { kind: failure.kind }, Some(reason.into()))
}

pub(super) fn detail<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    asked: &Asked<P>,
) -> Box<StepDetail> {
    let cx = Context { call, plugin_config: &entry.meta.config, deadline: None };
    let said = match asked {
        Ok(outcome) => serde_json::to_value(outcome).unwrap_or_default(),
        Err(failure) => serde_json::json!({ "failed": failure.to_string() }),
    };
    let mut saw = event_json::<P>(event, cx);
    if let serde_json::Value::Object(fields) = &mut saw {
        fields.remove("context");
    }
    Box::new(StepDetail { saw, said })
}
