//! Reading a log from its end: the newest entries first, without reading what stands before them.
//!
//! A segment keeps where every 256th of its entries begins. Such a row is read as a whole and shown backwards, so what is held at a time is
//! one row (about 200 KB, and 20 MB at the very most), however long the log is. Where the places are gone or wrong, they are found by
//! reading the segment once, so that no entry is shown under another's number.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::ops::ControlFlow;
use std::path::Path;

use crate::files::{Files, read};
use crate::frame::{Frame, Frames, Next, split};
use crate::reader::Reader;
use crate::tail::kept_frontier;
use crate::{TILE, TrailError};

/// How often a segment is opened anew that is replaced while its places are read.
const TRIES: usize = 16;

impl Reader {
    /// Shows the entries before number `before`, the newest first, until `visit` breaks. Returns the number of the last one that was shown:
    /// 0 where nothing is left before it.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be read, and where a segment is missing between others.
    pub fn scan_back(
        &self,
        before: u64,
        mut visit: impl FnMut(u64, Frame<'_>) -> ControlFlow<()>,
    ) -> Result<u64, TrailError> {
        let firsts = self.files().segments()?;
        let (mut reached, mut next) = (before, None);
        for first in firsts.iter().rev().filter(|first| **first < before) {
            let mut segment = Segment::open(self.files(), *first, next.is_none())?;
            if next.is_some_and(|next| next != segment.end()) && !segment.counted {
                segment.count(self.files())?;
            }
            if next.is_some_and(|next| next != segment.end()) {
                return Err(segment.damaged(self.files(), "all entries up to the next segment"));
            }
            next = Some(*first);
            if !segment.visit_back(self.files(), before, &mut reached, &mut visit)? {
                return Ok(reached);
            }
        }
        let oldest = firsts.first().copied().unwrap_or_default();
        if oldest > 0 && next == Some(oldest) {
            let path = self.files().segment(0);
            return Err(TrailError::Damaged { path, what: "entries: it is not there" });
        }
        Ok(0)
    }
}

/// A segment, with where its rows begin.
struct Segment {
    first: u64,
    is_last: bool,
    file: File,
    rows: Vec<u64>,
    /// How many entries the last row has, and where it ends.
    rest: (u64, u64),
    /// Whether all of it was read to find the rows.
    counted: bool,
}

impl Segment {
    fn open(files: &Files, first: u64, is_last: bool) -> Result<Self, TrailError> {
        for _ in 0..TRIES {
            let file = files.open_segment(first)?;
            let length = file.metadata().map_err(TrailError::file(&files.segment(first), "read"))?.len();
            let rows = rows(files, first, length);
            // INVARIANT (places are those of this file): pruning removes them before it replaces the segment, so places that were read
            // while the file still had its name are its own.
            if is_same(&file, &files.segment(first)) {
                let mut segment = Self { first, is_last, file, rows, rest: (0, 0), counted: false };
                // How many rows there are follows from the next segment, or else from the edge.
                let is_known = !is_last || segment.fits_edge(files);
                if is_known {
                    segment.find_end(files)?;
                } else {
                    segment.count(files)?;
                }
                return Ok(segment);
            }
        }
        Err(TrailError::File {
            path: files.segment(first),
            what: "read",
            source: std::io::Error::other("it is replaced again and again"),
        })
    }

    /// Returns whether its places lead to where the last full tile ends, as far as that is kept.
    fn fits_edge(&self, files: &Files) -> bool {
        let edge = kept_frontier(files, self.first);
        edge.is_some_and(|(frontier, place)| {
            let rows = frontier.size().checked_sub(self.first).map(|entries| entries / TILE);
            let row = rows.and_then(|rows| usize::try_from(rows).ok());
            row.and_then(|row| self.rows.get(row)) == Some(&place)
        })
    }

    /// Returns the number behind its last entry.
    fn end(&self) -> u64 {
        let before = (self.rows.len() as u64).saturating_sub(1) * TILE;
        self.first + before + self.rest.0
    }

