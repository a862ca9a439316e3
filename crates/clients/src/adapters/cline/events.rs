//! What Cline reports. Its hooks are files named after the event; `hookName` says what happened in other
//! words. `run_commands` takes a list, and each command of it is a call.

use serde_json::Value;

use crate::adapters::claude_like::unknown_event;
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment, Stop, SubAgent};
use crate::payload::{Payload, PayloadError, missing};
use crate::tools::{McpSpelling, ResultBody, ToolOutput, ToolRow, ToolUse, renamed, tool};

use super::capabilities::FACTS;

const TOOLS: &[ToolRow] = &[
    ToolRow { theirs: "run_commands", ours: "exec", keys: &[], batch: Some("commands") },
    tool("execute_command", "exec"),
    tool("read_files", "read"),
    tool("read_file", "read"),
    tool("write_to_file", "write"),
    tool("replace_in_file", "edit"),
    renamed("editor", "edit", &[]),
    tool("fetch_web_content", "web_fetch"),
    tool("web_fetch", "web_fetch"),
    tool("spawn_agent", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let said = payload.text("hookName");
    let event = event_of(said).or(given).or(said);
    let event = event.ok_or(PayloadError::NoEvent { client: Client::Cline.name() })?;
    let frame = frame(payload, event);
    let child = frame.sub_agent.is_some();
    let moment = match event {
        "PreToolUse" => Moment::ToolCall(call(payload, event, "tool_call", "preToolUse")?),
        "PostToolUse" => Moment::ToolResult(output(payload, event)?),
        "UserPromptSubmit" => {
            let prompt =
                payload.part("userPromptSubmit").ok_or_else(|| missing("userPromptSubmit", event))?;
            Moment::Prompt(prompt.need("prompt", event)?.into())
        }
        "TaskStart" if child => Moment::SubAgentStart,
        "TaskComplete" if child => Moment::SubAgentStop(stop(payload)),
        "SessionShutdown" if child => Moment::Other,
        "TaskStart" => Moment::SessionStart { resumed: false },
        "TaskResume" => Moment::SessionStart { resumed: true },
        "TaskComplete" => Moment::Stop(stop(payload)),
        "SessionShutdown" => Moment::SessionEnd { reason: None },
        "PreCompact" => Moment::BeforeCompaction,
        other if FACTS.leaves_out(other) => Moment::Other,
        other => return Err(unknown_event(Client::Cline, other)),
    };
    Ok(ClientEvent { frame, moment })
}

/// The file's name for what `hookName` says, where it says something else.
fn event_of(said: Option<&str>) -> Option<&'static str> {
    Some(match said? {
        "tool_call" => "PreToolUse",
        "tool_result" => "PostToolUse",
        "agent_start" => "TaskStart",
        "agent_end" => "TaskComplete",
        "session_shutdown" => "SessionShutdown",
        _ => return None,
    })
}

fn frame(payload: &Payload, event: &str) -> Frame {
    let session = payload.part("sessionContext");
    let session =
        session.as_ref().and_then(|context| context.text("rootSessionId")).or(payload.text("taskId"));
    let folder =
        payload.get("workspaceRoots").and_then(Value::as_array).and_then(|roots| roots.first()?.as_str());
    Frame {
        session: session.map(Into::into),
        run: payload.text("taskId").map(Into::into),
        folder: folder.map(str::to_owned),
        sub_agent: payload.text("parent_agent_id").map(|parent| SubAgent {
            id: payload.text("agent_id").unwrap_or("unknown").to_owned(),
            kind: None,
            parent: Some(parent.to_owned()),
        }),
        ..Frame::new(Client::Cline, event)
    }
}

/// The call under `field`, or in the older form under `older`, where arguments that are no text are JSON in
/// a text.
fn call(
    payload: &Payload,
    event: &str,
    field: &'static str,
    older: &'static str,
) -> Result<ToolUse, PayloadError> {
    let (part, name, arguments) = match (payload.part(field), payload.part(older)) {
        (Some(part), _) => {
            let arguments = part.arguments("input", event)?;
            (part, "name", arguments)
        }
        (None, Some(part)) => {
            let arguments = part.arguments("parameters", event)?;
            (part, "toolName", arguments.into_iter().map(|(key, value)| (key, unpacked(value))).collect())
        }
        (None, None) => return Err(missing(field, event)),
    };
    let name = part.need(name, event)?;
    Ok(ToolUse::new(TOOLS, name, part.text("id"), arguments, || McpSpelling::ServerFirst.read(name, &[])))
}

/// A list or an object that is JSON in a text; anything else as it is.
fn unpacked(value: Value) -> Value {
    let packed = value.as_str().filter(|text| text.starts_with(['[', '{']));
    packed.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(value)
}

fn output(payload: &Payload, event: &str) -> Result<ToolOutput, PayloadError> {
    let call = call(payload, event, "tool_result", "postToolUse")?;
    let (newer, older) = (payload.part("tool_result"), payload.part("postToolUse"));
    let body = newer
        .as_ref()
        .and_then(|part| part.get("output"))
        .or(older.as_ref().and_then(|part| part.get("result")));
    Ok(ToolOutput {
        call,
        body: ResultBody::new(body.cloned().unwrap_or(Value::Null)),
        is_error: older.as_ref().and_then(|part| part.get("success")) == Some(&Value::Bool(false)),
        duration_ms: newer.as_ref().and_then(|part| part.number("durationMs")),
    })
}

fn stop(payload: &Payload) -> Stop {
    let turn = payload.part("turn");
    Stop {
        again: false,
        last_message: turn.as_ref().and_then(|turn| turn.text("outputText")).map(Into::into),
    }
}
