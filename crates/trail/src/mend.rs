//! What befalls a log besides its entries, and how it goes on.
//!
//! The law: *entries are written as long as entries can be, and nothing is mended in silence*. A `checkpoint` or an `origin` that holds
//! something else, or that none of the log's own keys has signed, is put aside in the folder `damaged`, and what stood there is recovered
//! where it can be proved: the checkpoint from the file of all, the name from a checkpoint that one of these keys has signed. So is a segment
//! in which whole entries stand behind something that is none. A checkpoint, a tile or a place that can't be written is tried again. Entries
//! tell of all of it ([`KIND_RECOVERED`], [`KIND_IMPAIRED`]), the latter once for each time that something begins to fail.
//!
//! What comes next signs over what was damaged. So where checkpoints are missing that must have been there, the entry says how many entries
//! one still `covers`, and how many stood `unsigned` behind them: whether those were changed before can't be told any more by this log alone,
//! and [`verify`](crate::verify()) says so. Where a killed process may have [left](crate::left) them so, an entry of another kind
//! ([`KIND_UNSIGNED`]) says that. Fewer than 256 entries behind a checkpoint may be without one for a minute, by their own times: other
//! processes may be about to sign them. A log that becomes shorter, or another one, under a process that has seen it is told as damage. Where
//! none runs, nothing but the files says what there was: whoever puts an older checkpoint back can write fewer than 256 entries behind it anew,
//! with times of this minute, and again once these are signed. Only what others keep shows that.
//!
//! Not recovered is a name where all checkpoints are signed by other keys: whoever made them is not known.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::{Value, json};
use uuid::Uuid;

use crate::entry::{Body, Draft, Envelope, KIND_IMPAIRED, KIND_RECOVERED, KIND_UNSIGNED};
use crate::files::{name_of, replace, sync_folder};
use crate::frame::Frame;
use crate::left::{LONGEST, left_by_kill};
use crate::log::{CHECKPOINT_ENTRIES, Extent, Log, now};
use crate::note::{OwnKeys, base64};
use crate::reader::Reader;
use crate::salvage::{Salvaged, salvaged};
use crate::seen::Seen;
use crate::{SignedCheckpoint, TrailError};

/// The name of the file of the newest checkpoint.
const CHECKPOINT: &str = "checkpoint";
/// The most checkpoints of which signatures are checked to find one that counts.
const MOST_TRIED: usize = 1024;

/// How far the clock of another process may be ahead of this one's, in milliseconds.
const MOST_AHEAD: i64 = 10_000;

/// What befell a log, as far as this process has seen.
#[derive(Debug, Default)]
pub(crate) struct Befallen {
    /// What no entry tells yet: kinds, and bodies.
    untold: Vec<(&'static str, Value)>,
    /// Whether something that fails was told of, and nothing has succeeded since.
    fails: bool,
    /// How many entries a checkpoint covered when it was last told that one is missing.
    told_unsigned: Option<u64>,
    /// How many entries others left unsigned, as was told.
    late: u64,
}

impl Befallen {
    pub(crate) fn note_recovered(&mut self, body: Value) {
        self.untold.push((KIND_RECOVERED, body));
    }
}

impl Log {
    /// Writes entries about what befell the log.
    pub(crate) fn tell(&mut self) -> Result<(), TrailError> {
        while let Some((kind, body)) = self.befallen.untold.first() {
            let mut body = body.clone();
            if let Some(body) = body.as_object_mut().filter(|_| *kind == KIND_UNSIGNED) {
                // Of all that stands before the entry, so that what is changed before it is signed shows.
                let root = self.tail.as_ref().ok_or(TrailError::Closed)?.frontier.root();
                body.insert("root".to_owned(), base64(&root).into());
            }
            let draft = Draft::new(now(), kind, Body::of(&body)?);
            let sealed = self.sealed(&draft)?;
            self.write(&[sealed])?;
            let (kind, body) = self.befallen.untold.remove(0);
            if kind == KIND_UNSIGNED {
                let late = body.get("unsigned").and_then(Value::as_u64).unwrap_or_default();
                self.befallen.late = self.befallen.late.saturating_add(late);
            }
        }
        Ok(())
    }

    /// Returns how many entries this process found that a killed one had left unsigned.
    pub(crate) fn found_late(&self) -> u64 {
        self.befallen.late
    }

