//! The audit trail: what happened, in a log that can be proved.
//!
//! Entries can be added and read, never changed. Over them is a Merkle tree ([`backstop_trail::merkle`]), so that one digest, the
//! [head](AuditStore::audit_head), stands for all: changing, removing, moving or inserting an entry makes another one. All processes that
//! share a store write one trail. In files (`SqliteStore`), the trail has signed checkpoints of its own. What they can't show is that its
//! end was cut off together with them, or that whoever has the key wrote all of it anew; that shows against a head, or a checkpoint, that
//! was kept elsewhere.
//!
//! Entries may be [pruned](AuditStore::prune_audit), by age, kind and number. What goes leaves its digest, so that heads, checkpoints and proofs stay
//! what they were, and an entry of the kind [`AUDIT_PRUNED`] names what went: an entry that is gone and not named is detected. Lists of hooks
//! that remaining receipts name, entries about missing ones, and what checking the trail needs stay.
//!
//! The trail contains digests and spans of what was judged, never the text. Digests can be [keyed](crate::DigestKey), since short texts can be guessed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{Digest, Json, RunId, SessionId};
use backstop_trail::{
    BodyError, Canonical, Entry, KIND_IMPAIRED, KIND_OMITTED, KIND_TOMBSTONE, KIND_UNSIGNED, merkle,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[cfg(doc)]
use crate::MOST_PAGE_READ;
use crate::policy::POLICY;
use crate::retention::Chosen;
use crate::{
    AuditBound, AuditFilter, AuditPage, AuditPlace, CONFIGURATION_READ, DigestKey, StoreError, Timestamp,
};

/// The largest body of an entry, in bytes of JSON.
pub const MAX_AUDIT_BYTES: usize = backstop_trail::MAX_BODY_BYTES;

/// The kind of an entry that replaces missing entries; `lost` in its body says how many.
pub const AUDIT_GAP: &str = "gap";
/// The kind of an entry that lists hooks, so that receipts need not: `hookSet` in its body is the digest of the list, by which
/// receipts name it. A list may have several entries.
pub const AUDIT_HOOKS: &str = "hooks";
/// The kind of an entry that stands for one that was too large.
pub const AUDIT_OMITTED: &str = KIND_OMITTED;
/// The kind of an entry that says that a checkpoint or another file besides the entries could not be written.
pub const AUDIT_IMPAIRED: &str = KIND_IMPAIRED;
/// The kind of an entry that says which entries were found without a checkpoint, as a killed process leaves them: nothing proves that they
/// were not changed before.
pub const AUDIT_UNSIGNED: &str = KIND_UNSIGNED;
/// The kind of an entry that says which entries were pruned.
pub const AUDIT_PRUNED: &str = KIND_TOMBSTONE;
/// The kind of an entry that names the last one of a chain of an earlier version.
pub const AUDIT_CHAIN: &str = "chain";
/// How far times may run backwards before [`AuditStore::verify_audit`] reports it: processes that write at the same
/// moment wait for each other about as long at most.
pub const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);
/// The most places of a kind that a report names.
pub(crate) const MOST_NAMED: usize = 100;
/// The label of an entry with its session.
pub(crate) const SESSION: &str = "session";
/// The label of an entry with its run.
pub(crate) const RUN: &str = "run";

/// The longest id that an entry has as it was given, in bytes.
const MAX_ID_BYTES: usize = 256;
/// How many characters remain of a longer one.
const KEPT_ID_CHARS: usize = 64;

/// Returns an id as entries have it. Clients make up some (of sessions, runs and tool calls): of a long one, the beginning and the digest of all
/// of it remain, so that it is still told apart and found, and fills no entry.
pub fn audit_id(id: &str) -> Cow<'_, str> {
    if id.len() <= MAX_ID_BYTES {
        return Cow::Borrowed(id);
    }
    let kept: String = id.chars().take(KEPT_ID_CHARS).collect();
    Cow::Owned(format!("{kept}…{}", Digest::of_text("audit id", id)))
}

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
    /// When it is written. Along the trail these times do not run backwards, unless somebody changes a clock.
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

/// The facts of an entry, as the JSON text that is kept: it is written once, in its canonical form (RFC 8785), in which integers beyond
/// ±2^53 are texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditBody(Canonical);

