//! What is known about Claude Code.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure};

pub(super) const FACTS: Facts = Facts {
    version: "2.1.330",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Denied,
        closed_by: "`onFailure: \"block\"` in the entry, from version 2.1.295 on",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    // What a session end may take is the client's own bound, whatever an entry says.
    short: &[("SessionEnd", Duration::from_millis(1500))],
    context: &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"],
    gaps: &[
        "one invalid entry in a settings file switches off all hooks, with -p without a word",
        "the message of a tool that failed can't be changed",
        "before version 2.1.295 a missing program or a crash lets the tool run",
        "`disableAllHooks`, or `allowManagedHooksOnly` in managed settings, switches these hooks off",
    ],
};
