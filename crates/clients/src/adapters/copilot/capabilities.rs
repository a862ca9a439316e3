//! What is known about Copilot CLI.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "1.0.102",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the client itself: any exit code but 0 refuses",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &["preToolUse", "postToolUse", "userPromptSubmitted"],
    gaps: &[
        "the message of a tool that failed can't be changed",
        "an answer that is not JSON lets the tool run",
    ],
    unused: &[
        Unused {
            events: &["permissionRequest", "PermissionRequest"],
            why: "`preToolUse` has judged the call",
        },
        Unused { events: &["preMcpToolCall"], why: "it can't refuse, and `preToolUse` has judged the call" },
        Unused { events: &["userPromptTransformed"], why: "`userPromptSubmitted` has judged the message" },
        Unused {
            events: &["errorOccurred", "ErrorOccurred", "notification", "Notification"],
            why: "no hook point is about it",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
