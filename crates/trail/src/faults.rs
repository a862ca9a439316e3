//! Disks that refuse, for tests: what is asked of the disk of a log is noted, and fails where a test says so.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// What a disk was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// To keep a segment, and it did.
    Kept,
    /// To keep a segment, and it refused.
    Refused,
    /// To take from this place of a segment to that one what it had refused.
    Again(u64, u64),
    /// To keep the names of segments.
    Names,
}

#[derive(Debug, Default)]
struct Disk {
    refuses: usize,
    room: Option<usize>,
    asked: Vec<Asked>,
}

/// By the folders of their segments, since tests run side by side.
static DISKS: LazyLock<Mutex<BTreeMap<PathBuf, Disk>>> = LazyLock::new(Mutex::default);

fn of<T>(entries: &Path, work: impl FnOnce(&mut Disk) -> T) -> T {
    let mut disks = DISKS.lock().unwrap_or_else(PoisonError::into_inner);
    work(disks.entry(entries.to_path_buf()).or_default())
}

fn of_segment<T>(segment: &Path, work: impl FnOnce(&mut Disk) -> T) -> T {
    of(segment.parent().unwrap_or(segment), work)
}

/// Has the disk of the log in a folder refuse the next so many times to keep a segment.
pub(crate) fn refuse(log: &Path, times: usize) {
    of(&log.join("entries"), |disk| disk.refuses = times);
}

/// Has the disk of the log in a folder take so many groups more, or all.
pub(crate) fn room(log: &Path, groups: Option<usize>) {
    of(&log.join("entries"), |disk| disk.room = groups);
}

/// Returns what the disk of the log in a folder was asked for since this was last called.
pub(crate) fn asked(log: &Path) -> Vec<Asked> {
    of(&log.join("entries"), |disk| std::mem::take(&mut disk.asked))
}

/// A segment is to be kept.
pub(crate) fn on_sync(segment: &Path) -> io::Result<()> {
    of_segment(segment, |disk| {
        let refuses = disk.refuses > 0;
        disk.refuses = disk.refuses.saturating_sub(1);
        disk.asked.push(if refuses { Asked::Refused } else { Asked::Kept });
        if refuses { Err(io::Error::other("the disk refuses")) } else { Ok(()) }
    })
}

/// A group is to be written.
pub(crate) fn on_write(segment: &Path) -> io::Result<()> {
    of_segment(segment, |disk| match &mut disk.room {
        Some(0) => Err(io::ErrorKind::StorageFull.into()),
        Some(room) => {
            *room -= 1;
            Ok(())
        }
        None => Ok(()),
    })
}

/// What was refused is written again.
pub(crate) fn on_again(segment: &Path, from: u64, to: u64) {
    of_segment(segment, |disk| disk.asked.push(Asked::Again(from, to)));
}

/// The names in a folder are to be kept.
pub(crate) fn on_names(folder: &Path) {
    of(folder, |disk| disk.asked.push(Asked::Names));
}
