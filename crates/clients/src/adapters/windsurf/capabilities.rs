//! What Windsurf's documents say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

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
        "the folder that its agent names for a command decides which repository's rules hold: rules that must hold belong in the operator's file",
        "what is typed into a running program has no event: a command that opens a shell, or another program that waits to be told what to do, is asked about",
    ],
    unused: &[Unused {
        events: &[
            "post_cascade_response",
            "post_cascade_response_with_transcript",
            "post_setup_worktree",
            "post_user_prompt",
        ],
        why: "nothing can be decided there",
    }],
    names_the_calls_folder: false,
    unseen_input: Some("whatever types into a terminal"),
};
