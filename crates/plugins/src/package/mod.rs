//! A plugin's folder, read once and whole: what is in it, and the digest of all of it.
//!
//! The law: *what was looked at is what runs*. A [`Package`] is made by walking the folder and reading every file in it; the digest,
//! which people trust and which is compared before a plugin is loaded, is over every file's name, whether it can be
//! started, and its bytes. A link that leads out of the folder, a device, a pipe are refused: what they stand for would be in no digest.
//!
//! The digest is SHA-256 over `backstop-plugin-1` and a zero byte, then for each entry in the order of their names' bytes: its kind
//! (`f`, `x` for a file that can be started, `l` for a link), the length of its name (8 bytes, little-endian), the name with `/` between
//! its parts, and the SHA-256 of its bytes, or of a link's target. Folders count by what lies in them; an empty one does not.
//!
//! Limits: [`Bounds`]. Names must be valid UTF-8.

mod findings;
mod kept;
mod seal;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};

use self::findings::Findings;
pub use self::findings::{Finding, FindingKind};
pub(crate) use self::kept::{read_json, write_json};
pub use self::seal::Seal;

/// How large a plugin may be.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most files, folders and links.
    pub entries: usize,
    /// Most bytes of all files.
    pub bytes: u64,
    /// Most bytes of one file.
    pub file: u64,
    /// Most folders inside of each other.
    pub depth: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { entries: 50_000, bytes: 1 << 30, file: 128 << 20, depth: 48 }
    }
}

/// The digest of everything in a plugin's folder.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentHash([u8; 32]);

impl ContentHash {
    /// The digest of something else that is kept beside content hashes.
    pub(crate) const fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

/// A text that is no content hash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no content hash\nhint: it is `sha256:` and 64 of `0-9`, `a-f`")]
pub struct NoHash;

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for ContentHash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let hex = text.strip_prefix("sha256:").filter(|hex| hex.len() == 64).ok_or(NoHash)?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(hex.as_bytes().chunks(2)) {
            let [high, low] = pair else { return Err(NoHash) };
            *byte = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low).ok_or(NoHash)?;
        }
        Ok(Self(hash))
    }
}

impl TryFrom<String> for ContentHash {
    type Error = NoHash;

    fn try_from(text: String) -> Result<Self, NoHash> {
        text.parse()
    }
}

impl From<ContentHash> for String {
    fn from(hash: ContentHash) -> Self {
        hash.to_string()
    }
}

/// Why a folder can't be a plugin's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// It can't be read.
    #[error("can't read `{}`: {error}", shown(.path))]
    Unreadable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A copy of it can't be written.
    #[error("can't write `{}`: {error}{}", .path.display(), crate::trust::way_out(.error))]
    Unwritable {
        /// Which file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// There is more than is read.
    #[error("the plugin has more than {most} {what}, at `{}`\nhint: leave out what it does not need, such as dependencies for development", shown(.path))]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much there may be.
        most: u64,
        /// Where that was found.
        path: PathBuf,
    },
    /// It leads out of the folder.
    #[error("`{}` is a link that leads out of the plugin's folder\nhint: put a copy of the file there", shown(.0))]
    LeadsOut(PathBuf),
    /// Where a plugin's folder should be there is something else, or a link to a folder.
    #[error("`{}` is no folder, but a file or a link\nhint: name the folder itself", shown(.0))]
    NoFolder(PathBuf),
    /// It is no file, no folder and no link.
    #[error("`{}` is neither a file nor a folder nor a link", shown(.0))]
    Special(PathBuf),
    /// Its name is no text.
    #[error("the name `{}` is not valid UTF-8", shown(.0))]
    Name(PathBuf),
    /// It was changed while it was read, or since.
    #[error("`{}` was changed since it was looked at", shown(.0))]
    Changed(PathBuf),
}

fn shown(path: &Path) -> String {
    backstop_yaml::quote(&path.to_string_lossy())
}

/// What kind of thing an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File { starts: bool, stamp: Option<Stamp> },
    Link { target: String },
}

/// What the system says of a file without its being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stamp {
    length: u64,
    device: u64,
    number: u64,
    modified: (i64, i64),
    /// When it was changed in any way; nobody sets it.
    changed: (i64, i64),
}

