//! The audit trail of a store in memory: the same entries, and the same tree over them, as in files. It has no signed checkpoints, and ends
//! with the process.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use backstop_hooks::Digest;
use backstop_trail::merkle::{Frontier, Hash, leaf_hash};
use backstop_trail::{BodyError, Draft};

use super::in_place::PLACE;
use crate::answered::who;
use crate::audit::{MOST_NAMED, Staying};
use crate::keyed::{KeyedEntry, Keying};
use crate::policy::POLICY;
use crate::retention::{Chosen, Due, is_decision};
use crate::{
    AUDIT_HOOKS, AUDIT_IMPAIRED, AUDIT_OMITTED, AUDIT_PRUNED, AppendAuditError, AuditBody, AuditBound,
    AuditEntry, AuditFilter, AuditGap, AuditHead, AuditPage, AuditPlace, AuditReport, AuditStep, AuditStore,
    CLOCK_TOLERANCE, CONFIGURATION_READ, DigestKey, Durability, NewAuditEntry, PolicyInForce,
    ProveAuditError, PrunableAudit, RotatedAuditKey, StoreError, StoreErrorKind, Timestamp, VerifyAuditError,
};

/// What names the one process that there is.
const PROCESS: &str = "memory";

/// The audit trail of a store in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryTrail {
    trail: Arc<Mutex<Trail>>,
    keying: Keying,
    /// Under which policy this one is written.
    policy: Option<PolicyInForce>,
}

impl MemoryTrail {
    /// Returns an empty one, with digests keyed like this.
    pub(super) fn keyed(keying: Keying) -> Self {
        Self { trail: Arc::default(), keying, policy: None }
    }

    /// Returns the same one, written under a policy.
    pub(crate) fn under(&self, policy: Option<PolicyInForce>) -> Self {
        Self { policy, ..self.clone() }
    }

    /// Every operation leaves the trail whole at each of its steps, so one that panicked spoils nothing.
    fn trail(&self) -> MutexGuard<'_, Trail> {
        self.trail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds entries: all of them, or none.
    pub(super) fn append(&self, entries: Vec<NewAuditEntry>) -> Result<AuditHead, AppendAuditError> {
        let entries = self.keying.apply(PLACE, self.policy.as_ref(), entries)?;
        self.trail().append(entries)
    }

    /// Returns what may go.
    pub(crate) fn prunable(&self, bound: AuditBound, limit: usize) -> PrunableAudit {
        self.trail().chosen(bound, limit).prunable()
    }
}

#[derive(Debug, Default)]
struct Trail {
    /// All entries, by number; of pruned ones, the digest in the tree.
    entries: Vec<(Hash, Option<AuditEntry>)>,
    frontier: Frontier,
    /// The versions of policies that it explains.
    told: BTreeSet<String>,
}

impl Trail {
    /// Adds entries: all of them, or none.
    fn append(&mut self, entries: Vec<KeyedEntry>) -> Result<AuditHead, AppendAuditError> {
        let first = self.frontier.size() + 1;
        let mut sealed = Vec::with_capacity(entries.len());
        let drafts = entries.into_iter().map(KeyedEntry::draft);
        let told = drafts.filter(|draft| !(draft.once && self.tells(draft.labels.get(POLICY))));
        for (draft, seq) in told.zip(first..) {
            let bytes = match draft.sealed(PROCESS, seq) {
                Err(BodyError::TooLarge(bytes)) => {
                    Draft::omitted(draft.at, &draft.kind, bytes).sealed(PROCESS, seq)?
                }
                sealed => sealed?,
            };
            sealed.push((leaf_hash(&bytes), AuditEntry::read(seq, &bytes)));
        }
        for (leaf, entry) in sealed {
            self.frontier.push(leaf);
            let told = entry.as_ref().filter(|entry| entry.kind == CONFIGURATION_READ);
            self.told.extend(told.and_then(|entry| entry.policy.clone()));
            self.entries.push((leaf, entry));
        }
        Ok(self.head())
    }

    /// Returns whether it says what this version of a policy is.
    fn tells(&self, version: Option<&String>) -> bool {
        version.is_some_and(|version| self.told.contains(version))
    }

    fn head(&self) -> AuditHead {
        head_of(&self.frontier)
    }

