//! The audit trail: what happened, in a chain that shows tampering.
//!
//! Entries can be added and read, never changed. Each contains the digest of the previous entry, so
//! changing, removing or inserting one breaks the chain at that place. All processes that share a
//! database write one chain. A chain alone can't show that its end was cut off, or that it was
//! rewritten completely; that shows against a [head](AuditStore::audit_head) that was kept elsewhere.
//!
//! The beginning of a trail may be [pruned](AuditStore::prune_audit). The head of the removed part is kept, so that the
//! rest still verifies, and an entry of the kind [`AUDIT_PRUNED`] records the removal: removing a beginning without that
//! entry is detected. Lists of hooks that remaining receipts name are written once more.
//!
//! An entry's digest is the SHA-256 of `audit`, a NUL, the JSON array of number, time, kind, session, run and the previous
//! digest, a line feed, and the body as it is stored. Whoever has a copy of the table can compute the chain.
//!
//! The trail contains digests and spans of what was judged, never the text.

use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{Digest, Json, RunId, SessionId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{StoreError, Timestamp};

/// The largest body of an entry, in bytes of JSON.
pub const MAX_AUDIT_BYTES: usize = 64 * 1024;

/// The kind of an entry that replaces missing entries; `lost` in its body says how many.
pub const AUDIT_GAP: &str = "gap";
/// The kind of an entry that lists hooks, so that receipts need not: `hookSet` in its body is the digest of the list, by which
/// receipts name it. A list may have several entries.
pub const AUDIT_HOOKS: &str = "hooks";
/// The kind of an entry that says through which one the trail was pruned.
pub const AUDIT_PRUNED: &str = "pruned";
/// How far times may run backwards before [`AuditStore::verify_audit`] reports it: processes that write at the same
/// moment wait for each other about as long at most.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);
/// The most places of a kind that a report names.
const MOST_NAMED: usize = 100;

/// When an entry reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Before the operation returns; it survives a power failure.
    Now,
    /// Soon: it survives a killed process, but possibly not a power failure.
    Soon,
}

/// An entry to be added.
#[derive(Clone, Debug, PartialEq)]
pub struct NewAuditEntry {
    /// When it is written. Along the chain these times do not run backwards, unless somebody changes a clock.
    pub at: Timestamp,
    /// What kind of thing happened (`receipt`, `hooks`, `gap`, `pruned`).
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
    /// Creates a body from `value`. A value without a JSON form becomes `null`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned()))
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is too large for the trail.
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
    /// Returns the head of an empty chain.
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

/// The report about an intact chain, and the inconsistencies in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditReport {
    /// The end of the chain.
    pub head: AuditHead,
    /// The head of the pruned part; that of an empty chain if nothing was pruned.
    pub start: AuditHead,
    /// The entries that replace missing ones; the first hundred.
    pub gaps: Vec<AuditGap>,
    /// How many entries are missing in the part that remains.
    pub lost: u64,
    /// How many entries were missing in the pruned part.
    pub pruned_lost: u64,
    /// The entries that were written earlier than one before them; the first hundred.
    pub backwards: Vec<AuditStep>,
}

/// A place where entries are missing according to the trail itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AuditGap {
    /// The entry that records this.
    pub seq: u64,
    /// How many are missing.
    pub lost: u64,
}

/// A place where time runs backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AuditStep {
    /// The entry.
    pub seq: u64,
    /// The time in the entry.
    pub at: Timestamp,
    /// The latest time of any entry before it.
    pub after: Timestamp,
}

