//! Approvals, end to end, over a store in memory and over a real database.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod support;

mod answers;
mod atomicity;
mod editing;
mod listeners;
mod mutants;
mod recorded;
mod routes;
mod shown;
mod survival;
