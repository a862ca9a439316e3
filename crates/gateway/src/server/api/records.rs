//! What there is to read: the hooks in force, sessions, the audit trail.

use backstop_hooks::{AgentId, Digest, Json, RunId, SessionId, SessionKey};
use backstop_store::{AuditEntry, AuditPlace, Session};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty, Number, Page, limit};
use super::filter::filtered;

/// Hooks in force.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Hooks {
    /// Each with its id, point, owner, priority, budget, and what its failure means.
    hooks: Vec<Value>,
}

/// Lists the hooks in force, in the order in which they run.
pub(super) async fn hooks(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Hooks>, Problem> {
    let hooks = asked.engine()?.registry().list();
    let hooks = hooks.iter().map(|meta| serde_json::to_value(&**meta));
    let hooks = hooks.collect::<Result<_, _>>().map_err(|_| Problem::failed())?;
    Ok(Hooks { hooks }.into())
}

/// Sessions.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Sessions {
    sessions: Vec<OneSession>,
    /// Whether there are more, with an earlier activity.
    more: bool,
}

/// A session of an agent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Session")]
struct OneSession {
    id: SessionId,
    key: SessionKey,
    agent: AgentId,
    workspace: String,
    /// In Unix milliseconds, as all times here.
    created_at: i64,
    updated_at: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at: Option<i64>,
}

impl OneSession {
    fn of(session: Session) -> Self {
        Self {
            id: session.id,
            key: session.key,
            agent: session.agent,
            workspace: session.workspace,
            created_at: millis(session.created_at),
            updated_at: millis(session.updated_at),
            ended_at: session.ended.map(|end| millis(end.at)),
        }
    }
}

/// Lists sessions.
pub(super) async fn sessions(asked: Asked, page: Page, _: Empty) -> Result<Answer<Sessions>, Problem> {
    let store = asked.engine()?.store();
    let most = limit(page.limit)?;
    let sessions = store.sessions(most.saturating_add(1)).await.map_err(|_| Problem::store())?;
    let more = sessions.len() > most;
    Ok(Sessions { sessions: sessions.into_iter().take(most).map(OneSession::of).collect(), more }.into())
}

filtered! {
    /// Which entries.
    pub(super) struct Entries {
        /// Only entries after this number; from the beginning where absent.
        #[serde(default)]
        after: Option<Number>,
        /// Only entries before this number, the newest first; a number behind the last one begins at the end.
        #[serde(default)]
        before: Option<Number>,
        /// The most entries, from 1 to 1000; 100 where absent.
        #[serde(default)]
        #[schemars(range(min = 1, max = 1_000))]
        limit: Option<Number>,
    }
}

/// A page of the trail.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditPage")]
pub(super) struct Trail {
    entries: Vec<Entry>,
    /// The `after` of the next page, or its `before` where the newest come first, if there may be more. A page may have no entry and a next
    /// one: it reads so far, and no further.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
}

/// An entry of the trail.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AuditEntry")]
pub(super) struct Entry {
    seq: u64,
    /// In Unix milliseconds.
    at: i64,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<SessionId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// The version of the policy under which it was written; an entry `configuration.read` before it says what that is.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<String>,
    body: Json,
    /// The process that wrote it, and its number among the entries of that process.
    process: String,
    n: u64,
    /// Its digest in the tree of the trail.
    digest: Digest,
}

impl Entry {
    pub(super) fn of(entry: AuditEntry) -> Self {
        let AuditEntry { seq, at, kind, session, run, policy, body, process, n, digest } = entry;
        Self { seq, at: millis(at), kind, session, run, policy, body, process, n, digest }
    }
}

/// Lists entries of the trail. Whoever looks for something rare is told how far a page went: none reads all of it.
pub(super) async fn audit(asked: Asked, which: Entries, _: Empty) -> Result<Answer<Trail>, Problem> {
    let most = limit(which.limit)?;
    let after = which.after.map_or(0, Number::get);
    let place = which.before.map_or(AuditPlace::After(after), |before| AuditPlace::Before(before.get()));
    let store = asked.engine()?.store();
    let page = store.audit_page(&which.filter(), place, most).await.map_err(|_| Problem::store())?;
    let next = match page.next {
        _ if page.ended => None,
        AuditPlace::After(reached) => Some(reached),
        // What comes next backwards is not asked for any more.
        AuditPlace::Before(reached) => Some(reached).filter(|reached| *reached > after.saturating_add(1)),
    };
    let entries = page.entries.into_iter().filter(|entry| entry.seq > after).map(Entry::of).collect();
    Ok(Trail { entries, next }.into())
}
