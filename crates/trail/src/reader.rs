//! Reading a log: in order, from anywhere, and what proves an entry.
//!
//! Readers take no lock. What another process is writing at this moment is not there yet.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use crate::back::is_same;
use crate::files::{Files, open};
use crate::frame::{Frame, Frames, Next};
use crate::log::Extent;
use crate::merkle::{self, Hash, Subtrees, node_hash};
use crate::tail::{PLACE_BYTES, frontier_of_tiles, kept_frontier};
use crate::{Proof, SignedCheckpoint, TILE, TrailError};

/// A log to read.
#[derive(Clone, Debug)]
pub struct Reader {
    files: Files,
}

impl Reader {
    /// Returns the log in a folder. Nothing is read yet; where there is none, it has no entries.
    pub fn new(folder: &Path) -> Self {
        Self { files: Files::new(folder) }
    }

    pub(crate) fn of(files: Files) -> Self {
        Self { files }
    }

    /// Returns the name of the log; `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be read.
    pub fn origin(&self) -> Result<Option<String>, TrailError> {
        self.files.name()
    }

    /// Returns the newest checkpoint, if there is one.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be read.
    pub fn checkpoint(&self) -> Result<Option<SignedCheckpoint>, TrailError> {
        self.files.newest()
    }

    /// Returns all checkpoints, in the order in which they were written, and how many were torn by a crash. Checking a log does not take them all
    /// at once.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read, or take more than 256 MiB, as a million of them do.
    pub fn checkpoints(&self) -> Result<(Vec<SignedCheckpoint>, u64), TrailError> {
        self.files.all_checkpoints()
    }

    /// Returns how many entries there are.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read.
    pub fn size(&self) -> Result<u64, TrailError> {
        let Some(last) = self.files.segments()?.last().copied() else { return Ok(0) };
        let from = kept_frontier(&self.files, last).map_or(last, |(frontier, _)| frontier.size());
        self.scan(from, |_, _| ControlFlow::Continue(()))
    }

    /// Returns how far the log reaches.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be read.
    pub fn extent(&self) -> Result<Extent, TrailError> {
        let last = self.files.segments()?.last().copied().unwrap_or_default();
        let mut frontier = match kept_frontier(&self.files, last) {
            Some((frontier, _)) => frontier,
            None => frontier_of_tiles(&self.files, last, false)?,
        };
        self.scan(frontier.size(), |_, frame| {
            frontier.push(frame.leaf());
            ControlFlow::Continue(())
        })?;
        Ok(Extent { size: frontier.size(), root: frontier.root() })
    }

