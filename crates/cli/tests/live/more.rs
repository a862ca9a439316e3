//! What `cargo xtask live-clients` tries, beside what is in `main.rs`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly")]

mod around;
mod client;
mod elsewhere;
mod faults;
mod lure;
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
scenarios::suite! { walled: runs: [gemini qwen copilot cline opencode] [walled_in_a_run] }