impl AuditBody {
    /// Creates a body from `value`. A value without a JSON form becomes `null`.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Self {
        Self(Canonical::of(value).unwrap_or_default())
    }

    /// Returns the JSON text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Returns whether it is too large for the trail.
    pub fn is_too_large(&self) -> bool {
        self.as_str().len() > MAX_AUDIT_BYTES
    }

    pub(crate) fn into_canonical(self) -> Canonical {
        self.0
    }
}

impl From<Value> for AuditBody {
    fn from(value: Value) -> Self {
        Self::of(&value)
    }
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Its place in the trail; the first one is 1.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What kind of thing happened.
    pub kind: String,
    /// In which session.
    pub session: Option<SessionId>,
    /// In which run.
    pub run: Option<RunId>,
    /// Under which version of the policy: `sha256:` and 64 hex digits, which an entry of the kind [`CONFIGURATION_READ`](crate::CONFIGURATION_READ) explains.
    #[serde(default)]
    pub policy: Option<String>,
    /// The facts.
    pub body: Json,
    /// The process that wrote it.
    pub process: String,
    /// Its number among the entries of its process.
    pub n: u64,
    /// Its digest in the tree (RFC 6962): the SHA-256 of a zero byte and the entry as it is kept.
    pub digest: Digest,
}

impl AuditEntry {
    /// Reads the entry with that number; `None` for something else.
    pub(crate) fn read(seq: u64, bytes: &[u8]) -> Option<Self> {
        let Entry { at, body, kind, mut labels, n, process } = Entry::read(bytes)?;
        Some(Self {
            seq,
            at: Timestamp::from_millis(at),
            kind,
            session: labels.remove(SESSION).map(Into::into),
            run: labels.remove(RUN).map(Into::into),
            policy: labels.remove(POLICY),
            body: body.into(),
            process,
            n,
            digest: Digest::from_bytes(merkle::leaf_hash(bytes)),
        })
    }

    /// Returns how many entries are missing, as this one says.
    pub(crate) fn lost(&self) -> u64 {
        if self.kind == AUDIT_GAP {
            self.body.get("lost").and_then(Value::as_u64).unwrap_or_default()
        } else {
            0
        }
    }
}

/// The end of the trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditHead {
    /// How many entries there are.
    pub seq: u64,
    /// The root of the tree over all of them.
    pub digest: Digest,
}

impl Default for AuditHead {
    /// Returns the head of an empty trail.
    fn default() -> Self {
        Self { seq: 0, digest: Digest::from_bytes(merkle::empty_root()) }
    }
}

/// Why an entry was not added.
#[derive(Debug, thiserror::Error)]
pub enum AppendAuditError {
    /// The body is too large for an entry without which something does not count.
    #[error("an audit entry has at most {MAX_AUDIT_BYTES} bytes, this one has {0}")]
    TooLarge(usize),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<BodyError> for AppendAuditError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(bytes) => Self::TooLarge(bytes),
            BodyError::NotJson => Self::TooLarge(0),
        }
    }
}

/// The report about a trail that is what was written, and the inconsistencies in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// The end of the trail.
    pub head: AuditHead,
    /// How many entries were pruned.
    pub pruned: u64,
    /// The entries that replace missing ones; the first hundred.
    pub gaps: Vec<AuditGap>,
    /// How many entries are missing, as these say.
    pub lost: u64,
    /// How many entries are missing, as the numbers of processes say; beside those that were pruned.
    pub missing: u64,
    /// Processes whose numbers have gaps, or that began and did not say that they stopped; the first hundred.
    pub processes: Vec<AuditProcess>,
    /// The entries that were written earlier than one before them; the first hundred.
    pub backwards: Vec<AuditStep>,
    /// How many signed checkpoints the trail has, and how many entries the newest one covers.
    pub checkpoints: AuditCheckpoints,
    /// How many times something damaged was put aside, or found missing: what a crash tore, entries, or a file besides them.
    pub recovered: u64,
    /// The entries that were damaged, or that no checkpoint covered, when an entry behind them told of it. Checkpoints from afterwards say
    /// nothing about what was before, so whether they were changed can't be told; the first hundred.
    pub unproved: Vec<AuditUnproved>,
    /// The entries that a killed process left without a checkpoint, and that the next one signed. Nothing proves that they were not changed in
    /// between, unless a checkpoint covers them that others have kept; the first hundred.
    pub late: Vec<AuditLate>,
    /// How many times a checkpoint or another file besides the entries could not be written.
    pub impaired: u64,
    /// How many entries were too large, and are others that say so.
    pub omitted: u64,
    /// How many gaps, processes, crashes and steps back there are besides those that the lists name.
    pub unnamed: u64,
    /// Whether it ends with something that is no entry: a writer is at work, a crash tore the last one, or somebody changed it. What
    /// stands behind can't be read.
    pub torn: bool,
}

