//! The folder of a tape, and its segments.
//!
//! A segment is named after the time of its beginning, in milliseconds since 1970, and letters of chance: `1764331200000-6f3a9c01.age`. One
//! that is being written ends with `.part`, and keeps that name if its process is killed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;

use crate::age::{Decryptor, TapeError};
use crate::keys::{Identity, random};

const WHOLE: &str = ".age";
const OPEN: &str = ".age.part";
/// A file whose time is when the folder was pruned last.
const PRUNED: &str = "pruned";
/// How often a folder is pruned by those who write, however many they are.
const PRUNED_EVERY: Duration = Duration::from_mins(10);
/// A segment that was not ended by then is ended by nobody: its process was killed.
const NOBODYS: Duration = Duration::from_hours(1);
/// A file takes up a multiple of so many bytes on the disk, however small it is.
const BLOCK: u64 = 4096;
/// The most segments of a tape, whatever its bounds: each is looked at, and a process for each call begins one.
const MOST_SEGMENTS: usize = 200_000;
/// The most segments that those who write delete at once.
const PORTION: usize = 1000;
/// The most bytes of a line.
pub(crate) const MOST_LINE: usize = 4 << 20;
/// The most bytes of a segment that are read: more than anybody here writes into one.
const MOST_READ: usize = 16 << 20;

/// How much a tape keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Segments that began longer ago go.
    pub age: Duration,
    /// The oldest go as long as there are more bytes in all, in blocks of 4 KiB as disks have them.
    pub bytes: u64,
}

/// A file of a tape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The file.
    pub path: PathBuf,
    /// When it began, in milliseconds since 1970.
    pub began: u64,
    /// Its bytes on the disk.
    pub bytes: u64,
    /// Whether it was ended; otherwise it is being written, or its process was killed.
    pub is_whole: bool,
}

impl Segment {
    fn on_disk(&self) -> u64 {
        self.bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
    }
}

/// What was deleted.
#[derive(Debug, Default)]
pub struct Pruned {
    /// The segments that went.
    pub gone: Vec<Segment>,
    /// Why others could not be deleted: the first reason.
    pub failed: Option<TapeError>,
}

/// A folder with segments.
#[derive(Clone, Debug)]
pub struct Tape {
    folder: PathBuf,
}

/// Returns the time, in milliseconds since 1970.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time so long ago.
fn before(age: Duration) -> u64 {
    now().saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

impl Tape {
    /// The tape in this folder, which need not be there.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lists the segments, the oldest first. What is no segment is left alone.
    ///
    /// # Errors
    ///
    /// [`TapeError::Io`] if the folder can't be read; one that does not exist has none.
    pub fn segments(&self) -> Result<Vec<Segment>, TapeError> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut segments = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let Some((began, is_whole)) = name.to_str().and_then(name_of) else { continue };
            // Another process may have pruned it by now; a link is no segment.
            let Ok(met) = entry.metadata() else { continue };
            if met.is_file() {
                segments.push(Segment { path: entry.path(), began, bytes: met.size(), is_whole });
            }
        }
        segments.sort_by(|one, other| (one.began, &one.path).cmp(&(other.began, &other.path)));
        Ok(segments)
    }

    /// Returns what the bounds would delete now. What somebody may be writing stays while it is young enough.
    ///
    /// # Errors
    ///
    /// Those of [`segments`](Self::segments).
    pub fn due(&self, bounds: Bounds) -> Result<Vec<Segment>, TapeError> {
        let segments = self.segments()?;
        let oldest = before(bounds.age);
        let mut left: u64 = segments.iter().map(Segment::on_disk).fold(0, u64::saturating_add);
        let mut many = segments.len().saturating_sub(MOST_SEGMENTS);
        let mut is_due = |segment: &Segment| {
            let is_written = !segment.is_whole && !segment.is_abandoned();
            let due = segment.began < oldest || ((left > bounds.bytes || many > 0) && !is_written);
            if due {
                left = left.saturating_sub(segment.on_disk());
                many = many.saturating_sub(1);
            }
            due
        };
        Ok(segments.into_iter().filter(|segment| is_due(segment)).collect())
    }

    /// Deletes what the bounds say. What can't be deleted does not keep the rest.
    ///
    /// # Errors
    ///
    /// Those of [`segments`](Self::segments).
    pub fn prune(&self, bounds: Bounds) -> Result<Pruned, TapeError> {
        Ok(deleted(self.due(bounds)?, usize::MAX).0)
    }

    /// Deletes what the bounds say, unless somebody did so a few minutes ago: there may be a process for each call, and thousands of
    /// segments to look through.
    pub(crate) fn prune_sometimes(&self, bounds: Bounds) -> Result<Pruned, TapeError> {
        let mark = self.folder.join(PRUNED);
        let last = fs::symlink_metadata(&mark).and_then(|met| met.modified());
        // A time that is yet to come counts for nothing.
        let is_recent = last.is_ok_and(|last| last.elapsed().is_ok_and(|ago| ago < PRUNED_EVERY));
        if is_recent {
            return Ok(Pruned::default());
        }
        // The mark comes first: a process that ends in the midst of this would otherwise leave it to the next one, which ends as well.
        self.mark(&mark)?;
        let pruned = self.due(bounds).map(|due| deleted(due, PORTION));
        // Until all of it is gone, the next segment goes on.
        if !matches!(pruned, Ok((_, true))) {
            let _ = fs::remove_file(&mark);
        }
        pruned.map(|(pruned, _)| pruned)
    }

    /// Notes that the folder was pruned.
    fn mark(&self, mark: &Path) -> Result<(), TapeError> {
        fs::remove_file(mark).or_else(|error| match error.kind() {
            ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        // Another process may be at it at the same time, which does no harm.
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(mark) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => drop(made?),
        }
        Ok(())
    }

    /// Makes the folder. Nobody but this account can read it. One that was there must be this account's, and nobody else can write it.
    pub(crate) fn make(&self) -> Result<(), TapeError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.folder);
        let met = match fs::symlink_metadata(&self.folder) {
            Err(error) => return Err(TapeError::Io(made.err().unwrap_or(error))),
            Ok(met) => met,
        };
        if !met.is_dir() {
            return Err(TapeError::Folder("it is a link, or no folder"));
        }
        made?;
        if met.uid() != rustix::process::geteuid().as_raw() {
            return Err(TapeError::Folder("it is another account's"));
        }
        if met.mode() & 0o022 != 0 {
            return Err(TapeError::Folder("others can write into it"));
        }
        Ok(())
    }

    /// Begins a segment.
    pub(crate) fn begin(&self) -> Result<(File, PathBuf), TapeError> {
        let chance = u32::from_le_bytes(random::<4>()?);
        let path = self.folder.join(format!("{:013}-{chance:08x}{OPEN}", now()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok((file, path))
    }

    /// Gives a segment that was ended its name.
    pub(crate) fn end(path: &Path) -> Result<(), TapeError> {
        let text = path.to_str().and_then(|path| path.strip_suffix(OPEN));
        let whole = text.ok_or(TapeError::Format("its name is another one"))?;
        Ok(fs::rename(path, format!("{whole}{WHOLE}"))?)
    }
}

/// Deletes so many segments at most. Returns what went, and whether it has looked at all of them.
fn deleted(due: Vec<Segment>, most: usize) -> (Pruned, bool) {
    let mut pruned = Pruned::default();
    let all = due.len();
    let mut seen = 0;
    for segment in due {
        if pruned.gone.len() >= most {
            break;
        }
        seen += 1;
        match fs::remove_file(&segment.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                pruned.failed = pruned.failed.or(Some(TapeError::Io(error)));
            }
            _ => pruned.gone.push(segment),
        }
    }
    (pruned, seen == all)
}

