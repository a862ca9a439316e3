//! Witnesses: others who keep what a log had, where whoever writes it can't reach it.
//!
//! Whoever can write a log and read its key can write another history. What shows that is a checkpoint that somebody else has kept, so this
//! module has the two ways to hand one over, and the one who takes it:
//!
//! - [`Copies`]: a folder to which copies of checkpoints are only added. What it proves depends on who may change it: see there.
//! - [`AddCheckpoint`]: the request of [tlog-witness](https://c2sp.org/tlog-witness). A witness signs a checkpoint together with a time
//!   ([tlog-cosignature](https://c2sp.org/tlog-cosignature)) after it was proved that the log only grew since the one before.
//! - [`Witness`]: such a witness. The law: *it never signs two checkpoints of one log that don't fit each other*. It keeps the last one of each
//!   log that it was told to watch, and looks at it, answers and replaces it under one lock.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::files::{self, Links, open, open_as, replace, sync_folder};
use crate::merkle::{Hash, empty_root, is_consistent};
use crate::note::{MAX_FILE_BYTES, base64, bytes, decimal, hash, is_name, key_id};
use crate::{SignedCheckpoint, SigningKey, TrailError, VerifierKey};

/// The type of an Ed25519 key that cosigns.
const COSIGNATURE_KEY: u8 = 4;
/// The most hashes of a proof that a log only grew.
const MAX_PATH: usize = 63;
/// The most bytes of a request.
pub const MAX_ADD_CHECKPOINT_BYTES: usize = 32 * 1024;
/// The media type of an answer that says how many entries the last checkpoint has.
pub const SIZE_TYPE: &str = "text/x.tlog.size";
/// The most copies that are read.
const MOST_COPIES: usize = 1 << 20;
/// The most bytes of a copy.
const MOST_COPY_BYTES: u64 = 16 * 1024;
/// What the name of a copy ends with.
pub(crate) const COPY: &str = ".checkpoint";

/// A key that checks cosignatures: `name+hash+key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CosignerKey {
    name: String,
    key: [u8; 32],
}

impl CosignerKey {
    /// Returns the name of the witness.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn id(&self) -> [u8; 4] {
        key_id(&self.name, COSIGNATURE_KEY, &self.key)
    }

    /// Returns when the witness cosigned the checkpoint, in seconds since 1970; `None` where it did not.
    pub fn cosigned_at(&self, checkpoint: &SignedCheckpoint) -> Option<u64> {
        let verifier = VerifierKey::new(&self.name, self.key)?;
        checkpoint.signatures_of(&self.name, self.id()).find_map(|bytes| {
            let (at, signature) = bytes.split_first_chunk::<8>()?;
            let at = u64::from_be_bytes(*at);
            verifier.has_signed(&cosigned(checkpoint, at), signature).then_some(at)
        })
    }
}

impl fmt::Display for CosignerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![COSIGNATURE_KEY];
        key.extend_from_slice(&self.key);
        write!(f, "{}+{:08x}+{}", self.name, u32::from_be_bytes(self.id()), base64(&key))
    }
}

impl FromStr for CosignerKey {
    type Err = TrailError;

    fn from_str(text: &str) -> Result<Self, TrailError> {
        let read = || {
            let (name, rest) = text.trim().split_once('+')?;
            let (id, key) = rest.split_once('+')?;
            let (kind, key) = bytes(key).and_then(|key| {
                let (kind, key) = key.split_first()?;
                Some((*kind, <[u8; 32]>::try_from(key).ok()?))
            })?;
            let key = Self { name: name.to_owned(), key };
            let sound = kind == COSIGNATURE_KEY
                && is_name(name)
                && u32::from_str_radix(id, 16).ok() == Some(u32::from_be_bytes(key.id()));
            sound.then_some(key)
        };
        read().ok_or(TrailError::NotAVerifierKey)
    }
}

impl SigningKey {
    /// Returns what others need to check its cosignatures under this name; `None` for a name that no note can hold.
    pub fn cosigner(&self, name: &str) -> Option<CosignerKey> {
        is_name(name).then(|| CosignerKey { name: name.to_owned(), key: self.public() })
    }

