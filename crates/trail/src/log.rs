//! The log as one process writes it.
//!
//! Several processes may write one log. Each takes the lock of the log for as long as it adds a group, looks first at what others have
//! added meanwhile, and lets go before it waits for the disk, so that nobody waits for another one's disk. Looking costs a read of eight
//! bytes and of the file's length while nothing happened; a process that begins reads at most the last 255 entries.
//!
//! What a crash left behind the last whole entry is cut off by whoever writes next, kept in a file of its own, and told of by an entry.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use uuid::Uuid;

use crate::disk::Disk;
use crate::entry::{Body, BodyError, Draft, KIND_ROTATED, label_of};
use crate::files::{self, CHECKPOINT_MARK, Files, open, options, replace};
use crate::known::Known;
use crate::mend::Befallen;
use crate::merkle::Hash;
use crate::note::{NEXT_KEY, PREVIOUS_KEY, base64, beside};
use crate::seen::Seen;
use crate::tail::{End, Tail, count_replacement, generation};
use crate::{Checkpoint, SignedCheckpoint, SigningKey, TrailError, VerifierKey};

/// Entries after which there is a checkpoint.
pub(crate) const CHECKPOINT_ENTRIES: u64 = 256;
/// The time after which there is one, if there are new entries.
pub(crate) const CHECKPOINT_AFTER: Duration = Duration::from_secs(10);
/// How much is written to find out whether there is room.
const PROBE_BYTES: usize = 4096;
/// How long a process waits for the others, usually.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a segment becomes before the next one begins.
const SEGMENT_BYTES: u64 = 64 << 20;

/// Where a log is, and who signs it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its folder, which is made if it is not there.
    pub folder: PathBuf,
    /// The file of the key that signs checkpoints, which is made if it is not there.
    pub key: PathBuf,
    /// What the name of a new log begins with; a random part follows.
    pub name: String,
    /// How long a segment becomes before the next one begins, in bytes.
    pub segment_bytes: u64,
    /// Whether somebody else keeps the key: it is read, and neither made nor replaced.
    pub key_is_kept: bool,
    /// The label of which it is remembered which values entries have; see [`Draft::once`].
    pub remembers: Option<&'static str>,
    /// How long is waited for other processes that write. Then what was to be added is lost, and missing.
    pub patience: Duration,
}

impl Options {
    /// Returns the usual options.
    pub fn new(folder: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (folder, key) = (folder.into(), key.into());
        Self {
            folder,
            key,
            name: "backstop".to_owned(),
            segment_bytes: SEGMENT_BYTES,
            key_is_kept: false,
            remembers: None,
            patience: PATIENCE,
        }
    }

    /// Returns the same, where somebody else keeps the key.
    #[must_use]
    pub fn with_kept_key(self) -> Self {
        Self { key_is_kept: true, ..self }
    }
}

/// How far a log reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many entries it has.
    pub size: u64,
    /// The root of the tree over them.
    pub root: Hash,
}

/// A log that this process writes.
#[derive(Debug)]
pub struct Log {
    pub(crate) files: Files,
    pub(crate) options: Options,
    pub(crate) origin: String,
    lock: File,
    process: String,
    /// The number of the next entry of this process.
    n: u64,
    pub(crate) tail: Option<Tail>,
    /// What the disk has, which outlives what is known of the end.
    disk: Disk,
    /// Up to which entry the log was read from its files, as others may have left them. What is behind, this process wrote.
    pub(crate) read: u64,
    /// What this process has seen in the log.
    pub(crate) seen: Seen,
    key: Option<SigningKey>,
    /// What was found damaged or could not be written, and what no entry tells yet.
    pub(crate) befallen: Befallen,
    /// The values of the remembered label that entries have.
    known: Known,
    /// The places of what was left out of the last group.
    left_out: Vec<usize>,
}

/// Two keys of which one took the place of the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotated {
    /// The key that signed before.
    pub from: VerifierKey,
    /// The key that signs now.
    pub to: VerifierKey,
    /// The checkpoint that both have signed.
    pub checkpoint: SignedCheckpoint,
}

