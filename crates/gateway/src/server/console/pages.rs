//! Pages that are read: what passes, sessions, and what judges.

use std::collections::{HashMap, HashSet};

use backstop_console::{
    Conversation, Counts, Exception, Policy, RuleUse, SeenSession, Sessions, conversation,
};
use backstop_hooks::SessionId;
use backstop_store::{
    AuditEntry, AuditFilter, AuditPage, AuditPlace, GrantId, GrantList, Session, Store, StoreError,
    Timestamp, audit_id,
};
use http::StatusCode;
use serde_json::Value;

use super::{Answer, PageError, PageRequest, form, html, see_other};
use crate::metrics::{Metrics, OfRule, Sums};

/// The most rows of a list.
const MOST: usize = 200;
/// How many receipts are read at once in order to find sessions, and how often at most.
const PIECE: usize = 1_000;
const MOST_PAGES_READ: usize = 3;
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
    let store = request.engine.store();
    let kept = store.sessions(MOST).await.map_err(|_| PageError::Store)?;
    let (mut others, reached) = seen(store.as_ref(), &kept).await.map_err(|_| PageError::Store)?;
    let more = others.len().saturating_sub(MOST);
    others.truncate(MOST);
    let is_cut = kept.len() == MOST;
    if is_cut {
        others = unkept(store.as_ref(), others).await.map_err(|_| PageError::Store)?;
    }
    let shown = Sessions { kept: &kept, is_cut, others: &others, more, reached };
    Ok(html(StatusCode::OK, backstop_console::sessions(&request.viewer(), &shown, Timestamp::now())))
}

/// The sessions that the newest receipts name, besides those that are kept, the latest first; and the number of the entry before which the
/// trail was not read, unless all of it was.
async fn seen(store: &dyn Store, kept: &[Session]) -> Result<(Vec<SeenSession>, Option<u64>), StoreError> {
    let filter = AuditFilter { kind: Some("receipt".to_owned()), ..AuditFilter::default() };
    let kept: HashSet<_> = kept.iter().map(|session| audit_id(session.id.as_str())).collect();
    let (mut seen, mut place, mut reached) = (HashMap::new(), AuditPlace::END, None);
    for _ in 0..MOST_PAGES_READ {
        let AuditPage { entries, next, ended, .. } = store.audit_page(&filter, place, PIECE).await?;
        for entry in &entries {
            let Some(id) = entry.session.as_ref().map(SessionId::as_str) else { continue };
            if !kept.contains(&audit_id(id)) {
                note(seen.entry(id.to_owned()).or_insert_with(|| first(entry, id)), entry);
            }
        }
        reached = match next {
            AuditPlace::Before(before) if !ended => Some(before),
            AuditPlace::Before(_) | AuditPlace::After(_) => None,
        };
        if reached.is_none() {
            break;
        }
        place = next;
    }
    let mut seen: Vec<SeenSession> = seen.into_values().collect();
    seen.sort_by(|one, other| other.last.cmp(&one.last).then_with(|| one.id.cmp(&other.id)));
    Ok((seen, reached))
}

/// Those of which nothing is kept.
async fn unkept(store: &dyn Store, seen: Vec<SeenSession>) -> Result<Vec<SeenSession>, StoreError> {
    let mut unkept = Vec::with_capacity(seen.len());
    for one in seen {
        if store.session(&SessionId::from(one.id.clone())).await?.is_none() {
            unkept.push(one);
        }
    }
    Ok(unkept)
}

/// What the newest receipt of a session says of it.
fn first(entry: &AuditEntry, id: &str) -> SeenSession {
    let text = |name: &str| entry.body.get(name).and_then(Value::as_str);
    let host: Vec<&str> = ["host", "client"].into_iter().filter_map(text).collect();
    SeenSession {
        id: id.to_owned(),
        agent: text("agentId").unwrap_or_default().to_owned(),
        host: host.join(", "),
        judged: 0,
        last: entry.at,
    }
}

/// Counts a receipt of a session.
fn note(session: &mut SeenSession, entry: &AuditEntry) {
    session.judged = session.judged.saturating_add(1);
    session.last = session.last.max(entry.at);
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
    let AuditPage { entries: mut judged, next, ended, .. } = page.await.map_err(|_| PageError::Store)?;
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
    let Grants { shown: grants, more_in_force, more_over, unreadable } = grants(request).await?;
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
        more_in_force,
        more_over,
        unreadable,
    };
    Ok(html(StatusCode::OK, backstop_console::policy(&request.viewer(), &policy, Timestamp::now())))
}

/// What the configuration excepts from the guards, where it is known, for whoever may read the configuration.
fn exceptions(request: &PageRequest<'_>) -> Option<Vec<Exception>> {
    if !request.seat.may_administer() {
        return None;
    }
    Some(request.shared.configuration.as_ref()?.exceptions())
}

/// What was counted of hooks and rules.
fn counts(metrics: &Metrics) -> Counts {
    let Sums { span, hooks, rules, judged_left_out: left_out, .. } = metrics.sums();
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
    Counts { since: metrics.began(), span, hooks, rules, more_rules, left_out }
}

/// The grants of a page.
struct Grants {
    shown: Vec<backstop_store::Grant>,
    more_in_force: bool,
    more_over: bool,
    unreadable: usize,
}

/// What is in force comes first, so that it can be revoked however much was revoked before.
async fn grants(request: &PageRequest<'_>) -> Result<Grants, PageError> {
    let now = Timestamp::now();
    let store = request.engine.answer_store();
    let one_more = MOST.saturating_add(1);
    let list = store.grants_in_force(now, one_more).await.map_err(|_| PageError::Store)?;
    let GrantList { grants: mut shown, unreadable, is_cut: is_cut_in_force } = list;
    let newest = store.grants(one_more).await.map_err(|_| PageError::Store)?;
    let more_in_force = is_cut_in_force || shown.len() > MOST;
    shown.truncate(MOST);
    let is_cut = newest.len() > MOST;
    let room = MOST.saturating_sub(shown.len());
    let mut over: Vec<_> = newest.into_iter().filter(|grant| !grant.is_in_force(now)).collect();
    let more_over = is_cut || over.len() > room;
    over.truncate(room);
    shown.extend(over);
    Ok(Grants { shown, more_in_force, more_over, unreadable })
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
