//! Approvals, end to end, over a database in memory and over one in a file.

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
mod later;
mod listeners;
mod mutants;
mod not_asked;
mod recorded;
mod routes;
mod shown;
mod survival;