    /// Returns what was not pruned, in order.
    fn living(&self) -> impl Iterator<Item = &AuditEntry> {
        self.entries.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    fn verify(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        let mut report = AuditReport { head: self.head(), ..AuditReport::default() };
        let (mut frontier, mut latest) = (Frontier::default(), Timestamp::from_millis(i64::MIN));
        let compare = |frontier: &Frontier| match known {
            Some(known) if known.seq == frontier.size() && known != head_of(frontier) => {
                Err(VerifyAuditError::Rewritten { seq: known.seq })
            }
            _ => Ok(()),
        };
        compare(&frontier)?;
        for (leaf, entry) in &self.entries {
            frontier.push(*leaf);
            compare(&frontier)?;
            let Some(entry) = entry else {
                report.pruned += 1;
                continue;
            };
            if entry.at.after(CLOCK_TOLERANCE) < latest {
                let step = AuditStep { seq: entry.seq, at: entry.at, after: latest };
                named(&mut report.backwards, step, &mut report.unnamed);
            }
            latest = latest.max(entry.at);
            report.note_gap(entry);
        }
        match known {
            Some(known) if known.seq > report.head.seq => {
                Err(VerifyAuditError::Truncated { known: known.seq, found: report.head.seq })
            }
            _ => Ok(report),
        }
    }

    /// Returns what may go.
    fn chosen(&self, bound: AuditBound, limit: usize) -> Chosen {
        let mut due = Due::new(bound, limit);
        self.living().for_each(|entry| {
            due.see(entry.seq, entry.at, &entry.kind, || is_decision(&entry.kind, &entry.body));
        });
        due.chosen()
    }

    fn prune(&mut self, bound: AuditBound, limit: usize, now: Timestamp, by: &str) -> u64 {
        let chosen = self.chosen(bound, limit);
        let mut staying = Staying::default();
        let named = self.living().filter(|entry| !chosen.holds(entry.seq) && entry.kind != AUDIT_HOOKS);
        named.filter_map(|entry| entry.body.get("hookSet")?.as_str()).for_each(|set| staying.name(set));
        for entry in self.living() {
            let Some(version) = &entry.policy else { continue };
            if !chosen.holds(entry.seq) {
                staying.name_policy(version);
            }
            if entry.kind == CONFIGURATION_READ {
                staying.tell_policy(version, entry.seq);
            }
        }
        let mut gone = 0_u64;
        for (_, entry) in &mut self.entries {
            if entry.as_ref().is_some_and(|entry| {
                let policy = entry.policy.as_deref();
                staying.lets_go(&chosen, entry.seq, &entry.kind, &entry.body, policy)
            }) {
                *entry = None;
                gone += 1;
            }
        }
        if gone == 0 {
            return 0;
        }
        let told = self.living().filter(|entry| entry.kind == CONFIGURATION_READ);
        let told = told.filter_map(|entry| entry.policy.clone()).collect();
        self.told = told;
        let body = serde_json::json!({ "through": chosen.last(), "count": gone, "by": who(by) });
        let body = AuditBody::of(&body);
        let tombstone =
            NewAuditEntry { at: now, kind: AUDIT_PRUNED.to_owned(), session: None, run: None, body };
        // It is not too large, and has no digests.
        let _ = Keying::default().apply(PLACE, None, vec![tombstone]).map(|entries| self.append(entries));
        gone
    }
}

impl AuditReport {
    /// Notes what an entry says is missing.
    pub(crate) fn note_gap(&mut self, entry: &AuditEntry) {
        self.omitted += u64::from(entry.kind == AUDIT_OMITTED);
        self.impaired += u64::from(entry.kind == AUDIT_IMPAIRED);
        let lost = entry.lost();
        self.lost = self.lost.saturating_add(lost);
        if lost > 0 {
            named(&mut self.gaps, AuditGap { seq: entry.seq, lost }, &mut self.unnamed);
        }
    }
}

/// Names one more, or counts it where enough are named.
fn named<T>(list: &mut Vec<T>, one: T, unnamed: &mut u64) {
    if list.len() < MOST_NAMED { list.push(one) } else { *unnamed += 1 }
}

fn head_of(frontier: &Frontier) -> AuditHead {
    AuditHead { seq: frontier.size(), digest: Digest::from_bytes(frontier.root()) }
}

#[async_trait]
impl AuditStore for MemoryTrail {
    async fn check_writable(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn digest_key(&self) -> Option<&Arc<DigestKey>> {
        self.keying.key()
    }

    fn fits_audit(&self, body: &AuditBody) -> bool {
        self.keying.fits(body)
    }

    async fn append_audit(&self, entry: NewAuditEntry) -> Result<AuditEntry, AppendAuditError> {
        let entries = self.keying.apply(PLACE, self.policy.as_ref(), vec![entry])?;
        let mut trail = self.trail();
        trail.append(entries)?;
        let written = trail.living().last().cloned();
        Ok(written.ok_or_else(unreadable)?)
    }

    async fn append_audit_all(
        &self,
        entries: Vec<NewAuditEntry>,
        _: Durability,
    ) -> Result<AuditHead, AppendAuditError> {
        MemoryTrail::append(self, entries)
    }

    async fn announce_audit(&self, _: &str) -> Result<(), AppendAuditError> {
        // What is in memory ends with the process.
        Ok(())
    }

    async fn conclude_audit(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn audit(
        &self,
        filter: &AuditFilter,
        after: u64,
        limit: usize,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let trail = self.trail();
        let later = trail.living().filter(|entry| entry.seq > after && filter.passes(entry));
        Ok(later.take(limit).cloned().collect())
    }

    async fn audit_page(
        &self,
        filter: &AuditFilter,
        from: AuditPlace,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        let trail = self.trail();
        let passing = trail.living().filter(|entry| filter.passes(entry));
        Ok(match from {
            AuditPlace::After(after) => {
                let entries: Vec<_> =
                    passing.filter(|entry| entry.seq > after).take(limit).cloned().collect();
                let ended = entries.len() < limit;
                let last = if ended { Some(trail.head().seq) } else { entries.last().map(|last| last.seq) };
                let next = AuditPlace::After(last.unwrap_or(after).max(after));
                AuditPage { entries, next, ended, is_older: false }
            }
            AuditPlace::Before(before) => {
                let mut entries: Vec<_> = passing.filter(|entry| entry.seq < before).cloned().collect();
                entries.reverse();
                entries.truncate(limit);
                let ended = entries.len() < limit;
                let last = entries.last().map(|last| last.seq).filter(|_| !ended);
                let next = AuditPlace::Before(last.unwrap_or(1).min(before));
                AuditPage { entries, next, ended, is_older: false }
            }
        })
    }

    async fn audit_head(&self) -> Result<AuditHead, StoreError> {
        Ok(self.trail().head())
    }

    async fn verify_audit(&self, known: Option<AuditHead>) -> Result<AuditReport, VerifyAuditError> {
        self.trail().verify(known)
    }

    async fn verify_audit_with(
        &self,
        known: Option<AuditHead>,
        _kept: &[String],
        _key: Option<&str>,
    ) -> Result<AuditReport, VerifyAuditError> {
        self.verify_audit(known).await
    }

    async fn audit_origin(&self) -> Result<String, ProveAuditError> {
        Err(ProveAuditError::InMemory)
    }

    async fn audit_keys(&self) -> Result<Vec<String>, ProveAuditError> {
        Err(ProveAuditError::InMemory)
    }

    async fn offer_audit(&self, _old: u64) -> Result<String, ProveAuditError> {
        Err(ProveAuditError::InMemory)
    }

    async fn prove_audit(&self, _: u64) -> Result<String, ProveAuditError> {
        Err(ProveAuditError::InMemory)
    }

    async fn rotate_audit_key(&self, _: Timestamp, _: &str) -> Result<RotatedAuditKey, ProveAuditError> {
        Err(ProveAuditError::InMemory)
    }

    async fn prune_audit(
        &self,
        bound: AuditBound,
        limit: usize,
        now: Timestamp,
        by: &str,
    ) -> Result<u64, StoreError> {
        Ok(self.trail().prune(bound, limit, now, by))
    }
}

/// What was written can be read, so this does not happen.
fn unreadable() -> StoreError {
    StoreError::because(PLACE, StoreErrorKind::Corrupt, "an audit entry can't be read")
}
