//! What is known about Kimi Code: its source was read, and hooks were seen to run with a scripted model.

use std::time::Duration;

use crate::adapter::{Evidence, Facts, FailureFacts, OnFailure, Unused};

pub(super) const FACTS: Facts = Facts {
    version: "2.1.0",
    evidence: Evidence::Live,
    failure: FailureFacts {
        missing: OnFailure::Denied,
        crash: OnFailure::Denied,
        timeout: OnFailure::Runs,
        closed_by: "the shell around the program",
    },
    timeout: Duration::from_secs(super::config::TIMEOUT_SECONDS),
    short: &[],
    context: &["UserPromptSubmit"],
    gaps: &[
        "one entry under `hooks` that it can't read, whoever wrote it, and it runs none",
        "results are told of after the model may have read them, cut to 2000 characters; arguments can't be changed",
        "a call of a sub-agent is reported like one of the session's own",
        "in plan mode the plan's own file is written without a hook",
        "plugins bring hooks of their own, which run beside ours",
        "the end of a turn can be refused once a turn",
        "`kimi -p` reports no end of its session",
    ],
    unused: &[
        Unused {
            events: &["PermissionRequest", "PermissionResult"],
            why: "`PreToolUse` has judged the call, and nothing can be answered",
        },
        Unused {
            events: &["UserPromptQueued", "TurnStarted"],
            why: "`UserPromptSubmit` judges the message before the model reads it",
        },
        Unused {
            events: &["SubagentStart", "SubagentStop"],
            why: "they do not say which sub-agent it is; its calls and its own `Stop` are judged",
        },
        Unused {
            events: &["StopFailure", "Interrupt", "SessionHeartbeat", "TaskStarted", "Notification"],
            why: "no hook point is about it",
        },
    ],
    names_the_calls_folder: false,
    unseen_input: None,
};
