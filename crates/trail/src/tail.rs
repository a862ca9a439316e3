//! The end of a log: what must be known to write behind it, and how it is found.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::disk::Disk;
use crate::entry::label_of;
use crate::files::{Files, open, options, read, removed, replace, sync_folder};
use crate::frame::{Frame, Frames, HEADER_BYTES, Next};
use crate::known::MOST;
use crate::log::{CHECKPOINT_AFTER, Options};
use crate::merkle::{Frontier, Tile};
use crate::salvage::is_damaged;
use crate::{TILE, TrailError};

/// The most bytes of an edge that was kept.
const MOST_FRONTIER_BYTES: u64 = 256 * 1024;
/// The most tiles that wait to be written. Others are computed from the entries where they are needed.
const MOST_UNWRITTEN: usize = 64;
/// The bytes of a place in a segment.
pub(crate) const PLACE_BYTES: u64 = 8;

/// The end of the log as this process last saw it.
#[derive(Debug)]
pub(crate) struct Tail {
    /// How often files had been replaced.
    pub(crate) generation: u64,
    /// The first entry of the last segment.
    pub(crate) first: u64,
    pub(crate) segment: Arc<File>,
    /// The length of the segment.
    pub(crate) bytes: u64,
    pub(crate) frontier: Frontier,
    /// How many entries there were when this process took the lock.
    pub(crate) found: u64,
    /// How many entries the newest checkpoint covers, and since when this process knows it. Who signed it is asked by whoever signs next.
    pub(crate) checkpoint: (u64, Instant),
    /// Tiles that could not be written yet.
    unwritten: Vec<Tile>,
    /// What is to be told of tiles that others took the place of.
    replaced: Vec<Value>,
    /// What failed behind entries that are written.
    failed_behind: Option<TrailError>,
    /// The label of which it is noted which values entries have, and those that were read since they were taken.
    remembers: Option<&'static str>,
    values: VecDeque<String>,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// With an entry.
    Whole,
    /// With so many bytes that a crash left, which were cut off.
    Torn(u64),
    /// Whole entries stand behind something that is none. Nothing was cut off.
    Damaged,
}

/// What is written behind the entries of a group, when all of them are there.
#[derive(Default)]
struct Behind {
    tiles: Vec<Tile>,
    /// Where tiles end: the first entry of a segment, the number of the entry behind the tile, and its place.
    places: Vec<(u64, u64, u64)>,
    /// The edge at the last of them, and where it lies: in which segment, and at which place. It waits for the disk, so of several tiles that
    /// are written at once, it is kept of the last one: who finds an earlier one reads more.
    edge: Option<(u64, u64, Frontier)>,
    failed: Option<TrailError>,
}

/// How the log ended before a group.
struct Begun {
    first: u64,
    segment: Arc<File>,
    bytes: u64,
}

impl Begun {
    /// Takes away what is there of a group that has no room, and that nobody has signed.
    fn cut_back(&self, files: &Files) -> Result<(), TrailError> {
        let later = files.segments()?.into_iter().rev().take_while(|first| *first > self.first);
        let later = later.map(|first| files.segment(first)).collect::<Vec<_>>();
        for path in &later {
            fs::remove_file(path).map_err(TrailError::file(path, "removed"))?;
        }
        if !later.is_empty() {
            // A later one must not come back behind what is cut off here.
            let folder = files.entries();
            sync_folder(&folder).map_err(TrailError::file(&folder, "written to the disk"))?;
        }
        self.segment.set_len(self.bytes).map_err(TrailError::file(&files.segment(self.first), "cut"))
    }
}

/// Notes the value of a label that an entry has.
fn note_value(values: &mut VecDeque<String>, label: Option<&str>, frame: &Frame<'_>) {
    let value = label.and_then(|label| label_of(frame.entry()?, label));
    if let Some(value) = value
        && !values.iter().rev().any(|known| known == value)
    {
        values.push_back(value.to_owned());
        if values.len() > MOST {
            values.pop_front();
        }
    }
}

