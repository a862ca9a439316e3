//! The proof that a log is what was written: offline, from its files, a key, and what others have kept.
//!
//! Read once from the first entry to the last, the log shows
//!
//! - *content and order*: the tree over the entries has the root of each checkpoint at its size;
//! - *completeness*: each process numbers its entries, so numbers are missing where entries are, and a process that began and never said that
//!   it stopped was killed, or runs;
//! - *pruning*: an entry that is gone is one that a tombstone names, which a key of the log has signed.
//!
//! What files alone can't show: that the end was cut off together with its checkpoints, and that somebody who has the key wrote everything
//! anew. So do entries that a killed process left unsigned and the next one signed: they may be what somebody put there in between. All of it shows against a checkpoint that was kept elsewhere, so [`Report::witnessed`] says how far that reaches. What was written after
//! the newest checkpoint is in order and complete by numbers, and no more.

use std::ops::Range;

use serde::Deserialize;

use crate::entry::{Entry, Envelope, KIND_RECOVERED, KIND_ROTATED, KIND_TOMBSTONE, KIND_UNSIGNED};
use crate::files::Files;
use crate::frame::{Frame, Frames, Next};
use crate::left::{Late, Unproved};
use crate::log::Extent;
use crate::merkle::{Frontier, Hash};
use crate::note::SignedCheckpoint;
use crate::processes::{Counted, Processes};
use crate::prune::SignedTombstone;
use crate::reader::Reader;
use crate::salvage::{Stands, stands};
use crate::signers::{Notes, Rotation, Signers, rotation, vouching};
use crate::wrong::Wrong;
use crate::{TILE, TrailError, VerifierKey};

/// The most processes, and the most places of a kind, that a report names.
pub(crate) const MOST_NAMED: usize = 100;

/// What is compared with.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// A key of the log: its first, its last, or one between. Without one, signatures are not checked.
    pub key: Option<VerifierKey>,
    /// Checkpoints that were kept elsewhere.
    pub kept: Vec<SignedCheckpoint>,
    /// Sizes and roots that were kept elsewhere, by whoever knows that they are true.
    pub heads: Vec<Extent>,
    /// How far times may run backwards without being reported, in milliseconds.
    pub clock_tolerance: i64,
}

/// A log that is what was written, and what is missing in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The name of the log.
    pub origin: String,
    /// How many entries it has.
    pub size: u64,
    /// The root of the tree over them.
    pub root: Hash,
    /// How many checkpoints it has.
    pub checkpoints: u64,
    /// How many checkpoints there are besides that can't be read.
    pub torn_checkpoints: u64,
    /// How many entries the newest checkpoint of the log covers. None where the key that was given is the last one, and all checkpoints are by
    /// those before it.
    pub covered: u64,
    /// How many entries the newest checkpoint covers that was kept elsewhere; `None` if none was given.
    pub witnessed: Option<u64>,
    /// How many checkpoints that were kept elsewhere no key of the log has signed, where a key was given: they say nothing.
    pub foreign: u64,
    /// The key that signs now, where a key was given.
    pub key: Option<VerifierKey>,
    /// How many entries were pruned.
    pub pruned: u64,
    /// How many numbers of processes are missing. Those are not counted that pruned entries may have had.
    pub missing: u64,
    /// The processes of which numbers are missing or that did not say that they stopped; the first hundred.
    pub processes: Vec<Process>,
    /// The entries that say that a crash tore bytes behind them; the first hundred.
    pub recovered: Vec<u64>,
    /// The entries that were damaged, or without a checkpoint, when an entry behind them told of it, and that are covered since; the first
    /// hundred. Whether they were changed before can't be told, unless a checkpoint that was kept elsewhere covers them.
    pub unproved: Vec<Unproved>,
    /// The entries that were left without a checkpoint, as a killed process leaves them, and that are signed since; the first hundred. Nothing
    /// proves that they were not changed before, unless a checkpoint that was kept elsewhere covers them.
    pub late: Vec<Late>,
    /// Whether the file ends with a part of an entry, as of a writer at work or a crash.
    pub torn: bool,
    /// How many tiles are not what the entries make: they can be thrown away.
    pub wrong_tiles: u64,
    /// The entries that are older than one before them, by more than the tolerance; the first hundred.
    pub backwards: Vec<Backwards>,
    /// How many processes, entries behind a crash and older entries there are besides those that are named.
    pub unnamed: u64,
}