/// The checkpoints of a trail.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AuditCheckpoints {
    /// How many there are.
    pub count: u64,
    /// How many there are besides that can't be read.
    pub torn: u64,
    /// How many entries the newest one covers.
    pub covered: u64,
    /// How many of those that others have kept no key of the trail has signed: they say nothing.
    pub foreign: u64,
    /// How many checkpoints that others have kept the trail was compared with.
    #[serde(skip)]
    pub kept: u64,
    /// The earliest time of the entries that neither a checkpoint nor the head covers which the trail was compared with: whether these were changed
    /// can't be told.
    #[serde(rename = "uncoveredSince")]
    pub uncovered_since: Option<Timestamp>,
    /// The key that signs them, as others need it; `None` where it was not at hand, so that signatures were not checked.
    pub key: Option<String>,
}

/// A process whose entries are not all there, or that has no end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditProcess {
    /// Its name in entries.
    pub process: String,
    /// How many of its numbers are missing.
    pub missing: u64,
    /// The number of its last entry.
    pub last: u64,
    /// Whether it said that it began, and not that it stopped: it was killed, or runs.
    pub unended: bool,
}

/// Entries that no checkpoint covered when there should have been one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct AuditUnproved {
    /// The entry that tells of it.
    pub told: u64,
    /// The first of them.
    pub from: u64,
    /// The last of them.
    pub through: u64,
}

/// Entries that were left without a checkpoint, as a killed process leaves them, and signed by another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditLate {
    /// The entry that tells of it.
    pub told: u64,
    /// The first of them.
    pub from: u64,
    /// The last of them.
    pub through: u64,
    /// The processes that wrote them; the first sixteen.
    pub processes: Vec<String>,
    /// How many other processes there are.
    pub others: u64,
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

/// Why the trail can't be trusted.
#[derive(Debug, thiserror::Error)]
pub enum VerifyAuditError {
    /// The trail ends before an entry that it once had.
    #[error("the audit trail was cut off: it ends at entry {found}, and had {known}")]
    Truncated {
        /// How many entries it had.
        known: u64,
        /// How many it has.
        found: u64,
    },
    /// The trail is consistent, but it is not the one whose head was kept.
    #[error("the audit trail was rewritten: at entry {seq} it is not the one that it was")]
    Rewritten {
        /// The entry whose head was kept.
        seq: u64,
    },
    /// An entry is not what was written.
    #[error(
        "the audit trail is broken at entry {seq}: {why}\nhint: entries before it are sound; compare with a backup"
    )]
    BrokenAt {
        /// The first entry that does not fit.
        seq: u64,
        /// What is wrong with it.
        why: String,
    },
    /// An entry is not what was written, and nothing says which.
    #[error(
        "the audit trail is broken at one of the entries {from} to {through}\nhint: entries before them are sound; compare with a backup"
    )]
    BrokenBetween {
        /// The first one that it can be.
        from: u64,
        /// The last one.
        through: u64,
    },
    /// Its checkpoints are not signed by the key of the trail.
    #[error("the checkpoints of the audit trail can't be trusted: {0}")]
    Untrusted(String),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why there is no proof of an entry.
#[derive(Debug, thiserror::Error)]
pub enum ProveAuditError {
    /// There is no such entry, or no checkpoint covers it yet.
    #[error("{0}")]
    NotProvable(String),
    /// The trail is kept in memory, without checkpoints.
    #[error("this trail is kept in memory, and has no signed checkpoints")]
    InMemory,
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Two keys of a trail, as others need them to check signatures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RotatedAuditKey {
    /// The one that signs from now on.
    pub key: String,
    /// The one that signed before.
    pub was: String,
}

/// The audit trail.
#[async_trait]
pub trait AuditStore {
    /// Writes nothing that lasts, but goes all the way to the disk as an entry would: succeeds only where an entry could be
    /// kept now.
    async fn check_writable(&self) -> Result<(), StoreError>;

    /// Adds an entry at the end of the trail; it is on the disk [soon](Durability::Soon).
    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError>;