pub(crate) fn generation(mut lock: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    lock.seek(SeekFrom::Start(0))?;
    match lock.read_exact(&mut bytes) {
        // A lock that is empty is as old as the log.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        read => read.map(|()| u64::from_le_bytes(bytes)),
    }
}

pub(crate) fn count_replacement(mut lock: &File) -> io::Result<u64> {
    let next = generation(lock)?.wrapping_add(1);
    lock.seek(SeekFrom::Start(0))?;
    lock.write_all(&next.to_le_bytes())?;
    Ok(next)
}

impl Tail {
    /// Reads the end of the log.
    pub(crate) fn load(
        files: &Files,
        generation: u64,
        remembers: Option<&'static str>,
    ) -> Result<(Self, End), TrailError> {
        let first = files.segments()?.last().copied().unwrap_or(0);
        let segment = open_segment(files, first)?;
        let length = segment.metadata().map_err(TrailError::file(&files.segment(first), "read"))?.len();
        let (frontier, bytes) = match any_frontier(files, first) {
            Some(kept) if kept.1 <= length => kept,
            kept => {
                if kept.is_some() {
                    // A power failure took what it was kept of. What comes in its place must not be taken for that.
                    removed(&files.frontier())?;
                    let folder = files.folder();
                    sync_folder(folder).map_err(TrailError::file(folder, "written to the disk"))?;
                }
                (frontier_of_tiles(files, first, true)?, 0)
            }
        };
        // One that can't be read covers nothing: whoever signs next puts it aside.
        let covered = files.newest().ok().flatten().map_or(0, |newest| newest.checkpoint().size);
        let newest = age_of_newest(files);
        let checkpoint = (covered, newest.unwrap_or_else(Instant::now));
        let mut tail = Self {
            generation,
            first,
            segment,
            bytes,
            frontier,
            found: 0,
            checkpoint,
            unwritten: Vec::new(),
            replaced: Vec::new(),
            failed_behind: None,
            remembers,
            values: VecDeque::new(),
        };
        let end = tail.follow(files)?;
        // What nobody can have signed is no reason to wait with signing.
        if tail.checkpoint.0 > tail.frontier.size() {
            tail.checkpoint.0 = 0;
        }
        // Whoever wrote entries and was killed before the first checkpoint leaves nothing that says since when they wait for one.
        if newest.is_none() && tail.frontier.size() > 0 {
            tail.checkpoint.1 = before(CHECKPOINT_AFTER);
        }
        Ok((tail, end))
    }

    /// Reads what others have written behind what is known. Cuts off what is no whole entry, unless whole entries stand behind it.
    pub(crate) fn follow(&mut self, files: &Files) -> Result<End, TrailError> {
        let path = files.segment(self.first);
        let read = || TrailError::file(&path, "read");
        let mut frames = Frames::from(files.open_segment(self.first)?, self.bytes).map_err(read())?;
        let mut full = Vec::new();
        let whole = loop {
            match frames.next().map_err(read())? {
                Next::Frame(frame) => {
                    full.append(&mut self.frontier.push(frame.leaf()));
                    note_value(&mut self.values, self.remembers, &frame);
                }
                Next::End => break true,
                Next::Torn => break false,
            }
            if full.len() >= MOST_UNWRITTEN {
                self.put_tiles(files, std::mem::take(&mut full));
            }
        };
        // Others write theirs behind their entries, and may have been killed in between.
        self.put_tiles(files, full);
        self.bytes = frames.offset();
        if whole {
            return Ok(End::Whole);
        }
        if is_damaged(files, self.first, self.bytes)? {
            return Ok(End::Damaged);
        }
        let kept = files.torn(self.frontier.size());
        let folder = kept.parent().unwrap_or(&kept);
        fs::create_dir_all(folder).map_err(TrailError::file(folder, "created"))?;
        let torn = (|| {
            let mut file = open(&path, OpenOptions::new().read(true))?;
            let torn = file.metadata()?.len().saturating_sub(self.bytes);
            file.seek(SeekFrom::Start(self.bytes))?;
            let mut moved = open(&kept, options().write(true).create_new(true))?;
            io::copy(&mut file.take(torn), &mut moved)?;
            moved.sync_all()?;
            Ok(torn)
        })();
        let torn = torn.map_err(TrailError::file(&kept, "written"))?;
        self.segment.set_len(self.bytes).map_err(TrailError::file(&path, "cut"))?;
        Ok(End::Torn(torn))
    }