    /// Reads from the last row that is known to the end.
    fn find_end(&mut self, files: &Files) -> Result<(), TrailError> {
        let failed = || TrailError::file(&files.segment(self.first), "read");
        let file = self.file.try_clone().map_err(failed())?;
        let from = self.rows.last().copied().unwrap_or_default();
        let mut frames = Frames::from(file, from).map_err(failed())?;
        let mut count = 0;
        loop {
            match frames.next().map_err(failed())? {
                Next::Frame(_) => count += 1,
                Next::End => break,
                // A writer is at work there, or a crash was.
                Next::Torn if self.is_last && count > 0 => break,
                Next::Torn if self.counted && self.is_last => break,
                // Places beyond what is there lead nowhere.
                Next::Torn if !self.counted => return self.count(files),
                Next::Torn => return Err(self.damaged(files, "whole entries")),
            }
            if count == TILE {
                self.rows.push(frames.offset());
                count = 0;
            }
        }
        self.rest = (count, frames.offset());
        Ok(())
    }

    /// Finds the rows by reading all of it.
    fn count(&mut self, files: &Files) -> Result<(), TrailError> {
        (self.rows, self.counted) = (vec![0], true);
        self.find_end(files)
    }

    /// Shows its entries backwards. Returns whether more are wanted.
    fn visit_back(
        &mut self,
        files: &Files,
        before: u64,
        reached: &mut u64,
        visit: &mut impl FnMut(u64, Frame<'_>) -> ControlFlow<()>,
    ) -> Result<bool, TrailError> {
        let (mut bytes, mut row) = (Vec::new(), self.rows.len());
        while row > 0 {
            row -= 1;
            let begins = self.first + row as u64 * TILE;
            if begins >= before {
                continue;
            }
            let Some(frames) = self.row(files, row, &mut bytes)? else {
                if self.counted {
                    return Err(self.damaged(files, "whole entries"));
                }
                self.count(files)?;
                // What was shown already is not shown again.
                row = self.rows.len();
                continue;
            };
            for (index, frame) in (begins..).zip(frames).collect::<Vec<_>>().into_iter().rev() {
                if index >= (*reached).min(before) {
                    continue;
                }
                *reached = index;
                if visit(index, frame).is_break() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Reads a row; `None` where its place is wrong.
    fn row<'b>(
        &self,
        files: &Files,
        row: usize,
        bytes: &'b mut Vec<u8>,
    ) -> Result<Option<Vec<Frame<'b>>>, TrailError> {
        let from = self.rows.get(row).copied().unwrap_or_default();
        let (count, to) = match self.rows.get(row + 1) {
            Some(next) => (TILE, *next),
            None => self.rest,
        };
        bytes.clear();
        let read = (&self.file)
            .seek(SeekFrom::Start(from))
            .and_then(|_| (&self.file).take(to.saturating_sub(from)).read_to_end(bytes));
        read.map_err(TrailError::file(&files.segment(self.first), "read"))?;
        let (mut rest, mut frames) = (bytes.as_slice(), Vec::new());
        while let Some((frame, after)) = split(rest) {
            frames.push(frame);
            rest = after;
        }
        Ok((rest.is_empty() && frames.len() as u64 == count).then_some(frames))
    }

    fn damaged(&self, files: &Files, what: &'static str) -> TrailError {
        TrailError::Damaged { path: files.segment(self.first), what }
    }
}

/// Returns where the rows of a segment begin, as far as its places say so in a way that is possible.
fn rows(files: &Files, first: u64, length: u64) -> Vec<u64> {
    let mut rows = vec![0];
    // A row has 256 frames, each longer than a place.
    let Ok(places) = read(&files.places(first), length) else { return rows };
    let (places, _) = places.as_chunks::<{ size_of::<u64>() }>();
    for place in places.iter().map(|place| u64::from_le_bytes(*place)) {
        if place > length || rows.last().is_some_and(|last| place <= *last) {
            break;
        }
        rows.push(place);
    }
    rows
}

/// Returns whether the file still has this name.
pub(crate) fn is_same(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (open, named) = (file.metadata(), std::fs::metadata(path));
        matches!((open, named), (Ok(open), Ok(named)) if (open.dev(), open.ino()) == (named.dev(), named.ino()))
    }
    #[cfg(not(unix))]
    {
        let (open, named) = (file.metadata(), std::fs::metadata(path));
        matches!((open, named), (Ok(open), Ok(named)) if open.len() <= named.len())
    }
}
