//! The SDKs with the real engine: the tool call hook of their pages, in Python and in JavaScript.

use std::path::Path;

use backstop_engine::Attendance;
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params};
use backstop_plugins::external::process::ProcessSettings;
use serde_json::json;

use crate::support::{observe, settings, start};

const SDK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk");

const PYTHON: &str = r#"
import backstop
from backstop.hooks.base import HookVerdict, ToolCallHook

class MyHook(ToolCallHook):
    async def pre_call(self, tool_name, arguments, session_id="") -> HookVerdict:
        if tool_name == "run_command" and "sudo" in arguments.get("command", ""):
            return HookVerdict(verdict="deny", reasoning="sudo not allowed")
        return HookVerdict(verdict="approve")

    async def post_call(self, tool_name, arguments, result, session_id="") -> None:
        print(f"{tool_name} → success={result['success']}")

backstop.run(MyHook())
"#;

const JAVASCRIPT: &str = r#"
import { HookVerdict, ToolCallHook, run } from "SDK/typescript/src/index.js";

class MyHook extends ToolCallHook {
  async preCall(toolName, args) {
    if (toolName === "run_command" && String(args.command ?? "").includes("sudo")) {
      return HookVerdict.deny("sudo not allowed");
    }
    return HookVerdict.approve();
  }

  async postCall(toolName, _args, result) {
    console.log(`${toolName} -> success=${result.success}`);
  }
}

run({ hooks: [new MyHook()] });
"#;

fn program(folder: &Path, name: &str, text: &str, runtime: &str) -> ProcessSettings {
    let file = folder.join(name);
    std::fs::write(&file, text.replace("SDK", SDK)).unwrap();
    let mut settings = settings("", folder);
    settings.program = runtime.into();
    settings.arguments = vec![file.into()];
    settings.environment.insert("PYTHONPATH".into(), format!("{SDK}/python/src").into());
    settings.environment.insert("PYTHONDONTWRITEBYTECODE".into(), "1".into());
    settings
}

#[tokio::test]
async fn a_tool_call_hook_denies_sudo_in_run_command() {
    let folder = tempfile::tempdir().unwrap();
    for settings in [
        program(folder.path(), "hook.py", PYTHON, "python3"),
        program(folder.path(), "hook.mjs", JAVASCRIPT, "node"),
    ] {
        let (plugin, engine) = start(settings).await.unwrap();
        for (command, reason) in [("ls", None), ("sudo ls", Some("sudo not allowed"))] {
            let params = Params::from_value(json!({ "command": command })).unwrap();
            let event = ToolCallEvent::new("run_command", params);
            let verdict = engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await;
            let said = verdict.permit.err().and_then(|blocked| blocked.reason);
            assert_eq!(said.as_ref().map(|reason| reason.text().as_str()), reason, "{command}");
        }
        let receipt = observe(&engine, "ls").await;
        assert!(receipt.steps[0].failure.is_none(), "{:?}", receipt.steps[0].failure);
        assert!(plugin.is_ready());
        plugin.shut_down().await;
    }
}
