//! The log as one process writes it.
//!
//! Several processes may write one log. Each takes the lock of the log for as long as it adds a group, looks first at what others have
//! added meanwhile, and lets go before it waits for the disk, so that nobody waits for another one's disk. Looking costs a read of eight
//! bytes and of the file's length while nothing happened; a process that begins reads at most the last 255 entries.
//!
//! What a crash left behind the last whole entry is cut off by whoever writes next, kept in a file of its own, and told of by an entry.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use uuid::Uuid;

use crate::entry::{Body, Draft, KIND_RECOVERED, KIND_ROTATED};
use crate::files::{self, Files, options, replace};
use crate::merkle::Hash;
use crate::note::base64;
use crate::tail::{Tail, count_replacement, generation};
use crate::{Checkpoint, SignedCheckpoint, SigningKey, TrailError};

/// Entries after which there is a checkpoint.
const CHECKPOINT_ENTRIES: u64 = 256;
/// The time after which there is one, if there are new entries.
pub(crate) const CHECKPOINT_AFTER: Duration = Duration::from_secs(10);
/// The line before each checkpoint in the file of all, so that one that a crash tore spoils no other.
pub(crate) const CHECKPOINT_MARK: &str = "--\n";
/// How much is written to find out whether there is room.
const PROBE_BYTES: usize = 4096;
/// How long a process waits for the others.
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
}

impl Options {
    /// Returns the usual options.
    pub fn new(folder: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        let (folder, key) = (folder.into(), key.into());
        Self { folder, key, name: "backstop".to_owned(), segment_bytes: SEGMENT_BYTES }
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
    files: Files,
    options: Options,
    origin: String,
    lock: File,
    process: String,
    /// The number of the next entry of this process.
    n: u64,
    tail: Option<Tail>,
    key: Option<SigningKey>,
}

impl Log {
    /// Opens the log, and makes it if it is not there. The entries of this process are numbered from one.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when its files can't be read or made.
    pub fn open(options: Options) -> Result<Self, TrailError> {
        let files = Files::new(&options.folder);
        files.create()?;
        let path = files.lock();
        let lock = files::options().read(true).write(true).create(true).truncate(false).open(&path);
        let lock = lock.map_err(TrailError::file(&path, "opened"))?;
        let process = Uuid::new_v4().simple().to_string();
        let origin = String::new();
        let mut log = Self { files, options, origin, lock, process, n: 1, tail: None, key: None };
        log.locked(|log| {
            log.origin = log.name()?;
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
    /// a power failure only after [`sync`](Self::sync).
    ///
    /// # Errors
    ///
    /// [`TrailError`] when they can't be written. Then none is in the log, and their numbers are missing there.
    pub fn append(&mut self, drafts: &[Draft]) -> Result<Extent, TrailError> {
        self.locked(|log| {
            log.add(drafts)?;
            log.checkpoint_if(|since, age| {
                since >= CHECKPOINT_ENTRIES || (since > 0 && age >= CHECKPOINT_AFTER)
            })?;
            log.extent()
        })
    }

    /// Adds entries while no other process writes.
    pub(crate) fn add(&mut self, drafts: &[Draft]) -> Result<(), TrailError> {
        // What this writes comes before what is added, and has numbers before it.
        let refreshed = self.refreshed();
        let mut sealed = Vec::with_capacity(drafts.len());
        for draft in drafts {
            // What can't be written has a number, too: that it is missing shows.
            let n = self.n;
            self.n += 1;
            sealed.push(draft.sealed(&self.process, n)?);
        }
        refreshed?;
        let Some(tail) = &mut self.tail else { return Err(TrailError::Closed) };
        tail.write(&self.files, &self.options, &self.lock, &sealed)
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
            let tried = options().write(true).create(true).truncate(true).open(&path);
            let tried =
                tried.and_then(|mut file| file.write_all(&[0; PROBE_BYTES]).and_then(|()| file.sync_all()));
            let removed = fs::remove_file(&path);
            tried.and(removed).map_err(TrailError::file(&path, "written"))
        })
    }

    /// Waits until everything that this process has written survives a power failure.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when the disk says no.
    pub fn sync(&mut self) -> Result<(), TrailError> {
        let Some(tail) = &self.tail else { return Ok(()) };
        let synced = tail.segment.sync_data();
        synced.map_err(TrailError::file(&self.files.segment(tail.first), "written to the disk"))
    }

    /// Returns how far the log reaches, with what others have written.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when it can't be read.
    pub fn look(&mut self) -> Result<Extent, TrailError> {
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
            log.checkpoint_if(|since, _| since > 0)?;
            match log.files.newest()? {
                Some(newest) => Ok(newest),
                // A log without entries has one, too: that it was empty then.
                None => log.sign(&[]),
            }
        })
    }

    /// Hands over to a new key: an entry names both and holds the signature of the old one, and the checkpoint behind it is signed by both.
    /// The old key is kept beside the new one, with `.old` behind its name.
    ///
    /// # Errors
    ///
    /// [`TrailError`] when a key or the log can't be written.
    pub fn rotate(&mut self, at: i64) -> Result<SignedCheckpoint, TrailError> {
        let path = self.options.key.clone();
        let with = |suffix: &str| {
            let mut name = path.as_os_str().to_owned();
            name.push(suffix);
            PathBuf::from(name)
        };
        let old = SigningKey::open(&path)?;
        let next = SigningKey::open(&with(".next"))?;
        let (from, to) = (old.verifier(&self.origin), next.verifier(&self.origin));
        let (from, to) = (from.ok_or(TrailError::NotAVerifierKey)?, to.ok_or(TrailError::NotAVerifierKey)?);
        let text = rotation_text(&self.origin, &to.to_string());
        let signatures = [base64(&old.sign(&text)), base64(&next.sign(&text))];
        let body =
            Body::of(&json!({ "from": from.to_string(), "to": to.to_string(), "signatures": signatures }))?;
        self.locked(|log| {
            log.add(&[Draft::new(at, KIND_ROTATED, body)])?;
            // Other processes let go of the key that they hold.
            log.count_replacement()?;
            let signed = log.sign(&[&old, &next])?;
            fs::rename(&path, with(".old")).map_err(TrailError::file(&path, "renamed"))?;
            fs::rename(with(".next"), &path).map_err(TrailError::file(&path, "written"))?;
            log.key = None;
            Ok(signed)
        })
    }

