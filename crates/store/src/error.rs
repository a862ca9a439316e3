//! Errors of the storage itself, independent of the operation.

use std::fmt;

/// The storage could not do its work. Nothing of the failed operation was kept, unless the kind is [`Uncertain`](StoreErrorKind::Uncertain).
///
/// The text names the database, the cause and the next step; it never holds stored content.
#[derive(Debug)]
pub struct StoreError {
    place: Box<str>,
    kind: StoreErrorKind,
    cause: Option<Box<str>>,
    is_of_server: bool,
}

/// What kind of failure a [`StoreError`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// Another process held the database for longer than the configured timeout.
    Locked,
    /// No room for the data.
    Full,
    /// The database or its folder can't be written.
    ReadOnly,
    /// The database or its folder can't be opened or created.
    CannotOpen,
    /// The file is not a database.
    NotADatabase,
    /// The file is a database of another program.
    ForeignDatabase,
    /// The database was written by a newer version.
    NewerSchema {
        /// The schema version found.
        found: i64,
        /// The newest schema version that this program knows.
        known: i64,
    },
    /// The database is damaged, or holds a row that can't be read.
    Corrupt,
    /// Reading or writing failed in the operating system.
    Io,
    /// The store's thread is gone.
    Stopped,
    /// Digests in the audit trail are to be keyed, and the key is not there.
    NoDigestKey,
    /// The server can't be reached, or went away. Nothing was kept; the next operation connects again.
    Unreachable,
    /// The server went away while it was told to keep what was written, and it can't be found out whether it did.
    Uncertain,
    /// The server lacks what it had kept, or is one whose place another one has taken. Nothing is done with it.
    SetBack,
    /// The storage refused a statement. This is a bug in Backstop.
    Internal,
}

impl StoreError {
    pub(crate) fn new(place: &str, kind: StoreErrorKind) -> Self {
        Self { place: place.into(), kind, cause: None, is_of_server: false }
    }

    pub(crate) fn because(place: &str, kind: StoreErrorKind, cause: impl fmt::Display) -> Self {
        Self { place: place.into(), kind, cause: Some(cause.to_string().into()), is_of_server: false }
    }

    /// It is about a database on a server, and no file.
    #[cfg(feature = "postgres")]
    pub(crate) fn of_server(self) -> Self {
        Self { is_of_server: true, ..self }
    }

    /// Returns what kind of failure it is.
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns the database: a path, or a name and its server.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns what the user can do about it.
    pub fn hint(&self) -> &'static str {
        if self.is_of_server {
            return self.hint_of_server();
        }
        match self.kind {
            StoreErrorKind::Locked => "another backstop process holds the database: wait for it, or end it",
            StoreErrorKind::Full => "is the disk full, or the memory?",
            StoreErrorKind::ReadOnly => "make the file and its folder writable for this user",
            StoreErrorKind::CannotOpen => "check that the folder exists and belongs to this user",
            StoreErrorKind::NotADatabase | StoreErrorKind::ForeignDatabase => {
                "choose another path for the database, or move this file away"
            }
            StoreErrorKind::NewerSchema { .. } => "update backstop, or use another database",
            StoreErrorKind::Corrupt => "restore the file from a backup, or move it away to start afresh",
            StoreErrorKind::Io => "is the disk full, a quota reached, or the device gone?",
            StoreErrorKind::NoDigestKey => NO_DIGEST_KEY,
            StoreErrorKind::Unreachable => UNREACHABLE,
            StoreErrorKind::Uncertain => UNCERTAIN,
            StoreErrorKind::SetBack => SET_BACK,
            StoreErrorKind::Stopped | StoreErrorKind::Internal => "please report this, with the text above",
        }
    }

    fn hint_of_server(&self) -> &'static str {
        match self.kind {
            StoreErrorKind::Locked => "another writer, or the server itself, takes long: try again",
            StoreErrorKind::Full | StoreErrorKind::Io => "see to the server's disk",
            StoreErrorKind::ReadOnly => {
                "connect to a server that takes writes, as a role that owns the schema"
            }
            StoreErrorKind::CannotOpen => "check the address, the role, its password, and the certificate",
            StoreErrorKind::NotADatabase | StoreErrorKind::ForeignDatabase => "choose another schema",
            StoreErrorKind::NewerSchema { .. } => "update backstop, or use another schema",
            StoreErrorKind::Corrupt => "restore the database from a backup",
            StoreErrorKind::NoDigestKey => NO_DIGEST_KEY,
            StoreErrorKind::Unreachable => UNREACHABLE,
            StoreErrorKind::Uncertain => UNCERTAIN,
            StoreErrorKind::SetBack => SET_BACK,
            StoreErrorKind::Stopped | StoreErrorKind::Internal => "please report this, with the text above",
        }
    }
}

impl StoreErrorKind {
    /// Returns whether it is what a server that is restarted, or replaced by its standby, leads to meanwhile.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Unreachable | Self::ReadOnly)
    }
}

const UNREACHABLE: &str =
    "does the server run, and does the network let one to it? the next operation connects again";
const NO_DIGEST_KEY: &str = "put the file back that `audit.digest_key` names, readable by its owner only";
const UNCERTAIN: &str = "look whether it took effect before doing it again";
const SET_BACK: &str = "connect to the server that took its place, or restore what is missing; if that can't be, revoke the grants that must not count \
                        twice, and start this program again";

/// What is wrong with a database, as the rest of a sentence that begins with its name: `is locked`. It has no place in it, so it may be told to anybody.
impl fmt::Display for StoreErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Locked => f.write_str("is locked"),
            Self::Full => f.write_str("can't grow"),
            Self::ReadOnly => f.write_str("can't be written"),
            Self::CannotOpen => f.write_str("can't be opened"),
            Self::NotADatabase => f.write_str("is not a database"),
            Self::ForeignDatabase => f.write_str("belongs to another program"),
            Self::NewerSchema { found, known } => {
                write!(f, "has schema version {found}, this program knows versions up to {known}")
            }
            Self::Corrupt => f.write_str("is damaged"),
            Self::Io => f.write_str("can't be read or written"),
            Self::Stopped => f.write_str("has no working thread any more"),
            Self::NoDigestKey => f.write_str("takes no entry without the key of its digests"),
            Self::Unreachable => f.write_str("can't be reached"),
            Self::Uncertain => {
                f.write_str("may or may not hold what was being written when its server went away")
            }
            Self::SetBack => f.write_str("was set back"),
            Self::Internal => f.write_str("refused a statement"),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database `{}` {}", self.place, self.kind)?;
        if let Some(cause) = &self.cause {
            write!(f, ": {cause}")?;
        }
        write!(f, "\nhint: {}", self.hint())
    }
}

impl std::error::Error for StoreError {}
