//! A call as the client's hook reports it, and what the guards say.

use backstop::clients::{Client, Moment, Payload};
use backstop::engine::Engine;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::places::Places;
use crate::ways::Call;

/// What becomes of a call, the mildest first.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Judged {
    Allow,
    Ask,
    Block,
}

/// Judges a call by every hook of the engine; the strictest of its parts counts.
pub(crate) async fn judge(engine: &Engine, places: &Places, client: Client, call: &Call) -> Judged {
    let text = places.fill(&Value::Object(call.args.clone()).to_string());
    let (event, payload) = report(client, &call.tool, &serde_json::from_str(&text).unwrap(), &places.work());
    let payload = Payload::parse(payload.to_string().as_bytes()).unwrap();
    let event = client.read(&payload, Some(&event)).unwrap().started_in(&places.work());
    let Moment::ToolCall(used) = &event.moment else { panic!("{client} reports no call of `{}`", call.tool) };
    let mut strictest = Judged::Allow;
    for part in used.events(event.frame.run(), client.facts().unseen_input.is_some()) {
        let context = event.frame.call_context();
        let reviewed = engine.review_tool_call(part, &context, false).await;
        let verdict = match (reviewed.blocked, reviewed.requests.as_slice()) {
            (Some(_), _) => Judged::Block,
            (None, []) => Judged::Allow,
            (None, _) => Judged::Ask,
        };
        strictest = strictest.max(verdict);
    }
    strictest
}

/// The event before a tool runs, and what the client writes to the hook.
fn report(client: Client, tool: &str, args: &Map<String, Value>, work: &str) -> (String, Value) {
    let event = match client {
        Client::Gemini => "BeforeTool",
        Client::Copilot | Client::Cursor => "preToolUse",
        Client::OpenCode => "tool.execute.before",
        Client::Windsurf => return windsurf(tool, args, work),
        Client::Claude
        | Client::Codex
        | Client::Qwen
        | Client::Cline
        | Client::Kiro
        | Client::Goose
        | Client::Droid
        | Client::Devin
        | Client::Kimi => "PreToolUse",
    };
    let payload = match client {
        Client::Copilot => json!({"sessionId": "s", "cwd": work, "toolName": tool, "toolArgs": args}),
        Client::Cline => json!({
            "taskId": "s", "hookName": "tool_call", "workspaceRoots": [work],
            "tool_call": {"id": "c", "name": tool, "input": args},
        }),
        Client::OpenCode => json!({
            "event": event, "directory": work,
            "input": {"tool": tool, "sessionID": "s", "callID": "c"}, "output": {"args": args},
        }),
        _ => json!({
            "session_id": "s", "conversation_id": "s", "hook_event_name": event, "cwd": work, "working_dir": work,
            "workspace_roots": [work], "tool_name": tool, "tool_input": args, "tool_use_id": "c",
        }),
    };
    (event.to_owned(), payload)
}

/// One event per kind of tool.
fn windsurf(tool: &str, args: &Map<String, Value>, work: &str) -> (String, Value) {
    let event = format!("pre_{tool}");
    let mut info = args.clone();
    info.insert("cwd".to_owned(), work.into());
    let payload = json!({"agent_action_name": event, "trajectory_id": "s", "tool_info": info});
    (event, payload)
}
