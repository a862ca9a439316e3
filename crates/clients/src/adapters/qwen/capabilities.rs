//! What is known about Qwen Code.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "0.24.4",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_millis(super::config::TIMEOUT_MILLISECONDS),
    short: &[],
    context: &["SessionStart", "UserPromptSubmit", "PostToolUse"],
    gaps: &[
        "changed arguments have no effect, although they are documented: the call is denied instead",
        "the message of a tool that failed can't be changed",
        "a changed result reaches the model as plain text",
    ],
    unused: &[
        Unused {
            events: &["PermissionRequest", "PermissionDenied"],
            why: "`PreToolUse` has judged the call",
        },
        Unused { events: &["PostToolBatch"], why: "it reports again what `PostToolUse` reported" },
        Unused {
            events: &["Notification", "StopFailure", "TodoCreated", "TodoCompleted", "InstructionsLoaded"],
            why: "no hook point is about it",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
