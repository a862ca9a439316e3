//! The coding agents that `cargo xtask live-clients` drives, beside those of `main.rs`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly")]

mod client;
mod model;
mod run;
mod scenarios;
mod webhook;

scenarios::suite! { gemini qwen copilot cline opencode }