    /// Tells of what failed behind entries that are written.
    pub(crate) fn tell_behind(&mut self, signed: Result<(), TrailError>) {
        let behind = self.tail.as_mut().and_then(crate::tail::Tail::take_failed_behind);
        let replaced = self.tail.as_mut().map(crate::tail::Tail::take_replaced).unwrap_or_default();
        replaced.into_iter().for_each(|tile| self.befallen.note_recovered(tile));
        let Some(error) = signed.err().or(behind) else {
            self.befallen.fails = false;
            if self.tell().is_err() {
                self.forget();
            }
            return;
        };
        if !std::mem::replace(&mut self.befallen.fails, true) {
            self.befallen.untold.push((KIND_IMPAIRED, impaired(&error)));
        }
        // What can't be told now is told before the next entry.
        if self.tell().is_err() {
            self.forget();
        }
    }

    /// Returns the newest checkpoint that the key of the log has signed. One that is damaged, or that nobody has signed who counts, is put
    /// aside, and the newest of all takes its place. That one is missing is told, with how many entries one still covers.
    pub(crate) fn newest(&mut self) -> Result<Option<SignedCheckpoint>, TrailError> {
        let path = self.files.checkpoint();
        let found = match self.files.newest() {
            Err(error) if !is_damage(&error) => return Err(error),
            found => found.map_err(drop),
        };
        let keys = OwnKeys::read(&self.options.key)?;
        let is_own = |note: &SignedCheckpoint, origin: &str| {
            note.checkpoint().origin == origin && keys.have_signed(note)
        };
        let (is_damaged, newest) = match found {
            Ok(Some(note)) if is_own(&note, &self.origin) => (false, Some(note)),
            Ok(None) => (false, None),
            Ok(Some(_)) | Err(()) => (true, None),
        };
        // INVARIANT (a key that was replaced covers nothing): whoever has it by now can sign what they like. A crash may leave its checkpoint as
        // the newest; what is behind the handing over is signed by the next key then, and told of.
        let newest = newest.filter(|note| keys.current_has_signed(note));
        if newest.is_some() && self.unsigned_behind(covered(newest.as_ref()))? == 0 {
            return Ok(newest);
        }
        let mut last = self.files.last_checkpoints()?;
        last.sort_by_key(|note| std::cmp::Reverse(note.checkpoint().size));
        let better = last.into_iter().take(MOST_TRIED);
        let mut better =
            better.take_while(|note| note.checkpoint().size > covered(newest.as_ref()) || newest.is_none());
        let better =
            better.find(|note| note.checkpoint().origin == self.origin && keys.current_has_signed(note));
        let is_put_back = better.is_some();
        let newest = better.or(newest);
        self.tell_of_checkpoint(is_damaged, is_put_back, covered(newest.as_ref()))?;
        if let Some(newest) = newest.as_ref().filter(|_| is_put_back) {
            replace(&path, newest.to_string().as_bytes()).map_err(TrailError::file(&path, "written"))?;
        }
        Ok(newest)
    }

    /// Tells that a checkpoint was damaged or is missing, and what one still covers.
    fn tell_of_checkpoint(
        &mut self,
        is_damaged: bool,
        is_put_back: bool,
        covers: u64,
    ) -> Result<(), TrailError> {
        let unsigned = self.unsigned_behind(covers)?;
        let left = if is_damaged { None } else { self.left(covers, unsigned)? };
        let mut facts = json!({ "file": CHECKPOINT, "covers": covers });
        if let Some(facts) = facts.as_object_mut().filter(|_| unsigned > 0 && left.is_none()) {
            facts.insert("unsigned".to_owned(), unsigned.into());
        }
        if is_damaged {
            return self.put_aside(&self.files.checkpoint(), CHECKPOINT, facts);
        }
        // Where signing fails, the same is found again and again.
        let is_new = unsigned > 0 && self.befallen.told_unsigned != Some(covers);
        if is_put_back || (is_new && left.is_none()) {
            self.befallen.note_recovered(facts);
        }
        if is_new {
            self.befallen.told_unsigned = Some(covers);
            self.befallen.untold.extend(left.map(|left| (KIND_UNSIGNED, left)));
        }
        if is_put_back || is_new { self.told() } else { Ok(()) }
    }

