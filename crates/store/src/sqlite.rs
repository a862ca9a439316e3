//! The SQLite store: one file that several processes may share, or a database in memory that ends with the store.
//!
//! *In a file*, one thread owns the connection and processes a bounded queue; each operation is one transaction.
//! The file is opened by the first operation, not before. If it is missing, it is created, readable only by
//! its owner. Commits are synced to disk before they are reported, because an allowance that was used
//! up must not come back after a power failure. The audit trail is a log of its own in a folder beside the file.
//!
//! *In memory*, operations run where they are called, nothing reaches a disk, and the audit trail is in memory, too. Schema, statements and
//! laws are the same.

mod audit;
mod database;
mod in_place;
mod lookout;
pub(crate) mod memory_trail;
mod migrations;
mod open;
mod pages;
mod pruning;
#[cfg(test)]
mod tests;
mod texts;
pub(crate) mod trail;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_trail::Options as TrailOptions;

pub(crate) use self::audit::say;
pub use self::database::Database;
pub(crate) use self::in_place::PLACE as MEMORY;
use self::in_place::SaidIn;
use self::memory_trail::MemoryTrail;
use self::trail::Trail;
pub use self::trail::audit_in;
use crate::keyed::Keying;
use crate::sql::{AuditTrail, SqlStore};
use crate::{AnswerStore, DigestKey, Store, StoreError};

/// How long an operation waits for another process by default.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The most questions that a process keeps which keeps nothing else.
const MOST_QUESTIONS: u64 = 2_000;

/// State in a SQLite file, or in memory.
pub type SqliteStore = SqlStore<Database>;

impl SqliteStore {
    /// Creates a store for the file at `path`. Nothing is opened or created before the first operation.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_busy_timeout(path, DEFAULT_BUSY_TIMEOUT)
    }

    /// As [`new`](Self::new); operations give up when another process holds the file for longer than `wait`.
    pub fn with_busy_timeout(path: impl Into<PathBuf>, wait: Duration) -> Self {
        Self::in_file(path.into(), wait, Keying::default())
    }

    /// As [`new`](Self::new); the digests of what was judged are keyed in its audit trail, if there is a key.
    pub fn with_digest_key(path: impl Into<PathBuf>, key: Option<Arc<DigestKey>>) -> Self {
        Self::in_file(path.into(), DEFAULT_BUSY_TIMEOUT, key.into())
    }

    /// As [`new`](Self::new), where the digests of what was judged are to be keyed and the key is not there, for this reason: what is there can
    /// be read, and whatever would leave an entry in the audit trail fails.
    pub fn without_its_digest_key(path: impl Into<PathBuf>, why: &str) -> Self {
        Self::in_file(path.into(), DEFAULT_BUSY_TIMEOUT, Keying::Missing(why.into()))
    }

    /// As [`new`](Self::new), where somebody else keeps the file `signing` with the key that signs the audit trail: it is only read. The digests
    /// of what was judged are keyed, if there is a key for them; where there should be one and is not, there is why.
    pub fn with_kept_key(
        path: impl Into<PathBuf>,
        signing: impl Into<PathBuf>,
        digest_key: Result<Option<Arc<DigestKey>>, String>,
    ) -> Self {
        let path = path.into();
        let options = TrailOptions::new(trail::folder_of(&path), signing).with_kept_key();
        Self::with_trail(path, DEFAULT_BUSY_TIMEOUT, Trail::new(options, Keying::of(digest_key)))
    }

    fn in_file(path: PathBuf, wait: Duration, keying: Keying) -> Self {
        let trail = Trail::beside(&path, keying);
        Self::with_trail(path, wait, trail)
    }

    fn with_trail(path: PathBuf, wait: Duration, trail: Trail) -> Self {
        Self::over(Database::new(path, wait, trail.clone()), AuditTrail::Files(trail))
    }

    /// Creates an empty store in memory, for tests and for programs that want nothing on disk. It forgets everything when it is dropped.
    /// The database is made by the first operation, so a store that nobody asks costs nothing.
    pub fn in_memory() -> Self {
        Self::in_memory_with_digest_key(None)
    }

    /// As [`in_memory`](Self::in_memory); the digests of what was judged are keyed in its audit trail, if there is a key.
    pub fn in_memory_with_digest_key(key: Option<Arc<DigestKey>>) -> Self {
        let trail = Arc::new(MemoryTrail::keyed(key.into()));
        let database = Database::in_memory(SaidIn::Memory(Arc::clone(&trail)));
        Self::over(database, AuditTrail::Memory(trail))
    }

    /// Creates an empty store in memory for the questions and answers of one process, so that nothing another program writes into a file
    /// counts as one. Answers are recorded in the audit trail of `trail` before they count. It keeps two thousand questions; the oldest
    /// settled ones make room.
    pub fn for_answers(trail: Arc<dyn Store>) -> impl AnswerStore {
        let answers_key = trail.digest_key().cloned();
        let database = Database::in_memory(SaidIn::Other(trail));
        // Nobody who has only questions and answers reaches it.
        let trail = AuditTrail::Memory(Arc::default());
        Self { most_questions: Some(MOST_QUESTIONS), answers_key, ..Self::over(database, trail) }
    }

    /// Returns the space of removed text to the file system by rewriting the whole file.
    /// Takes about a second per 100 MB, during which other processes wait.
    pub async fn reclaim(&self) -> Result<(), StoreError> {
        self.database.driver().reclaim().await
    }

    /// Moves the log that SQLite keeps beside the file into the file and empties it, unless another process uses
    /// the database. For processes that end without closing the database: the next process to open it would read the whole log.
    pub async fn shorten_log(&self) -> Result<(), StoreError> {
        self.database.driver().shorten_log().await
    }

    /// Returns the file; `None` in memory.
    pub fn path(&self) -> Option<&Path> {
        self.database.driver().path()
    }

    /// Returns the folder of the audit trail of the database at `path`: beside it, with the name of the database and the extension `trail`.
    pub fn trail_of(path: &Path) -> PathBuf {
        trail::folder_of(path)
    }

    /// Returns the files that hold keys of the audit trail whose key is at `key`, there or not: it, the one before it and the next one.
    pub fn keys_of_trail(key: &Path) -> [PathBuf; 3] {
        backstop_trail::key_files(key)
    }
}
