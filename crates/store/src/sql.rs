//! State in a database that speaks SQL: what the store in a file and the one on a server have in common.
//!
//! Each operation is a function of a [`Db`], which is one transaction of either. Both databases read the same statements: parameters are
//! numbered (`?1`), and where the two differ, [`Db`] has a word for it. What differs otherwise is a [`Driver`]: how a transaction is
//! begun, what keeps others out meanwhile, how those who wait hear of answers that come from elsewhere.
//!
//! The audit trail is in files for both: a log of this process's machine.

mod access_tokens;
mod approvals;
mod budgets;
mod db;
mod decisions;
mod driver;
mod extensions;
mod grants;
mod injections;
mod notices;
mod retention;
mod row;
mod runs;
mod sessions;
mod texts;
mod transcript;
mod votes;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::db::{Db, Fault, SqlError, SqlResult};
pub(crate) use self::driver::{Area, Driver};
#[cfg(feature = "postgres")]
pub(crate) use self::row::{Cell, Kind};
pub(crate) use self::row::{Row, ToValue, Value, params};
use crate::approvals::wait::Seats;
use crate::sqlite::trail::Trail;

/// State in a database that speaks SQL, of which there are two forms: [`SqliteStore`](crate::SqliteStore), in a file, and
/// `PostgresStore`, on a server.
#[derive(Debug)]
pub struct SqlStore<D> {
    pub(crate) database: D,
    pub(crate) trail: Trail,
    /// Those who wait for answers.
    pub(crate) seats: Arc<Seats>,
}

impl<D> SqlStore<D> {
    pub(crate) fn over(database: D, trail: Trail) -> Self {
        Self { database, trail, seats: Arc::default() }
    }

    /// Returns the folder of the audit trail.
    pub fn trail(&self) -> &Path {
        self.trail.folder()
    }
}