    /// Returns what is to be told of so many entries behind the first `covers`, if another process may have left them unsigned as it was
    /// killed. What this one could not sign is no such thing.
    fn left(&self, covers: u64, unsigned: u64) -> Result<Option<Value>, TrailError> {
        let entries = covers..covers.saturating_add(unsigned);
        if unsigned == 0 || entries.end > self.read {
            return Ok(None);
        }
        left_by_kill(&Reader::of(self.files.clone()), entries)
    }

    /// Returns how many entries there were behind the first `covers` that a checkpoint should have covered by now. Whoever adds 256 entries
    /// or more signs them in the same moment, so fewer may be without one, for as long as a checkpoint takes.
    fn unsigned_behind(&self, covers: u64) -> Result<u64, TrailError> {
        let found = self.tail.as_ref().map_or(0, |tail| tail.found);
        let behind = found.saturating_sub(covers);
        if behind >= CHECKPOINT_ENTRIES {
            return Ok(behind);
        }
        Ok(if self.is_old_from(covers)? { self.read.min(found).saturating_sub(covers) } else { 0 })
    }

    /// Returns whether one of the entries from this number on, as they were read from the file, is so old that there must have been a
    /// checkpoint of it. What a file says of its own age counts for nothing: whoever can write it can set that, too. So can whoever rewrites
    /// entries give them a time that is yet to come, which would never be old.
    fn is_old_from(&self, covers: u64) -> Result<bool, TrailError> {
        let now = now();
        let (bound, ahead) = (now.saturating_sub(LONGEST), now.saturating_add(MOST_AHEAD));
        let mut is_old = false;
        if covers >= self.read {
            return Ok(false);
        }
        Reader::of(self.files.clone()).scan(covers, |index, frame| {
            if index >= self.read {
                return ControlFlow::Break(());
            }
            // What was pruned was covered, and what can't be read has no time.
            let envelope = frame.entry().and_then(Envelope::read);
            is_old = envelope.is_none_or(|envelope| envelope.at < bound || envelope.at > ahead);
            if is_old { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Ok(is_old)
    }

    /// Returns the name of the log, and gives it one where it has none.
    pub(crate) fn known_name(&mut self) -> Result<String, TrailError> {
        let path = self.files.origin();
        match self.files.name() {
            Ok(Some(name)) if self.is_known_as(&name)? => return Ok(name),
            // A part of the name is a name.
            Ok(Some(_)) => self.put_aside(&path, "origin", json!({ "file": "origin" }))?,
            Ok(None) => {}
            Err(error) if is_damage(&error) => {
                self.put_aside(&path, "origin", json!({ "file": "origin" }))?;
            }
            Err(error) => return Err(error),
        }
        let name = match self.signed_name()? {
            Some(name) => name,
            None => format!("{}/{}", self.options.name, Uuid::new_v4()),
        };
        replace(&path, format!("{name}\n").as_bytes()).map_err(TrailError::file(&path, "written"))?;
        Ok(name)
    }

    /// Returns whether no checkpoint that a key of the log has signed speaks against the name.
    fn is_known_as(&self, name: &str) -> Result<bool, TrailError> {
        // Without a key nothing speaks against it.
        let Ok(keys) = OwnKeys::read(&self.options.key) else { return Ok(true) };
        let newest = self.files.newest().ok().flatten();
        if newest.is_some_and(|newest| newest.checkpoint().origin == name && keys.have_signed(&newest)) {
            return Ok(true);
        }
        let last = match self.files.last_checkpoints() {
            // Nothing can be signed either then, and whoever tries tells of it.
            Err(error) if is_damage(&error) => return Ok(true),
            last => last?,
        };
        let own = last.iter().rev().take(MOST_TRIED).find(|note| keys.have_signed(note));
        Ok(own.is_none_or(|own| own.checkpoint().origin == name))
    }

    /// Returns the name in a checkpoint of this log; `None` where there is no checkpoint.
    fn signed_name(&self) -> Result<Option<String>, TrailError> {
        let last = self.files.last_checkpoints()?;
        let newest = self.files.newest().ok().flatten();
        let mut notes = last.iter().rev().take(MOST_TRIED).chain(&newest).peekable();
        if notes.peek().is_none() {
            return Ok(None);
        }
        let unknown = || TrailError::UnknownName(self.files.origin());
        let keys = OwnKeys::read(&self.options.key).map_err(|_| unknown())?;
        let own = notes.find(|note| keys.have_signed(note));
        own.map(|note| Some(note.checkpoint().origin.clone())).ok_or_else(unknown)
    }

    /// Tells that entries are gone, or others than this process has seen. A crash takes none from under a process that runs.
    pub(crate) fn compare_with_seen(&mut self, found: Extent) {
        if let Some(gone) = self.seen.gone(&Reader::of(self.files.clone()), found) {
            let unsigned = gone.end.saturating_sub(gone.start);
            let facts = json!({ "file": "entries", "covers": gone.start, "unsigned": unsigned });
            self.befallen.note_recovered(facts);
            self.seen = Seen::default();
        }
        self.seen.note(found);
    }

    /// Moves a file to where damaged ones are kept. It is told before it is done, so that nothing that comes between hides it.
    fn put_aside(&mut self, path: &Path, name: &str, mut facts: Value) -> Result<(), TrailError> {
        let kept = self.files.damaged(name)?;
        if let Some(facts) = facts.as_object_mut() {
            facts.insert("kept".to_owned(), name_of(&kept).into());
        }
        self.befallen.note_recovered(facts);
        self.told()?;
        fs::rename(path, &kept).map_err(TrailError::file(path, "put aside"))
    }

    /// Writes entries about what befell the log, wherever its end is not known yet.
    fn told(&mut self) -> Result<(), TrailError> {
        if self.tail.is_some() { self.tell() } else { self.refreshed() }
    }

    /// Puts the last segment aside, in which whole entries stand behind something that is none, and goes on with one that has what is
    /// whole of it, and an entry about the rest.
    pub(crate) fn salvage(&mut self) -> Result<(), TrailError> {
        let first = self.files.segments()?.last().copied().unwrap_or_default();
        let path = self.files.segment(first);
        let Salvaged { mut bytes, index, lost, behind } = salvaged(&self.files, first)?;
        let kept = self.files.damaged(&name_of(&path))?;
        let facts = json!({
            "file": name_of(&path), "kept": name_of(&kept), "bytes": lost, "covers": index, "unsigned": behind,
        });
        let entry = self.sealed(&Draft::new(now(), KIND_RECOVERED, Body::of(&facts)?))?;
        Frame::Entry(&entry).write(&mut bytes);
        self.count_replacement()?;
        // How many are gone is told already.
        self.seen = Seen::default();
        // The bad one stays what it is, under another name.
        fs::hard_link(&path, &kept).map_err(TrailError::file(&kept, "written"))?;
        for stale in [self.files.places(first), self.files.frontier()] {
            match fs::remove_file(&stale) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TrailError::file(&stale, "removed")(error));
                }
                _ => {}
            }
        }
        replace(&path, &bytes).map_err(TrailError::file(&path, "written"))?;
        let folder = self.files.entries();
        sync_folder(&folder).map_err(TrailError::file(&folder, "written to the disk"))
    }
}

fn covered(note: Option<&SignedCheckpoint>) -> u64 {
    note.map_or(0, |note| note.checkpoint().size)
}

/// Returns whether a file holds something else than it should, or is none.
fn is_damage(error: &TrailError) -> bool {
    const DAMAGE: [io::ErrorKind; 2] = [io::ErrorKind::InvalidInput, io::ErrorKind::InvalidData];
    match error {
        TrailError::Damaged { .. } => true,
        TrailError::File { source, .. } => DAMAGE.contains(&source.kind()),
        _ => false,
    }
}

/// Returns what is told of an error: the file by its name, without the folder that it is in.
fn impaired(error: &TrailError) -> Value {
    match error {
        TrailError::File { path, what, source } => {
            let file = path.file_name().map(|file| file.to_string_lossy().into_owned());
            json!({ "file": file, "not": what, "why": source.to_string() })
        }
        TrailError::Damaged { path, what } => {
            let file = path.file_name().map(|file| file.to_string_lossy().into_owned());
            json!({ "file": file, "why": format!("it holds no {what}") })
        }
        other => json!({ "why": other.to_string() }),
    }
}
