//! What an installation writes for OpenCode: a plugin file, which the client loads from its plugins folder.
//!
//! A hook of a plugin that never ends holds the client for ever, so the plugin has a clock of its own.

use crate::install::{ForOneRun, Form, HookCommand, Layout, Moved, OwnFile, Place};

pub(super) const TIMEOUT_SECONDS: u64 = 300;

pub(super) const LAYOUT: Layout = Layout {
    once: ForOneRun::PluginVariable("OPENCODE_CONFIG_CONTENT"),
    user: Place {
        variable: Some(Moved { by: "XDG_CONFIG_HOME", below: "opencode/plugins" }),
        folder: ".config/opencode/plugins",
        file: "backstop.js",
    },
    project: Some(Place { variable: None, folder: ".opencode/plugins", file: "backstop.js" }),
    form: Form::Own(files),
};

const TEMPLATE: &str = include_str!("plugin.js");

fn files(command: &HookCommand) -> Vec<OwnFile> {
    // JSON text is JavaScript text.
    let program = serde_json::Value::from(command.program()).to_string();
    let text = TEMPLATE
        .replace("@COMMAND@", &command.plain())
        .replace("\"@PROGRAM@\"", &program)
        .replace("\"@ARGUMENTS@\"", &serde_json::Value::from(command.arguments()).to_string())
        .replace("\"@TIMEOUT@\"", &(TIMEOUT_SECONDS * 1000).to_string());
    vec![OwnFile::text("backstop.js", text)]
}