    fn name(&self) -> Result<String, TrailError> {
        let path = self.files.origin();
        match fs::read_to_string(&path) {
            Ok(name) => Ok(name.trim().to_owned()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let name = format!("{}/{}", self.options.name, Uuid::new_v4());
                let written = replace(&path, format!("{name}\n").as_bytes());
                written.map_err(TrailError::file(&path, "written"))?;
                Ok(name)
            }
            Err(error) => Err(TrailError::file(&path, "read")(error)),
        }
    }

    /// Does something while no other process writes.
    pub(crate) fn locked<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, TrailError>,
    ) -> Result<T, TrailError> {
        self.take_lock()?;
        let done = work(self);
        if done.is_err() {
            // What is in memory may be ahead of the files, or behind them.
            self.tail = None;
        }
        self.lock.unlock().map_err(TrailError::file(&self.files.lock(), "unlocked"))?;
        done
    }

    fn take_lock(&self) -> Result<(), TrailError> {
        let (begun, mut pause) = (Instant::now(), Duration::from_micros(50));
        loop {
            let source = match self.lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                    continue;
                }
                Err(TryLockError::WouldBlock) => io::ErrorKind::TimedOut.into(),
                Err(TryLockError::Error(error)) => error,
            };
            return Err(TrailError::file(&self.files.lock(), "locked")(source));
        }
    }

    /// Reads the end of the log as it is now. What a crash left there is cut off.
    pub(crate) fn refreshed(&mut self) -> Result<(), TrailError> {
        let generation = generation(&self.lock).map_err(TrailError::file(&self.files.lock(), "read"))?;
        let known = match self.tail.take() {
            Some(mut tail) if tail.generation == generation => {
                let bytes = tail.segment.metadata().map_err(tail.failed(&self.files, "read"))?.len();
                if bytes < tail.bytes {
                    None
                } else {
                    let torn = (bytes > tail.bytes).then(|| tail.follow(&self.files)).transpose()?.flatten();
                    Some((tail, torn))
                }
            }
            _ => {
                // The key may have been replaced, too.
                self.key = None;
                None
            }
        };
        let (mut tail, torn) = match known {
            Some(known) => known,
            None => Tail::load(&self.files, generation)?,
        };
        if let Some(torn) = torn {
            let body = Body::of(&json!({ "bytes": torn }))?;
            let told = Draft::new(now(), KIND_RECOVERED, body).sealed(&self.process, self.n)?;
            self.n += 1;
            tail.write(&self.files, &self.options, &self.lock, &[told])?;
        }
        self.tail = Some(tail);
        Ok(())
    }

    pub(crate) fn extent(&self) -> Result<Extent, TrailError> {
        let tail = self.tail.as_ref().ok_or(TrailError::Closed)?;
        Ok(Extent { size: tail.frontier.size(), root: tail.frontier.root() })
    }

    /// Writes a checkpoint, if it is due by the number of entries since the last one and its age.
    fn checkpoint_if(&mut self, is_due: impl FnOnce(u64, Duration) -> bool) -> Result<(), TrailError> {
        let Some(tail) = &mut self.tail else { return Ok(()) };
        let size = tail.frontier.size();
        let (mut covered, since) = tail.checkpoint;
        if is_due(size.saturating_sub(covered), since.elapsed()) {
            // Others may have written one.
            covered = self.files.newest()?.map_or(0, |newest| newest.checkpoint().size);
            tail.checkpoint = (covered, Instant::now());
            if covered < size {
                self.sign(&[])?;
            }
        }
        Ok(())
    }

    /// Signs how far the log reaches. What is signed is on the disk first: a power failure must not leave a checkpoint of entries that
    /// are gone.
    pub(crate) fn sign(&mut self, keys: &[&SigningKey]) -> Result<SignedCheckpoint, TrailError> {
        self.sync()?;
        let Extent { size, root } = self.extent()?;
        let checkpoint = Checkpoint { origin: self.origin.clone(), size, root };
        let signed = if keys.is_empty() {
            let key = match self.key.take() {
                Some(key) => key,
                None => SigningKey::open(&self.options.key)?,
            };
            checkpoint.signed(&[self.key.insert(key)])
        } else {
            checkpoint.signed(keys)
        };
        let (all, newest) = (self.files.checkpoints(), self.files.checkpoint());
        let text = signed.to_string();
        let file = options().append(true).create(true).open(&all);
        let written = file.and_then(|mut file| file.write_all(format!("{CHECKPOINT_MARK}{text}").as_bytes()));
        written.map_err(TrailError::file(&all, "written"))?;
        replace(&newest, text.as_bytes()).map_err(TrailError::file(&newest, "written"))?;
        if let Some(tail) = &mut self.tail {
            tail.checkpoint = (size, Instant::now());
        }
        Ok(signed)
    }

    /// Counts that files are about to be replaced, so that other processes open them anew.
    pub(crate) fn count_replacement(&self) -> Result<(), TrailError> {
        count_replacement(&self.lock).map(drop).map_err(TrailError::file(&self.files.lock(), "written"))
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
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

/// Returns the time, in milliseconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
