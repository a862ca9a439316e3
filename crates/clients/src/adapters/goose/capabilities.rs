//! What goose's documents and source say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "1.48",
    evidence: Evidence::Documented,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Denied,
        closed_by: "`on_failure: \"block\"` in the entry",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &[],
    gaps: &[
        "messages can't be stopped and results can't be changed",
        "an `on_failure` that the version does not know skips the whole file",
    ],
    unused: &[
        Unused { events: &["PreToolUseResult"], why: "it reports what hooks decided" },
        Unused {
            events: &["BeforeReadFile", "AfterFileEdit", "BeforeShellExecution", "AfterShellExecution"],
            why: "`PreToolUse` has judged the call",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
