//! What the documents of Devin CLI say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "hooks.v1 (documents of November 2026)",
    evidence: Evidence::Documented,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &["SessionStart", "UserPromptSubmit"],
    gaps: &[
        "results can't be changed, and changed arguments are not documented: the call is denied instead",
        "a payload names no folder, so that the one in which the hook is started counts",
        "hooks of Claude Code in the same project are run as well, with payloads of Devin CLI",
    ],
    unused: &[Unused { events: &["PermissionRequest"], why: "`PreToolUse` has judged the call" }],
    names_the_calls_folder: false,
    unseen_input: None,
};