/// An entry that is older than one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backwards {
    /// The entry.
    pub index: u64,
    /// Its time, in milliseconds since 1970.
    pub at: i64,
    /// The latest time before it.
    pub after: i64,
}

/// A process whose entries are not all there, or that has no end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// What names it.
    pub process: String,
    /// Numbers that are missing; the first hundred ranges.
    pub missing: Vec<Range<u64>>,
    /// How many numbers are missing, in all ranges.
    pub lost: u64,
    /// The number of its last entry.
    pub last: u64,
    /// Whether it said that it begins.
    pub started: bool,
    /// Whether it said that it stopped.
    pub stopped: bool,
}

/// Why a log is not what was written.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The first entry that is wrong.
    #[error("entry {index} is wrong: {why}")]
    Entry {
        /// Its number, the first of the log being 0.
        index: u64,
        /// What is wrong with it.
        why: Wrong,
    },
    /// An entry is wrong, and nothing says which.
    #[error(
        "one of the entries {from} to {through} is wrong: it was changed, or one was removed or put in there"
    )]
    Between {
        /// The first one that it can be.
        from: u64,
        /// The last one.
        through: u64,
    },
    /// Entries that a checkpoint covers are not there.
    #[error("the log was cut off: it has {size} entries, and had {known}")]
    CutOff {
        /// How many it has.
        size: u64,
        /// How many it had.
        known: u64,
    },
    /// It fits its own checkpoints, and not one that was kept elsewhere.
    #[error("the log was rewritten: what it had when it had {size} entries is not what it has now")]
    Rewritten {
        /// The size of the checkpoint that was kept.
        size: u64,
    },
    /// A checkpoint is not signed by the key of the log.
    #[error("the checkpoint of {size} entries is not signed by the key of the log")]
    Signature {
        /// How many entries it covers.
        size: u64,
    },
    /// A checkpoint is one of another log.
    #[error("the checkpoint is one of the log `{found}`, and this is `{origin}`")]
    OtherLog {
        /// The log that the checkpoint names.
        found: String,
        /// This one.
        origin: String,
    },
    /// The key is none of this log.
    #[error("the key is not one with which this log is signed")]
    OtherKey,
    /// It can't be read.
    #[error(transparent)]
    Trail(#[from] TrailError),
}

/// Checks the log in a folder.
///
/// # Errors
///
/// [`VerifyError`] names the first entry that is wrong.
pub fn verify(log: &Reader, trust: &Trust) -> Result<Report, VerifyError> {
    verify_each(log, trust, |_, _, _| {})
}

