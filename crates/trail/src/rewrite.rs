//! A segment that is written anew, without the entries that go.
//!
//! Most of it is written while others write the log, since nothing that is there is changed but by whoever prunes. What came behind it
//! meanwhile follows under the lock, where the new file takes the place of the old one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::ops::Range;
use std::path::PathBuf;

use crate::back::is_same;
use crate::files::{Files, open, options, removed, replace, sync_folder};
use crate::frame::{Frame, Frames, Next};
use crate::tail::{keep_frontier, kept_frontier};
use crate::{TILE, TrailError};

const TORN: &str = "something in it is no entry; `audit verify` says where";
const REPLACED: &str = "it was replaced meanwhile";

/// A segment that is written anew.
pub(crate) struct Rewriting<'r> {
    first: u64,
    path: PathBuf,
    draft: PathBuf,
    /// Which entries go.
    ranges: &'r [Range<u64>],
    old: File,
    new: BufWriter<File>,
    /// The number of the next entry.
    index: u64,
    /// Where it begins in the old file, and in the new one.
    from: u64,
    to: u64,
    /// Where every 256th entry begins in the new one.
    places: Vec<u64>,
}

impl<'r> Rewriting<'r> {
    /// Writes those of its entries anew that have numbers before `end`, which all are there.
    pub(crate) fn begun(
        files: &Files,
        first: u64,
        end: u64,
        ranges: &'r [Range<u64>],
    ) -> Result<Self, TrailError> {
        let path = files.segment(first);
        let mut draft = path.as_os_str().to_owned();
        // Not the draft of whoever replaces the segment under the lock.
        draft.push(".pruned");
        let draft = PathBuf::from(draft);
        let opened = (|| {
            let old = open(&path, OpenOptions::new().read(true))?;
            let new = open(&draft, options().write(true).create(true).truncate(true))?;
            Ok((old, BufWriter::new(new)))
        })();
        let (old, new) = opened.map_err(TrailError::file(&path, "written"))?;
        let (index, from, to, places) = (first, 0, 0, vec![0]);
        let mut begun = Self { first, path, draft, ranges, old, new, index, from, to, places };
        begun.copy(Some(end)).map_err(TrailError::file(&begun.path, "written"))?;
        Ok(begun)
    }

    /// Writes what is left, and puts the new file in the place of the old one, while no other process writes.
    pub(crate) fn finish(mut self, files: &Files) -> Result<(), TrailError> {
        // INVARIANT (nothing goes but what is to go): what was copied is what is there now.
        let copied = match is_same(&self.old, &self.path) {
            true => self.copy(None),
            false => Err(io::Error::other(REPLACED)),
        };
        copied.map_err(TrailError::file(&self.path, "written"))?;
        let kept = kept_frontier(files, self.first);
        // What says where entries are in the old file goes first: without it they are found by reading.
        for stale in [Some(files.places(self.first)), kept.is_some().then(|| files.frontier())] {
            stale.map_or(Ok(()), |stale| removed(&stale))?;
        }
        fs::rename(&self.draft, &self.path).map_err(TrailError::file(&self.path, "written"))?;
        let folder = files.entries();
        sync_folder(&folder).map_err(TrailError::file(&folder, "written to the disk"))?;
        let rows = self.places.iter().skip(1).flat_map(|place| place.to_le_bytes()).collect::<Vec<_>>();
        let path = files.places(self.first);
        replace(&path, &rows).map_err(TrailError::file(&path, "written"))?;
        if let Some((frontier, _)) = kept {
            let row = usize::try_from((frontier.size() - self.first) / TILE).unwrap_or(usize::MAX);
            if let Some(place) = self.places.get(row) {
                keep_frontier(files, self.first, *place, &frontier)?;
            }
        }
        Ok(())
    }

    /// Writes the entries with numbers before `end`, or all that are left, and waits for the disk.
    fn copy(&mut self, end: Option<u64>) -> io::Result<()> {
        let (mut frames, mut frame) = (Frames::from(self.old.try_clone()?, self.from)?, Vec::new());
        while end.is_none_or(|end| self.index < end) {
            let found = match frames.next()? {
                Next::Frame(found) => found,
                Next::End => break,
                // What stands behind can't be read, and would be lost.
                Next::Torn => return Err(io::Error::new(io::ErrorKind::InvalidData, TORN)),
            };
            let after = self.ranges.partition_point(|range| range.end <= self.index);
            let goes = self.ranges.get(after).is_some_and(|range| range.contains(&self.index));
            frame.clear();
            if goes { Frame::Pruned(found.leaf()) } else { found }.write(&mut frame);
            self.new.write_all(&frame)?;
            (self.index, self.to) = (self.index + 1, self.to + frame.len() as u64);
            if self.index.is_multiple_of(TILE) {
                self.places.push(self.to);
            }
        }
        self.from = frames.offset();
        self.new.flush()?;
        self.new.get_ref().sync_all()
    }
}

impl Drop for Rewriting<'_> {
    fn drop(&mut self) {
        // Where it was given up: it holds what is to go. One that a crash leaves is written over by whoever prunes the segment next.
        let _ = fs::remove_file(&self.draft);
    }
}