impl Log {
    /// Opens the log, and makes it if it is not there. The entries of this process are numbered from one.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when its files can't be read or made.
    pub fn open(options: Options) -> Result<Self, TrailError> {
        if options.key_is_kept {
            // Without it, what it has signed would be taken for somebody else's.
            SigningKey::read(&options.key)?;
        }
        let files = Files::new(&options.folder);
        files.create()?;
        let lock = files::open_lock(&files.lock())?;
        let process = Uuid::new_v4().simple().to_string();
        let origin = String::new();
        let befallen = Befallen::default();
        let mut log = Self {
            files,
            options,
            origin,
            lock,
            process,
            n: 1,
            tail: None,
            disk: Disk::default(),
            read: 0,
            seen: Seen::default(),
            key: None,
            befallen,
            known: Known::default(),
            left_out: Vec::new(),
        };
        log.locked(|log| {
            log.origin = log.known_name()?;
            Ok(())
        })?;
        Ok(log)
    }

    /// Returns the name of the log.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Returns what names this process in its entries.
    pub fn process(&self) -> &str {
        &self.process
    }

    /// Returns how many entries this process has numbered.
    pub fn numbered(&self) -> u64 {
        self.n - 1
    }

    /// Adds entries behind those of all processes, in this order, and a checkpoint where one is due. They survive the end of this process;
    /// a power failure only after [`sync`](Self::sync). In the place of one that is too large stands [another](Draft::omitted) that says so.
    /// Where they are written and something behind them fails (a checkpoint, a tile), an entry tells of that.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be written. Then none is in the log, and their numbers are missing there.
    pub fn append(&mut self, drafts: &[Draft]) -> Result<Extent, TrailError> {
        // What can't be added has numbers, too: that it is missing shows.
        self.take_lock().inspect_err(|_| self.skip(numbered(drafts)))?;
        self.holding(|log| {
            log.add(drafts)?;
            let extent = log.extent()?;
            let signed = log.checkpoint_if(|since, age| {
                since >= CHECKPOINT_ENTRIES || (since > 0 && age >= CHECKPOINT_AFTER)
            });
            log.tell_behind(signed);
            Ok(extent)
        })
    }

    /// Adds entries while no other process writes.
    pub(crate) fn add(&mut self, drafts: &[Draft]) -> Result<(), TrailError> {
        // What this writes comes before what is added, and has numbers before it.
        let refreshed = self.refreshed();
        let mut sealed = Vec::with_capacity(drafts.len());
        self.left_out.clear();
        let (mut explained, now) = (Vec::new(), Instant::now());
        for (place, draft) in drafts.iter().enumerate() {
            if draft.once
                && let Some(value) = self.options.remembers.and_then(|label| draft.labels.get(label))
            {
                if explained.contains(&value) || self.known.has(value, now) {
                    self.left_out.push(place);
                    continue;
                }
                explained.push(value);
            }
            // What can't be written has a number, too: that it is missing shows.
            sealed.push(self.sealed(draft)?);
        }
        refreshed?;
        self.write(&sealed)
    }

    /// Returns the places of what was left out of the last group that was added.
    pub(crate) fn left_out(&self) -> &[usize] {
        &self.left_out
    }

    /// Returns the next entry of this process.
    pub(crate) fn sealed(&mut self, draft: &Draft) -> Result<Vec<u8>, TrailError> {
        let n = self.n;
        self.n += 1;
        Ok(match draft.sealed(&self.process, n) {
            // What came with it is not to be lost, too.
            Err(BodyError::TooLarge(bytes)) => {
                Draft::omitted(draft.at, &draft.kind, bytes).sealed(&self.process, n)?
            }
            sealed => sealed?,
        })
    }

    /// Writes sealed entries at the end as it is known.
    pub(crate) fn write(&mut self, sealed: &[Vec<u8>]) -> Result<(), TrailError> {
        let Some(tail) = &mut self.tail else { return Err(TrailError::Closed) };
        tail.write(&self.files, &self.options, (&self.lock, &mut self.disk), sealed)?;
        self.seen.note(Extent { size: tail.frontier.size(), root: tail.frontier.root() });
        if let Some(label) = self.options.remembers {
            let now = Instant::now();
            sealed
                .iter()
                .filter_map(|entry| label_of(entry, label))
                .for_each(|value| self.known.note(value, now));
        }
        Ok(())
    }

