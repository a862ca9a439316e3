//! What is known about OpenCode.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "1.18.33",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Denied,
        closed_by: "the generated plugin, which throws",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &[],
    gaps: &[
        "`permission.ask` is never called, so a question is a refusal with the way to approve",
        "a plugin that does not load leaves the client without hooks: look at its log for the plugin's name",
        "without `@opencode-ai/plugin` in its configuration folder the client installs it from the registry at its start",
    ],
    unused: &[
        Unused {
            events: &["permission.ask", "event.permission.asked", "event.permission.replied"],
            why: "the first is never called, and the others report what was answered; `tool.execute.before` judges the call",
        },
        Unused { events: &["experimental.text.complete"], why: "it comes after the text was shown" },
        Unused {
            events: &["shell.env"],
            why: "it sets variables of a shell that `tool.execute.before` has judged",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
