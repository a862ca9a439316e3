//! The real coding agents, with our hooks installed by our own installer.
//!
//! Each test makes a home and a project folder, points a client there at a scripted model on this machine, runs
//! `backstop install`, and lets the client run one prompt without a terminal. What counts is not what the client or the
//! hook print, but what happened: whether the tool ran (it leaves a file behind) and what the model read afterwards (the
//! scripted model keeps all requests). The calls are harmless; what stops them is a policy, never their danger.
//!
//! Here is what every change is tried with: all clients under `backstop run`, and two of them in every way. `more.rs` tries
//! the others in these ways. `cargo xtask live-clients` installs the clients, and so does `cargo xtask test`.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests may fail loudly")]

mod around;
mod client;
mod elsewhere;
mod faults;
mod lure;
mod lures;
mod machine;
mod model;
mod own;
mod pointed;
mod run;
mod runs;
mod scenarios;
mod webhook;

scenarios::every! { claude codex }
scenarios::faults! { claude codex }
scenarios::ways! { claude codex }
scenarios::in_runs! { claude codex }
scenarios::switches! { claude codex }
scenarios::signals! { claude codex }
scenarios::suite! { everywhere: pointed: [claude codex gemini qwen copilot cline opencode]
[pointed_in_a_run lured_without_a_run sent_elsewhere_in_a_run version_in_a_run] }
scenarios::suite! { spoken: pointed: [qwen] [spoken_in_a_run] }
scenarios::suite! { logged_in: pointed: [codex] [logged_in_in_a_run] }
scenarios::suite! { cloud: pointed: [claude] [cloud_in_a_run] }
scenarios::suite! { walled: runs: [claude codex] [walled_in_a_run] }
