//! The audit trail: what happened, in a chain that shows tampering.
//!
//! Entries can be added and read, never changed. Each holds the digest of the one before it, so that
//! changing, removing or inserting one breaks the chain at that place. All processes that share a
//! database write one chain. What a chain alone can't show is that its end was cut off, or that it was
//! wholly rewritten: note its [head](AuditStore::audit_head) elsewhere from time to time.
//!
//! An entry's digest is the SHA-256 of `audit`, a NUL, the JSON array of number, time, kind, session, run and the digest
//! before it, a line feed, and the body as it is stored; whoever has a copy of the table can compute the chain.
//!
//! The trail holds digests and spans of what was judged, never the text.

use async_trait::async_trait;
use backstop_hooks::{Digest, Json, RunId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{StoreError, Timestamp};

/// The largest body of an entry, in bytes of JSON.
pub const MAX_AUDIT_BYTES: usize = 64 * 1024;

/// An entry to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAuditEntry {
    /// When it happened.
    pub at: Timestamp,
    /// What kind of thing happened (`dispatch`, `approval.resolved`, ...).
    pub kind: String,
    /// In which session.
    pub session: Option<SessionId>,
    /// In which run.
    pub run: Option<RunId>,
    /// The facts.
    pub body: AuditBody,
}

/// The facts of an entry, as the JSON text that is kept: it is written once, and counts for the digest byte by byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditBody(String);

impl AuditBody {
    /// The facts that `value` holds. A value that has no JSON form says `null`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is too large for the trail.
    pub fn is_too_large(&self) -> bool {
        self.0.len() > MAX_AUDIT_BYTES
    }
}

impl From<Value> for AuditBody {
    fn from(value: Value) -> Self {
        Self(value.to_string())
    }
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Its place in the chain; the first one is 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What kind of thing happened.
    pub kind: String,
    /// In which session.
    pub session: Option<SessionId>,
    /// In which run.
    pub run: Option<RunId>,
    /// The facts.
    pub body: Json,
    /// The digest of the entry before it.
    pub prev: Digest,
    /// The digest of this entry.
    pub digest: Digest,
}

/// The end of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// How many entries there are.
    pub seq: u64,
    /// The digest of the last one, and so of all.
    pub digest: Digest,
}

impl Default for AuditHead {
    /// The head of an empty chain.
    fn default() -> Self {
        Self { seq: 0, digest: Digest::of_text("audit", "") }
    }
}

impl From<&AuditEntry> for AuditHead {
    fn from(entry: &AuditEntry) -> Self {
        Self { seq: entry.seq, digest: entry.digest }
    }
}

/// Which entries to list. A field that is `None` lets all pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this run.
    pub run: Option<RunId>,
}

impl AuditFilter {
    pub(crate) fn passes(&self, link: &Link) -> bool {
        let same = |wanted: Option<&str>, found: Option<&str>| wanted.is_none() || wanted == found;
        same(self.kind.as_deref(), Some(&link.kind))
            && same(self.session.as_ref().map(SessionId::as_str), link.session.as_deref())
            && same(self.run.as_ref().map(RunId::as_str), link.run.as_deref())
    }
}

/// Why an entry was not added.
#[derive(Debug, thiserror::Error)]
pub enum AppendAuditError {
    /// The body is too large.
    #[error("an audit entry has at most {MAX_AUDIT_BYTES} bytes, this one has {0}")]
    TooLarge(usize),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why the chain can't be trusted.
#[derive(Debug, thiserror::Error)]
pub enum VerifyAuditError {
    /// An entry was changed, or one before it was removed or put in.
    #[error(
        "the audit trail is broken at entry {seq}\nhint: entries before it are sound; compare with a backup"
    )]
    BrokenAt {
        /// The first entry that does not fit.
        seq: u64,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The audit trail.
#[async_trait]
pub trait AuditStore {
    /// Adds an entry at the end of the chain.
    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError>;

    /// Adds entries at the end of the chain, in this order: all of them or none. What many small writes cost a disk,
    /// these cost once. Returns the new head.
    async fn append_audit_all(&self, entries: Vec<NewAuditEntry>) -> Result<AuditHead, AppendAuditError>;

    /// At most `limit` entries after number `after` that pass the filter, in order.
    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// The end of the chain.
    async fn audit_head(&self) -> Result<AuditHead, StoreError>;

    /// Computes the whole chain anew. Returns its head.
    async fn verify_audit(&self) -> Result<AuditHead, VerifyAuditError>;
}

/// An entry as it is stored: every byte of it counts for the digest, so the body is kept as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) seq: u64,
    pub(crate) at: i64,
    pub(crate) kind: String,
    pub(crate) session: Option<String>,
    pub(crate) run: Option<String>,
    pub(crate) body: String,
    pub(crate) prev: String,
    pub(crate) digest: String,
}

impl Link {
    /// The entry as the next link after `head`, and the head that it makes.
    pub(crate) fn next(head: AuditHead, new: NewAuditEntry) -> Result<(Self, AuditHead), AppendAuditError> {
        if new.body.is_too_large() {
            return Err(AppendAuditError::TooLarge(new.body.0.len()));
        }
        let mut link = Self {
            seq: head.seq.saturating_add(1),
            at: new.at.as_millis(),
            kind: new.kind,
            session: new.session.as_ref().map(ToString::to_string),
            run: new.run.as_ref().map(ToString::to_string),
            body: new.body.0,
            prev: head.digest.to_string(),
            digest: String::new(),
        };
        let digest = link.computed();
        link.digest = digest.to_string();
        let head = AuditHead { seq: link.seq, digest };
        Ok((link, head))
    }

    /// The digest that the entry should have.
    fn computed(&self) -> Digest {
        let Self { seq, at, kind, session, run, body, prev, digest: _ } = self;
        // The body as it is: it is the longest part, and no JSON of the others has a line end.
        let AuditBody(mut all) = AuditBody::of(&(seq, at, kind, session, run, prev));
        all.push('\n');
        all.push_str(body);
        Digest::of_text("audit", &all)
    }

    /// The head after this link, if it is the one that follows `head`.
    pub(crate) fn follows(&self, head: AuditHead) -> Option<AuditHead> {
        let digest = self.computed();
        let sound = self.seq == head.seq.saturating_add(1)
            && self.prev == head.digest.to_string()
            && self.digest == digest.to_string();
        sound.then_some(AuditHead { seq: self.seq, digest })
    }

    /// The entry; `None` if what is stored can't be read.
    pub(crate) fn entry(self) -> Option<AuditEntry> {
        Some(AuditEntry {
            seq: self.seq,
            at: Timestamp::from_millis(self.at),
            kind: self.kind,
            session: self.session.map(Into::into),
            run: self.run.map(Into::into),
            body: serde_json::from_str(&self.body).ok()?,
            prev: self.prev.parse().ok()?,
            digest: self.digest.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chain_is_computed_as_it_is_documented() {
        let new = NewAuditEntry {
            at: Timestamp::from_millis(5),
            kind: "receipt".to_owned(),
            session: Some("s\n1".into()),
            run: None,
            body: json!({ "verdict": "pass" }).into(),
        };
        let before = AuditHead::default();
        let (link, head) = Link::next(before, new).unwrap();
        let text =
            format!("[1,5,\"receipt\",\"s\\n1\",null,\"{}\"]\n{{\"verdict\":\"pass\"}}", before.digest);
        assert_eq!(head, AuditHead { seq: 1, digest: Digest::of_text("audit", &text) });
        assert_eq!(link.follows(before), Some(head));
    }
}
