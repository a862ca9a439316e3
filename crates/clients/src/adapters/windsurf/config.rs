//! What an installation writes for Windsurf: entries in `hooks.json`, of which its plugin for JetBrains reads another one.

use serde_json::{Value, json};

use crate::install::{Also, ForOneRun, Form, HookCommand, Layout, Merged, Place};

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place { variable: None, folder: ".codeium/windsurf", file: "hooks.json" },
    project: Some(Place { variable: None, folder: ".windsurf", file: "hooks.json" }),
    form: Form::Merged(Merged {
        preamble: &[],
        events: &[
            "pre_run_command",
            "pre_write_code",
            "pre_read_code",
            "pre_mcp_tool_use",
            "pre_user_prompt",
            "post_run_command",
            "post_write_code",
            "post_read_code",
            "post_mcp_tool_use",
        ],
        group,
        maps: &[],
        also: &[Also { folder: ".codeium", file: "hooks.json" }],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let command = if event.starts_with("pre_") { command.guarded() } else { command.plain() };
    json!({ "command": command, "show_output": true })
}