/// Why the chain can't be trusted.
#[derive(Debug, thiserror::Error)]
pub enum VerifyAuditError {
    /// The chain ends before an entry that it once had.
    #[error("the audit trail was cut off: it ends at entry {found}, and had {known}")]
    Truncated {
        /// How many entries it had.
        known: u64,
        /// How many it has.
        found: u64,
    },
    /// The chain is consistent, but it is not the one whose head was kept.
    #[error("the audit trail was rewritten: entry {seq} is not the one that it was")]
    Rewritten {
        /// The entry whose digest was kept.
        seq: u64,
    },
    /// The entry of the kept head was pruned.
    #[error(
        "the audit trail was pruned through entry {start}, and the head is about entry {known}\nhint: keep a head that is newer"
    )]
    Pruned {
        /// The entry that the head is about.
        known: u64,
        /// The last entry that was pruned.
        start: u64,
    },
    /// The beginning is missing, and no entry says that it was pruned.
    #[error(
        "the entries through {start} of the audit trail are gone, and no entry says that they were pruned"
    )]
    Beheaded {
        /// The last entry that is gone.
        start: u64,
    },
    /// An entry was changed, or one before it was removed or inserted.
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

/// Why a trail was not pruned.
#[derive(Debug, thiserror::Error)]
pub enum PruneAuditError {
    /// There is no such entry, or it is the last one.
    #[error("the audit trail can't be pruned through entry {0}: there is no such entry, or none after it")]
    NoSuchEntry(u64),
    /// The entry that records the pruning could not be added.
    #[error(transparent)]
    Append(#[from] AppendAuditError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The audit trail.
#[async_trait]
pub trait AuditStore {
    /// Writes nothing that lasts, but goes all the way to the disk as an entry would: succeeds only where an entry could be
    /// kept now.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Adds an entry at the end of the chain.
    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError>;

    /// Adds entries at the end of the chain, in this order: all of them or none. They cost one write instead of many
    /// small ones. Returns the new head. If an entry is on the disk [now](Durability::Now), so is everything before it.
    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<AuditHead, AppendAuditError>;

    /// Returns at most `limit` entries after number `after` that pass the filter, in order.
    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns the end of the chain.
    async fn audit_head(&self) -> Result<AuditHead, StoreError>;

    /// Recomputes the whole chain and compares it with a head that it once had.
    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError>;

    /// Removes the entries through number `through`, which is not the last one, and adds an entry that records this, and the
    /// removed lists of hooks that remaining receipts name. Returns the head of the removed part.
    async fn prune_audit(&self, through: u64, now: Timestamp) -> Result<AuditHead, PruneAuditError>;
}

/// What the entry of a pruning says: through which entry, and how many were missing in what went, so that no gap
/// vanishes with the entry that told of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pruned {
    #[serde(flatten)]
    start: AuditHead,
    #[serde(default, skip_serializing_if = "is_none")]
    lost: u64,
}

fn is_none(lost: &u64) -> bool {
    *lost == 0
}

/// Returns the entry that says through which one a trail was pruned. `gone` are the entries of it that told of missing
/// ones.
pub(crate) fn pruned<'a>(
    start: AuditHead,
    gone: impl IntoIterator<Item = &'a Link>,
    now: Timestamp,
) -> NewAuditEntry {
    let lost = gone.into_iter().map(Link::lost).fold(0, u64::saturating_add);
    NewAuditEntry {
        at: now,
        kind: AUDIT_PRUNED.to_owned(),
        session: None,
        run: None,
        body: AuditBody::of(&Pruned { start, lost }),
    }
}

/// Returns the text by which a receipt, or another list, names the list of hooks that an entry is, or is a part of.
pub(crate) fn name_of_list(list: &Link) -> Option<String> {
    let body: Value = serde_json::from_str(&list.body).ok()?;
    let set: Digest = body.get("hookSet")?.as_str()?.parse().ok()?;
    Some(format!("\"hookSet\":\"{set}\""))
}

/// Returns a list of hooks of the part of a trail that is pruned, as an entry of the part that remains, where receipts name it.
pub(crate) fn carried(list: Link, now: Timestamp) -> NewAuditEntry {
    NewAuditEntry { at: now, kind: list.kind, session: None, run: None, body: AuditBody(list.body) }
}

/// The way along a chain that is being verified.
#[derive(Debug)]
pub(crate) struct Walk {
    known: Option<AuditHead>,
    report: AuditReport,
    latest: Timestamp,
    /// Whether an entry says what was pruned.
    explained: bool,
}