impl Stamp {
    #[cfg(unix)]
    pub(crate) fn of(found: &fs::Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        Some(Self {
            length: found.len(),
            device: found.dev(),
            number: found.ino(),
            modified: (found.mtime(), found.mtime_nsec()),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &fs::Metadata) -> Option<Self> {
        None
    }

    fn is_of_same_file(&self, other: &Self) -> bool {
        (self.device, self.number) == (other.device, other.number)
    }

    /// Whether it was changed last before `time`, and by more than `by`.
    fn is_older_than(&self, time: SystemTime, by: Duration) -> bool {
        let changed =
            u64::try_from(self.changed.0).ok().map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
        changed.is_some_and(|changed| time.duration_since(changed).is_ok_and(|age| age > by))
    }
}

/// A plugin's folder, read.
#[derive(Clone, Debug)]
pub struct Package {
    /// The folder.
    pub root: PathBuf,
    /// The digest of everything in it.
    pub hash: ContentHash,
    /// How many files and links it has.
    pub entries: usize,
    /// How many bytes they have.
    pub bytes: u64,
    /// What people should know before they trust it.
    pub findings: Vec<Finding>,
}

impl Package {
    /// Reads the folder.
    ///
    /// # Errors
    ///
    /// [`PackageError`], which names the file.
    pub fn read(root: &Path, bounds: &Bounds) -> Result<Self, PackageError> {
        let mut findings = Findings::default();
        let digested = digest(root, bounds, &|_, _| None, &mut |path, bytes| findings.look(path, bytes))?;
        for (name, (entry, _)) in &digested.entries {
            if let Entry::Link { target } = entry {
                findings.look_at_link(name, target);
            }
        }
        let (hash, entries, bytes) = (digested.hash, digested.entries.len(), digested.bytes);
        Ok(Self { root: root.to_owned(), hash, entries, bytes, findings: findings.finish() })
    }

    /// The digest alone, without looking for anything in the files.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn hash(root: &Path, bounds: &Bounds) -> Result<ContentHash, PackageError> {
        digest(root, bounds, &|_, _| None, &mut |_, _| {}).map(|digested| digested.hash)
    }
}

/// A folder that was read.
struct Digested {
    hash: ContentHash,
    /// Each entry with the digest of its bytes, or of its target.
    entries: BTreeMap<String, (Entry, [u8; 32])>,
    bytes: u64,
}

/// What is known of a file's bytes without reading them: their digest.
type Known<'a> = dyn Fn(&str, &Entry) -> Option<[u8; 32]> + 'a;

fn digest(
    root: &Path,
    bounds: &Bounds,
    known: &Known<'_>,
    look: &mut dyn FnMut(&str, &[u8]),
) -> Result<Digested, PackageError> {
    let mut entries = BTreeMap::new();
    let mut whole = Sha256::new_with_prefix(b"backstop-plugin-1\0");
    let mut total = 0_u64;
    let mut buffer = Vec::new();
    for (name, entry) in list(root, bounds)? {
        let (kind, inner) = match &entry {
            Entry::Link { target } => (b'l', Sha256::digest(target).into()),
            Entry::File { starts, stamp } => {
                let known = known(&name, &entry);
                let (bytes, inner): (u64, [u8; 32]) = match (known, stamp) {
                    (Some(digest), Some(stamp)) => (stamp.length, digest),
                    _ => {
                        read_file(&root.join(&name), stamp.as_ref(), bounds, &mut buffer)?;
                        look(&name, &buffer);
                        (length(buffer.len()), Sha256::digest(&buffer).into())
                    }
                };
                total = total.saturating_add(bytes);
                if total > bounds.bytes {
                    return Err(PackageError::TooMuch {
                        what: "bytes",
                        most: bounds.bytes,
                        path: name.into(),
                    });
                }
                (if *starts { b'x' } else { b'f' }, inner)
            }
        };
        whole.update([kind]);
        whole.update(length(name.len()).to_le_bytes());
        whole.update(&name);
        whole.update(inner);
        entries.insert(name, (entry, inner));
    }
    Ok(Digested { hash: ContentHash(whole.finalize().into()), entries, bytes: total })
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// Opens what is there by this name itself, never what a link leads to, without waiting for whoever writes into a pipe.
#[cfg(unix)]
pub(crate) fn open_itself(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

#[cfg(not(unix))]
pub(crate) fn open_itself(path: &Path) -> io::Result<File> {
    match path.symlink_metadata()?.is_file() {
        true => File::open(path),
        false => Err(io::Error::other("it is no file")),
    }
}

/// Reads a file of at most the bound, and nothing that took its place since it was listed.
fn read_file(
    path: &Path,
    listed: Option<&Stamp>,
    bounds: &Bounds,
    buffer: &mut Vec<u8>,
) -> Result<(), PackageError> {
    buffer.clear();
    let unreadable = |error| PackageError::Unreadable { path: path.to_owned(), error };
    let changed = || PackageError::Changed(path.to_owned());
    if path.symlink_metadata().map_err(unreadable)?.is_symlink() {
        return Err(changed());
    }
    let file = open_itself(path).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    let is_this = match (listed, Stamp::of(&found)) {
        (Some(listed), Some(now)) => listed.is_of_same_file(&now),
        _ => true,
    };
    if !found.is_file() || !is_this {
        return Err(changed());
    }
    file.take(bounds.file.saturating_add(1)).read_to_end(buffer).map_err(unreadable)?;
    match length(buffer.len()) > bounds.file {
        true => {
            Err(PackageError::TooMuch { what: "bytes in one file", most: bounds.file, path: path.to_owned() })
        }
        false => Ok(()),
    }
}

/// Looks at every name in the folder, without reading files: what is refused in [`Package::read`] is refused here, as far as that shows.
pub(crate) fn check(root: &Path, bounds: &Bounds) -> Result<(), PackageError> {
    list(root, bounds).map(drop)
}

/// Everything in the folder, by its name from there. The folder is no link: what is behind one is somebody else's to change.
fn list(root: &Path, bounds: &Bounds) -> Result<BTreeMap<String, Entry>, PackageError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| PackageError::Unreadable { path, error }
    };
    if !root.symlink_metadata().map_err(unreadable(root))?.is_dir() {
        return Err(PackageError::NoFolder(root.to_owned()));
    }
    let really = root.canonicalize().map_err(unreadable(root))?;
    let mut entries = BTreeMap::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    let mut seen = 0;
    while let Some((folder, depth)) = folders.pop() {
        let path = root.join(&folder);
        for entry in fs::read_dir(&path).map_err(unreadable(&path))? {
            let entry = entry.map_err(unreadable(&path))?;
            let name = folder.join(entry.file_name());
            seen += 1;
            if seen > bounds.entries {
                let most = length(bounds.entries);
                return Err(PackageError::TooMuch { what: "files and folders", most, path: name });
            }
            let text = name.to_str().ok_or_else(|| PackageError::Name(name.clone()))?.to_owned();
            let found = entry.metadata().map_err(unreadable(&name))?;
            if found.is_dir() {
                if depth >= bounds.depth {
                    let most = length(bounds.depth);
                    return Err(PackageError::TooMuch {
                        what: "folders inside of each other",
                        most,
                        path: name,
                    });
                }
                folders.push((name, depth + 1));
            } else if found.is_symlink() {
                entries.insert(text, link(root, &really, &name)?);
            } else if found.is_file() {
                if found.len() > bounds.file {
                    let what = "bytes in one file";
                    return Err(PackageError::TooMuch { what, most: bounds.file, path: name });
                }
                entries.insert(text, Entry::File { starts: starts(&found), stamp: Stamp::of(&found) });
            } else {
                return Err(PackageError::Special(name));
            }
        }
    }
    Ok(entries)
}

/// A link that stays inside, by what it says and by where it leads.
fn link(root: &Path, really: &Path, name: &Path) -> Result<Entry, PackageError> {
    let out = || PackageError::LeadsOut(name.to_owned());
    let path = root.join(name);
    let target =
        fs::read_link(&path).map_err(|error| PackageError::Unreadable { path: path.clone(), error })?;
    let mut depth = name.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir => depth = depth.checked_sub(1).ok_or_else(out)?,
            Component::RootDir | Component::Prefix(_) => return Err(out()),
        }
    }
    match path.canonicalize() {
        Ok(leads) if leads.starts_with(really) => {}
        _ => return Err(out()),
    }
    let target = target.to_str().ok_or_else(|| PackageError::Name(name.to_owned()))?.to_owned();
    Ok(Entry::Link { target })
}

