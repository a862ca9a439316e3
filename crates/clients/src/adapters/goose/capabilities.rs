//! What goose's documents and source say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure};

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
};
