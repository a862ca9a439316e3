//! What the disk has of the entries.
//!
//! The law: *what the disk refused is not on it, whatever it says next*. A system tells of a write that failed once, takes what it could not
//! write for written, and says yes to whoever asks again. So the segment stays known here, with the place up to which the disk had it,
//! whatever becomes of the [end of the log](crate::tail) that was behind it; and what stands behind that place is written again before
//! anything is acknowledged or signed. Processes that open the log later, and are told of nothing any more, know it by a file. Where the system gave it up, so that it can't be read any more either, it is lost: whoever waits is told.

use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::sync::Arc;

use crate::TrailError;
use crate::back::is_same;
use crate::files::{Files, open, options, removed, sync_folder};
use crate::frame::split;
use crate::salvage;

const ON_DISK: &str = "written to the disk";
const REFUSED: &str = "the disk refused it before, and it was not written again";

/// What the disk has of the entries, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// Segments of which something may not be on the disk, each once.
    held: Vec<Held>,
    /// Up to which place the disk has the last segment, and the number of its first entry.
    known: Option<(u64, u64)>,
    /// Whether a segment may be there whose name is not on the disk.
    names: bool,
    /// Whether something was lost of which nobody was told who waits.
    pub(crate) lost: bool,
    /// Whether there is a file that says that the disk refused something.
    marked: bool,
}

/// A segment of which something may not be on the disk.
#[derive(Debug)]
struct Held {
    first: u64,
    file: Arc<File>,
    /// Up to where it is.
    from: u64,
    /// Whether the disk refused it.
    refused: bool,
}

impl Disk {
    /// Notes that something may be in a segment that is not on the disk.
    pub(crate) fn hold(&mut self, files: &Files, first: u64, file: &Arc<File>) {
        let known = self.known.filter(|(known, _)| *known == first).map_or(0, |(_, from)| from);
        let held = Held { first, file: Arc::clone(file), from: known, refused: false };
        match self.held.iter_mut().find(|held| held.first == first) {
            Some(same) if Arc::ptr_eq(&same.file, file) || is_same(&same.file, &files.segment(first)) => {}
            // Whoever replaced it had all of it written to the disk before.
            Some(replaced) => *replaced = Held { from: 0, ..held },
            None => self.held.push(held),
        }
    }

    /// Notes that the last segment was opened anew, and may be another file.
    pub(crate) fn note_opened(&mut self, files: &Files, first: u64, segment: &Arc<File>) {
        self.known = None;
        // Whoever began or replaced it may have been killed before its name was on the disk.
        self.names = true;
        if fs::symlink_metadata(files.refused()).is_ok() {
            // Who was told of it may have ended.
            self.marked = true;
            self.hold(files, first, segment);
            self.held.iter_mut().filter(|held| held.first == first).for_each(|held| held.refused = true);
        }
    }

    /// Notes that entries were cut off that the disk may have had.
    pub(crate) fn note_cut(&mut self) {
        self.known = None;
    }

    /// Notes that a segment began.
    pub(crate) fn note_begun(&mut self) {
        self.names = true;
    }

    /// Gives up a segment in which something can't be read any more, and behind which others stand: nothing is written there any more.
    pub(crate) fn give_up(&mut self, first: u64) {
        self.held.retain(|held| held.first != first);
    }

    /// Returns whether the disk refused something that was not written again.
    pub(crate) fn is_refusing(&self) -> bool {
        self.held.iter().any(|held| held.refused)
    }

    /// Waits until all that is held survives a power failure. `end`: the last segment, and how much of it is there.
    pub(crate) fn keep(&mut self, files: &Files, end: Option<(u64, u64)>) -> Result<(), TrailError> {
        while let Some(held) = self.held.last_mut() {
            let path = files.segment(held.first);
            if held.refused {
                return Err(TrailError::file(&path, ON_DISK)(io::Error::other(REFUSED)));
            }
            if let Err(error) = sync(&path, &held.file) {
                held.refused = true;
                // Where the disk refuses this, too, whoever opens the log while this process runs may not know.
                let mark = files.refused();
                self.marked |= open(&mark, options().write(true).create(true).truncate(false)).is_ok();
                return Err(TrailError::file(&path, ON_DISK)(error));
            }
            self.held.pop();
        }
        if self.names {
            for folder in [&files.entries(), files.folder()] {
                sync_folder(folder).map_err(TrailError::file(folder, ON_DISK))?;
            }
            self.names = false;
        }
        if self.marked {
            removed(&files.refused())?;
            self.marked = false;
        }
        self.known = end;
        Ok(())
    }

    /// Writes again what the disk refused, while no other process writes. Returns the number of the first entry of a segment in which it
    /// can't be read any more.
    pub(crate) fn write_again(&mut self, files: &Files) -> Result<Option<u64>, TrailError> {
        for held in self.held.iter_mut().filter(|held| held.refused) {
            let path = files.segment(held.first);
            if is_same(&held.file, &path) {
                let bytes = salvage::bytes(files, held.first, held.from)?;
                if !is_whole(&bytes) {
                    return Ok(Some(held.first));
                }
                write_at(&path, &held.file, held.from, &bytes).map_err(TrailError::file(&path, "written"))?;
            }
            // Whoever replaced it had all of it written to the disk before.
            held.refused = false;
        }
        Ok(None)
    }
}

fn sync(_path: &Path, file: &File) -> io::Result<()> {
    #[cfg(test)]
    crate::faults::on_sync(_path)?;
    file.sync_data()
}

fn write_at(_path: &Path, mut file: &File, from: u64, bytes: &[u8]) -> io::Result<()> {
    #[cfg(test)]
    crate::faults::on_again(_path, from, from + bytes.len() as u64);
    file.seek(SeekFrom::Start(from))?;
    file.write_all(bytes)
}

/// Returns whether nothing but whole frames is in bytes.
fn is_whole(mut bytes: &[u8]) -> bool {
    while let Some((_, rest)) = split(bytes) {
        bytes = rest;
    }
    bytes.is_empty()
}

#[cfg(test)]
mod tests;