    /// Begins to number as another process does.
    pub(crate) fn renew(&mut self) {
        self.process = Uuid::new_v4().simple().to_string();
        self.n = 1;
    }

    /// Skips numbers of entries of this process that were lost before they could be written, so that their absence shows.
    pub fn skip(&mut self, entries: u64) {
        self.n = self.n.saturating_add(entries);
    }

    /// Writes nothing that lasts, but goes to the disk as entries do: succeeds only where entries could be written now.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the disk says no.
    pub fn probe(&mut self) -> Result<(), TrailError> {
        self.locked(|log| {
            let path = log.files.probe();
            let tried = open(&path, options().write(true).create(true).truncate(true));
            let tried =
                tried.and_then(|mut file| file.write_all(&[0; PROBE_BYTES]).and_then(|()| file.sync_all()));
            let removed = fs::remove_file(&path);
            tried.and(removed).map_err(TrailError::file(&path, "written"))
        })
    }

    /// Waits until everything that this process has written survives a power failure. What the disk refused before is written again.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the disk says no, or something was lost since this last succeeded.
    pub fn sync(&mut self) -> Result<(), TrailError> {
        let kept = if self.disk.is_refusing() {
            self.locked(|log| {
                log.refreshed()?;
                log.keep()
            })
        } else {
            self.keep()
        };
        // Whoever signs may have found it, and lets others write on.
        if std::mem::take(&mut self.disk.lost) { kept.and(Err(self.is_lost())) } else { kept }
    }

    /// Waits until everything that is known to be there survives a power failure. While no other process writes, if the disk refused
    /// something.
    fn keep(&mut self) -> Result<(), TrailError> {
        let end = self.tail.as_ref().map(|tail| (tail.first, tail.bytes));
        if let Some(tail) = &self.tail {
            self.disk.hold(&self.files, tail.first, &tail.segment);
        }
        if self.disk.is_refusing()
            && let Some(first) = self.disk.write_again(&self.files)?
        {
            self.disk.lost = true;
            // Only of the last segment is anything written.
            if self.files.segments()?.last() == Some(&first) {
                self.salvage()?;
                self.tail = None;
                self.refreshed()?;
            } else {
                // Whoever verifies finds the damage; what comes later is kept.
                self.disk.give_up(first);
            }
            return Err(self.is_lost());
        }
        self.disk.keep(&self.files, end)
    }

    fn is_lost(&self) -> TrailError {
        TrailError::Damaged { path: self.files.entries(), what: "entries that the disk had refused" }
    }

    /// Returns how far the log reaches, with what others have written.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be read.
    pub fn look(&mut self) -> Result<Extent, TrailError> {
        self.left_out.clear();
        self.locked(|log| {
            log.refreshed()?;
            log.extent()
        })
    }

    /// Signs how far the log reaches, where the newest checkpoint does not cover all.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be written.
    pub fn checkpoint(&mut self) -> Result<SignedCheckpoint, TrailError> {
        self.locked(|log| {
            log.refreshed()?;
            let newest = log.newest()?;
            let Extent { size, .. } = log.extent()?;
            match newest {
                Some(newest) if newest.checkpoint().size >= size => Ok(newest),
                // A log without entries has one, too: that it was empty then.
                _ => log.sign_as(&[]),
            }
        })
    }

