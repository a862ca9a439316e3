//! What is whole of a segment in which something is not.
//!
//! A crash leaves a part of an entry, and nothing whole behind it. Where whole entries stand behind what is none, bytes were changed, or a power
//! failure took pages from between: the entries behind are kept, in their order. Where a full tile knows the hashes of those that are lost, the
//! hashes stand in their places, so that all others keep their numbers and their proofs.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom};

use crate::files::{Files, open};
use crate::frame::{Ahead, Frame, ahead, split};
use crate::merkle::Hash;
use crate::{TILE, TrailError};

/// The most bytes of a segment that are looked through: some times what one has.
const MOST_SEGMENT_BYTES: u64 = 512 << 20;

/// What stands at a place of a segment at which no whole frame was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    /// A whole frame: whoever wrote it has finished meanwhile.
    Whole,
    /// None, and whole entries behind it.
    Damaged,
    /// None, and nothing whole behind it.
    Nothing,
}

/// Returns what stands at place `from` of a segment.
pub(crate) fn stands(files: &Files, first: u64, from: u64) -> Result<Stands, TrailError> {
    let bytes = bytes(files, first, from)?;
    Ok(match ahead(&bytes, 1) {
        _ if split(&bytes).is_some() => Stands::Whole,
        Ahead::Nothing => Stands::Nothing,
        Ahead::At(_) | Ahead::Unclear => Stands::Damaged,
    })
}

/// Returns whether something whole stands at or behind place `from` of a segment, at which none was read while nobody else writes.
pub(crate) fn is_damaged(files: &Files, first: u64, from: u64) -> Result<bool, TrailError> {
    Ok(stands(files, first, from)? != Stands::Nothing)
}

/// What is whole of a segment.
#[derive(Debug)]
pub(crate) struct Salvaged {
    /// Its frames.
    pub(crate) bytes: Vec<u8>,
    /// The number of the first entry that is not.
    pub(crate) index: u64,
    /// How many bytes are lost.
    pub(crate) lost: usize,
    /// How many frames stand behind the first that is lost, at least one where bytes are lost.
    pub(crate) behind: u64,
}

/// Returns what is whole of a damaged segment.
pub(crate) fn salvaged(files: &Files, first: u64) -> Result<Salvaged, TrailError> {
    let all = bytes(files, first, 0)?;
    let (mut at, mut index, mut bad) = (0_usize, first, None);
    let (mut bytes, mut lost) = (Vec::with_capacity(all.len()), 0);
    while let Some(rest) = all.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some((_, after)) = split(rest) {
            let whole = rest.len() - after.len();
            bytes.extend_from_slice(rest.get(..whole).unwrap_or_default());
            (at, index) = (at + whole, index + 1);
            continue;
        }
        bad.get_or_insert(index);
        let next = match ahead(&all, at + 1) {
            Ahead::At(next) => next,
            // What is left is in the segment that is put aside.
            Ahead::Nothing | Ahead::Unclear => all.len(),
        };
        lost += next - at;
        if let Some((frame, _)) = all.get(next..).and_then(split) {
            for hash in between(files, index, &frame.leaf())? {
                Frame::Pruned(hash).write(&mut bytes);
                index += 1;
            }
        }
        at = next;
    }
    let bad = bad.unwrap_or(index);
    // What is lost had at least one entry, and how many more can't be told.
    let behind = (index - bad).max(u64::from(lost > 0));
    Ok(Salvaged { bytes, index: bad, lost, behind })
}

/// Returns the hashes of the entries from `index` to before the one of this hash, as far as the full tiles there know them.
fn between(files: &Files, index: u64, leaf: &Hash) -> Result<Vec<Hash>, TrailError> {
    let mut hashes = Vec::new();
    for tile in [index / TILE, index / TILE + 1] {
        let Some(known) = files.get_tile(0, tile)? else { break };
        let skipped = usize::try_from(index.saturating_sub(tile * TILE)).unwrap_or(usize::MAX);
        let known = known.get(skipped..).unwrap_or_default();
        if let Some(place) = known.iter().position(|known| known == leaf) {
            hashes.extend_from_slice(known.get(..place).unwrap_or_default());
            return Ok(hashes);
        }
        hashes.extend_from_slice(known);
    }
    Ok(Vec::new())
}

/// Returns what is in a segment from place `from` on.
pub(crate) fn bytes(files: &Files, first: u64, from: u64) -> Result<Vec<u8>, TrailError> {
    let path = files.segment(first);
    let mut bytes = Vec::new();
    let read = open(&path, OpenOptions::new().read(true)).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.take(MOST_SEGMENT_BYTES + 1).read_to_end(&mut bytes)
    });
    read.map_err(TrailError::file(&path, "read"))?;
    if bytes.len() as u64 > MOST_SEGMENT_BYTES {
        return Err(TrailError::Damaged { path, what: "segment of this length" });
    }
    Ok(bytes)
}
