//! What an installation writes for Kiro: a file of its own in the hooks folder, one hook per trigger.

use serde_json::{Value, json};

use crate::install::{ForOneRun, Form, HookCommand, Layout, OwnFile, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 60;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::Never,
    user: Place { variable: None, folder: ".kiro/hooks", file: "backstop.json" },
    project: Some(Place { variable: None, folder: ".kiro/hooks", file: "backstop.json" }),
    form: Form::Own(files),
};

const TRIGGERS: &[&str] = &["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "Stop"];

fn files(command: &HookCommand) -> Vec<OwnFile> {
    let hooks: Vec<Value> = TRIGGERS.iter().map(|trigger| hook(trigger, command)).collect();
    vec![OwnFile::json("backstop.json", &json!({ "version": "v1", "hooks": hooks }))]
}

fn hook(trigger: &str, command: &HookCommand) -> Value {
    let command = command.at(trigger);
    let text = match trigger {
        "PreToolUse" | "UserPromptSubmit" => command.guarded(),
        _ => command.plain(),
    };
    let mut hook = json!({
        "name": format!("backstop {trigger}"),
        "trigger": trigger,
        "action": { "type": "command", "command": text },
        "timeout": TIMEOUT_SECONDS,
        "enabled": true,
    });
    if let (true, Value::Object(fields)) = (trigger.ends_with("ToolUse"), &mut hook) {
        fields.insert("matcher".to_owned(), ".*".into());
    }
    hook
}