impl Walk {
    pub(crate) fn new(start: AuditHead, known: Option<AuditHead>) -> Result<Self, VerifyAuditError> {
        let report = AuditReport { head: start, start, ..AuditReport::default() };
        let explained = start == AuditHead::default();
        let walk = Self { known, report, latest: Timestamp::from_millis(i64::MIN), explained };
        match known {
            Some(known) if known.seq < start.seq => {
                Err(VerifyAuditError::Pruned { known: known.seq, start: start.seq })
            }
            _ => walk.compare().map(|()| walk),
        }
    }

    /// Checks whether the kept head, if it is this one, is the same.
    fn compare(&self) -> Result<(), VerifyAuditError> {
        let head = self.report.head;
        match self.known {
            Some(known) if known.seq == head.seq && known.digest != head.digest => {
                Err(VerifyAuditError::Rewritten { seq: known.seq })
            }
            _ => Ok(()),
        }
    }

    /// Returns the next entry; `None` for one that can't be read, which has been tampered with as much as one that does not
    /// fit.
    pub(crate) fn step(&mut self, link: Option<Link>) -> Result<(), VerifyAuditError> {
        let head = self.report.head;
        let broken = VerifyAuditError::BrokenAt { seq: head.seq.saturating_add(1) };
        let Some(link) = link else { return Err(broken) };
        self.report.head = link.follows(head).ok_or(broken)?;
        self.note(&link);
        self.compare()
    }

    fn note(&mut self, link: &Link) {
        let at = Timestamp::from_millis(link.at);
        if at.after(CLOCK_TOLERANCE) < self.latest && self.report.backwards.len() < MOST_NAMED {
            self.report.backwards.push(AuditStep { seq: link.seq, at, after: self.latest });
        }
        self.latest = self.latest.max(at);
        if link.kind == AUDIT_GAP {
            let lost = link.lost();
            self.report.lost = self.report.lost.saturating_add(lost);
            if self.report.gaps.len() < MOST_NAMED {
                self.report.gaps.push(AuditGap { seq: link.seq, lost });
            }
        }
        if link.kind == AUDIT_PRUNED {
            self.report.pruned_lost = self.report.pruned_lost.saturating_add(link.lost());
            let pruned: Option<Pruned> = serde_json::from_str(&link.body).ok();
            self.explained |= pruned.is_some_and(|pruned| pruned.start == self.report.start);
        }
    }

    pub(crate) fn finish(self) -> Result<AuditReport, VerifyAuditError> {
        let (start, found) = (self.report.start.seq, self.report.head.seq);
        match self.known {
            Some(known) if known.seq > found => Err(VerifyAuditError::Truncated { known: known.seq, found }),
            _ if !self.explained => Err(VerifyAuditError::Beheaded { start }),
            _ => Ok(self.report),
        }
    }
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
    /// Returns the entry as the next link after `head`, and the head that it makes.
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

    /// Returns how many entries are missing, as this one says.
    fn lost(&self) -> u64 {
        if self.kind != AUDIT_GAP && self.kind != AUDIT_PRUNED {
            return 0;
        }
        let body: Option<Value> = serde_json::from_str(&self.body).ok();
        body.and_then(|body| body.get("lost")?.as_u64()).unwrap_or_default()
    }

    /// Returns the digest that the entry should have.
    fn computed(&self) -> Digest {
        let Self { seq, at, kind, session, run, body, prev, digest: _ } = self;
        // The body as it is: it is the longest part, and no JSON of the others has a line end.
        let AuditBody(mut all) = AuditBody::of(&(seq, at, kind, session, run, prev));
        all.push('\n');
        all.push_str(body);
        Digest::of_text("audit", &all)
    }

    /// Returns the head after this link, if it is the one that follows `head`.
    pub(crate) fn follows(&self, head: AuditHead) -> Option<AuditHead> {
        let digest = self.computed();
        let sound = self.seq == head.seq.saturating_add(1)
            && self.prev == head.digest.to_string()
            && self.digest == digest.to_string();
        sound.then_some(AuditHead { seq: self.seq, digest })
    }

    /// Returns the entry; `None` if what is stored can't be read.
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
