//! The folder outside of which the file tools touch nothing.
//!
//! A path is used in two steps. [`Workspace::resolve`] walks it name by name, follows the symbolic links in it
//! and refuses the path as soon as it leaves the root, be it by `..`, by an absolute path or by a link. What
//! remains is a path of plain names below the root. Files are then opened relative to a handle on the root
//! in a way that cannot leave it (`openat2` with `RESOLVE_BENEATH` on Linux, a walk without following links
//! elsewhere), so that a link put in place between the two steps makes the call fail instead of escape.
//!
//! Only regular files are opened and only directories are listed; pipes, sockets and devices are refused.
//! Contents are replaced by a rename, so a reader sees the old file or the new one and a hard link to a file
//! elsewhere is cut rather than written through.
//!
//! What this does not protect against: reading a file outside of the root through a hard link or a bind
//! mount inside of it; a process of the same user that moves the root itself; anything that `exec` does.

mod resolve;
mod stage;

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions, OpenOptionsExt as _};
use rustix::fs::OFlags;

pub(super) use resolve::Located;
pub(super) use stage::{SetAside, Staged};

/// Why a path could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The root cannot be opened as a directory.
    #[error("cannot use `{path}` as workspace: {source}")]
    Root {
        /// The root as it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// The path is empty, too long or contains a NUL.
    #[error("`{path}` is not a path; hint: give a path relative to the workspace, of at most 4096 bytes")]
    Malformed {
        /// The path, shortened.
        path: String,
    },
    /// The path, or a link in it, leads out of the root.
    #[error("`{path}` is outside of the workspace `{root}`; hint: use a path inside of it")]
    Outside {
        /// The path as it was given.
        path: String,
        /// The root.
        root: String,
    },
    /// There is nothing at the path.
    #[error("there is no `{path}` in the workspace `{root}`; hint: `read` a directory to see what is there")]
    NotFound {
        /// The path as it was given.
        path: String,
        /// The root.
        root: String,
    },
    /// There is something at the path which is not a file.
    #[error("`{path}` is {kind}; only regular files can be used here")]
    NotAFile {
        /// The path as it was given.
        path: String,
        /// What is there, with its article.
        kind: &'static str,
    },
    /// The file is larger than the limit.
    #[error(
        "`{path}` has {bytes} bytes, more than the limit of {limit}; hint: use `exec` to work on a part of it"
    )]
    TooLarge {
        /// The path as it was given.
        path: String,
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The system refused.
    #[error("cannot {action} `{path}`: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The path as it was given.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

/// A directory, and the promise not to touch anything outside of it. Clones share it.
#[derive(Clone)]
pub struct Workspace(Arc<Inner>);

struct Inner {
    root: PathBuf,
    /// The root as the operator spelled it, which may lead through links.
    spelled: PathBuf,
    dir: Dir,
    writing: Mutex<()>,
}

/// What is at a path.
#[derive(Debug)]
pub(super) enum Entry {
    File(File, Metadata),
    Directory,
}

impl Workspace {
    /// Opens the directory `root`, which must exist.
    ///
    /// # Errors
    /// [`WorkspaceError::Root`] if it does not, or is not a directory.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, WorkspaceError> {
        let spelled = root.as_ref();
        let failed = |source| WorkspaceError::Root { path: spelled.display().to_string(), source };
        let root = spelled.canonicalize().map_err(failed)?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(failed)?;
        let spelled = std::path::absolute(spelled).map_err(failed)?;
        Ok(Self(Arc::new(Inner { root, spelled, dir, writing: Mutex::new(()) })))
    }

    /// The root, absolute and without links.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Keeps other tools from changing files until the guard is dropped, so that what was read is what is
    /// replaced. Programs outside do not know of it.
    pub(super) fn exclusive(&self) -> MutexGuard<'_, ()> {
        self.0.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens what is at `at`: a regular file for reading, or a directory.
    pub(super) fn open_entry(&self, at: &Located) -> Result<Entry, WorkspaceError> {
        let metadata = self.dir().metadata(at.relative()).map_err(|error| self.io("read", at, error))?;
        if metadata.is_dir() {
            return Ok(Entry::Directory);
        }
        at.require_file(&metadata)?;
        let mut options = OpenOptions::new();
        // Should a pipe have taken the file's place meanwhile, opening it must not hang.
        options.read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
        let file =
            self.dir().open_with(at.relative(), &options).map_err(|error| self.io("read", at, error))?;
        let metadata = file.metadata().map_err(|error| self.io("read", at, error))?;
        at.require_file(&metadata)?;
        Ok(Entry::File(file, metadata))
    }

    /// The contents of the regular file at `at`.
    pub(super) fn read_file(&self, at: &Located, limit: u64) -> Result<Vec<u8>, WorkspaceError> {
        match self.open_entry(at)? {
            Entry::Directory => {
                Err(WorkspaceError::NotAFile { path: at.shown().to_owned(), kind: "a directory" })
            }
            Entry::File(file, metadata) => self.read_open(at, file, &metadata, limit),
        }
    }

    /// The contents of an open file.
    pub(super) fn read_open(
        &self,
        at: &Located,
        file: File,
        metadata: &Metadata,
        limit: u64,
    ) -> Result<Vec<u8>, WorkspaceError> {
        let too_large = |bytes| WorkspaceError::TooLarge { path: at.shown().to_owned(), bytes, limit };
        if metadata.len() > limit {
            return Err(too_large(metadata.len()));
        }
        let mut bytes = Vec::new();
        // A file may grow while it is read, and those of /proc say that they are empty.
        let read = file
            .take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| self.io("read", at, error))?;
        let read = u64::try_from(read).unwrap_or(u64::MAX);
        if read > limit { Err(too_large(read)) } else { Ok(bytes) }
    }

    /// Whether there is anything at `at`.
    pub(super) fn exists(&self, at: &Located) -> Result<bool, WorkspaceError> {
        match self.dir().symlink_metadata(at.relative()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.io("look at", at, error)),
        }
    }

    /// Names in the directory at `at`, sorted; directories end in `/`, links in `@`. At most `max` of them,
    /// and how many there are.
    pub(super) fn list(&self, at: &Located, max: usize) -> Result<(Vec<String>, usize), WorkspaceError> {
        let failed = |error| self.io("list", at, error);
        let mut names = Vec::new();
        let mut total = 0;
        for entry in self.dir().read_dir(at.relative()).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let mark = match () {
                () if kind.is_dir() => "/",
                () if kind.is_symlink() => "@",
                () => "",
            };
            total += 1;
            names.push(format!("{}{mark}", entry.file_name().to_string_lossy()));
            if names.len() >= max.saturating_mul(2) {
                names.sort_unstable();
                names.truncate(max);
            }
        }
        names.sort_unstable();
        names.truncate(max);
        Ok((names, total))
    }

    /// Removes the file at `at`.
    pub(super) fn remove(&self, at: &Located) -> Result<(), WorkspaceError> {
        self.dir().remove_file(at.relative()).map_err(|error| self.io("delete", at, error))
    }

    /// Writes `bytes` beside `at`, to be published there as a whole.
    pub(super) fn stage(&self, at: &Located, bytes: &[u8]) -> Result<Staged, WorkspaceError> {
        Staged::write(self, at, bytes, at)
    }

    /// As [`stage`](Self::stage); the file gets the permissions of the one at `like`, if there is one.
    pub(super) fn stage_like(
        &self,
        at: &Located,
        bytes: &[u8],
        like: &Located,
    ) -> Result<Staged, WorkspaceError> {
        Staged::write(self, at, bytes, like)
    }

    /// Takes the regular file at `at` away in a way that can be undone.
    pub(super) fn set_aside(&self, at: &Located) -> Result<SetAside, WorkspaceError> {
        SetAside::take(self, at)
    }

    fn io(&self, action: &'static str, at: &Located, source: io::Error) -> WorkspaceError {
        if source.kind() == io::ErrorKind::NotFound {
            return WorkspaceError::NotFound { path: at.shown().to_owned(), root: self.shown_root() };
        }
        WorkspaceError::Io { action, path: at.shown().to_owned(), source }
    }

    fn shown_root(&self) -> String {
        self.root().display().to_string()
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workspace").field(&self.0.root).finish()
    }
}