/// As [`verify`], and shows each entry on the way: its number, what is around its body, and its bytes.
///
/// # Errors
///
/// [`VerifyError`] names the first entry that is wrong.
pub fn verify_each(
    log: &Reader,
    trust: &Trust,
    mut visit: impl FnMut(u64, &Envelope<'_>, &[u8]),
) -> Result<Report, VerifyError> {
    let origin = log.origin()?.unwrap_or_default();
    let (kept, foreign) = vouching(log, &trust.kept, trust.key.as_ref())?;
    let mut due: Vec<Due> = Vec::new();
    let notes = Notes::read(log, &origin, kept, |note, kept| due.push((note.size, note.root, kept)))?;
    due.extend(trust.heads.iter().map(|head| (head.size, head.root, true)));
    // Of one size, those of the log itself first: what kept ones contradict is then a rewritten log, and no changed entry.
    due.sort_by_key(|(size, _, kept)| (*size, *kept));
    let kept: Vec<u64> = due.iter().filter(|due| due.2).map(|due| due.0).collect();
    let (files, trusted) = (log.files(), trust.key.as_ref());
    let mut walk = Walk::new(&due, &kept, trust.clock_tolerance);
    walk.compare(files)?;
    match walk.read(files, &mut visit).and_then(|()| walk.ended()) {
        // Whoever has no key can write any size.
        Err(VerifyError::CutOff { known, .. }) if notes.are_foreign(files, known, trusted)? => {
            return Err(VerifyError::Signature { size: known });
        }
        walked => walked?,
    }
    let signers = trusted.map(|key| Signers::of(files, &notes, key, &walk.rotations)).transpose()?;
    walk.finish(&origin, signers.as_ref())?;
    let key = signers.as_ref().map(Signers::checkpoints).transpose()?.flatten();
    let has_not_signed = trusted.zip(signers.as_ref()).is_some_and(|(key, all)| all.has_not_signed(key));
    let covered = |kept| due.iter().filter(|due| due.2 == kept).map(|due| due.0).max();
    Ok(Report {
        origin,
        size: walk.frontier.size(),
        root: walk.frontier.root(),
        checkpoints: notes.count,
        torn_checkpoints: notes.torn,
        covered: covered(false).filter(|_| !has_not_signed).unwrap_or(0),
        witnessed: covered(true),
        foreign,
        key,
        pruned: walk.gone,
        missing: walk.processes.missing,
        processes: walk.named,
        recovered: walk.recovered,
        unproved: walk.unproved,
        late: walk.late,
        torn: walk.torn,
        wrong_tiles: walk.wrong_tiles,
        backwards: walk.backwards,
        unnamed: walk.unnamed,
    })
}

/// A root that the log must have at a size, and whether it was kept elsewhere.
type Due = (u64, Hash, bool);

/// The way through a log.
struct Walk<'d> {
    due: std::iter::Peekable<std::slice::Iter<'d, Due>>,
    /// The sizes that were kept elsewhere, which prove what is before them.
    kept: &'d [u64],
    /// The size of the newest checkpoint there is.
    most: u64,
    /// The size of the last checkpoint that fits.
    good: u64,
    frontier: Frontier,
    /// The first entry that is not what a tile has.
    suspect: Option<u64>,
    wrong_tiles: u64,
    pruned: Vec<Range<u64>>,
    /// How many entries were pruned so far.
    gone: u64,
    tombstones: Vec<(u64, SignedTombstone)>,
    rotations: Vec<Rotation>,
    processes: Processes,
    /// The first entry whose number its process had used before.
    twice: Option<u64>,
    named: Vec<Process>,
    recovered: Vec<u64>,
    unproved: Vec<Unproved>,
    late: Vec<Late>,
    torn: bool,
    latest: i64,
    tolerance: i64,
    backwards: Vec<Backwards>,
    unnamed: u64,
}

impl<'d> Walk<'d> {
    fn new(due: &'d [Due], kept: &'d [u64], tolerance: i64) -> Self {
        Self {
            kept,
            most: due.last().map_or(0, |(size, ..)| *size),
            due: due.iter().peekable(),
            good: 0,
            frontier: Frontier::default(),
            suspect: None,
            wrong_tiles: 0,
            pruned: Vec::new(),
            gone: 0,
            tombstones: Vec::new(),
            rotations: Vec::new(),
            processes: Processes::default(),
            twice: None,
            named: Vec::new(),
            recovered: Vec::new(),
            unproved: Vec::new(),
            late: Vec::new(),
            torn: false,
            latest: i64::MIN,
            tolerance,
            backwards: Vec::new(),
            unnamed: 0,
        }
    }