#[cfg(unix)]
fn starts(found: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    found.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn starts(_: &fs::Metadata) -> bool {
    false
}

/// Copies a plugin's folder, file by file, into a new one. What is refused in [`Package::read`] is refused here.
///
/// # Errors
///
/// [`PackageError`], which names the file. What was copied by then is left for the caller to remove.
pub fn copy(from: &Path, to: &Path, bounds: &Bounds) -> Result<(), PackageError> {
    let mut buffer = Vec::new();
    let mut total = 0_u64;
    for (name, entry) in list(from, bounds)? {
        let path = to.join(&name);
        let failed = unwritable(&path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(&failed)?;
        }
        match entry {
            Entry::Link { target } => make_link(&target, &path).map_err(&failed)?,
            Entry::File { starts, stamp } => {
                read_file(&from.join(&name), stamp.as_ref(), bounds, &mut buffer)?;
                total = total.saturating_add(length(buffer.len()));
                if total > bounds.bytes {
                    return Err(PackageError::TooMuch {
                        what: "bytes",
                        most: bounds.bytes,
                        path: name.into(),
                    });
                }
                write_file(&path, &buffer, starts).map_err(&failed)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn unwritable(path: &Path) -> impl Fn(io::Error) -> PackageError {
    let path = path.to_owned();
    move |error| PackageError::Unwritable { path: path.clone(), error }
}

#[cfg(unix)]
pub(crate) fn make_link(target: &str, path: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
pub(crate) fn make_link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::Error::other("links are not made on this system"))
}

/// Writes a new file that nobody else can write.
pub(crate) fn write_file(path: &Path, bytes: &[u8], starts: bool) -> io::Result<()> {
    use std::io::Write as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if starts { 0o755 } else { 0o644 });
    }
    #[cfg(not(unix))]
    let _ = starts;
    let mut file = options.open(path)?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests;