    /// Shows the entries from number `from` on, the first of the log being 0, until `visit` breaks. Returns the number behind the last one
    /// that was shown.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read.
    pub fn scan(
        &self,
        from: u64,
        mut visit: impl FnMut(u64, Frame<'_>) -> ControlFlow<()>,
    ) -> Result<u64, TrailError> {
        let firsts = self.files.segments()?;
        let begin = firsts.partition_point(|first| *first <= from).saturating_sub(1);
        let (mut index, mut expected) = (from, None);
        for (position, first) in firsts.iter().enumerate().skip(begin) {
            let path = self.files.segment(*first);
            match expected {
                Some(next) if next > *first => {
                    return Err(TrailError::Damaged { path, what: "entries from its number on" });
                }
                // What is missing is not passed over.
                next if next.unwrap_or(from) < *first => {
                    let path = self.files.segment(next.unwrap_or(from));
                    return Err(TrailError::Damaged { path, what: "entries: it is not there" });
                }
                _ => {}
            }
            let (mut frames, mut at) = self.frames_from(*first, from)?;
            loop {
                match frames.next().map_err(TrailError::file(&path, "read"))? {
                    Next::Frame(_) if at < from => {}
                    Next::Frame(frame) => {
                        index = at + 1;
                        if visit(at, frame).is_break() {
                            return Ok(index);
                        }
                    }
                    // The last one may be written at this moment.
                    Next::Torn if position + 1 < firsts.len() => {
                        return Err(TrailError::Damaged { path, what: "whole entries" });
                    }
                    Next::Torn | Next::End => break,
                }
                at += 1;
            }
            expected = Some(at);
        }
        Ok(index)
    }

    /// Returns the frames of a segment from a place before entry `from`, and the number of the entry there.
    fn frames_from(&self, first: u64, from: u64) -> Result<(Frames<fs::File>, u64), TrailError> {
        let path = self.files.segment(first);
        let file = self.files.open_segment(first)?;
        let row = from.saturating_sub(first) / TILE;
        // INVARIANT (places are those of this file): pruning removes them before it replaces the segment.
        if row > 0
            && let Some(place) = self.place(first, row)
            && is_same(&file, &path)
        {
            let read = || TrailError::file(&path, "read");
            let number = first + row * TILE;
            if self.begins_at((&file, &path), first, number, place)? {
                return Ok((Frames::from(file, place).map_err(read())?, number));
            }
        }
        let frames = Frames::from(file, 0);
        Ok((frames.map_err(TrailError::file(&path, "read"))?, first))
    }

    /// Returns whether entry `number`, with which a tile begins, stands at `place` of the segment `first`: as that tile has it, or the edge
    /// where it is not full. Whatever else begins there would be shown under the number of another.
    fn begins_at(
        &self,
        (file, path): (&fs::File, &Path),
        first: u64,
        number: u64,
        place: u64,
    ) -> Result<bool, TrailError> {
        let kept = kept_frontier(&self.files, first);
        if kept.is_some_and(|(frontier, kept)| frontier.size() == number && kept == place) {
            return Ok(true);
        }
        let Some(tile) = self.files.get_tile(0, number / TILE)? else { return Ok(false) };
        let read = TrailError::file(path, "read");
        // There may be no such place.
        let Ok(mut frames) = Frames::from(file.try_clone().map_err(read)?, place) else { return Ok(false) };
        Ok(match frames.next() {
            Ok(Next::Frame(frame)) => tile.first() == Some(&frame.leaf()),
            Ok(Next::Torn | Next::End) | Err(_) => false,
        })
    }

    fn place(&self, first: u64, row: u64) -> Option<u64> {
        let mut places = open(&self.files.places(first), fs::OpenOptions::new().read(true)).ok()?;
        let mut bytes = [0; 8];
        places.seek(SeekFrom::Start((row - 1) * PLACE_BYTES)).ok()?;
        places.read_exact(&mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Returns the bytes of an entry.
    ///
    /// # Errors
    ///
    /// [`TrailError::NoSuchEntry`] where it is not there, or was pruned.
    pub fn entry(&self, index: u64) -> Result<Vec<u8>, TrailError> {
        let mut found = None;
        self.scan(index, |_, frame| {
            found = frame.entry().map(<[u8]>::to_vec);
            ControlFlow::Break(())
        })?;
        found.ok_or(TrailError::NoSuchEntry(index))
    }

    /// Returns what proves, by the newest checkpoint, that the entry is in the log. One that was pruned is still proved to whoever has it.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where there is no such entry, or no checkpoint covers it yet.
    pub fn prove(&self, index: u64) -> Result<Proof, TrailError> {
        let checkpoint = self.checkpoint()?.ok_or(TrailError::NotYet(index))?;
        let size = checkpoint.checkpoint().size;
        if index >= size {
            return Err(if index < self.size()? {
                TrailError::NotYet(index)
            } else {
                TrailError::NoSuchEntry(index)
            });
        }
        let path = merkle::inclusion(&mut self.tree(size), index, size)?;
        let entry = match self.entry(index) {
            Err(TrailError::NoSuchEntry(_)) => None,
            entry => Some(entry?),
        };
        Ok(Proof { index, path, checkpoint, entry })
    }

    /// Returns the hashes that prove that the log had this beginning when it had `size` entries.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read.
    pub fn consistency(&self, old: u64, size: u64) -> Result<Vec<Hash>, TrailError> {
        merkle::consistency(&mut self.tree(size), old, size)
    }

    /// Returns the root of the tree over the first `size` entries.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read.
    pub fn root(&self, size: u64) -> Result<Hash, TrailError> {
        merkle::root(&mut self.tree(size), size)
    }

    fn tree(&self, size: u64) -> Tree<'_> {
        Tree { files: &self.files, size, rows: BTreeMap::new() }
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }
}

/// Returns the hashes of the entries from `from` to before `to`.
pub(crate) fn leaves(files: &Files, from: u64, to: u64) -> Result<Vec<Hash>, TrailError> {
    let mut leaves = Vec::new();
    Reader { files: files.clone() }.scan(from, |index, frame| {
        if index < to {
            leaves.push(frame.leaf());
        }
        if index + 1 < to { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    if leaves.len() as u64 == to - from {
        Ok(leaves)
    } else {
        Err(TrailError::NoSuchEntry(from + leaves.len() as u64))
    }
}

/// The tree over the first entries of a log: what full tiles have is read, the rest computed.
struct Tree<'f> {
    files: &'f Files,
    size: u64,
    rows: BTreeMap<(u32, u64), Vec<Hash>>,
}

impl Tree<'_> {
    /// Returns the hashes of a tile, as many as there are.
    fn row(&mut self, level: u32, index: u64) -> Result<&[Hash], TrailError> {
        if !self.rows.contains_key(&(level, index)) {
            let row = self.computed(level, index)?;
            self.rows.insert((level, index), row);
        }
        Ok(self.rows.get(&(level, index)).map_or(&[], Vec::as_slice))
    }

    fn computed(&mut self, level: u32, index: u64) -> Result<Vec<Hash>, TrailError> {
        let there = self.size.checked_shr(level * TILE.ilog2()).unwrap_or_default();
        let count = there.saturating_sub(index * TILE).min(TILE);
        if count == TILE
            && let Some(tile) = self.files.get_tile(level, index)?
        {
            return Ok(tile);
        }
        if level == 0 {
            return leaves(self.files, index * TILE, index * TILE + count);
        }
        let below = (index * TILE..).take(usize::try_from(count).unwrap_or_default());
        below.map(|below| Ok(fold(self.row(level - 1, below)?))).collect()
    }
}

impl Subtrees for Tree<'_> {
    type Error = TrailError;

    fn subtree(&mut self, height: u32, index: u64) -> Result<Hash, TrailError> {
        let (level, rest) = (height / TILE.ilog2(), height % TILE.ilog2());
        let first = index << rest;
        let from = usize::try_from(first % TILE).unwrap_or_default();
        let row = self.row(level, first / TILE)?;
        let part = row.get(from..from + (1 << rest)).ok_or(TrailError::NoSuchEntry(index << height))?;
        Ok(fold(part))
    }
}

/// Returns the root over hashes whose number is a power of two.
fn fold(hashes: &[Hash]) -> Hash {
    match hashes {
        [] => merkle::empty_root(),
        [hash] => *hash,
        _ => {
            let (left, right) = hashes.split_at(hashes.len() / 2);
            node_hash(&fold(left), &fold(right))
        }
    }
}
