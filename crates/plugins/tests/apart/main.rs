//! Plugins in a process of their own: what is true of them inside is true of them there, the ways out are closed there, too, and what is
//! stuck is really killed.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests may fail loudly")]

use std::collections::BTreeMap;
use std::path::Path;

use backstop_plugins::openclaw::{Apart, Runtime};
use backstop_script::Workers;

mod own;

#[path = "../openclaw/answers.rs"]
mod answers;
#[path = "../node/asking.rs"]
mod asking;
#[path = "../openclaw/bad_input.rs"]
mod bad_input;
#[path = "../openclaw/batches.rs"]
mod batches;
#[path = "../openclaw/common.rs"]
mod common;
#[path = "../../../script/tests/escapes/mod.rs"]
mod escapes;
#[path = "../openclaw/events.rs"]
mod events;
#[path = "../openclaw/hostile.rs"]
mod hostile;
#[path = "../openclaw/interceptors.rs"]
mod interceptors;
#[path = "../openclaw/methods.rs"]
mod methods;
#[path = "../openclaw/programs.rs"]
mod programs;
#[path = "../openclaw/registering.rs"]
mod registering;
#[path = "../openclaw/sdk.rs"]
mod sdk;
#[path = "../openclaw/sessions.rs"]
mod sessions;
#[path = "../openclaw/support.rs"]
mod support;

/// The program that is the process of a plugin.
const HOST: &str = env!("CARGO_BIN_EXE_backstop-plugin-host-for-tests");

fn apart() -> Apart {
    Apart { program: HOST.into(), arguments: vec!["plugin-host".into()], environment: BTreeMap::new() }
}

/// What runs the plugins of these tests: a process for each.
async fn runtime<'a>(_: &Path, workers: &'a Workers) -> Runtime<'a> {
    Runtime::Apart(apart(), workers)
}
