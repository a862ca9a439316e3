//! What an installation writes for Claude Code: entries in `settings.json`.
//!
//! `onFailure` is refused at the events where a hook can't decide anything, and one refused entry switches
//! off all hooks, so it stands only where it is known to be taken.

use serde_json::{Value, json};

use crate::adapters::claude_like;
use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Moved, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::SettingsOption("--settings"),
    user: Place {
        variable: Some(Moved { by: "CLAUDE_CONFIG_DIR", below: "" }),
        folder: ".claude",
        file: "settings.json",
    },
    project: Some(Place { variable: None, folder: ".claude", file: "settings.json" }),
    form: Form::Merged(Merged { preamble: &[], events: claude_like::EVENTS, group, maps: &[], also: &[] }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let mut entry = json!({ "type": "command", "command": command.plain(), "timeout": TIMEOUT_SECONDS });
    let fails_closed = matches!(event, "PreToolUse" | "UserPromptSubmit");
    if let (true, Value::Object(fields)) = (fails_closed, &mut entry) {
        fields.insert("onFailure".to_owned(), "block".into());
    }
    match event {
        "PreToolUse" | "PostToolUse" | "PostToolUseFailure" => json!({ "matcher": "*", "hooks": [entry] }),
        _ => json!({ "hooks": [entry] }),
    }
}
