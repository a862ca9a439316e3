//! What Kiro's documents say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "hooks v1 (documents of November 2026)",
    evidence: Evidence::Documented,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &["SessionStart", "UserPromptSubmit"],
    gaps: &[
        "results can't be changed",
        "hook folders that are symbolic links are skipped",
        "`cache_ttl_seconds` of an agent's own hooks must stay 0: a remembered answer would be about another call",
    ],
    unused: &[Unused {
        events: &[
            "PreTaskExec",
            "PostTaskExec",
            "PostFileCreate",
            "PostFileSave",
            "PostFileDelete",
            "Manual",
        ],
        why: "they report what the tools of a task do, which `PreToolUse` judges, and what people do",
    }],
    names_the_calls_folder: false,
    unseen_input: None,
};
