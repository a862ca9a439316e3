//! What an installation writes for Codex: entries in `hooks.json`, which Codex reads beside `config.toml`.
//!
//! A hook that fails lets the tool run and there is no option against it, so a shell stands around the
//! program and turns every end but 0 and 2 into a refusal. Not where the end of a turn is reported: a refusal
//! there sends the agent on, and without the program it would never come to an end.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Moved, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::TrustedOption("-c"),
    user: Place {
        variable: Some(Moved { by: "CODEX_HOME", below: "" }),
        folder: ".codex",
        file: "hooks.json",
    },
    project: Some(Place { variable: None, folder: ".codex", file: "hooks.json" }),
    form: Form::Merged(Merged {
        preamble: &[],
        events: &[
            "PreToolUse",
            "PostToolUse",
            "UserPromptSubmit",
            "Stop",
            "SubagentStart",
            "SubagentStop",
            "PreCompact",
            "PostCompact",
            "SessionStart",
            "SessionEnd",
        ],
        group,
        maps: &[],
        also: &[],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let (command, timeout) = match event {
        "PreToolUse" | "PostToolUse" | "UserPromptSubmit" => (command.guarded(), TIMEOUT_SECONDS),
        // Three seconds are the client's own bound here.
        "SessionEnd" => (command.plain(), 3),
        _ => (command.plain(), TIMEOUT_SECONDS),
    };
    json!({ "hooks": [{ "type": "command", "command": command, "timeout": timeout }] })
}