    /// Returns the line with which a witness of this name cosigns a checkpoint at a time, in seconds since 1970.
    pub fn cosign(&self, name: &str, checkpoint: &SignedCheckpoint, at: u64) -> Option<String> {
        let mut line = self.cosigner(name)?.id().to_vec();
        line.extend_from_slice(&at.to_be_bytes());
        line.extend_from_slice(&self.sign(&cosigned(checkpoint, at)));
        Some(format!("— {name} {}\n", base64(&line)))
    }
}

/// Returns what a witness signs.
fn cosigned(checkpoint: &SignedCheckpoint, at: u64) -> String {
    format!("cosignature/v1\ntime {at}\n{}", checkpoint.text())
}

/// What a witness is asked: to cosign a checkpoint, which proves that the log only grew since it had `old` entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddCheckpoint {
    /// How many entries the checkpoint had that the witness cosigned last; 0 if none.
    pub old: u64,
    /// The hashes that prove it.
    pub path: Vec<Hash>,
    /// The checkpoint.
    pub checkpoint: SignedCheckpoint,
}

impl fmt::Display for AddCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "old {}", self.old)?;
        self.path.iter().try_for_each(|hash| writeln!(f, "{}", base64(hash)))?;
        write!(f, "\n{}", self.checkpoint)
    }
}

impl FromStr for AddCheckpoint {
    type Err = TrailError;

    fn from_str(text: &str) -> Result<Self, TrailError> {
        let read = || {
            let (head, checkpoint) = text.split_once("\n\n")?;
            let mut lines = head.split('\n');
            let old = decimal(lines.next()?.strip_prefix("old ")?)?;
            let path = lines.map(hash).collect::<Option<Vec<_>>>()?;
            let checkpoint = checkpoint.parse().ok()?;
            (path.len() <= MAX_PATH).then_some(Self { old, path, checkpoint })
        };
        read().ok_or(TrailError::NotACheckpoint)
    }
}

/// Why a witness did not cosign.
#[derive(Debug, thiserror::Error)]
pub enum NotCosigned {
    /// It was not told to watch this log.
    #[error("this witness does not watch a log of this name")]
    UnknownLog,
    /// The checkpoint is not signed by the key of the log.
    #[error("the checkpoint is not signed by the key of the log")]
    Signature,
    /// The note of the checkpoint is longer than what a witness keeps, by its extension lines or its signatures.
    #[error("the note of the checkpoint has {0} bytes, and a witness keeps at most {MAX_FILE_BYTES}")]
    TooLong(usize),
    /// The log had more entries before than it has now, as the request says.
    #[error("the old size is above the size of the checkpoint")]
    Backwards,
    /// It cosigned another checkpoint last: one of so many entries.
    #[error("the last checkpoint that was cosigned has {0} entries")]
    Conflict(u64),
    /// It cosigned a checkpoint of the same size with another root.
    #[error("the checkpoint has another root than the one of the same size that was cosigned")]
    OtherRoot,
    /// The hashes do not prove that the log only grew.
    #[error("it is not proved that the log only grew")]
    Proof,
    /// What it keeps can't be read or written.
    #[error(transparent)]
    Trail(#[from] TrailError),
}

/// Who cosigns checkpoints of other logs.
#[derive(Clone, Debug)]
pub struct Witness {
    /// The name under which it signs.
    pub name: String,
    /// Where it keeps the last checkpoint of each log.
    pub folder: PathBuf,
    /// The file of its key, which is made if it is not there.
    pub key: PathBuf,
    /// The keys of the logs that it watches.
    pub logs: Vec<VerifierKey>,
}

impl Witness {
    /// Returns whether a request is one of a log that this witness watches, without a look at what it keeps: whoever has not signed it takes
    /// no room from others.
    ///
    /// # Errors
    ///
    /// [`NotCosigned::UnknownLog`], [`NotCosigned::Signature`], [`NotCosigned::TooLong`] and [`NotCosigned::Backwards`].
    pub fn admits(&self, request: &AddCheckpoint) -> Result<(), NotCosigned> {
        let AddCheckpoint { old, checkpoint: note, .. } = request;
        let checkpoint = note.checkpoint();
        let mut keys = self.logs.iter().filter(|key| key.name() == checkpoint.origin).peekable();
        if keys.peek().is_none() {
            return Err(NotCosigned::UnknownLog);
        }
        if !keys.any(|key| note.is_signed_by(key)) {
            return Err(NotCosigned::Signature);
        }
        // INVARIANT (what is kept can be read back): a witness that can't read what it has signed signs nothing any more.
        let bytes = note.to_string().len();
        if bytes as u64 > MAX_FILE_BYTES {
            return Err(NotCosigned::TooLong(bytes));
        }
        if *old > checkpoint.size {
            return Err(NotCosigned::Backwards);
        }
        Ok(())
    }

