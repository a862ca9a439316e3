//! What is known about Cline.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "3.0.65",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the script that starts the program",
    },
    // The command line waits 120 s and the extension 30 s; neither can be set.
    timeout: Duration::from_secs(30),
    short: &[],
    context: &["PreToolUse", "PostToolUse"],
    gaps: &[
        "a refusal ends the whole run, and the model does not learn why",
        "the command line does not report messages and compactions",
        "hooks do not run on Windows",
    ],
    unused: &[Unused { events: &["TaskCancel", "TaskError"], why: "no hook point is about it" }],
    names_the_calls_folder: false,
    unseen_input: None,
};
