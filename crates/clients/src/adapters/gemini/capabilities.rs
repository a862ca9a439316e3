//! What is known about Gemini CLI.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "0.61.0",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_millis(super::config::TIMEOUT_MILLISECONDS),
    short: &[],
    context: &["SessionStart", "BeforeAgent", "AfterTool"],
    gaps: &[
        "in a folder that its user has not trusted, no hook runs",
        "the mode is not in a payload, so questions are refusals with the way to approve",
        "a changed result reaches the model as plain text",
    ],
    unused: &[
        Unused {
            events: &["BeforeModel", "AfterModel"],
            why: "they show texts without system prompt, tools, tool calls and results, and the answer in pieces that are on the screen already: the gateway sees and stops all of it",
        },
        Unused { events: &["BeforeToolSelection"], why: "it shows no tools; `BeforeTool` judges each call" },
        Unused { events: &["Notification"], why: "no hook point is about it" },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
