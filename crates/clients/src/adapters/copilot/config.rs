//! What an installation writes for Copilot CLI: a file of its own in the hooks folder, in the camelCase
//! dialect. A payload does not name its event, so the command does.

use serde_json::{Map, Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, Moved, OwnFile, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place {
        variable: Some(Moved { by: "COPILOT_HOME", below: "hooks" }),
        folder: ".copilot/hooks",
        file: "backstop.json",
    },
    project: Some(Place { variable: None, folder: ".github/hooks", file: "backstop.json" }),
    form: Form::Own(files),
};

const EVENTS: &[&str] = &[
    "preToolUse",
    "postToolUse",
    "postToolUseFailure",
    "userPromptSubmitted",
    "agentStop",
    "subagentStart",
    "subagentStop",
    "preCompact",
    "sessionStart",
    "sessionEnd",
];

fn files(command: &HookCommand) -> Vec<OwnFile> {
    let entry = |event: &str| json!([{ "type": "command", "bash": command.at(event).plain(), "timeoutSec": TIMEOUT_SECONDS }]);
    let hooks: Map<String, Value> = EVENTS.iter().map(|event| ((*event).to_owned(), entry(event))).collect();
    vec![OwnFile::json("backstop.json", &json!({ "version": 1, "hooks": hooks }))]
}
