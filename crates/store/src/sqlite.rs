//! The SQLite store: one file that several processes may share.
//!
//! One thread owns the connection and processes a bounded queue; each operation is one transaction.
//! The file is opened by the first operation, not before. If it is missing, it is created, readable only by
//! its owner. Commits are synced to disk before they are reported, because an allowance that was used
//! up must not come back after a power failure. The audit trail is a log of its own in a folder beside the file.

mod audit;
mod database;
mod lookout;
mod migrations;
mod open;
mod pages;
mod pruning;
#[cfg(test)]
mod tests;
pub(crate) mod trail;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use self::audit::say;
pub use self::database::Database;
use self::trail::Trail;
use crate::StoreError;
use crate::sql::SqlStore;

/// How long an operation waits for another process by default.
pub const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// State in a SQLite file.
pub type SqliteStore = SqlStore<Database>;

impl SqliteStore {
    /// Creates a store for the file at `path`. Nothing is opened or created before the first operation.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::with_busy_timeout(path, DEFAULT_BUSY_TIMEOUT)
    }

    /// As [`new`](Self::new); operations give up when another process holds the file for longer than `wait`.
    pub fn with_busy_timeout(path: impl Into<PathBuf>, wait: Duration) -> Self {
        let path = path.into();
        let trail = Trail::beside(&path);
        Self::over(Database::new(path, wait, trail.clone()), trail)
    }

    /// Returns the space of removed text to the file system by rewriting the whole file.
    /// Takes about a second per 100 MB, during which other processes wait.
    pub async fn reclaim(&self) -> Result<(), StoreError> {
        self.database.reclaim().await
    }

    /// Moves the log that SQLite keeps beside the file into the file and empties it, unless another process uses
    /// the database. For processes that end without closing the database: the next process to open it would read the whole log.
    pub async fn shorten_log(&self) -> Result<(), StoreError> {
        self.database.shorten_log().await
    }

    /// Returns the file.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// Returns the folder of the audit trail of the database at `path`: beside it, with the name of the database and the extension `trail`.
    pub fn trail_of(path: &Path) -> PathBuf {
        trail::folder_of(path)
    }
}
