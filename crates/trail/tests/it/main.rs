//! A log as its callers see it: written by several, read, proved, pruned, and broken in every way.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests may fail loudly"
)]

mod back;
mod befallen;
mod faults;
mod git;
mod hidden;
mod known;
mod left;
mod proving;
mod pruning;
mod stamp;
mod support;
mod tampering;
mod together;
mod waiting;
mod witness;