    /// Returns the line that cosigns the checkpoint at this time, in seconds since 1970. What is kept is on the disk before.
    ///
    /// # Errors
    ///
    /// [`NotCosigned`]. What can't be read counts as nothing: the witness would forget what it has signed.
    pub fn add(&self, request: &AddCheckpoint, at: u64) -> Result<String, NotCosigned> {
        self.admits(request)?;
        let AddCheckpoint { old, path, checkpoint: note } = request;
        let checkpoint = note.checkpoint();
        let mut folders = fs::DirBuilder::new();
        folders.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.create(&self.folder).map_err(TrailError::file(&self.folder, "created"))?;
        let lock = self.folder.join("lock");
        let locked = open(&lock, files::options().write(true).create(true).truncate(false));
        let locked = locked.and_then(|file| file.lock().map(|()| file));
        // Held until the answer is known.
        let _locked = locked.map_err(TrailError::file(&lock, "locked"))?;
        let kept = self.folder.join(file_name(&checkpoint.origin));
        let last = match SignedCheckpoint::of_log(&kept) {
            Err(TrailError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            last => Some(last?),
        };
        let is_first = last.is_none();
        let (size, root) =
            last.map_or((0, empty_root()), |last| (last.checkpoint().size, last.checkpoint().root));
        if *old != size {
            return Err(NotCosigned::Conflict(size));
        }
        if *old == checkpoint.size && root != checkpoint.root {
            return Err(if size == 0 { NotCosigned::Proof } else { NotCosigned::OtherRoot });
        }
        if !is_consistent(*old, &root, checkpoint.size, &checkpoint.root, path) {
            return Err(NotCosigned::Proof);
        }
        let line = SigningKey::open(&self.key)?.cosign(&self.name, note, at);
        let line = line.ok_or(TrailError::NotAVerifierKey)?;
        replace(&kept, note.to_string().as_bytes()).map_err(TrailError::file(&kept, "written"))?;
        // INVARIANT (no cosignature leaves before what it is about survives a power failure): the name counts as well as the bytes.
        let folder = &self.folder;
        sync_folder(folder).map_err(TrailError::file(folder, "written to the disk"))?;
        if let Some(above) = folder.parent().filter(|above| is_first && !above.as_os_str().is_empty()) {
            sync_folder(above).map_err(TrailError::file(above, "written to the disk"))?;
        }
        Ok(line)
    }

    /// Returns what others need to check its cosignatures. Its key is made if it is not there.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where the key can't be read or made, or its name is none.
    pub fn cosigner(&self) -> Result<CosignerKey, TrailError> {
        SigningKey::open(&self.key)?.cosigner(&self.name).ok_or(TrailError::NotAVerifierKey)
    }
}

/// Returns the name of a file about a log.
pub(crate) fn file_name(origin: &str) -> String {
    use sha2::Digest as _;
    let hash: Hash = sha2::Sha256::digest(origin.as_bytes()).into();
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A folder to which copies of checkpoints are only added: a file for each.
///
/// A copy is made under a name that is not there yet, and nothing ever changes or removes one. What that proves is a matter of the folder:
/// where the user who writes the log can change or remove files in it, nothing. So it belongs to another user who takes the copies away or makes
/// it append-only, or it is a mount that lets nothing be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copies {
    folder: PathBuf,
}

impl Copies {
    /// Returns the copies in a folder, which must be there.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    /// Adds a copy. Returns whether it was not there yet.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where it can't be written.
    pub fn add(&self, note: &SignedCheckpoint) -> Result<bool, TrailError> {
        self.add_file(&self.path(note, COPY), note.to_string().as_bytes())
    }

