//! Budgets: how much has been spent of limits that several processes share.
//!
//! A budget is a *counter* in a *window* (a day, an hour, all time). Before something is spent, its
//! cost is estimated and *reserved*. Afterwards the reservation is *settled* with the actual cost. The laws:
//!
//! - *All or none.* A reservation charges several counters at once (requests, tokens, money). If one of them
//!   has no room, nothing is reserved.
//! - *Never over.* Two processes that reserve at the same moment see each other: no reservation takes a
//!   counter over its limit. Only settling can, by the amount that an estimate was too low.
//! - *What was never settled is spent.* If a process is killed in between, its estimate stays counted,
//!   because nobody knows that it was not spent.
//! - *No clock gives back.* What is over is remembered so long ([`WINDOWS_LAST`]) that a clock which was ahead makes nothing be spent twice.
//! - *Once.* Reserving again under the same id replaces the reservation, and settling twice settles once.
//!
//! Amounts are whole numbers of whatever the caller counts: requests, tokens, millionths of a currency.

use async_trait::async_trait;
use backstop_hooks::Text;

use crate::{StoreError, Timestamp};

/// The most counters that one reservation may charge.
pub const MAX_CHARGES: usize = 64;

/// For how many times as long as a window lasted it is remembered when it is over: a window of an hour for two days, one of a day for 48.
/// A clock that is ahead for a while, and is set back, then finds what was spent.
pub const WINDOWS_LAST: u8 = 48;

/// The id of one reservation, chosen by the caller: the same for all attempts of one action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReservationId(String);

impl ReservationId {
    /// Creates an id.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is to be charged to one counter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The counter. It contains no secret; listings show it.
    pub counter: Text,
    /// When its window began; this identifies the windows of one counter.
    pub since: Timestamp,
    /// When its window ends; `None` for one that never does. A later charge may move the end back, never forward.
    pub until: Option<Timestamp>,
    /// How much.
    pub amount: u64,
    /// The most that the counter may hold in the window.
    pub limit: u64,
}

/// A counter had no room for a charge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{spent} of {limit} are spent, and {amount} more are needed")]
pub struct Exceeded {
    /// The index of the charge.
    pub charge: usize,
    /// The amount already spent, including reservations.
    pub spent: u64,
    /// The amount that was to be charged.
    pub amount: u64,
    /// The limit.
    pub limit: u64,
}

/// Why nothing was reserved.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// A counter has no room.
    #[error(transparent)]
    Exceeded(Exceeded),
    /// More than [`MAX_CHARGES`].
    #[error("a reservation charges at most {MAX_CHARGES} counters, not {0}")]
    TooMany(usize),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// How much of one counter was spent in one window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetUse {
    /// The counter.
    pub counter: Text,
    /// When its window began.
    pub since: Timestamp,
    /// When its window ends.
    pub until: Option<Timestamp>,
    /// What is spent, reservations included.
    pub spent: u64,
    /// How much of that is reserved and not settled.
    pub reserved: u64,
}

/// Counters of what was spent.
#[async_trait]
pub trait BudgetStore {
    /// Charges all counters, or none.
    async fn reserve(&self, id: &ReservationId, charges: Vec<Charge>) -> Result<(), ReserveError>;

    /// Replaces the reservation `id` by the actual cost: the given amount for each named counter, the reserved
    /// amount for the others. Returns whether there was something to settle.
    async fn settle(&self, id: &ReservationId, costs: Vec<(Text, u64)>) -> Result<bool, StoreError>;

    /// Returns what was spent, of the counters with the most recent windows first.
    async fn budgets(&self, limit: usize) -> Result<Vec<BudgetUse>, StoreError>;

    /// Forgets the windows that have been over for more than [`WINDOWS_LAST`] times as long as they lasted, and what was reserved in
    /// them. Returns how many there were.
    async fn prune_budgets(&self, now: Timestamp) -> Result<usize, StoreError>;
}

/// Returns the later of two ends; one that never ends is the latest.
pub(crate) fn later(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.zip(other).map(|(one, other)| one.max(other))
}
