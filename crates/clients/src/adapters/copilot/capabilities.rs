//! What is known about Copilot CLI.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure};

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
};
