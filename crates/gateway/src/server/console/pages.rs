//! Pages that are read: what passes, sessions, and what judges.

use backstop_console::{Counts, HookUse, Policy, RuleUse};
use backstop_store::{GrantId, Timestamp};
use http::StatusCode;

use super::{Answer, Trouble, Visit, form, html, see_other};
use crate::metrics::{Metrics, OfHook, OfRule, Sums};

/// The most rows of a list.
const MOST: usize = 200;

impl Visit<'_> {
    pub(super) fn reads(&self) -> Result<(), Trouble> {
        if self.seat.may_read() { Ok(()) } else { Err(Trouble::Scope) }
    }
}

pub(super) fn live(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    Ok(html(StatusCode::OK, backstop_console::live(&visit.viewer())))
}

pub(super) async fn sessions(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    let sessions = visit.engine.store().sessions(MOST).await.map_err(|_| Trouble::Store)?;
    let (is_cut, now) = (sessions.len() == MOST, Timestamp::now());
    Ok(html(StatusCode::OK, backstop_console::sessions(&visit.viewer(), &sessions, is_cut, now)))
}

pub(super) async fn policy(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    let hooks = visit.engine.registry().list();
    let grants = visit.engine.answer_store().grants(MOST).await.map_err(|_| Trouble::Store)?;
    let done =
        (form::query(visit.head, "revoked") == "1").then_some("Revoked: it answers nothing from now on.");
    let counts = visit.shared.operators.metrics().map(counts);
    let policy = Policy { hooks: &hooks, counts: counts.as_ref(), grants: &grants, done };
    Ok(html(StatusCode::OK, backstop_console::policy(&visit.viewer(), &policy, Timestamp::now())))
}

/// What was counted of hooks and rules.
fn counts(metrics: &Metrics) -> Counts {
    let Sums { hooks, rules, .. } = metrics.sums();
    let hooks = hooks.into_iter().map(|(hook, sum)| {
        let OfHook { answers, rewrote, asked, blocked, failed, time, longest } = sum;
        (hook, HookUse { answers, rewrote, asked, blocked, failed, time, longest })
    });
    let mut rules: Vec<_> = rules
        .into_iter()
        .map(|(rule, OfRule { stopped, asked, allowed, denied })| {
            let rule = rule.as_str().to_owned();
            RuleUse { rule, stopped, asked, allowed, denied }
        })
        .collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.stopped.saturating_add(rule.asked)));
    rules.truncate(MOST);
    Counts { since: metrics.began(), hooks: hooks.collect(), rules }
}

/// Revokes a grant. That makes nothing milder, so it is done wherever grants are kept.
pub(super) async fn revoke(visit: &Visit<'_>, id: &str) -> Answer {
    if !visit.seat.may_answer() {
        return Err(Trouble::Scope);
    }
    let (id, by) = (GrantId::new(id), visit.seat.by());
    let revoked = visit.engine.answer_store().revoke_grant(&id, &by, Timestamp::now());
    revoked.await.map_err(|_| Trouble::Store)?.ok_or(Trouble::Nothing)?;
    Ok(see_other("/-/console/policy?revoked=1"))
}
