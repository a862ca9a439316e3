//! What there is to read: the hooks in force, sessions, the audit trail.

use backstop_hooks::{AgentId, Digest, Json, RunId, SessionId, SessionKey};
use backstop_store::{AuditEntry, AuditFilter, Session};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty, Number, Page, limit};

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
    let sessions = store.sessions(limit(page.limit)?).await.map_err(|_| Problem::store())?;
    Ok(Sessions { sessions: sessions.into_iter().map(OneSession::of).collect() }.into())
}

/// Which entries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Entries {
    /// Only entries after this number; from the beginning where absent.
    #[serde(default)]
    after: Option<Number>,
    /// Only entries of this kind.
    #[serde(default)]
    kind: Option<String>,
    /// Only entries of this session.
    #[serde(default)]
    session: Option<String>,
    /// Only entries under a version of the policy that begins with these hex digits.
    #[serde(default)]
    policy: Option<String>,
    /// The most entries, from 1 to 1000; 100 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<Number>,
}

/// A page of the trail.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AuditPage")]
pub(super) struct Trail {
    entries: Vec<Entry>,
    /// The `after` of the next page, if there may be more.
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

/// Lists entries of the trail.
pub(super) async fn audit(asked: Asked, which: Entries, _: Empty) -> Result<Answer<Trail>, Problem> {
    let most = limit(which.limit)?;
    let filter = AuditFilter {
        kind: which.kind,
        session: which.session.map(SessionId::new),
        policy: which.policy,
        ..AuditFilter::default()
    };
    let after = which.after.map_or(0, Number::get);
    let store = asked.engine()?.store();
    let entries = store.audit(&filter, after, most).await.map_err(|_| Problem::store())?;
    let next = entries.last().map(|entry| entry.seq).filter(|_| entries.len() == most);
    Ok(Trail { entries: entries.into_iter().map(Entry::of).collect(), next }.into())
}
