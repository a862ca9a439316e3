//! What an installation writes for Qwen Code: entries in `settings.json`, timeouts in milliseconds.

use serde_json::{Value, json};

use crate::adapters::claude_like;
use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Moved, Place};

pub(super) const TIMEOUT_MILLISECONDS: u64 = 300_000;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::SettingsVariable {
        name: "QWEN_CODE_SYSTEM_SETTINGS_PATH",
        otherwise: if cfg!(target_os = "macos") {
            "/Library/Application Support/QwenCode/settings.json"
        } else {
            "/etc/qwen-code/settings.json"
        },
    },
    user: Place {
        variable: Some(Moved { by: "QWEN_HOME", below: "" }),
        folder: ".qwen",
        file: "settings.json",
    },
    project: Some(Place { variable: None, folder: ".qwen", file: "settings.json" }),
    form: Form::Merged(Merged { preamble: &[], events: claude_like::EVENTS, group, maps: &[], also: &[] }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let command = match event {
        "PreToolUse" | "PostToolUse" | "UserPromptSubmit" => command.guarded(),
        _ => command.plain(),
    };
    json!({ "hooks": [{ "type": "command", "command": command, "timeout": TIMEOUT_MILLISECONDS }] })
}
