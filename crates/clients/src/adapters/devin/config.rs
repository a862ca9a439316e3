//! What an installation writes for Devin CLI: entries under `hooks` of the user's `config.json`, and in the project's
//! `hooks.v1.json`, whose root is the list of events. A payload need not name its event, so the command does.
//!
//! A hook that fails lets the tool run, so a shell stands around the program and turns every end but 0 and 2 into a refusal.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place { variable: None, folder: ".config/devin", file: "config.json" },
    project: Some(Place { variable: None, folder: ".devin", file: "hooks.v1.json" }),
    form: Form::Merged(Merged {
        preamble: &[],
        events: &["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SessionStart", "SessionEnd"],
        group,
        maps: &["hooks.v1.json"],
        also: &[],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let command = command.at(event);
    let text = match event {
        "PreToolUse" | "UserPromptSubmit" => command.guarded(),
        _ => command.plain(),
    };
    json!({ "hooks": [{ "type": "command", "command": text, "timeout": TIMEOUT_SECONDS }] })
}