    /// Hands over to a new key: an entry names both, and who wanted it, and holds the signature of the old one, and the checkpoint behind it is signed by both.
    /// The old key is kept beside the new one, with `.old` behind its name.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when a key or the log can't be written, or somebody else keeps the key.
    pub fn rotate(&mut self, at: i64, by: &str) -> Result<Rotated, TrailError> {
        let path = self.options.key.clone();
        if self.options.key_is_kept {
            return Err(TrailError::KeyKept(path));
        }
        let with = |suffix: &str| beside(&path, suffix);
        let old = SigningKey::open(&path)?;
        let next = SigningKey::open(&with(NEXT_KEY))?;
        let (from, to) = (old.verifier(&self.origin), next.verifier(&self.origin));
        let (from, to) = (from.ok_or(TrailError::NotAVerifierKey)?, to.ok_or(TrailError::NotAVerifierKey)?);
        let text = rotation_text(&self.origin, &to.to_string());
        let signatures = [base64(&old.sign(&text)), base64(&next.sign(&text))];
        let (from_key, to_key) = (from.to_string(), to.to_string());
        let body = json!({ "from": from_key, "to": to_key, "signatures": signatures, "by": by });
        let body = Body::of(&body)?;
        self.locked(|log| {
            log.add(&[Draft::new(at, KIND_ROTATED, body)])?;
            // As long as the key counts that has signed so far.
            log.newest()?;
            // INVARIANT (no checkpoint is signed by a key that no entry names): a crash from here on leaves the old key with its entry, which
            // rotating again repeats, or the new one.
            log.keep()?;
            // Other processes let go of the key that they hold.
            log.count_replacement()?;
            let kept = with(PREVIOUS_KEY);
            match fs::remove_file(&kept) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TrailError::file(&kept, "removed")(error));
                }
                _ => {}
            }
            // There is a key at every moment: without one, the next process would make another.
            fs::hard_link(&path, &kept).map_err(TrailError::file(&kept, "written"))?;
            fs::rename(with(NEXT_KEY), &path).map_err(TrailError::file(&path, "written"))?;
            log.key = None;
            let checkpoint = log.sign_as(&[&old, &next])?;
            Ok(Rotated { from, to, checkpoint })
        })
    }

    /// Does something while no other process writes.
    pub(crate) fn locked<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TrailError>,
    ) -> Result<T, TrailError> {
        self.take_lock()?;
        self.holding(work)
    }

    fn take_lock(&self) -> Result<(), TrailError> {
        files::take_lock(&self.lock, &self.files.lock(), self.options.patience)
    }

    /// Does something, and lets go of the lock.
    fn holding<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, TrailError>) -> Result<T, TrailError> {
        let done = work(self);
        if done.is_err() {
            // What is in memory may be ahead of the files, or behind them.
            self.tail = None;
        }
        self.lock.unlock().map_err(TrailError::file(&self.files.lock(), "unlocked"))?;
        done
    }

    /// Reads the end of the log as it is now. What a crash left there is cut off, and what was damaged there is put aside.
    pub(crate) fn refreshed(&mut self) -> Result<(), TrailError> {
        let (mut tail, mut end) = self.read_tail()?;
        if end == End::Damaged {
            self.salvage()?;
            (tail, end) = self.read_tail()?;
        }
        match end {
            End::Whole => {}
            End::Torn(bytes) => self.befallen.note_recovered(json!({ "bytes": bytes })),
            End::Damaged => {
                let path = self.files.segment(tail.first);
                return Err(TrailError::Damaged { path, what: "whole entries" });
            }
        }
        tail.found = tail.frontier.size();
        self.compare_with_seen(Extent { size: tail.found, root: tail.frontier.root() });
        tail.take_replaced().into_iter().for_each(|tile| self.befallen.note_recovered(tile));
        self.tail = Some(tail);
        self.tell()
    }

    fn read_tail(&mut self) -> Result<(Tail, End), TrailError> {
        let (mut tail, end) = self.read_end()?;
        let now = Instant::now();
        tail.take_values().iter().for_each(|value| self.known.note(value, now));
        Ok((tail, end))
    }

    fn read_end(&mut self) -> Result<(Tail, End), TrailError> {
        let generation = generation(&self.lock).map_err(TrailError::file(&self.files.lock(), "read"))?;
        match self.tail.take() {
            Some(mut tail) if tail.generation == generation => {
                let bytes = tail.segment.metadata().map_err(tail.failed(&self.files, "read"))?.len();
                if bytes == tail.bytes {
                    return Ok((tail, End::Whole));
                }
                if bytes > tail.bytes {
                    let end = tail.follow(&self.files)?;
                    self.read = tail.frontier.size();
                    return Ok((tail, end));
                }
            }
            // The key may have been replaced, too.
            _ => self.key = None,
        }
        let (tail, end) = Tail::load(&self.files, generation, self.options.remembers)?;
        self.seen.doubt();
        self.read = tail.frontier.size();
        self.disk.note_opened(&self.files, tail.first, &tail.segment);
        Ok((tail, end))
    }

    pub(crate) fn extent(&self) -> Result<Extent, TrailError> {
        let tail = self.tail.as_ref().ok_or(TrailError::Closed)?;
        Ok(Extent { size: tail.frontier.size(), root: tail.frontier.root() })
    }

    /// Writes a checkpoint, if it is due by the number of entries since the last one and its age.
    fn checkpoint_if(&mut self, is_due: impl FnOnce(u64, Duration) -> bool) -> Result<(), TrailError> {
        let Some(tail) = &self.tail else { return Ok(()) };
        let (size, (covered, since)) = (tail.frontier.size(), tail.checkpoint);
        if is_due(size.saturating_sub(covered), since.elapsed()) {
            // Others may have written one, and what is there may be none.
            let covered = self.newest()?.map_or(0, |newest| newest.checkpoint().size);
            let Some(tail) = &mut self.tail else { return Ok(()) };
            tail.checkpoint = (covered, Instant::now());
            if covered < size {
                self.sign_as(&[])?;
            }
        }
        Ok(())
    }

    /// Signs how far the log reaches. What is signed is on the disk first: a power failure must not leave a checkpoint of entries that
    /// are gone. That a checkpoint is missing which others had written is told first, since this one hides it.
    pub(crate) fn sign(&mut self, keys: &[&SigningKey]) -> Result<SignedCheckpoint, TrailError> {
        self.newest()?;
        self.sign_as(keys)
    }

    /// Signs, where the newest checkpoint was looked at already.
    fn sign_as(&mut self, keys: &[&SigningKey]) -> Result<SignedCheckpoint, TrailError> {
        self.keep()?;
        let signs = self.extent()?;
        let Extent { size, root } = signs;
        let checkpoint = Checkpoint { origin: self.origin.clone(), size, root };
        let signed =
            if keys.is_empty() { checkpoint.signed(&[self.signing_key()?]) } else { checkpoint.signed(keys) };
        let (all, newest) = (self.files.checkpoints(), self.files.checkpoint());
        let text = signed.to_string();
        let file = open(&all, options().append(true).create(true));
        let written = file.and_then(|mut file| file.write_all(format!("{CHECKPOINT_MARK}{text}").as_bytes()));
        written.map_err(TrailError::file(&all, "written"))?;
        replace(&newest, text.as_bytes()).map_err(TrailError::file(&newest, "written"))?;
        self.seen.note_signed(signs);
        if let Some(tail) = &mut self.tail {
            tail.checkpoint = (size, Instant::now());
        }
        Ok(signed)
    }

    /// Returns the key that signs now. It is made if it is not there.
    pub(crate) fn signing_key(&mut self) -> Result<&SigningKey, TrailError> {
        let key = match self.key.take() {
            Some(key) => key,
            None if self.options.key_is_kept => SigningKey::read(&self.options.key)?,
            None => SigningKey::open(&self.options.key)?,
        };
        Ok(self.key.insert(key))
    }

    /// Counts that files are about to be replaced, so that other processes open them anew.
    pub(crate) fn count_replacement(&self) -> Result<(), TrailError> {
        count_replacement(&self.lock).map(drop).map_err(TrailError::file(&self.files.lock(), "written"))
    }

    /// Forgets the end of the log, since files were replaced.
    pub(crate) fn forget(&mut self) {
        self.tail = None;
    }
}

/// Returns what both keys sign when one hands over to the other.
pub(crate) fn rotation_text(origin: &str, to: &str) -> String {
    format!("backstop trail key rotation\n{origin}\n{to}\n")
}

/// Returns how many entries of drafts are missed where they are not written: one that only [explains](Draft::once) others is not.
pub(crate) fn numbered(drafts: &[Draft]) -> u64 {
    drafts.iter().filter(|draft| !draft.once).count() as u64
}

/// Returns the time, in milliseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
