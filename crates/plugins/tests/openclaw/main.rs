//! Plugins in JavaScript: loaded by the real runtime, asked by the real engine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

/// What runs the plugins of these tests.
const UNDER_NODE: bool = false;

mod answers;
mod batches;
mod events;
mod interceptors;
mod programs;
mod registering;
mod sessions;
mod support;
