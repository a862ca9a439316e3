//! The store on a PostgreSQL server, which many machines share.
//!
//! A few threads each own a connection and process one bounded queue; each operation is one transaction. Nothing is connected before the
//! first operation. What several machines must agree on is on the server. The audit trail is not: each process writes a log of its own
//! machine, as beside a database in a file.
//!
//! The laws of the store hold as follows:
//!
//! - *Agreement.* An operation that may write takes an advisory lock for its [area](crate::sql::Area) first and holds it until its transaction has ended, so
//!   that writers of an area are one after the other on all machines. An operation that reads sees one snapshot.
//! - *Whole or absent.* If the connection is lost while a transaction is being committed, nobody has told whether it was. The server is asked
//!   then, by the number of the transaction. Only if it can't be asked, has crashed, or is no longer the same server, the operation fails with
//!   [`StoreErrorKind::Uncertain`](crate::StoreErrorKind::Uncertain), and is not repeated.
//! - *Kept.* What was reported as kept is in the server's log, and with the standbys that the server waits for. A process uses no server that lacks what it
//!   was told was kept, see [`history`].
//! - *Bounded.* Connecting, each statement, each lock and each answer have a deadline, here and on the server.
//!
//! The limits: callers supply the time, so that the clocks of all machines have to agree; nothing is done while this machine's differs from
//! the server's by more than [`MOST_CLOCK_DIFFERENCE`]. Wiped text stays in the server's files, its log and its backups until the server lets go of it.
//! Text with a null character can't be kept. Poolers that give each transaction another connection can't be in between.

mod connection;
mod failure;
mod history;
mod lookout;
mod migrations;
mod options;
mod pool;
mod session;
mod tls;
mod values;

use std::path::PathBuf;
use std::sync::Arc;

use backstop_trail::Options as TrailOptions;

pub use self::connection::MOST_CLOCK_DIFFERENCE;
pub(crate) use self::failure::Failure;
pub use self::options::{DEFAULT_SCHEMA, PostgresOptions, PostgresOptionsError};
pub use self::pool::Server;
pub(crate) use self::session::Session;
use crate::DigestKey;
use crate::keyed::Keying;
use crate::sql::{AuditTrail, SqlStore};
use crate::sqlite::trail::Trail;

/// State on a PostgreSQL server.
pub type PostgresStore = SqlStore<Server>;

impl PostgresStore {
    /// Creates a store on a server, with its audit trail in the folder `trail` of this machine and the key that signs it in the file `key`. Nothing is
    /// connected, opened or created before the first operation.
    pub fn new(options: PostgresOptions, trail: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self::with_digest_key(options, trail, key, None)
    }

    /// As [`new`](Self::new); the digests of what was judged are keyed in the audit trail, if there is a key for them.
    pub fn with_digest_key(
        options: PostgresOptions,
        trail: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        digest_key: Option<Arc<DigestKey>>,
    ) -> Self {
        Self::keying(options, trail.into(), key.into(), digest_key.into())
    }

    /// As [`new`](Self::new), where the digests of what was judged are to be keyed and the key is not there, for this reason: what is there can
    /// be read, and whatever would leave an entry in the audit trail fails.
    pub fn without_its_digest_key(
        options: PostgresOptions,
        trail: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        why: &str,
    ) -> Self {
        Self::keying(options, trail.into(), key.into(), Keying::Missing(why.into()))
    }

    /// As [`new`](Self::new), where somebody else keeps the file `key`: it is only read. The digests of what was judged are keyed, if there is a key
    /// for them; where there should be one and is not, there is why.
    pub fn with_kept_key(
        options: PostgresOptions,
        trail: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
        digest_key: Result<Option<Arc<DigestKey>>, String>,
    ) -> Self {
        let trail = TrailOptions::new(trail, key).with_kept_key();
        Self::with_trail(options, Trail::new(trail, Keying::of(digest_key)))
    }

    fn keying(options: PostgresOptions, trail: PathBuf, key: PathBuf, keying: Keying) -> Self {
        Self::with_trail(options, Trail::new(TrailOptions::new(trail, key), keying))
    }

    fn with_trail(options: PostgresOptions, trail: Trail) -> Self {
        Self::over(Server::new(options, trail.clone()), AuditTrail::Files(trail))
    }

    /// Returns the database, for people: the server, the name and the schema.
    pub fn place(&self) -> &str {
        self.database.driver().place()
    }
}
