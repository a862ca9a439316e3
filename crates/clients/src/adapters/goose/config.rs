//! What an installation writes for goose: a plugin folder. A matcher that is no regular expression skips its
//! rule, so it is `.*`, never `*`.

use serde_json::{Map, Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, OwnFile, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place { variable: None, folder: ".agents/plugins/backstop", file: "hooks/hooks.json" },
    project: Some(Place { variable: None, folder: ".agents/plugins/backstop", file: "hooks/hooks.json" }),
    form: Form::Own(files),
};

const EVENTS: &[&str] = &[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SessionStart",
    "SessionEnd",
];

fn files(command: &HookCommand) -> Vec<OwnFile> {
    let hooks: Map<String, Value> =
        EVENTS.iter().map(|event| ((*event).to_owned(), group(event, command))).collect();
    let manifest = json!({
        "name": "backstop",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Judges what the agent is about to do",
    });
    vec![
        OwnFile::json("hooks/hooks.json", &json!({ "hooks": hooks })),
        OwnFile::json("plugin.json", &manifest),
    ]
}

fn group(event: &str, command: &HookCommand) -> Value {
    let mut entry = json!({ "type": "command", "command": command.plain(), "timeout": TIMEOUT_SECONDS });
    if let (true, Value::Object(fields)) = (event == "PreToolUse", &mut entry) {
        fields.insert("on_failure".to_owned(), "block".into());
    }
    json!([{ "matcher": ".*", "hooks": [entry] }])
}
