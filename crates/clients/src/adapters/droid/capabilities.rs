//! What the documents of Droid say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "hooks.json (documents of November 2026)",
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
        "results can't be changed, and changed arguments are documented with a decision that skips the client's own question: the call is denied instead",
        "where `hooks.json` names an event, the hooks of `settings.json` for that event are not run",
        "an organisation can have every hook but its own ignored",
    ],
    unused: &[
        Unused { events: &["PermissionRequest"], why: "`PreToolUse` has judged the call" },
        Unused { events: &["Notification"], why: "no hook point is about it" },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