    /// Adds entries at the end of the trail, in this order: all of them or none. In the place of one that is too large stands one of the kind
    /// [`AUDIT_OMITTED`] that says so. They cost one write instead of many small ones. Returns the new head. If an entry is on the disk [now](Durability::Now), so is everything before it.
    /// Where all of them are written and the disk refuses to keep them, this fails, and they may be there.
    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        durability: Durability,
    ) -> Result<AuditHead, AppendAuditError>;

    /// Returns the key by which the digests of what was judged are keyed in entries, if they are.
    fn digest_key(&self) -> Option<&Arc<DigestKey>> {
        None
    }

    /// Returns whether a body is not too large for an entry, as it will be there: keyed digests are longer.
    fn fits_audit(&self, body: &AuditBody) -> bool {
        !body.is_too_large()
    }

    /// Says in the trail that this process begins, and when it ends in order that it stops: one that only began was killed.
    async fn announce_audit(&self, program: &str) -> Result<(), AppendAuditError>;

    /// Says that this process stops, if it was announced, and signs the end of the trail, as what ends in order does.
    async fn conclude_audit(&self) -> Result<(), StoreError>;

    /// Returns how many entries this process has found that a killed one had left unsigned, and has signed. None in memory.
    fn audit_late(&self) -> u64 {
        0
    }

    /// Returns how many entries the trail had when the disk last had all of them because somebody [waited](Durability::Now) for that: what gets
    /// there by and by is not counted. None in memory.
    fn audit_kept(&self) -> u64 {
        0
    }

    /// Returns at most `limit` entries after number `after` that pass the filter, in order.
    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError>;

    /// Returns entries that pass the filter, from a place on: at most `limit`, and no more than are found in [`MOST_PAGE_READ`] entries.
    async fn audit_page(
        &self,
        filter: &AuditFilter,
        from: AuditPlace,
        limit: usize,
    ) -> Result<AuditPage, StoreError>;

    /// Returns the end of the trail.
    async fn audit_head(&self) -> Result<AuditHead, StoreError>;

    /// Checks the whole trail, and compares it with a head that it once had.
    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError>;

    /// As [`verify_audit`](Self::verify_audit), and compares with signed checkpoints that others have kept, too. Signatures are checked by `key`,
    /// one that the trail has or had, as [`AuditCheckpoints::key`] has it, or else by the key that is here. A trail in memory has no
    /// checkpoints, and is compared with the head alone.
    async fn verify_audit_with(
        &self,
        known: Option<AuditHead>,
        kept: &[String],
        key: Option<&str>,
    ) -> Result<AuditReport, VerifyAuditError>;

    /// Returns the name of the trail.
    async fn audit_origin(&self) -> Result<String, ProveAuditError>;

    /// Returns the keys by which checkpoints count for whoever writes the trail: the one that signs, and the one before it.
    async fn audit_keys(&self) -> Result<Vec<String>, ProveAuditError>;

    /// Returns what a witness is asked that has cosigned `old` entries of the trail: to cosign the newest checkpoint, with the hashes that prove
    /// that the trail only grew since (the request of `c2sp.org/tlog-witness`). Where there are fewer entries, there are no hashes.
    async fn offer_audit(&self, old: u64) -> Result<String, ProveAuditError>;

    /// Returns what proves that an entry is in the trail, as a text (`c2sp.org/tlog-proof@v1`) that is checked without the trail.
    async fn prove_audit(&self, seq: u64) -> Result<String, ProveAuditError>;

    /// Hands over to a new key that signs checkpoints: an entry names both, and who wanted it, and both sign it. The old one stays beside the
    /// new one.
    async fn rotate_audit_key(&self, now: Timestamp, by: &str) -> Result<RotatedAuditKey, ProveAuditError>;

    /// Prunes what [may go](crate::RetentionStore::prunable_audit) by `bound`, at most `limit` entries and the lists of hooks that no
    /// receipt names any more, and adds entries that name them, and who had it done. What stays whatever else goes: entries about missing ones, and what checking
    /// the trail needs. Returns how many went.
    async fn prune_audit(
        &self,
        bound: AuditBound,
        limit: usize,
        now: Timestamp,
        by: &str,
    ) -> Result<u64, StoreError>;
}

/// What stays when other entries go.
#[derive(Debug, Default)]
pub(crate) struct Staying {
    /// The lists of hooks that receipts name which remain.
    named: BTreeSet<String>,
    /// The versions of policies that entries name which remain.
    policies: BTreeSet<String>,
    /// The newest entry that says what a version is, by the version.
    told: BTreeMap<String, u64>,
}

