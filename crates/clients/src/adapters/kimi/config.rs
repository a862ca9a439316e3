//! What an installation writes for Kimi Code: tables in the list `hooks` of `config.toml`, which holds models and logins besides.
//! One key that it does not know in one of them, and it runs none. A project's folder has no hooks.
//!
//! A hook that fails lets the tool run, so a shell stands around the program and turns every end but 0 and 2 into a
//! refusal. Not where the end of a turn is reported: a refusal there sends the agent on.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Moved, Place, Tables};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place {
        variable: Some(Moved { by: "KIMI_CODE_HOME", below: "" }),
        folder: ".kimi-code",
        file: "config.toml",
    },
    project: None,
    form: Form::Tables(Tables {
        events: &[
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "UserPromptSubmit",
            "Stop",
            "PreCompact",
            "PostCompact",
            "SessionStart",
            "SessionEnd",
        ],
        table,
    }),
};

fn table(event: &'static str, command: &HookCommand) -> Vec<(&'static str, Value)> {
    let command = match event {
        "PreToolUse" | "UserPromptSubmit" => command.guarded(),
        _ => command.plain(),
    };
    vec![("event", json!(event)), ("command", json!(command)), ("timeout", json!(TIMEOUT_SECONDS))]
}
