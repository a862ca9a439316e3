//! Pages that are read: what passes, sessions, and what judges.

use backstop_console::{Conversation, Counts, Exception, Policy, RuleUse, conversation};
use backstop_hooks::SessionId;
use backstop_store::{AuditFilter, AuditPage, AuditPlace, GrantId, Timestamp};
use http::StatusCode;

use super::{Answer, PageError, PageRequest, form, html, see_other};
use crate::configuration::ServedException;
use crate::metrics::{Metrics, OfRule, Sums};

/// The most rows of a list.
const MOST: usize = 200;
/// The most judgements and messages on the page of a session, and the most bytes of one of these.
const MOST_JUDGED: usize = 100;
const MOST_SAID: usize = 50;
const MOST_MESSAGE: usize = 64 << 10;
/// The most bytes of the id of a session.
const MOST_ID: usize = 1_000;

impl PageRequest<'_> {
    pub(super) fn reads(&self) -> Result<(), PageError> {
        if self.seat.may_read() { Ok(()) } else { Err(PageError::Scope) }
    }
}

pub(super) fn live(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    Ok(html(StatusCode::OK, backstop_console::live(&request.viewer())))
}

pub(super) async fn sessions(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let sessions = request.engine.store().sessions(MOST).await.map_err(|_| PageError::Store)?;
    let (is_cut, now) = (sessions.len() == MOST, Timestamp::now());
    Ok(html(StatusCode::OK, backstop_console::sessions(&request.viewer(), &sessions, is_cut, now)))
}

/// The page of one session.
pub(super) async fn session(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let store = request.engine.store();
    let id = form::query(request.head, "id");
    if id.is_empty() || id.len() > MOST_ID {
        return Err(PageError::Nothing);
    }
    let key = SessionId::from(id.clone());
    let session = store.session(&key).await.map_err(|_| PageError::Store)?;
    let number = |name| form::query(request.head, name).parse().unwrap_or(u64::MAX);
    let filter = AuditFilter { session: Some(key.clone()), ..AuditFilter::default() };
    let page = store.audit_page(&filter, AuditPlace::Before(number("judged")), MOST_JUDGED);
    let AuditPage { entries: mut judged, next, ended } = page.await.map_err(|_| PageError::Store)?;
    judged.reverse();
    let judged_before = match next {
        AuditPlace::Before(before) if !ended => Some(before),
        AuditPlace::Before(_) | AuditPlace::After(_) => None,
    };
    if session.is_none() && judged.is_empty() && judged_before.is_none() {
        return Err(PageError::Nothing);
    }
    let said = store.transcript_page(&key, number("said"), MOST_SAID, MOST_MESSAGE);
    let said = said.await.map_err(|_| PageError::Store)?;
    let said_before = said.first().map(|first| first.seq).filter(|_| said.len() == MOST_SAID);
    let shown = Conversation {
        id: &id,
        session: session.as_ref(),
        judged: &judged,
        judged_before,
        said: &said,
        said_before,
    };
    Ok(html(StatusCode::OK, conversation(&request.viewer(), &shown, Timestamp::now())))
}

pub(super) async fn policy(request: &PageRequest<'_>) -> Answer {
    request.reads()?;
    let hooks = request.engine.registry().list();
    let grants = request.engine.answer_store().grants(MOST).await.map_err(|_| PageError::Store)?;
    let done =
        (form::query(request.head, "revoked") == "1").then_some("Revoked: it answers nothing from now on.");
    let counts = request.shared.operators.metrics().map(counts);
    let exceptions = exceptions(request);
    let policy = Policy {
        hooks: &hooks,
        counts: counts.as_ref(),
        exceptions: exceptions.as_deref(),
        grants: &grants,
        done,
    };
    Ok(html(StatusCode::OK, backstop_console::policy(&request.viewer(), &policy, Timestamp::now())))
}

/// What the configuration excepts from the guards, where it is known.
fn exceptions(request: &PageRequest<'_>) -> Option<Vec<Exception>> {
    let served = request.shared.configuration.as_ref()?.exceptions().into_iter();
    let shown = served.map(|ServedException { guard, rule, exempt, reason, last_day, at }| Exception {
        guard,
        rule,
        exempt,
        reason,
        last_day,
        at,
    });
    Some(shown.collect())
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
pub(super) async fn revoke(request: &PageRequest<'_>, id: &str) -> Answer {
    if !request.seat.may_answer() {
        return Err(PageError::Scope);
    }
    let (id, by) = (GrantId::new(id), request.answerer());
    let revoked = request.engine.answer_store().revoke_grant(&id, by.by(), Timestamp::now());
    revoked.await.map_err(|_| PageError::Store)?.ok_or(PageError::Nothing)?;
    Ok(see_other("/-/console/policy?revoked=1"))
}
