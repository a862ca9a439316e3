//! What Windsurf's documents say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure};

pub(super) const FACTS: Facts = Facts {
    version: "documents of November 2026",
    evidence: Evidence::Documented,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    // The documents name no bound, and there is no key for one.
    timeout: Duration::from_secs(30),
    short: &[],
    context: &[],
    gaps: &[
        "results can't be changed, and sessions, compactions and sub-agents are not reported",
        "tools without an event of their own (search, browser) are not reported",
    ],
};
