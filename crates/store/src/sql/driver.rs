//! What the two databases do differently.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use super::{Db, Fault};
use crate::approvals::wait::Seats;
use crate::{Erasure, PolicyInForce, StoreError};

/// What an operation that may write keeps others from changing until it is done.
///
/// The law: *agreement*. All tables that an operation reads in order to decide what it writes are of its area, but for the access tokens of
/// those who answer: an answer that is given while its token is revoked came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// Questions, votes, grants, notices and handles.
    Questions,
    /// Sessions, leases, runs and transcripts.
    Conversations,
    /// Budgets and reservations.
    Budgets,
    /// What was decided about calls.
    Decisions,
    /// Injections and extensions.
    Queues,
    /// Access tokens.
    Tokens,
    /// Checkpoints that gateways leave.
    Checkpoints,
    /// All of them.
    Everything,
}

/// One of the databases.
pub(crate) trait Driver: Debug + Send + Sync + 'static {
    /// An operation that only reads; it sees one state of the data.
    fn read<T, E>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// An operation that may write; nobody else writes in this area between its beginning and its end. What it says in the trail names the policy.
    fn write<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// An operation that takes text out, as [`write`](Self::write); the text is then wiped as far as this database lets one.
    fn erase<T, E>(
        &self,
        policy: Option<PolicyInForce>,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<(T, Erasure), E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static;

    /// Finds out by writing whether the database can be written. Nothing is changed by it.
    fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How long the database may be out of reach without anybody ceasing to wait for an answer.
    fn outage(&self) -> Duration;

    /// Looks for answers that come from elsewhere from now on, as long as somebody waits.
    fn watch(&self, seats: &Arc<Seats>) -> Result<(), StoreError>;
}

/// A database as whoever judges by one policy has it: all that is said with a transaction names that one.
#[derive(Debug)]
pub(crate) struct Bound<D> {
    driver: Arc<D>,
    policy: Option<PolicyInForce>,
}

impl<D> Bound<D> {
    /// Returns a database of nobody who judges.
    pub(crate) fn new(driver: D) -> Self {
        Self { driver: Arc::new(driver), policy: None }
    }

    /// Returns the same one, for whoever judges by this policy.
    pub(crate) fn under(&self, policy: PolicyInForce) -> Self {
        Self { driver: Arc::clone(&self.driver), policy: Some(policy) }
    }

    /// Returns the database itself, for what says nothing in the trail.
    pub(crate) fn driver(&self) -> &D {
        &self.driver
    }
}

impl<D: Driver> Bound<D> {
    /// As [`Driver::read`].
    pub(crate) fn read<T, E>(
        &self,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.driver.read(work)
    }

    /// As [`Driver::write`].
    pub(crate) fn write<T, E>(
        &self,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<T, E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.driver.write(self.policy.clone(), area, work)
    }

    /// As [`Driver::erase`].
    pub(crate) fn erase<T, E>(
        &self,
        area: Area,
        work: impl FnOnce(&Db<'_>) -> Result<T, Fault<E>> + Send + 'static,
    ) -> impl Future<Output = Result<(T, Erasure), E>> + Send
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        self.driver.erase(self.policy.clone(), area, work)
    }

    /// As [`Driver::probe`].
    pub(crate) fn probe(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.driver.probe()
    }

    /// As [`Driver::outage`].
    pub(crate) fn outage(&self) -> Duration {
        self.driver.outage()
    }

    /// As [`Driver::watch`].
    pub(crate) fn watch(&self, seats: &Arc<Seats>) -> Result<(), StoreError> {
        self.driver.watch(seats)
    }
}
