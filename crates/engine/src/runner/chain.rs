//! The chain: hooks of one decide point over one value, in order, and once more over the final value.
//!
//! Laws that live here:
//!
//! - *Chain.* Each hook sees the value as the one before left it.
//! - *What was judged is what runs.* The value has a version that grows with each real change. Every hook
//!   remembers the version it judged; those that judged an older one than the final judge again. A hook
//!   that still changes the value in that round makes the call block as `unstable_rewrite`.
//! - *Failing is not passing.* A failed hook stops the value, unless its failure policy is open; then the
//!   step says so.
//!
//! A block ends the first round: hooks behind it are not asked.

use std::time::{Duration, Instant};

use backstop_hooks::{CallContext, Context, Event, Outcome, Point, Text, ToolName, event_json};

use super::call::{Asked, ask, ask_now};
use crate::receipt::{BlockCause, Blocked, Failure, Said, Step, StepDetail};
use crate::registry::Entry;

/// Counts the real changes of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32);

/// How hooks of this chain may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// They may wait.
    Waiting,
    /// They may not.
    Immediate,
}

pub(crate) struct Chain<'a, P: Point> {
    entries: Vec<(&'a Entry<P>, Version)>,
    capture: bool,
    pub(crate) merged: P::Outcome,
    pub(crate) steps: Vec<Step>,
    pub(crate) blocked: Option<Blocked>,
}

impl<'a, P: Point> Chain<'a, P> {
    pub(crate) fn new(
        slot: &'a [Entry<P>],
        tool: Option<&ToolName>,
        call: &CallContext,
        capture: bool,
    ) -> Self {
        let entries: Vec<_> = slot
            .iter()
            .filter(|entry| entry.meta.applies_to(tool, call.agent_id.as_ref()))
            .map(|entry| (entry, Version::default()))
            .collect();
        let steps = Vec::with_capacity(entries.len());
        Self { entries, capture, merged: P::Outcome::default(), steps, blocked: None }
    }

    /// Asks every hook once. `version` is the value's, shared with the chains of other points over the
    /// same value.
    pub(crate) async fn first_round(
        &mut self,
        event: &mut P::Event,
        version: &mut Version,
        call: &CallContext,
    ) {
        let mut start = Instant::now();
        for index in 0..self.entries.len() {
            let Some(&(entry, _)) = self.entries.get(index) else { return };
            let said = ask(entry, event, call, start).await;
            let end = Instant::now();
            self.settle(index, said, event, version, end - start, call, false);
            if self.blocked.is_some() {
                return;
            }
            start = end;
        }
    }

    /// As [`Self::first_round`], on a path where nothing may wait.
    pub(crate) fn first_round_now(
        &mut self,
        event: &mut P::Event,
        version: &mut Version,
        call: &CallContext,
    ) {
        let mut start = Instant::now();
        for index in 0..self.entries.len() {
            let Some(&(entry, _)) = self.entries.get(index) else { return };
            let said = ask_now(entry, event, call, start);
            let end = Instant::now();
            self.settle(index, said, event, version, end - start, call, false);
            if self.blocked.is_some() {
                return;
            }
            start = end;
        }
    }

    /// Lets the hooks that judged an older value judge the final one.
    pub(crate) async fn judge_again(
        &mut self,
        event: &mut P::Event,
        version: &mut Version,
        call: &CallContext,
        pace: Pace,
    ) {
        let last = *version;
        for index in 0..self.entries.len() {
            let Some(&(entry, judged)) = self.entries.get(index) else { return };
            if judged == last {
                continue;
            }
            let start = Instant::now();
            let said = match pace {
                Pace::Waiting => ask(entry, event, call, start).await,
                Pace::Immediate => ask_now(entry, event, call, start),
            };
            self.settle(index, said, event, version, start.elapsed(), call, true);
            if self.blocked.is_none() && *version != last {
                self.blocked = Some(Blocked {
                    cause: BlockCause::UnstableRewrite,
                    reason: Some(Text::from(
                        "unstable_rewrite: a hook changed a value that was already judged",
                    )),
                    hook: Some(entry.meta.id.clone()),
                    owner: Some(entry.meta.owner.clone()),
                });
            }
            if self.blocked.is_some() {
                return;
            }
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "one private seam for both rounds; a struct would only rename them"
    )]
    fn settle(
        &mut self,
        index: usize,
        asked: Asked<P>,
        event: &mut P::Event,
        version: &mut Version,
        elapsed: Duration,
        call: &CallContext,
        again: bool,
    ) {
        let Some((entry, judged)) = self.entries.get_mut(index) else { return };
        let entry = *entry;
        let detail = self.capture.then(|| detail(entry, event, call, &asked));
        let mut step = Step {
            hook: std::sync::Arc::clone(&entry.meta),
            said: Said::Nothing,
            again,
            refused: Vec::new(),
            failure: None,
            passed_despite_failure: false,
            elapsed,
            detail,
        };
        match asked {
            Ok(None) => {}
            Ok(Some(outcome)) => {
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
                if blocks {
                    self.blocked = Some(Blocked {
                        cause: BlockCause::Decision,
                        reason: self.merged.block_reason().cloned(),
                        hook: Some(entry.meta.id.clone()),
                        owner: Some(entry.meta.owner.clone()),
                    });
                }
            }
            Err(failure) => {
                step.said = Said::Failed;
                if failure.blocks(entry.meta.on_failure) {
                    self.blocked = Some(blocked_by_failure(entry, &failure));
                } else {
                    step.passed_despite_failure = failure.blocks(P::INFO.failure);
                }
                step.failure = Some(failure);
            }
        }
        *judged = *version;
        self.steps.push(step);
    }
}

fn blocked_by_failure<P: Point>(entry: &Entry<P>, failure: &Failure) -> Blocked {
    Blocked {
        cause: BlockCause::Failure { kind: failure.kind },
        reason: Some(format!("hook `{}` failed: {failure}", entry.meta.id).into()),
        hook: Some(entry.meta.id.clone()),
        owner: Some(entry.meta.owner.clone()),
    }
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