    fn read(
        &mut self,
        files: &Files,
        visit: &mut impl FnMut(u64, &Envelope<'_>, &[u8]),
    ) -> Result<(), VerifyError> {
        let firsts = files.segments()?;
        for (position, first) in firsts.iter().enumerate() {
            if *first != self.frontier.size() {
                return Err(self.wrong(self.frontier.size(), Wrong::Missing));
            }
            let path = files.segment(*first);
            let read = || TrailError::file(&path, "read");
            let mut frames = Frames::from(files.open_segment(*first)?, 0).map_err(read())?;
            loop {
                match frames.next().map_err(read())? {
                    Next::Frame(frame) => {
                        self.step(&frame, files, visit)?;
                        continue;
                    }
                    Next::End => break,
                    Next::Torn => {}
                }
                // Nothing was ever there that a checkpoint covers, and nothing is behind it: a writer is at work, or a crash was.
                let is_end = position + 1 == firsts.len() && self.frontier.size() >= self.most;
                match if is_end { stands(files, *first, frames.offset())? } else { Stands::Damaged } {
                    // The writer has finished it, and more, since the half of it was read.
                    Stands::Whole => {
                        let segment = files.open_segment(*first)?;
                        frames = Frames::from(segment, frames.offset()).map_err(read())?;
                        continue;
                    }
                    Stands::Nothing => {
                        self.torn = true;
                        break;
                    }
                    Stands::Damaged => {}
                }
                return Err(self.wrong(self.frontier.size(), Wrong::Unreadable));
            }
        }
        Ok(())
    }

    /// Returns what is wrong, if nothing before it was found to be.
    fn wrong(&self, index: u64, why: Wrong) -> VerifyError {
        match self.suspect.into_iter().chain(self.twice).min() {
            Some(suspect) if suspect < index => VerifyError::Entry { index: suspect, why: Wrong::Changed },
            _ => VerifyError::Entry { index, why },
        }
    }

    fn step(
        &mut self,
        frame: &Frame<'_>,
        files: &Files,
        visit: &mut impl FnMut(u64, &Envelope<'_>, &[u8]),
    ) -> Result<(), VerifyError> {
        let index = self.frontier.size();
        let readable = match frame {
            Frame::Entry(entry) => self.note(index, entry, visit),
            Frame::Pruned(_) => {
                self.gone += 1;
                match self.pruned.last_mut() {
                    Some(last) if last.end == index => last.end = index + 1,
                    _ => self.pruned.push(index..index + 1),
                }
                Some(())
            }
        };
        for tile in self.frontier.push(frame.leaf()) {
            let Some(known) = files.get_tile(tile.level, tile.index)? else { continue };
            if known != tile.hashes {
                self.wrong_tiles += 1;
                if tile.level == 0 && self.suspect.is_none() {
                    let place = first_difference(&tile.hashes, &known);
                    self.suspect = place.map(|place| tile.index * TILE + place);
                }
            }
        }
        if readable.is_none() {
            return Err(self.wrong(index, Wrong::Unreadable));
        }
        self.compare(files)
    }

    /// Compares with the checkpoints of this size.
    fn compare(&mut self, files: &Files) -> Result<(), VerifyError> {
        let size = self.frontier.size();
        while let Some((_, root, kept)) = self.due.next_if(|(due, ..)| *due <= size) {
            if *root != self.frontier.root() {
                let open = size / TILE * TILE;
                if self.suspect.is_none()
                    && let Some(known) = files.get_tile(0, size / TILE)?
                {
                    self.suspect = first_difference(self.frontier.open(0), &known).map(|place| open + place);
                }
                return Err(match self.suspect.into_iter().chain(self.twice).min() {
                    Some(index) => VerifyError::Entry { index, why: Wrong::Changed },
                    None if *kept => VerifyError::Rewritten { size },
                    None if self.good + 1 == size => {
                        VerifyError::Entry { index: self.good, why: Wrong::Changed }
                    }
                    None => VerifyError::Between { from: self.good, through: size.saturating_sub(1) },
                });
            }
            self.good = size;
        }
        Ok(())
    }

    /// Reads what an entry says of its process, its time and the log; `None` for what is no entry.
    fn note(
        &mut self,
        index: u64,
        bytes: &[u8],
        visit: &mut impl FnMut(u64, &Envelope<'_>, &[u8]),
    ) -> Option<()> {
        let envelope = Envelope::read(bytes)?;
        visit(index, &envelope, bytes);
        if envelope.at.saturating_add(self.tolerance) < self.latest {
            let backwards = Backwards { index, at: envelope.at, after: self.latest };
            named(&mut self.backwards, backwards, &mut self.unnamed);
        }
        self.latest = self.latest.max(envelope.at);
        match self.processes.count(&envelope, self.gone) {
            Counted::Next => {}
            Counted::Twice => _ = self.twice.get_or_insert(index),
            Counted::Ended(process) => named(&mut self.named, process, &mut self.unnamed),
        }
        match &*envelope.kind {
            KIND_RECOVERED => {
                named(&mut self.recovered, index, &mut self.unnamed);
                if let Some(unproved) = Unproved::read(index, &Entry::read(bytes)?) {
                    self.note_unproved(unproved);
                }
            }
            KIND_UNSIGNED => self.note_late(index, &Entry::read(bytes)?),
            KIND_TOMBSTONE => {
                let signed = SignedTombstone::deserialize(Entry::read(bytes)?.body).ok();
                self.tombstones.push((index, signed.unwrap_or_default()));
            }
            KIND_ROTATED => self.rotations.push(rotation(index, &Entry::read(bytes)?)?),
            _ => {}
        }
        Some(())
    }

    /// Notes what an entry tells of entries that were signed late. What it does not tell as it should is not proved.
    fn note_late(&mut self, index: u64, entry: &Entry) {
        let Some(told) = Unproved::read(index, entry) else { return };
        match Late::read(&told, entry, &self.frontier.root()) {
            Some(late) => {
                if let Some(late) = late.beyond(self.kept) {
                    named(&mut self.late, late, &mut self.unnamed);
                }
            }
            None => self.note_unproved(told),
        }
    }

    /// Notes what is not proved of entries. What others prove takes no place from the rest.
    fn note_unproved(&mut self, told: Unproved) {
        if let Some(unproved) = told.beyond(self.kept) {
            named(&mut self.unproved, unproved, &mut self.unnamed);
        }
    }

    /// Checks that nothing that is known is missing at the end.
    fn ended(&mut self) -> Result<(), VerifyError> {
        let size = self.frontier.size();
        if self.due.peek().is_some() {
            let known = self.most;
            return Err(match self.suspect.into_iter().chain(self.twice).min() {
                // One that was taken out moves all behind it.
                Some(index) => VerifyError::Entry { index, why: Wrong::Changed },
                None => VerifyError::CutOff { size, known },
            });
        }
        match self.twice {
            Some(index) => Err(VerifyError::Entry { index, why: Wrong::Twice }),
            None => Ok(()),
        }
    }

    /// Checks that what was pruned was told, by who could, and names what is left of processes. Without a trusted key no signature is checked.
    fn finish(&mut self, origin: &str, signers: Option<&Signers>) -> Result<(), VerifyError> {
        signers.map_or(Ok(()), |all| all.tombstones(origin, &self.tombstones, &self.rotations))?;
        // Nothing can have been pruned that was not there yet.
        let ranges = std::mem::take(&mut self.tombstones).into_iter().flat_map(|(index, signed)| {
            signed.tombstone.ranges.into_iter().filter(move |range| range.end <= index)
        });
        let mut ranges: Vec<Range<u64>> = ranges.collect();
        ranges.sort_by_key(|range| range.start);
        let mut told: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match told.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => told.push(range),
            }
        }
        for gone in &self.pruned {
            let after = told.partition_point(|range| range.end <= gone.start);
            let covered = match told.get(after) {
                Some(range) if range.start <= gone.start => range.end,
                _ => gone.start,
            };
            if covered < gone.end {
                return Err(VerifyError::Entry { index: covered, why: Wrong::Untold });
            }
        }
        for process in self.processes.rest() {
            named(&mut self.named, process, &mut self.unnamed);
        }
        Ok(())
    }
}

/// Names one more, or counts it where enough are named.
fn named<T>(list: &mut Vec<T>, one: T, unnamed: &mut u64) {
    if list.len() < MOST_NAMED { list.push(one) } else { *unnamed += 1 }
}

/// Returns the place of the first hash that is not what is known.
fn first_difference(made: &[Hash], known: &[Hash]) -> Option<u64> {
    let place = made.iter().zip(known).position(|(made, known)| made != known)?;
    u64::try_from(place).ok()
}
