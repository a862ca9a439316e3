//! What is known about Codex.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "0.169.0",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[("SessionEnd", Duration::from_secs(3)), ("Interrupt", Duration::from_secs(3))],
    context: &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"],
    gaps: &[
        "a hook that its user has not trusted with `/hooks` is skipped without a word",
        "`write_stdin` types into an open shell without any hook: a command that opens one, or another program that waits to be told what to do, is asked about",
        "a payload does not name the shell that `exec_command` was given",
        "a changed result reaches the model as plain text",
        "a result can only be kept from the model after the tool has run",
    ],
    unused: &[
        Unused { events: &["PermissionRequest"], why: "`PreToolUse` has judged the call" },
        Unused { events: &["Interrupt", "StopFailure"], why: "no hook point is about it" },
    ],
    names_the_calls_folder: true,
    unseen_input: Some("write_stdin"),
};
