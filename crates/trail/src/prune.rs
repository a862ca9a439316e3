//! Retention: entries go, and what proves the others stays.
//!
//! A pruned entry leaves its hash, so the tree, all checkpoints and all proofs stay what they were. Which entries go is said first, by
//! tombstones that the key of the log has signed and a checkpoint covers: an entry that is gone without a tombstone was taken away by somebody else.

use std::ops::{ControlFlow, Range};

use serde::{Deserialize, Serialize};

use crate::entry::{
    Body, BodyError, Draft, Entry, KIND_IMPAIRED, KIND_OMITTED, KIND_RECOVERED, KIND_ROTATED, KIND_TOMBSTONE,
    KIND_UNSIGNED,
};
use crate::files::{open_lock, take_lock};
use crate::log::Log;
use crate::note::base64;
use crate::reader::Reader;
use crate::rewrite::Rewriting;
use crate::{SigningKey, TrailError};

/// The most ranges that one tombstone names.
const MOST_RANGES: usize = 1000;
/// What is not there where entries have other numbers than when they were looked at.
const CHOSEN: &str = "entries as they were when they were chosen";

/// What a tombstone says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// By which rule.
    pub policy: String,
    /// Who had it done; nobody is named in tombstones of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many entries went.
    pub count: u64,
    /// Which, the first of the log being 0: from, and behind the last.
    pub ranges: Vec<Range<u64>>,
}

/// A tombstone as an entry has it: with the signature of the key of the log. Whoever can write the folder can add entries, and must not be
/// able to take others away with one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SignedTombstone {
    #[serde(flatten)]
    pub(crate) tombstone: Tombstone,
    /// The signature, in Base64.
    pub(crate) signature: String,
}

impl Tombstone {
    /// Returns what is signed of it.
    pub(crate) fn text(&self, origin: &str) -> Result<String, BodyError> {
        Ok(format!("backstop trail tombstone\n{origin}\n{}\n", Body::of(self)?.as_str()))
    }

    fn signed(self, origin: &str, key: &SigningKey) -> Result<SignedTombstone, BodyError> {
        let signature = base64(&key.sign(&self.text(origin)?));
        Ok(SignedTombstone { tombstone: self, signature })
    }
}

impl Log {
    /// Prunes the entries before number `end` that `keep` does not hold, and says by which rule and for whom; tombstones, rotations of keys and
    /// what tells of damage always stay. Returns how many went. Others write meanwhile: nobody waits for what is only read, nor for more than
    /// one segment.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the log can't be written, or another process prunes it. Where the tombstones are written already, pruning again
    /// finishes the work.
    pub fn prune(
        &mut self,
        end: u64,
        at: i64,
        policy: &str,
        by: &str,
        keep: impl FnMut(u64, &Entry) -> bool,
    ) -> Result<u64, TrailError> {
        // Two that look at the same time would both tell of what goes.
        let path = self.files.pruning();
        let pruning = open_lock(&path)?;
        take_lock(&pruning, &path, self.options.patience)?;
        let there = self.look()?;
        let ranges = self.chosen(end.min(there.size), keep)?;
        if ranges.is_empty() {
            return Ok(0);
        }
        self.locked(|log| {
            log.refreshed()?;
            // INVARIANT (nothing goes but what is to go): what was looked at without the lock is what is there. Nobody else prunes, and whoever
            // mends may give entries other numbers.
            if log.reader().root(there.size)? != there.root {
                return Err(TrailError::Damaged { path: log.files.entries(), what: CHOSEN });
            }
            log.tell_of_pruned(&ranges, at, policy, by)
        })?;
        for first in self.concerned(&ranges)? {
            let rewriting = Rewriting::begun(&self.files, first, there.size, &ranges)?;
            self.locked(|log| {
                // What a crash left at the end meanwhile is none of it.
                log.refreshed()?;
                log.count_replacement()?;
                log.forget();
                rewriting.finish(&log.files)
            })?;
        }
        Ok(count(&ranges))
    }

    /// Returns which entries before number `end` go.
    fn chosen(
        &self,
        end: u64,
        mut keep: impl FnMut(u64, &Entry) -> bool,
    ) -> Result<Vec<Range<u64>>, TrailError> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        self.reader().scan(0, |index, frame| {
            if index >= end {
                return ControlFlow::Break(());
            }
            // What can't be read is no entry of ours, and is evidence.
            let goes = frame.entry().and_then(Entry::read).is_some_and(|entry| {
                // What checking the log needs stays.
                !stays(&entry.kind) && !keep(index, &entry)
            });
            match ranges.last_mut() {
                Some(last) if goes && last.end == index => last.end = index + 1,
                _ if goes => ranges.push(index..index + 1),
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        Ok(ranges)
    }

    /// Says which entries go, and signs that.
    fn tell_of_pruned(
        &mut self,
        ranges: &[Range<u64>],
        at: i64,
        policy: &str,
        by: &str,
    ) -> Result<(), TrailError> {
        let origin = self.origin.clone();
        let key = self.signing_key()?;
        let tombstones = ranges.chunks(MOST_RANGES).map(|ranges| {
            let tombstone = Tombstone {
                policy: policy.to_owned(),
                by: Some(by.to_owned()),
                count: count(ranges),
                ranges: ranges.to_vec(),
            };
            Ok(Draft::new(at, KIND_TOMBSTONE, Body::of(&tombstone.signed(&origin, key)?)?))
        });
        let tombstones = tombstones.collect::<Result<Vec<_>, TrailError>>()?;
        self.add(&tombstones)?;
        self.sign(&[]).map(drop)
    }

    /// Returns the numbers of the first entries of the segments in which entries go.
    fn concerned(&self, ranges: &[Range<u64>]) -> Result<Vec<u64>, TrailError> {
        let mut firsts = self.files.segments()?;
        let mut nexts = firsts.clone().into_iter().skip(1);
        firsts.retain(|first| {
            let next = nexts.next();
            ranges.iter().any(|range| range.end > *first && next.is_none_or(|next| range.start < next))
        });
        Ok(firsts)
    }

    fn reader(&self) -> Reader {
        Reader::of(self.files.clone())
    }
}

/// Returns whether checking the log needs entries of this kind, or they tell what befell it.
fn stays(kind: &str) -> bool {
    [KIND_TOMBSTONE, KIND_ROTATED, KIND_RECOVERED, KIND_IMPAIRED, KIND_OMITTED, KIND_UNSIGNED].contains(&kind)
}

fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}
