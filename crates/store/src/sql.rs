//! State in a database that speaks SQL: what the stores in a file, in memory and on a server have in common.
//!
//! Each operation is a function of a [`Db`], which is one transaction of either. Both databases read the same statements: parameters are
//! numbered (`?1`), and where the two differ, [`Db`] has a word for it. What differs otherwise is a [`Driver`]: how a transaction is
//! begun, what keeps others out meanwhile, how those who wait hear of answers that come from elsewhere.
//!
//! The audit trail is not in the database, but an [`AuditTrail`]: a log in files of this process's machine, or in memory where all is.

mod access_tokens;
mod answers;
mod approvals;
mod budgets;
mod checkpoints;
mod db;
mod decisions;
mod driver;
mod extensions;
mod grants;
mod hosted;
mod injections;
mod lost;
mod notices;
mod retention;
mod row;
mod runs;
mod sessions;
mod spoilt;
mod texts;
mod transcript;
mod votes;
mod wiping;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::db::{Db, Fault, SqlError, SqlResult};
pub(crate) use self::driver::{Area, Bound, Driver};
#[cfg(feature = "postgres")]
pub(crate) use self::row::{Cell, Kind};
pub(crate) use self::row::{Row, ToValue, Value, params};
use crate::approvals::wait::Seats;
use crate::sqlite::memory_trail::MemoryTrail;
use crate::sqlite::trail::Trail;
use crate::{AnswerStore, AuditStore, DigestKey, PolicyInForce, PolicyStore, Store};

/// State in a database that speaks SQL, of which there are two forms: [`SqliteStore`](crate::SqliteStore), in a file or in memory, and
/// `PostgresStore`, on a server.
#[derive(Debug)]
pub struct SqlStore<D> {
    pub(crate) database: Bound<D>,
    pub(crate) trail: AuditTrail,
    /// Those who wait for answers.
    pub(crate) seats: Arc<Seats>,
    /// By what digests are keyed where answers are recorded.
    pub(crate) answers_key: Option<Arc<DigestKey>>,
    /// How many questions are kept, if they are bounded.
    pub(crate) most_questions: Option<u64>,
}

/// The audit trail of a store.
#[derive(Debug)]
pub(crate) enum AuditTrail {
    Files(Trail),
    Memory(Arc<MemoryTrail>),
}

impl AuditTrail {
    /// Returns it as what both forms are.
    pub(crate) fn log(&self) -> &(dyn AuditStore + Send + Sync) {
        match self {
            Self::Files(trail) => trail,
            Self::Memory(trail) => &**trail,
        }
    }

    /// Returns the same one, written under a policy.
    fn under(&self, policy: PolicyInForce) -> Self {
        match self {
            Self::Files(trail) => Self::Files(trail.under(Some(policy))),
            Self::Memory(trail) => Self::Memory(Arc::new(trail.under(Some(policy)))),
        }
    }
}

impl<D: Driver> PolicyStore for SqlStore<D> {
    fn under(&self, policy: PolicyInForce) -> Arc<dyn Store> {
        Arc::new(self.bound(policy))
    }

    fn answers_under(&self, policy: PolicyInForce) -> Arc<dyn AnswerStore> {
        Arc::new(self.bound(policy))
    }
}

impl<D> SqlStore<D> {
    pub(crate) fn over(database: D, trail: AuditTrail) -> Self {
        let answers_key = trail.log().digest_key().cloned();
        let database = Bound::new(database);
        Self { database, trail, seats: Arc::default(), answers_key, most_questions: None }
    }

    /// Returns a store of the same data, whose entries in the trail name this policy.
    #[must_use]
    pub fn bound(&self, policy: PolicyInForce) -> Self {
        Self {
            database: self.database.under(policy.clone()),
            trail: self.trail.under(policy),
            seats: Arc::clone(&self.seats),
            answers_key: self.answers_key.clone(),
            most_questions: self.most_questions,
        }
    }

    /// Returns the folder of the audit trail; `None` in memory.
    pub fn trail(&self) -> Option<&Path> {
        match &self.trail {
            AuditTrail::Files(trail) => Some(trail.folder()),
            AuditTrail::Memory(_) => None,
        }
    }
}