impl Staying {
    /// Notes that a receipt which remains names a list of hooks.
    pub(crate) fn name(&mut self, set: &str) {
        if !self.named.contains(set) {
            self.named.insert(set.to_owned());
        }
    }

    /// Notes that an entry which remains names a version of a policy.
    pub(crate) fn name_policy(&mut self, version: &str) {
        if !self.policies.contains(version) {
            self.policies.insert(version.to_owned());
        }
    }

    /// Notes that an entry, behind those that were noted before, says what a version of a policy is.
    pub(crate) fn tell_policy(&mut self, version: &str, seq: u64) {
        self.told.insert(version.to_owned(), seq);
    }

    /// Returns whether an entry of the part that goes stays.
    fn holds(&self, seq: u64, kind: &str, body: &Value, policy: Option<&str>) -> bool {
        let is_named =
            || body.get("hookSet").and_then(Value::as_str).is_some_and(|set| self.named.contains(set));
        let tells = || {
            policy.is_some_and(|policy| self.policies.contains(policy) && self.told.get(policy) == Some(&seq))
        };
        always_stays(kind) || (kind == AUDIT_HOOKS && is_named()) || (kind == CONFIGURATION_READ && tells())
    }

    /// Returns whether an entry goes: one that is chosen, or a list of hooks before the last of those that no receipt names.
    pub(crate) fn lets_go(
        &self,
        chosen: &Chosen,
        seq: u64,
        kind: &str,
        body: &Value,
        policy: Option<&str>,
    ) -> bool {
        let goes = if kind == AUDIT_HOOKS { seq < chosen.last() } else { chosen.holds(seq) };
        goes && !self.holds(seq, kind, body, policy)
    }
}

/// Returns whether entries of a kind stay whatever else goes: those that say what is missing, and those that checking the trail needs.
pub(crate) fn always_stays(kind: &str) -> bool {
    let kinds = [
        AUDIT_GAP,
        AUDIT_PRUNED,
        AUDIT_CHAIN,
        AUDIT_OMITTED,
        AUDIT_IMPAIRED,
        AUDIT_UNSIGNED,
        backstop_trail::KIND_RECOVERED,
        backstop_trail::KIND_ROTATED,
    ];
    kinds.contains(&kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::keyed::Keying;

    fn drafted(new: NewAuditEntry) -> backstop_trail::Draft {
        Keying::default().apply("here", None, vec![new]).unwrap().pop().unwrap().draft()
    }

    #[test]
    fn a_long_id_fills_no_entry_and_is_found() {
        let (long, other) = ("é".repeat(5_000), format!("{}x", "é".repeat(5_000)));
        assert_eq!(audit_id("s-1"), "s-1");
        assert_eq!(audit_id(&"a".repeat(256)), "a".repeat(256));
        let id = audit_id(&long);
        assert!(id.len() < 256 && id.starts_with("éé") && id.contains('…') && id != audit_id(&other), "{id}");
        let new = |session: &str| NewAuditEntry {
            at: Timestamp::from_millis(5),
            kind: "receipt".to_owned(),
            session: Some(session.into()),
            run: Some(session.into()),
            body: json!({}).into(),
        };
        let bytes = drafted(new(&long)).sealed("p", 1).unwrap();
        assert!(bytes.len() < 1_000);
        let entry = AuditEntry::read(1, &bytes).unwrap();
        for (session, passes) in [(&long, true), (&other, false)] {
            let filter = AuditFilter { session: Some(session.as_str().into()), ..AuditFilter::default() };
            assert_eq!(filter.passes(&entry), passes);
        }
    }

    #[test]
    fn an_entry_is_what_the_documentation_says() {
        let new = NewAuditEntry {
            at: Timestamp::from_millis(5),
            kind: "receipt".to_owned(),
            session: Some("s\n1".into()),
            run: None,
            body: json!({ "verdict": "pass", "a": 1.0 }).into(),
        };
        let bytes = drafted(new).sealed("p", 3).unwrap();
        let text = r#"{"at":5,"body":{"a":1,"verdict":"pass"},"kind":"receipt","labels":{"session":"s\n1"},"n":3,"process":"p"}"#;
        assert_eq!(String::from_utf8(bytes.clone()).unwrap(), text);
        let entry = AuditEntry::read(9, &bytes).unwrap();
        assert_eq!((entry.seq, entry.n, entry.session), (9, 3, Some("s\n1".into())));
        assert_eq!(*entry.digest.as_bytes(), merkle::leaf_hash(text.as_bytes()));
    }
}
