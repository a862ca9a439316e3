//! What Cursor's documents say. Nothing here was observed.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "documents of November 2026",
    evidence: Evidence::Documented,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Denied,
        closed_by: "`failClosed: true` in the entry",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &["postToolUse", "sessionStart"],
    gaps: &[
        "cloud agents read no hooks of the user, and fire none for sessions and MCP",
        "only results of MCP tools can be changed",
        "hooks of a project run in a trusted workspace only",
        "a tool's MCP server is not named at preToolUse: policies see it as `mcp__unknown__tool`",
    ],
    unused: &[
        Unused {
            events: &["beforeShellExecution", "beforeMCPExecution", "beforeReadFile"],
            why: "`preToolUse` has judged the call; where an operator adds them, they are judged",
        },
        Unused {
            events: &["afterShellExecution", "afterMCPExecution", "afterFileEdit"],
            why: "`postToolUse` reports the same",
        },
        Unused {
            events: &["beforeTabFileRead", "afterTabFileEdit"],
            why: "completions are the editor's, not the agent's",
        },
        Unused {
            events: &["afterAgentResponse", "afterAgentThought", "workspaceOpen"],
            why: "nothing can be decided there",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
