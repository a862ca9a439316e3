//! What each client declares to fire is what its events fire, no point more and none less.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use backstop_engine::{Attendance, Engine, HookOptions};
use backstop_hooks::points::*;
use backstop_hooks::{Honour, OwnerId, Point, PointId, for_each_point, hook_fn};
use serde_json::{Value, json};

use crate::client::Client;
use crate::event::MomentKind;
use crate::host::respond;
use crate::install::Form;
use crate::payload::Payload;

type Fired = Arc<Mutex<BTreeSet<PointId>>>;

fn watch<P: Point>(engine: &Engine, fired: &Fired) {
    let fired = Arc::clone(fired);
    let hook = hook_fn::<P, _>(move |_, _| {
        fired.lock().unwrap().insert(P::INFO.id);
        Ok(None)
    });
    engine.registry().on::<P>(hook, HookOptions::new(OwnerId::operator())).unwrap();
}

macro_rules! watch_all {
    ($($point:ident, $name:literal, $mode:ident, $family:ident, $failure:ident, $budget:literal, $access:literal, $injection:literal,
       $event:ident, $outcome:ident, $summary:literal;)*) => {
        fn watch_all(engine: &Engine, fired: &Fired) {
            $(watch::<$point>(engine, fired);)*
        }
    };
}
for_each_point!(watch_all);

/// The events that an installation has the client report.
fn events(client: Client) -> &'static [&'static str] {
    match client.layout().form {
        Form::Merged(merged) => return merged.events,
        Form::Tables(tables) => return tables.events,
        Form::Own(_) => {}
    }
    match client {
        Client::Copilot => &[
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
        ],
        Client::Cline => &[
            "PreToolUse",
            "PostToolUse",
            "UserPromptSubmit",
            "TaskStart",
            "TaskResume",
            "TaskComplete",
            "SessionShutdown",
            "PreCompact",
        ],
        Client::OpenCode => &[
            "tool.execute.before",
            "tool.execute.after",
            "chat.message",
            "experimental.session.compacting",
            "event.session.created",
            "event.session.idle",
            "event.session.compacted",
        ],
        Client::Kiro => &["PreToolUse", "PostToolUse", "UserPromptSubmit", "SessionStart", "Stop"],
        Client::Goose => &[
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "UserPromptSubmit",
            "Stop",
            "SessionStart",
            "SessionEnd",
        ],
        other => panic!("{other} has no list of events"),
    }
}

/// A payload with the fields of every client, so that each finds its own; from a sub-agent or not.
fn payload(client: Client, child: bool) -> Value {
    let tool = match client {
        Client::Cline => "run_commands",
        Client::Gemini | Client::Qwen => "run_shell_command",
        Client::Cursor => "Shell",
        Client::Kiro => "execute_bash",
        Client::Goose => "developer__shell",
        Client::Droid => "Execute",
        Client::Devin => "exec",
        _ => "Bash",
    };
    let arguments = json!({ "command": "true", "commands": ["true"] });
    let mut payload = json!({
        "session_id": "s", "sessionId": "s", "conversation_id": "s", "trajectory_id": "s", "taskId": "s",
        "cwd": "/p", "tool_name": tool, "tool_input": arguments, "tool_response": "done", "tool_output": "done",
        "toolName": "bash", "toolArgs": arguments, "toolResult": { "textResultForLlm": "done" },
        "prompt": "hi", "message": "hi", "userPromptSubmit": { "prompt": "hi" },
        "tool_call": { "id": "c", "name": tool, "input": arguments },
        "tool_result": { "id": "c", "name": tool, "input": arguments, "output": "done" },
        "tool_info": {
            "command_line": "true", "file_path": "/p/a", "cwd": "/p", "user_prompt": "hi",
            "mcp_server_name": "fake", "mcp_tool_name": "note", "mcp_tool_arguments": {},
        },
        "input": {
            "tool": "bash", "sessionID": "s", "callID": "c", "args": { "command": "true" },
            "properties": { "sessionID": "s", "info": { "id": "s" } },
        },
        "output": { "args": { "command": "true" }, "output": "done", "parts": [{ "type": "text", "text": "hi" }] },
    });
    if child {
        for (field, value) in [
            ("agent_id", "a"),
            ("agentId", "a"),
            ("parent_agent_id", "p"),
            ("parentSessionID", "p"),
            ("subagent_id", "a"),
        ] {
            payload[field] = value.into();
        }
        payload["input"]["properties"]["info"]["parentID"] = "p".into();
    }
    payload
}

#[tokio::test]
async fn law_07_every_declared_point_of_every_client_is_fired_and_no_other() {
    for client in Client::ALL {
        let (engine, fired) = (Engine::builder().build(), Fired::default());
        watch_all(&engine, &fired);
        let mut reported: BTreeSet<MomentKind> = BTreeSet::new();
        for event in events(client) {
            for child in [false, true] {
                let text = payload(client, child).to_string();
                let payload = Payload::parse(text.as_bytes()).unwrap();
                let read = client.read(&payload, Some(event));
                let read = read.unwrap_or_else(|error| panic!("{client} {event}: {error}"));
                reported.extend(read.moment.kind());
                respond(&engine, &read, &Attendance::Nobody).await;
            }
        }
        let declared: BTreeSet<MomentKind> = client.adapter().reports.iter().copied().collect();
        assert_eq!(reported, declared, "{client}");
        let points: BTreeSet<PointId> = client.host_profile().points().collect();
        assert_eq!(*fired.lock().unwrap(), points, "{client}");
    }
}

#[test]
fn what_a_client_has_no_encoder_for_is_declared_as_not_obeyed() {
    let ask = |client: Client| client.host_profile().honour(PointId::BeforeToolCall, "requireApproval");
    assert_eq!(ask(Client::Claude), Some(Honour::Obeyed));
    assert!(matches!(ask(Client::Codex), Some(Honour::Stricter(_))));
    for client in Client::ALL {
        let host = client.host_profile();
        for (point, field, _) in host.exceptions() {
            assert!(host.honour(point, field).is_some(), "{client}: `{field}` is a field at {point}");
        }
        let gates = &client.adapter().gates;
        let rewrite = host.honour(PointId::BeforeToolCall, "params");
        assert_eq!(rewrite == Some(Honour::Obeyed), gates.rewrite.is_some(), "{client}");
        let stops = host.honour(PointId::BeforeAgentRun, "outcome");
        assert_eq!(stops == Some(Honour::Obeyed), gates.block_prompt.is_some(), "{client}");
    }
}
