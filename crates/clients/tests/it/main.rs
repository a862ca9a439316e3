//! The clients from outside: through a real engine, into real configuration files, and the generated plugin
//! in a real JavaScript process.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "helpers of tests may fail loudly, and say what they skip"
)]

mod engine;
mod install;
mod plugin;
