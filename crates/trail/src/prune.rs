//! Retention: entries go, and what proves the others stays.
//!
//! A pruned entry leaves its hash, so the tree, all checkpoints and all proofs stay what they were. Which entries go is said first, by
//! tombstones that the key of the log has signed and a checkpoint covers: an entry that is gone without a tombstone was taken away by somebody else.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::entry::{
    Body, BodyError, Draft, Entry, KIND_IMPAIRED, KIND_OMITTED, KIND_RECOVERED, KIND_ROTATED, KIND_TOMBSTONE,
    KIND_UNSIGNED,
};
use crate::files::{Files, open, options};
use crate::frame::{Frame, Frames, Next};
use crate::log::Log;
use crate::note::base64;
use crate::reader::Reader;
use crate::tail::{keep_frontier, kept_frontier};
use crate::{SigningKey, TILE, TrailError};

/// The most ranges that one tombstone names.
const MOST_RANGES: usize = 1000;

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
    /// Prunes the entries before number `end` that `keep` does not hold, and says by which rule and for whom; tombstones, rotations of keys and what tells of damage always stay. Returns how many
    /// went.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the log can't be written. Where the tombstones are written already, pruning again finishes the work.
    pub fn prune(
        &mut self,
        end: u64,
        at: i64,
        policy: &str,
        by: &str,
        mut keep: impl FnMut(u64, &Entry) -> bool,
    ) -> Result<u64, TrailError> {
        self.locked(|log| {
            log.refreshed()?;
            let end = end.min(log.extent()?.size);
            let mut ranges: Vec<Range<u64>> = Vec::new();
            log.reader().scan(0, |index, frame| {
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
            if ranges.is_empty() {
                return Ok(0);
            }
            let origin = log.origin.clone();
            let key = log.signing_key()?;
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
            log.add(&tombstones)?;
            log.sign(&[])?;
            log.count_replacement()?;
            rewrite_all(log.files(), &ranges)?;
            log.forget();
            Ok(count(&ranges))
        })
    }

    fn reader(&self) -> Reader {
        Reader::of(self.files().clone())
    }
}

/// Returns whether checking the log needs entries of this kind, or they tell what befell it.
fn stays(kind: &str) -> bool {
    [KIND_TOMBSTONE, KIND_ROTATED, KIND_RECOVERED, KIND_IMPAIRED, KIND_OMITTED, KIND_UNSIGNED].contains(&kind)
}

fn count(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// Rewrites the segments in which entries go.
fn rewrite_all(files: &Files, ranges: &[Range<u64>]) -> Result<(), TrailError> {
    let firsts = files.segments()?;
    for (position, first) in firsts.iter().enumerate() {
        let next = firsts.get(position + 1).copied();
        let concerned =
            ranges.iter().any(|range| range.end > *first && next.is_none_or(|next| range.start < next));
        if concerned {
            rewrite(files, *first, next.is_none(), ranges)?;
        }
    }
    Ok(())
}

const TORN: &str = "something in it is no entry; `audit verify` says where";

fn rewrite(files: &Files, first: u64, is_last: bool, ranges: &[Range<u64>]) -> Result<(), TrailError> {
    let path = files.segment(first);
    let kept = if is_last { kept_frontier(files, first) } else { None };
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    let written = TrailError::file(&path, "written");
    let places = (|| {
        let mut frames = Frames::from(open(&path, OpenOptions::new().read(true))?, 0)?;
        let mut file = BufWriter::new(open(&draft, options().write(true).create(true).truncate(true))?);
        let (mut index, mut bytes, mut places, mut frame) = (first, 0_u64, vec![0_u64], Vec::new());
        loop {
            let found = match frames.next()? {
                Next::Frame(found) => found,
                Next::End => break,
                // INVARIANT (nothing goes but what is to go): what stands behind can't be read, and would be lost.
                Next::Torn => return Err(io::Error::new(io::ErrorKind::InvalidData, TORN)),
            };
            let after = ranges.partition_point(|range| range.end <= index);
            let goes = ranges.get(after).is_some_and(|range| range.contains(&index));
            frame.clear();
            if goes { Frame::Pruned(found.leaf()) } else { found }.write(&mut frame);
            file.write_all(&frame)?;
            (index, bytes) = (index + 1, bytes + frame.len() as u64);
            if index.is_multiple_of(TILE) {
                places.push(bytes);
            }
        }
        file.into_inner()?.sync_all()?;
        Ok(places)
    })();
    let places: Vec<u64> = places.map_err(written)?;
    // What says where entries are in the old file goes first: without it they are found by reading.
    for stale in [Some(files.places(first)), is_last.then(|| files.frontier())].into_iter().flatten() {
        if stale.exists() {
            fs::remove_file(&stale).map_err(TrailError::file(&stale, "removed"))?;
        }
    }
    fs::rename(&draft, &path).map_err(TrailError::file(&path, "written"))?;
    let rows = places.iter().skip(1).flat_map(|place| place.to_le_bytes()).collect::<Vec<_>>();
    let path = files.places(first);
    crate::files::replace(&path, &rows).map_err(TrailError::file(&path, "written"))?;
    if let Some((frontier, _)) = kept {
        let row = usize::try_from((frontier.size() - first) / TILE).unwrap_or(usize::MAX);
        if let Some(place) = places.get(row) {
            keep_frontier(files, first, *place, &frontier)?;
        }
    }
    Ok(())
}
