//! Retention: what is deleted, and how the deletion stays visible.
//!
//! Three laws:
//!
//! - *Recorded.* Each deletion writes an entry into the audit trail, before it counts: what, how much, why, by whom.
//!   The entry contains ids and counts, never what was deleted.
//! - *Wiped.* Deleted text is gone from the files, not only from the tables.
//! - *Not in use.* A session that a running process works in is not deleted.
//!
//! Of the audit trail, decisions may be kept longer than the rest ([`AuditStore::prune_audit`](crate::AuditStore::prune_audit)); this module
//! decides what of it may go.

use async_trait::async_trait;
use backstop_hooks::{AgentId, SessionId};
use backstop_trail::{KIND_HEARTBEAT, KIND_START, KIND_STOP};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::audit::always_stays;
use crate::{
    AUDIT_HOOKS, AppendAuditError, AuditBody, Erasure, LeaseHolder, NewAuditEntry, Session, StoreError,
    Timestamp,
};

/// The kind of the entry for a session that was deleted with everything that belongs to it.
pub const SESSION_DELETED: &str = "session.deleted";
/// The kind of the entry for a deleted transcript; its session stays.
pub const TRANSCRIPT_DELETED: &str = "transcript.deleted";
/// The kind of the entry for deleted approvals.
pub const APPROVALS_DELETED: &str = "approvals.deleted";

/// Why something is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeletionCause {
    /// Somebody asked for it.
    Asked,
    /// It is older than permitted.
    Age,
    /// There is more than permitted.
    Size,
}

/// Who deletes, why, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    /// Why.
    pub cause: DeletionCause,
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A session, and how much is stored for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredSession {
    /// The session.
    pub id: SessionId,
    /// The agent that worked in it.
    pub agent: AgentId,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// How many messages its transcript has.
    pub messages: u64,
    /// How many bytes they have, as JSON.
    pub bytes: u64,
}

/// What was deleted of a session.
#[derive(Clone, Debug, PartialEq)]
pub struct DeletedSession {
    /// The session as it was.
    pub session: Session,
    /// How many messages were deleted.
    pub messages: u64,
    /// How many approvals were deleted.
    pub approvals: u64,
    /// Whether their text has already been wiped.
    pub erasure: Erasure,
}

/// Why something was not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// No session of that id exists.
    #[error("there is no session `{0}`")]
    Unknown(SessionId),
    /// A running process works in it.
    #[error("session `{session}` is in use by {holder}\nhint: end that process first")]
    InUse {
        /// The session.
        session: SessionId,
        /// Who has it.
        holder: LeaseHolder,
    },
    /// The deletion could not be recorded in the audit trail, so nothing was deleted.
    #[error(transparent)]
    Unsaid(#[from] AppendAuditError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Entries of the audit trail that may be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PrunableAudit {
    /// How many.
    pub entries: u64,
    /// How many of them are [decisions](is_decision).
    pub decisions: u64,
    /// The number of the first one; 0 where there is none.
    pub first: u64,
    /// The number of the last one.
    pub last: u64,
}

/// What may be removed from the audit trail. The newest entry stays, and what [stays whatever else goes](crate::AuditStore::prune_audit).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditBound {
    /// Entries before this that are no decisions.
    pub since: Option<Timestamp>,
    /// [Decisions](is_decision) before this.
    pub decisions_since: Option<Timestamp>,
    /// All but this many of the newest, decisions or not.
    pub most: Option<u64>,
    /// All through this number.
    pub through: Option<u64>,
}

impl AuditBound {
    /// Returns the bound that lets all go through this number.
    pub fn through(number: u64) -> Self {
        Self { through: Some(number), ..Self::default() }
    }

    /// Returns whether everything stays.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether no entry of that time goes because of its age.
    fn is_young(&self, at: Timestamp) -> bool {
        let old = |since: Option<Timestamp>| since.is_some_and(|since| at < since);
        !old(self.since) && !old(self.decisions_since)
    }
}

