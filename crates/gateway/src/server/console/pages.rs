//! Pages that are read: what passes, sessions, and what judges.

use backstop_console::{Conversation, Counts, Policy, RuleUse, conversation};
use backstop_hooks::SessionId;
use backstop_store::{AuditFilter, AuditPage, AuditPlace, GrantId, Timestamp};
use http::StatusCode;

use super::{Answer, Trouble, Visit, form, html, see_other};
use crate::metrics::{Metrics, OfRule, Sums};

/// The most rows of a list.
const MOST: usize = 200;
/// The most judgements and messages on the page of a session, and the most bytes of one of these.
const MOST_JUDGED: usize = 100;
const MOST_SAID: usize = 50;
const MOST_MESSAGE: usize = 64 << 10;
/// The most bytes of the id of a session.
const MOST_ID: usize = 1_000;

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

/// The page of one session.
pub(super) async fn session(visit: &Visit<'_>) -> Answer {
    visit.reads()?;
    let store = visit.engine.store();
    let id = form::query(visit.head, "id");
    if id.is_empty() || id.len() > MOST_ID {
        return Err(Trouble::Nothing);
    }
    let key = SessionId::from(id.clone());
    let session = store.session(&key).await.map_err(|_| Trouble::Store)?;
    let number = |name| form::query(visit.head, name).parse().unwrap_or(u64::MAX);
    let filter = AuditFilter { session: Some(key.clone()), ..AuditFilter::default() };
    let page = store.audit_page(&filter, AuditPlace::Before(number("judged")), MOST_JUDGED);
    let AuditPage { entries: mut judged, next, ended } = page.await.map_err(|_| Trouble::Store)?;
    judged.reverse();
    let judged_before = match next {
        AuditPlace::Before(before) if !ended => Some(before),
        AuditPlace::Before(_) | AuditPlace::After(_) => None,
    };
    if session.is_none() && judged.is_empty() && judged_before.is_none() {
        return Err(Trouble::Nothing);
    }
    let said = store.transcript_page(&key, number("said"), MOST_SAID, MOST_MESSAGE);
    let said = said.await.map_err(|_| Trouble::Store)?;
    let said_before = said.first().map(|first| first.seq).filter(|_| said.len() == MOST_SAID);
    let shown = Conversation {
        id: &id,
        session: session.as_ref(),
        judged: &judged,
        judged_before,
        said: &said,
        said_before,
    };
    Ok(html(StatusCode::OK, conversation(&visit.viewer(), &shown, Timestamp::now())))
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
    let Sums { hooks, rules, judged_left_out: left_out, .. } = metrics.sums();
    let mut rules: Vec<_> = rules
        .into_iter()
        .map(|(rule, OfRule { stopped, asked, allowed, denied })| {
            let rule = rule.as_str().to_owned();
            RuleUse { rule, stopped, asked, allowed, denied }
        })
        .collect();
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.stopped.saturating_add(rule.asked)));
    let more_rules = rules.len().saturating_sub(MOST);
    rules.truncate(MOST);
    Counts { since: metrics.began(), hooks, rules, more_rules, left_out }
}

/// Revokes a grant. That makes nothing milder, so it is done wherever grants are kept.
pub(super) async fn revoke(visit: &Visit<'_>, id: &str) -> Answer {
    if !visit.seat.may_answer() {
        return Err(Trouble::Scope);
    }
    let (id, by) = (GrantId::new(id), visit.answerer());
    let revoked = visit.engine.answer_store().revoke_grant(&id, by.by(), Timestamp::now());
    revoked.await.map_err(|_| Trouble::Store)?.ok_or(Trouble::Nothing)?;
    Ok(see_other("/-/console/policy?revoked=1"))
}
