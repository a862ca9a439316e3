//! What is known about OpenCode.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure};

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
};
