//! What people are shown of what is counted: sums by whose they are, beside the series that scrapers read.
//!
//! They are views of the same records and receipts, and bounded like the series: each list has at most [`MOST_SERIES`] lines, and what has no line is
//! counted as left out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use backstop_console::{HookUse, SPAN};
use backstop_engine::{Receipt, Said};
use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{HookId, PointId, Resolution, RuleId};

use super::MOST_SERIES;
use crate::record::{Label, RequestRecord};

/// Whose requests are summed up: agent, user and model.
pub(crate) type Spender = (Label, Label, Label);

/// What somebody used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    pub(crate) requests: u64,
    pub(crate) tokens: TokenUsage,
    pub(crate) cost_micros: u64,
}

/// How often a rule spoke, and what people made of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OfRule {
    pub(crate) stopped: u64,
    pub(crate) asked: u64,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
}

/// All sums since the process began.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    /// The number of the span that it was when this was asked.
    pub(crate) span: u64,
    pub(crate) spent: BTreeMap<Spender, Spent>,
    pub(crate) hooks: BTreeMap<(PointId, HookId), HookUse>,
    pub(crate) rules: BTreeMap<RuleId, OfRule>,
    /// How often there was no line for what somebody used, and for a hook or a rule.
    pub(crate) spent_left_out: u64,
    pub(crate) judged_left_out: u64,
}

/// Sums up.
#[derive(Debug)]
pub(super) struct Tally {
    all: Mutex<Sums>,
    began: Instant,
}

impl Default for Tally {
    fn default() -> Self {
        Self { all: Mutex::default(), began: Instant::now() }
    }
}

impl Tally {
    pub(super) fn sums(&self) -> Sums {
        Sums { span: self.span(), ..self.all().clone() }
    }

    /// The number of the span that it is now.
    fn span(&self) -> u64 {
        self.began.elapsed().as_secs() / SPAN.as_secs()
    }

    pub(super) fn ended(&self, record: &RequestRecord) {
        let mut sums = self.all();
        let Sums { spent, spent_left_out: left_out, .. } = &mut *sums;
        let whose = (record.agent.clone(), record.user.clone(), record.model.clone());
        let Some(sum) = line(spent, whose, left_out) else { return };
        sum.requests = sum.requests.saturating_add(1);
        sum.cost_micros = sum.cost_micros.saturating_add(record.cost_micros);
        let (all, one) = (&mut sum.tokens, record.tokens);
        for (all, one) in [
            (&mut all.input, one.input),
            (&mut all.output, one.output),
            (&mut all.cache_read, one.cache_read),
            (&mut all.cache_write, one.cache_write),
        ] {
            *all = all.saturating_add(one);
        }
    }

    pub(super) fn received(&self, receipt: &Receipt) {
        let span = self.span();
        let mut sums = self.all();
        let Sums { hooks, rules, judged_left_out: left_out, .. } = &mut *sums;
        for step in &receipt.steps {
            let Some(sum) = line(hooks, (step.hook.point, step.hook.id.clone()), left_out) else { continue };
            sum.answers = sum.answers.saturating_add(1);
            sum.time = sum.time.saturating_add(step.elapsed);
            sum.longest = sum.longest.max(step.elapsed);
            sum.recent.count(span, step.elapsed, step.said == Said::Failed);
            let count = match step.said {
                Said::Rewrote => &mut sum.rewrote,
                Said::Asked => &mut sum.asked,
                Said::Blocked => &mut sum.blocked,
                Said::Failed => &mut sum.failed,
                Said::Nothing | Said::Pass | Said::Handled => continue,
            };
            *count = count.saturating_add(1);
        }
        let reason = receipt.blocked.as_ref().and_then(|blocked| blocked.reason.as_ref());
        // What a person denied is blocked by the rules that asked; those are counted as asked.
        let stopped = reason.filter(|_| receipt.approval.is_none());
        for rule in stopped.into_iter().flat_map(|reason| &reason.rules) {
            let Some(sum) = line(rules, rule.clone(), left_out) else { continue };
            sum.stopped = sum.stopped.saturating_add(1);
        }
        let Some(approval) = &receipt.approval else { return };
        for rule in &approval.rules {
            let Some(sum) = line(rules, rule.clone(), left_out) else { continue };
            sum.asked = sum.asked.saturating_add(1);
            let count = match approval.resolution {
                Some(Resolution::AllowOnce | Resolution::AllowAlways) => &mut sum.allowed,
                Some(Resolution::Deny) => &mut sum.denied,
                Some(Resolution::Timeout | Resolution::Cancelled) | None => continue,
            };
            *count = count.saturating_add(1);
        }
    }

    fn all(&self) -> MutexGuard<'_, Sums> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The line of a key, if there is room for it.
fn line<'a, K: Ord, V: Default>(
    lines: &'a mut BTreeMap<K, V>,
    key: K,
    left_out: &mut u64,
) -> Option<&'a mut V> {
    if lines.len() >= MOST_SERIES && !lines.contains_key(&key) {
        *left_out = left_out.saturating_add(1);
        return None;
    }
    Some(lines.entry(key).or_default())
}
