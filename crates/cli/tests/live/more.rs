//! The coding agents that `cargo xtask live-clients` drives, beside those of `main.rs`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly")]

mod around;
mod client;
mod faults;
mod model;
mod run;
mod runs;
mod scenarios;
mod webhook;

scenarios::every! { gemini qwen copilot cline opencode }
scenarios::faults! { gemini qwen copilot cline opencode }
scenarios::ways! { gemini qwen copilot cline opencode }
scenarios::in_runs! { qwen opencode }
scenarios::switches! { qwen }
scenarios::signals! { gemini copilot cline opencode qwen }
scenarios::suite! { switches_without_a_run: around: [gemini copilot] [switched_off] }
scenarios::suite! { pointed: runs: [gemini qwen copilot cline opencode] [pointed_in_a_run] }
scenarios::suite! { walled: runs: [gemini qwen copilot cline opencode] [walled_in_a_run] }
