//! The guards and the verdict hooks in a real engine: same event, same verdict as every host gets.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod support;

mod builtin;
mod redaction;
mod webhook;
