//! What an installation writes for Cursor: entries in `hooks.json`.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Merged, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place { variable: None, folder: ".cursor", file: "hooks.json" },
    project: Some(Place { variable: None, folder: ".cursor", file: "hooks.json" }),
    form: Form::Merged(Merged {
        preamble: &[("version", 1)],
        events: &[
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "beforeSubmitPrompt",
            "stop",
            "subagentStart",
            "subagentStop",
            "preCompact",
            "sessionStart",
            "sessionEnd",
        ],
        group,
        maps: &[],
        also: &[],
    }),
};

fn group(event: &'static str, command: &HookCommand) -> Value {
    let fails_closed = matches!(event, "preToolUse" | "beforeSubmitPrompt");
    let mut entry = json!({ "type": "command", "command": command.plain(), "timeout": TIMEOUT_SECONDS });
    if let (true, Value::Object(fields)) = (fails_closed, &mut entry) {
        fields.insert("failClosed".to_owned(), true.into());
    }
    entry
}