    /// Writes tiles, and those that could not be written before. One that is missing is computed from the entries, so that failing here is
    /// no failure of the entries.
    fn put_tiles(&mut self, files: &Files, tiles: Vec<Tile>) {
        self.unwritten.extend(tiles);
        let mut failed = None;
        let replaced = &mut self.replaced;
        self.unwritten.retain(|tile| match files.put_tile(tile) {
            Ok(other) => {
                let tile = format!("tile/{}/{}", tile.level, tile.index);
                replaced.extend(other.map(|kept| json!({ "file": tile, "kept": kept })));
                false
            }
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        self.unwritten.truncate(MOST_UNWRITTEN);
        self.failed_behind = failed.or(self.failed_behind.take());
    }

    /// Returns the values of the remembered label that were read, once.
    pub(crate) fn take_values(&mut self) -> VecDeque<String> {
        std::mem::take(&mut self.values)
    }

    /// Returns what is to be told of tiles that others took the place of, once.
    pub(crate) fn take_replaced(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.replaced)
    }

    /// Returns what failed behind entries that are written, once.
    pub(crate) fn take_failed_behind(&mut self) -> Option<TrailError> {
        self.failed_behind.take()
    }

    /// Writes entries, the tiles that they complete, and begins the next segment where this one is long enough. What fails behind the entries
    /// is kept for [`take_failed_behind`](Self::take_failed_behind). Whoever is told that it failed knows nothing of the end any more.
    pub(crate) fn write(
        &mut self,
        files: &Files,
        options: &Options,
        (lock, disk): (&File, &mut Disk),
        entries: &[Vec<u8>],
    ) -> Result<(), TrailError> {
        disk.hold(files, self.first, &self.segment);
        let begun = Begun { first: self.first, segment: Arc::clone(&self.segment), bytes: self.bytes };
        match self.write_all(files, options, (lock, &mut *disk), entries) {
            // INVARIANT (what is cut off leaves nothing): of entries that may be cut off, nothing else is written.
            Ok(behind) => self.write_behind(files, behind),
            Err(error) => {
                disk.note_cut();
                // Where that fails, too, the next to write cuts off what is no whole entry.
                let _ = begun.cut_back(files);
                return Err(error);
            }
        }
        Ok(())
    }

    fn write_all(
        &mut self,
        files: &Files,
        options: &Options,
        (lock, disk): (&File, &mut Disk),
        entries: &[Vec<u8>],
    ) -> Result<Behind, TrailError> {
        let (mut rest, mut behind) = (entries, Behind::default());
        while !rest.is_empty() {
            // Up to the end of the tile: a segment ends with one.
            let room = TILE - self.frontier.size() % TILE;
            let count = usize::try_from(room).unwrap_or(usize::MAX).min(rest.len());
            let (group, after) = rest.split_at(count);
            behind.tiles.append(&mut self.write_group(files, group)?);
            rest = after;
            if self.frontier.size().is_multiple_of(TILE) {
                behind.places.push((self.first, self.frontier.size(), self.bytes));
                let rolls = self.bytes >= options.segment_bytes;
                if rolls {
                    behind.failed = self.roll(files, lock, disk).err().or(behind.failed);
                }
                if rolls || (rest.len() as u64) < TILE {
                    behind.edge = Some((self.first, self.bytes, self.frontier.clone()));
                }
            }
        }
        Ok(behind)
    }

    /// Writes entries up to the end of a tile. Returns the tiles that they complete.
    fn write_group(&mut self, files: &Files, entries: &[Vec<u8>]) -> Result<Vec<Tile>, TrailError> {
        let length = entries.iter().map(|entry| entry.len() + HEADER_BYTES).sum();
        let mut frames = Vec::with_capacity(length);
        for entry in entries {
            Frame::Entry(entry).write(&mut frames);
        }
        self.put(files, &frames).map_err(self.failed(files, "written"))?;
        self.bytes += frames.len() as u64;
        Ok(entries.iter().flat_map(|entry| self.frontier.push(Frame::Entry(entry).leaf())).collect())
    }

    fn put(&self, _files: &Files, frames: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        crate::faults::on_write(&_files.segment(self.first))?;
        let mut segment = &*self.segment;
        segment.seek(SeekFrom::Start(self.bytes))?;
        segment.write_all(frames)
    }

    /// Writes what goes with entries that are written. Failing here is no failure of the entries.
    fn write_behind(&mut self, files: &Files, behind: Behind) {
        self.put_tiles(files, behind.tiles);
        let kept = behind.places.into_iter().try_for_each(|place| keep_place(files, place));
        let kept = kept.and_then(|()| match behind.edge {
            Some((segment, place, frontier)) => keep_frontier(files, segment, place, &frontier),
            None => Ok(()),
        });
        self.failed_behind = behind.failed.or(kept.err()).or(self.failed_behind.take());
    }

    /// Begins the next segment. Where it can't be begun, this one grows on.
    fn roll(&mut self, files: &Files, lock: &File, disk: &mut Disk) -> Result<(), TrailError> {
        // The next one must not outlive this one's end.
        disk.keep(files, Some((self.first, self.bytes)))?;
        // Before the next one is there: behind that, this one must not grow.
        self.generation = count_replacement(lock).map_err(TrailError::file(&files.lock(), "written"))?;
        let first = self.frontier.size();
        let next = open_segment(files, first)?;
        (self.first, self.segment, self.bytes) = (first, next, 0);
        disk.hold(files, self.first, &self.segment);
        disk.note_begun();
        Ok(())
    }

    pub(crate) fn failed(
        &self,
        files: &Files,
        what: &'static str,
    ) -> impl FnOnce(io::Error) -> TrailError + use<> {
        TrailError::file(&files.segment(self.first), what)
    }
}

fn open_segment(files: &Files, first: u64) -> Result<Arc<File>, TrailError> {
    let path = files.segment(first);
    let opened = open(&path, options().read(true).write(true).create(true).truncate(false));
    opened.map(Arc::new).map_err(TrailError::file(&path, "opened"))
}

/// Since when the newest checkpoint is there, as far as a clock that only runs forwards can tell; `None` where there is none.
fn age_of_newest(files: &Files) -> Option<Instant> {
    let written = fs::metadata(files.checkpoint()).and_then(|file| file.modified()).ok()?;
    // A clock that was set back makes it young, one that was set forward old: then there is a checkpoint too many.
    Some(before(written.elapsed().unwrap_or_default().min(CHECKPOINT_AFTER)))
}

/// Returns the moment so long ago, or now where the clock does not reach back so far.
fn before(age: Duration) -> Instant {
    let now = Instant::now();
    now.checked_sub(age).unwrap_or(now)
}

/// Keeps where a full tile ends, so that whoever reads on from there finds the place.
fn keep_place(files: &Files, (first, size, bytes): (u64, u64, u64)) -> Result<(), TrailError> {
    let path = files.places(first);
    // A segment whose name says another beginning than its entries have is read from there.
    let rows = size.checked_sub(first).map(|entries| entries / TILE);
    let Some(row) = rows.filter(|row| *row > 0) else { return Ok(()) };
    let places = open(&path, options().write(true).create(true).truncate(false));
    let noted = places.and_then(|mut places| {
        places.seek(SeekFrom::Start((row - 1) * PLACE_BYTES))?;
        places.write_all(&bytes.to_le_bytes())
    });
    noted.map_err(TrailError::file(&path, "written"))
}

/// Writes down the edge at the end of a tile, which lies there in this segment.
pub(crate) fn keep_frontier(
    files: &Files,
    segment: u64,
    place: u64,
    frontier: &Frontier,
) -> Result<(), TrailError> {
    let mut edge = segment.to_le_bytes().to_vec();
    edge.extend_from_slice(&place.to_le_bytes());
    frontier.encode(&mut edge);
    let mut bytes = crc32fast::hash(&edge).to_le_bytes().to_vec();
    bytes.append(&mut edge);
    let path = files.frontier();
    replace(&path, &bytes).map_err(TrailError::file(&path, "written"))
}

/// Returns the edge that was kept for this segment, and where it reaches in there.
pub(crate) fn kept_frontier(files: &Files, segment: u64) -> Option<(Frontier, u64)> {
    let length = fs::metadata(files.segment(segment)).ok()?.len();
    any_frontier(files, segment).filter(|(_, place)| *place <= length)
}

/// Returns the same, even where the segment does not reach so far.
fn any_frontier(files: &Files, segment: u64) -> Option<(Frontier, u64)> {
    let bytes = read(&files.frontier(), MOST_FRONTIER_BYTES).ok()?;
    let (checksum, rest) = bytes.split_first_chunk::<4>()?;
    let (first, edge) = rest.split_first_chunk::<8>()?;
    let (place, edge) = edge.split_first_chunk::<8>()?;
    let frontier = Frontier::decode(edge)?;
    let sound = crc32fast::hash(rest) == u32::from_le_bytes(*checksum)
        && u64::from_le_bytes(*first) == segment
        && frontier.size().is_multiple_of(TILE);
    sound.then(|| (frontier, u64::from_le_bytes(*place)))
}

/// Computes the edge at the beginning of a segment from the tiles before it, or from the entries where tiles are missing: these are written
/// again, if `mend` says so.
pub(crate) fn frontier_of_tiles(files: &Files, size: u64, mend: bool) -> Result<Frontier, TrailError> {
    let mut frontier = Frontier::default();
    for index in 0..size / TILE {
        let leaves = match files.get_tile(0, index)? {
            Some(leaves) => leaves,
            None => crate::reader::leaves(files, index * TILE, size.min((index + 1) * TILE))?,
        };
        for tile in frontier.push_tile(&leaves) {
            if mend && files.get_tile(tile.level, tile.index)?.is_none() {
                files.put_tile(&tile)?;
            }
        }
    }
    Ok(frontier)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Body, Draft};
    use crate::log::Log;

    #[test]
    fn of_tiles_that_are_written_at_once_the_edge_of_the_last_one_is_kept() {
        let folder = tempfile::TempDir::new().unwrap();
        let options = Options::new(folder.path().join("log"), folder.path().join("key"));
        let mut log = Log::open(options.clone()).unwrap();
        let draft = |n: u64| Draft::new(1, "test", Body::of(&json!({ "n": n })).unwrap());
        let (mut entries, mut bytes) = (0, Vec::new());
        for more in [100, 156, 1, 255, 600, 1, 768] {
            let drafts: Vec<Draft> = (entries..entries + more).map(draft).collect();
            entries = log.append(&drafts).unwrap().size;
            let found = kept_frontier(&Files::new(&options.folder), 0);
            let size = found.as_ref().map(|(frontier, _)| frontier.size());
            assert_eq!(size, (entries >= TILE).then_some(entries / TILE * TILE), "after {entries}");
            bytes.extend(found.map(|(_, place)| place));
        }
        assert!(bytes.is_sorted() && bytes.len() > 1, "{bytes:?}");
        // Whoever opens the log goes on from there, and finds the same.
        let root = log.look().unwrap().root;
        assert_eq!(Log::open(options).unwrap().look().unwrap().root, root);
    }
}