/// Returns whether an entry is about a decision: a block, a question, an answer, a grant, a change of what holds. Which are none is a
/// closed list: receipts of what passed, about which nobody was asked and in which nothing failed, and entries that processes write about
/// themselves. Whatever is not known is a decision; so is what passed although a hook failed (`on_failure: allow`), and a call that was given
/// up before it was judged to its end.
pub fn is_decision(kind: &str, body: &Value) -> bool {
    const PASSED: [&str; 4] = ["pass", "modify", "handled", "observed"];
    match kind {
        KIND_START | KIND_STOP | KIND_HEARTBEAT => false,
        "receipt" => {
            let verdict = body.get("verdict").and_then(Value::as_str);
            let steps = body.get("steps").and_then(Value::as_array);
            let mut steps = steps.into_iter().flatten();
            let is_despite = steps.any(|step| step.get("passedDespiteFailure") == Some(&Value::Bool(true)));
            // One that was too large for its steps does not say whether something failed.
            let is_whole = body.get("stepsOmitted").is_none();
            !verdict.is_some_and(|verdict| PASSED.contains(&verdict))
                || body.get("approval").is_some()
                || body.get("editedFrom").is_some()
                || is_despite
                || !is_whole
        }
        _ => true,
    }
}

/// After so many entries one after the other that are too young, those behind them are taken to be younger still.
const MOST_YOUNG: u64 = 4096;

/// The way along a trail to what may go of it.
#[derive(Debug)]
pub(crate) struct Due {
    bound: AuditBound,
    limit: usize,
    /// Those that go by their age or number, and whether each is a decision; as far as the limit reaches.
    due: Vec<(u64, bool)>,
    /// The oldest that may go at all, in the same way.
    oldest: Vec<(u64, bool)>,
    /// How many may go at all.
    count: u64,
    last: u64,
    /// How many of the last ones are too young.
    young: u64,
}

impl Due {
    pub(crate) fn new(bound: AuditBound, limit: usize) -> Self {
        Self { bound, limit, due: Vec::new(), oldest: Vec::new(), count: 0, last: 0, young: 0 }
    }

    /// Reads an entry that was not pruned; whether it is a decision is asked only where that matters.
    pub(crate) fn see(&mut self, seq: u64, at: Timestamp, kind: &str, is_decision: impl FnOnce() -> bool) {
        self.last = seq;
        // What stays whatever else goes does not count either. Lists of hooks go with the last receipt that names them.
        if always_stays(kind) || kind == AUDIT_HOOKS {
            return;
        }
        self.count += 1;
        let is_named = self.bound.through.is_some_and(|through| seq <= through);
        let is_young = !is_named && self.bound.is_young(at);
        self.young = if is_young { self.young + 1 } else { 0 };
        let may_be_oldest = self.bound.most.is_some() && self.oldest.len() < self.limit;
        let may_be_due = !is_young && self.due.len() < self.limit;
        if !may_be_oldest && !may_be_due {
            return;
        }
        let is_decision = is_decision();
        let since = if is_decision { self.bound.decisions_since } else { self.bound.since };
        if may_be_due && (is_named || since.is_some_and(|since| at < since)) {
            self.due.push((seq, is_decision));
        }
        if may_be_oldest {
            self.oldest.push((seq, is_decision));
        }
    }

    /// Returns whether what comes behind changes nothing.
    pub(crate) fn is_known(&self) -> bool {
        // Whether the last of those that go is the newest of all is known one entry later.
        let is_full = self.due.len() >= self.limit && self.due.last().is_none_or(|(seq, _)| *seq < self.last);
        self.bound.most.is_none() && (is_full || self.young >= MOST_YOUNG)
    }

