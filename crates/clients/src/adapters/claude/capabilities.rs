//! What is known about Claude Code.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "2.1.330",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Denied,
        closed_by: "`onFailure: \"block\"` in the entry, from version 2.1.295 on",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    // What a session end may take is the client's own bound, whatever an entry says.
    short: &[("SessionEnd", Duration::from_millis(1500))],
    context: &["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse"],
    gaps: &[
        "one invalid entry in a settings file switches off all hooks, with -p without a word",
        "the message of a tool that failed can't be changed",
        "before version 2.1.295 a missing program or a crash lets the tool run",
        "`disableAllHooks`, or `allowManagedHooksOnly` in managed settings, switches these hooks off",
    ],
    unused: &[
        Unused {
            events: &["PermissionRequest", "PermissionDenied"],
            why: "`PreToolUse` has judged the call",
        },
        Unused { events: &["PostToolBatch"], why: "it reports again what `PostToolUse` reported" },
        Unused {
            events: &["UserPromptExpansion"],
            why: "it names a slash command, not the text that it becomes",
        },
        Unused {
            events: &["Elicitation", "ElicitationResult"],
            why: "what an MCP server asks its user is between the two",
        },
        Unused { events: &["ConfigChange"], why: "the guards judge who writes the files of settings" },
        Unused { events: &["PreModelSwitch", "PostModelSwitch"], why: "the gateway decides about models" },
        Unused {
            events: &[
                "Notification",
                "MessageDisplay",
                "StopFailure",
                "Setup",
                "TeammateIdle",
                "TaskCreated",
                "TaskCompleted",
                "WorktreeCreate",
                "WorktreeRemove",
                "InstructionsLoaded",
                "CwdChanged",
                "FileChanged",
                "DirectoryAdded",
            ],
            why: "no hook point is about it",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
