//! What an installation writes for Gemini CLI: entries in `settings.json`, timeouts in milliseconds.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Moved, Place};

pub(super) const TIMEOUT_MILLISECONDS: u64 = 300_000;

pub(super) const LAYOUT: Layout = Layout {
    // Settings of the machine must be root's, and there is no other way to add to the user's.
    once: ForOneRun::Never,
    user: Place {
        variable: Some(Moved { by: "GEMINI_CLI_HOME", below: ".gemini" }),
        folder: ".gemini",
        file: "settings.json",
    },
    project: Some(Place { variable: None, folder: ".gemini", file: "settings.json" }),
    form: Form::Merged(Merged {
        preamble: &[],
        events: &[
            "BeforeTool",
            "AfterTool",
            "BeforeAgent",
            "AfterAgent",
            "PreCompress",
            "SessionStart",
            "SessionEnd",
        ],
        group,
        maps: &[],
        also: &[],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let text = match event {
        "BeforeTool" | "AfterTool" | "BeforeAgent" => command.guarded(),
        _ => command.plain(),
    };
    let entry =
        json!({ "name": "backstop", "type": "command", "command": text, "timeout": TIMEOUT_MILLISECONDS });
    match event {
        "BeforeTool" | "AfterTool" => json!({ "matcher": ".*", "hooks": [entry] }),
        _ => json!({ "hooks": [entry] }),
    }
}