/// When a segment of this name began, and whether it was ended.
fn name_of(name: &str) -> Option<(u64, bool)> {
    let (stem, is_whole) = match name.strip_suffix(WHOLE) {
        Some(stem) => (stem, true),
        None => (name.strip_suffix(OPEN)?, false),
    };
    let (began, chance) = stem.split_once('-')?;
    let is_number = began.len() == 13 && began.bytes().all(|byte| byte.is_ascii_digit());
    let is_chance = chance.len() == 8 && chance.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number && is_chance { Some((began.parse().ok()?, is_whole)) } else { None }
}

impl Segment {
    /// What was a file when it was listed may be a link or a pipe by now.
    fn opened(&self) -> io::Result<File> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&self.path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "it is no file")),
        }
    }

    /// Returns whether nobody will end the segment any more: its process was killed.
    pub fn is_abandoned(&self) -> bool {
        !self.is_whole && self.began < before(NOBODYS)
    }

    /// Reads the lines of the segment, one after the other. Returns whether its end was read: otherwise its last lines may be missing.
    ///
    /// # Errors
    ///
    /// [`TapeError`] if it can't be read, was changed, is to another recipient, or was ended and has no end, and what `each` returns.
    pub fn read<E: From<TapeError>>(
        &self,
        identity: &Identity,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let file = self.opened().map_err(TapeError::from)?;
        let mut file = BufReader::new(file);
        // Whoever named it wrote its end first.
        let without_end = || match self.is_whole {
            true => Err(E::from(TapeError::Damaged("its end is missing"))),
            false => Ok(false),
        };
        let mut decryptor = match Decryptor::new(&mut file, identity) {
            Err(TapeError::CutOff) => return without_end(),
            decryptor => decryptor?,
        };
        let (mut line, mut bytes) = (Vec::new(), 0);
        while let Some(chunk) = decryptor.next_chunk()? {
            bytes += chunk.len();
            if bytes > MOST_READ {
                return Err(TapeError::Damaged("it is longer than a segment gets").into());
            }
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                if line.len() + piece.len() > MOST_LINE {
                    return Err(TapeError::Damaged("a line is too long").into());
                }
                line.extend_from_slice(piece);
                if line.last() == Some(&b'\n') {
                    line.pop();
                    each(&line)?;
                    line.clear();
                }
            }
        }
        if decryptor.has_ended() && line.is_empty() { Ok(true) } else { without_end() }
    }
}
