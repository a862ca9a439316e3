//! Retention: what is deleted, and how the deletion stays visible.
//!
//! Three laws:
//!
//! - *Recorded.* Each deletion writes an entry into the audit trail, before it counts: what, how much, why, by whom.
//!   The entry contains ids and counts, never what was deleted.
//! - *Wiped.* Deleted text is gone from the files, not only from the tables.
//! - *Not in use.* A session that a running process works in is not deleted.
//!
//! The audit trail loses only its beginning ([`AuditStore::prune_audit`](crate::AuditStore::prune_audit)); this module
//! decides how much of it may go.

use async_trait::async_trait;
use backstop_hooks::{AgentId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// A beginning of the audit trail that may be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrunableAudit {
    /// The number of its last entry.
    pub through: u64,
    /// How many of its entries may go.
    pub entries: u64,
}

/// What may be removed from the audit trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditBound {
    /// Entries before this are removed, up to the first younger one.
    pub since: Option<Timestamp>,
    /// At most this many of the newest stay, beside those that must: lists of hooks, and what checking the trail needs.
    pub most: Option<u64>,
}

/// The way along a trail to what may go of it.
#[derive(Debug)]
pub(crate) struct Due {
    bound: AuditBound,
    limit: usize,
    /// Whether all so far are old enough to go.
    old: bool,
    by_age: usize,
    /// The numbers of entries that may go at all, as far as the limit reaches.
    first: Vec<u64>,
    /// How many there are.
    count: u64,
    last: u64,
}

impl Due {
    pub(crate) fn new(bound: AuditBound, limit: usize) -> Self {
        Self { bound, limit, old: bound.since.is_some(), by_age: 0, first: Vec::new(), count: 0, last: 0 }
    }

    /// Reads an entry that was not pruned.
    pub(crate) fn see(&mut self, seq: u64, at: Timestamp, kind: &str) {
        self.last = seq;
        self.old &= self.bound.since.is_some_and(|since| at < since);
        // What stays whatever else goes does not count either. Lists of hooks go with the last receipt that names them.
        if always_stays(kind) || kind == AUDIT_HOOKS {
            return;
        }
        self.count += 1;
        if self.first.len() < self.limit {
            self.first.push(seq);
            if self.old {
                self.by_age = self.first.len();
            }
        }
    }

    /// Returns whether what comes behind changes nothing.
    #[cfg(feature = "sqlite")]
    pub(crate) fn is_known(&self) -> bool {
        self.bound.most.is_none() && (!self.old || self.first.len() >= self.limit)
    }

    /// Returns what may go; the newest entry stays.
    pub(crate) fn prunable(&self) -> Option<PrunableAudit> {
        let surplus = self.bound.most.map_or(0, |most| self.count.saturating_sub(most));
        let surplus = usize::try_from(surplus).unwrap_or(usize::MAX);
        let going = self.by_age.max(surplus).min(self.first.len());
        let going = self.first.get(..going)?;
        let going = if going.last() == Some(&self.last) { going.split_last()?.1 } else { going };
        let through = *going.last()?;
        Some(PrunableAudit { through, entries: u64::try_from(going.len()).unwrap_or(u64::MAX) })
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

    /// Returns the beginning of the audit trail that may go by `bound`, of at most `limit` entries; `None` if none may. The
    /// newest entry stays.
    async fn prunable_audit(
        &self,
        bound: AuditBound,
        limit: usize,
    ) -> Result<Option<PrunableAudit>, StoreError>;
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

    fn entry(&self, kind: &str, session: Option<SessionId>, facts: &serde_json::Value) -> NewAuditEntry {
        let body = AuditBody::of(facts);
        NewAuditEntry { at: self.at, kind: kind.to_owned(), session, run: None, body }
    }
}
