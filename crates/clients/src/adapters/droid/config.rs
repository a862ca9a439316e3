//! What an installation writes for Droid: entries in `hooks.json`, whose root is the list of events. An older
//! `settings.json` with hooks is read as well, and passed over for each event that `hooks.json` names.
//!
//! A hook that fails lets the tool run, so a shell stands around the program and turns every end but 0 and 2 into a refusal.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Moved, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place {
        variable: Some(Moved { by: "FACTORY_HOME_OVERRIDE", below: ".factory" }),
        folder: ".factory",
        file: "hooks.json",
    },
    project: Some(Place { variable: None, folder: ".factory", file: "hooks.json" }),
    form: Form::Merged(Merged {
        preamble: &[],
        events: &[
            "PreToolUse",
            "PostToolUse",
            "UserPromptSubmit",
            "Stop",
            "SubagentStop",
            "PreCompact",
            "SessionStart",
            "SessionEnd",
        ],
        group,
        maps: &["hooks.json"],
        also: &[],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let text = match event {
        "PreToolUse" | "UserPromptSubmit" => command.guarded(),
        _ => command.plain(),
    };
    let entry = json!({ "type": "command", "command": text, "timeout": TIMEOUT_SECONDS });
    match event {
        "PreToolUse" | "PostToolUse" => json!({ "matcher": "*", "hooks": [entry] }),
        _ => json!({ "hooks": [entry] }),
    }
}
