//! Plugins in JavaScript: loaded by the real runtime, asked by the real engine.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail loudly")]

use std::path::Path;

use backstop_plugins::openclaw::Runtime;
use backstop_script::Workers;

/// What runs the plugins of these tests: this process.
async fn runtime<'a>(_: &Path, workers: &'a Workers) -> Runtime<'a> {
    Runtime::Here(workers)
}

mod answers;
mod bad_input;
mod batches;
mod common;
#[path = "../../../script/tests/escapes/mod.rs"]
mod escapes;
mod events;
mod hostile;
mod interceptors;
mod methods;
mod programs;
mod registering;
mod sdk;
mod sessions;
mod support;
