//! Hooks that are programs and servers, in the engine: what they do well, what they do badly, and what becomes of it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod bad_input;
mod command;
mod http;
mod points;
mod process;
mod sdk;
mod support;