    /// Returns the numbers of those that go.
    pub(crate) fn chosen(self) -> Chosen {
        let surplus = self.bound.most.map_or(0, |most| self.count.saturating_sub(most));
        let surplus = usize::try_from(surplus).unwrap_or(usize::MAX).min(self.oldest.len());
        let mut rows = self.due;
        rows.extend(self.oldest.into_iter().take(surplus));
        rows.sort_unstable();
        rows.dedup();
        rows.truncate(self.limit);
        rows.retain(|(seq, _)| *seq != self.last);
        Chosen(rows)
    }
}

/// The entries that go, in order, and whether each is a decision.
#[derive(Debug)]
pub(crate) struct Chosen(Vec<(u64, bool)>);

impl Chosen {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn holds(&self, seq: u64) -> bool {
        self.0.binary_search_by_key(&seq, |(seq, _)| *seq).is_ok()
    }

    /// Returns the number of the last one; 0 where there is none.
    pub(crate) fn last(&self) -> u64 {
        self.0.last().map_or(0, |(seq, _)| *seq)
    }

    pub(crate) fn prunable(&self) -> PrunableAudit {
        let many = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        PrunableAudit {
            entries: many(self.0.len()),
            decisions: many(self.0.iter().filter(|(_, is_decision)| *is_decision).count()),
            first: self.0.first().map_or(0, |(seq, _)| *seq),
            last: self.last(),
        }
    }
}

/// Deletions, and their records.
#[async_trait]
pub trait RetentionStore {
    /// Returns at most `limit` sessions in which nothing happened since `before`, oldest activity first. Sessions
    /// without messages are included only if `empty`.
    async fn stored_sessions(
        &self,
        before: Timestamp,
        empty: bool,
        limit: usize,
    ) -> Result<Vec<StoredSession>, StoreError>;

    /// Returns how many sessions there are, and how many bytes all transcripts have together.
    async fn stored_size(&self) -> Result<StoredSize, StoreError>;

    /// Deletes a session with its transcript, runs, decisions and approvals, and what was queued for its conversation
    /// if that has no other session.
    async fn delete_session(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError>;

    /// Deletes a session's transcript and what its approvals show. The session can be continued, with an empty transcript.
    async fn delete_transcript(&self, id: &SessionId, why: Deletion) -> Result<DeletedSession, DeleteError>;

    /// Deletes at most `limit` approvals that are settled and whose deadline was before `before`, or, beyond the newest
    /// `most`, that are settled. Returns how many.
    async fn delete_approvals(
        &self,
        before: Option<Timestamp>,
        most: Option<u64>,
        limit: usize,
        why: Deletion,
    ) -> Result<u64, DeleteError>;

    /// Returns what of the audit trail may go by `bound`: at most `limit` entries, the oldest first. Lists of hooks that go with the last
    /// receipt that names them are not counted.
    async fn prunable_audit(&self, bound: AuditBound, limit: usize) -> Result<PrunableAudit, StoreError>;
}

/// How much is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredSize {
    /// How many sessions.
    pub sessions: u64,
    /// How many bytes of transcripts.
    pub transcript_bytes: u64,
}

impl Deletion {
    /// Returns the entry that says that something of a session was deleted.
    pub(crate) fn of_session(&self, kind: &str, deleted: &DeletedSession) -> NewAuditEntry {
        let Session { id, key, agent, .. } = &deleted.session;
        self.entry(
            kind,
            Some(id.clone()),
            &json!({
                "cause": self.cause, "by": self.by, "sessionKey": key, "agent": agent,
                "messages": deleted.messages, "approvals": deleted.approvals,
            }),
        )
    }

    pub(crate) fn of_approvals(&self, approvals: u64) -> NewAuditEntry {
        let facts = json!({ "cause": self.cause, "by": self.by, "approvals": approvals });
        self.entry(APPROVALS_DELETED, None, &facts)
    }

    fn entry(&self, kind: &str, session: Option<SessionId>, facts: &Value) -> NewAuditEntry {
        let body = AuditBody::of(facts);
        NewAuditEntry { at: self.at, kind: kind.to_owned(), session, run: None, body }
    }
}