    /// Returns the file about a checkpoint with this ending.
    pub(crate) fn path(&self, note: &SignedCheckpoint, ending: &str) -> PathBuf {
        let checkpoint = note.checkpoint();
        let root: String = checkpoint.root.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        // Of one size there may be copies of several roots: that is what is looked for.
        let name = format!("{}-{:016}-{root}{ending}", file_name(&checkpoint.origin), checkpoint.size);
        self.folder.join(name)
    }

    /// Adds a file under a name that is not there yet. Returns whether it was not.
    pub(crate) fn add_file(&self, path: &Path, bytes: &[u8]) -> Result<bool, TrailError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o444);
        let mut file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            file => file.map_err(TrailError::file(path, "made"))?,
        };
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        written.map_err(TrailError::file(path, "written"))?;
        Ok(true)
    }

    /// Returns how many copies there are, of whatever logs.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where the folder can't be read.
    pub fn count(&self) -> Result<usize, TrailError> {
        let files = fs::read_dir(&self.folder).map_err(TrailError::file(&self.folder, "listed"))?;
        let names = files.take(MOST_COPIES).filter_map(|file| file.ok()?.file_name().into_string().ok());
        Ok(names.filter(|name| name.ends_with(COPY)).count())
    }

    /// Returns the copies of checkpoints of a log, and how many files can't be read as such: a copy that is being made, or one that somebody
    /// changed.
    ///
    /// # Errors
    ///
    /// [`TrailError`] where the folder can't be read, or has too many.
    pub fn of(&self, origin: &str) -> Result<(Vec<SignedCheckpoint>, u64), TrailError> {
        self.of_at_least(origin, 0)
    }

    /// Returns those of [`of`](Self::of) that have so many entries or more, as far as their names say. No other file is opened: a folder that
    /// was told for years has hundreds of thousands.
    ///
    /// # Errors
    ///
    /// As [`of`](Self::of).
    pub fn of_at_least(&self, origin: &str, size: u64) -> Result<(Vec<SignedCheckpoint>, u64), TrailError> {
        let failed = || TrailError::file(&self.folder, "listed");
        let prefix = format!("{}-", file_name(origin));
        let (mut copies, mut unreadable) = (Vec::new(), 0);
        for file in fs::read_dir(&self.folder).map_err(failed())? {
            let name = file.map_err(failed())?.file_name();
            let is_large = |rest: &str| rest.split('-').next()?.parse().ok().map(|named: u64| named >= size);
            let is_copy = |name: &str| {
                let rest = name.strip_prefix(&prefix).filter(|rest| rest.ends_with(COPY));
                // What has no such name is looked at.
                rest.is_some_and(|rest| is_large(rest).unwrap_or(true))
            };
            if !name.to_str().is_some_and(is_copy) {
                continue;
            }
            if copies.len() >= MOST_COPIES {
                let path = self.folder.clone();
                return Err(TrailError::Damaged { path, what: "number of copies that is read" });
            }
            match copy(&self.folder.join(name)).filter(|copy| copy.checkpoint().origin == origin) {
                Some(copy) => copies.push(copy),
                None => unreadable += 1,
            }
        }
        Ok((copies, unreadable))
    }
}

fn copy(path: &Path) -> Option<SignedCheckpoint> {
    let mut text = String::new();
    let file = open_as(path, OpenOptions::new().read(true), Links::Refused).ok()?;
    file.take(MOST_COPY_BYTES).read_to_string(&mut text).ok()?;
    text.parse().ok()
}
