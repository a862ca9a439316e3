//! The laws of the store, checked over every form of it.
//!
//! A suite is a function of a `&dyn Store`; `over_all_forms!` makes one test of it for each form.

#![expect(clippy::print_stdout, reason = "child processes report on their standard output")]
#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests may fail loudly")]

mod access_tokens;
mod answers;
mod approvals;
mod asked;
mod audit;
mod budgets;
mod checkpoints;
mod decisions;
mod erasure;
mod extensions;
#[cfg(feature = "postgres")]
mod failover;
mod faults;
mod grants;
mod in_memory;
mod injections;
mod junk;
mod keyed;
mod killed;
mod later;
mod notices;
mod open_questions;
mod policy;
#[cfg(feature = "postgres")]
mod postgres;
mod processes;
mod retention;
#[cfg(feature = "postgres")]
mod server;
mod sessions;
mod substitutes;
mod support;
mod transcript;
mod votes;
#[cfg(feature = "postgres")]
mod wire;
