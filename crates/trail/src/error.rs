//! What can go wrong with a log.

use std::io;
use std::path::{Path, PathBuf};

use crate::entry::BodyError;

/// Why a log can't be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TrailError {
    /// A file or folder of it.
    #[error("`{path}` can't be {what}: {source}")]
    File {
        /// Which one.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A file holds something else than it should.
    #[error(
        "`{path}` holds no {what}\nhint: compare with a backup; `backstop audit verify` says which entry is the first that is wrong. A damaged `checkpoint` or `origin` is put aside and recovered by the next process that writes"
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
    },
    /// The file with the name of the log is gone or damaged, and the key has signed none of its checkpoints.
    #[error(
        "`{}` does not name the log, and none of its checkpoints is signed by the key that is here\nhint: put `origin` back from a backup, or the key; \
         or move the folder away, and a new log begins", .0.display()
    )]
    UnknownName(PathBuf),
    /// An entry can't be written.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// There is no such entry.
    #[error("the log has no entry {0}, or it was pruned")]
    NoSuchEntry(u64),
    /// No checkpoint covers the entry yet.
    #[error(
        "no checkpoint covers entry {0} yet\nhint: one is written at the latest ten seconds after an entry, and when a process ends"
    )]
    NotYet(u64),
    /// The queue is full.
    #[error("{0} entries wait to be written, and no more may")]
    Full(usize),
    /// The thread that writes has ended.
    #[error("the log is closed")]
    Closed,
    /// A key can't be made: the system gives no randomness.
    #[error("a key could not be made")]
    NoKey,
    /// Somebody else keeps the key, and is the one to replace it.
    #[error("the key of the log is kept in `{}`, where it is only read", .0.display())]
    KeyKept(PathBuf),
    /// The text is no key that checks signatures.
    #[error("this is no key that checks checkpoints\nhint: it looks like `name+hash+base64`")]
    NotAVerifierKey,
    /// The text is no signed checkpoint.
    #[error("this is no signed checkpoint")]
    NotACheckpoint,
    /// The text is no proof.
    #[error("this is no proof of an entry: {0}")]
    NotAProof(&'static str),
}

impl TrailError {
    /// Returns how failures with that file are told.
    pub(crate) fn file(path: &Path, what: &'static str) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_path_buf();
        move |source| Self::File { path, what, source }
    }

    /// Returns whether the disk, or what a user may have of it, is full.
    pub fn is_full_disk(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        matches!(self, Self::File { source, .. } if full.contains(&source.kind()))
    }
}
