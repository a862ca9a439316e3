//! The protocol of Claude Code, as far as others share it: Codex, Qwen Code and one dialect of Copilot CLI
//! name their events and fields like this. What they *answer* to differs in each, and is not shared.

use serde_json::Value;

use crate::client::Client;
use crate::event::{Frame, Moment, Stop, SubAgent};
use crate::payload::{Payload, PayloadError, shown};
use crate::tools::{McpSpelling, McpTool, ResultBody, ToolOutput, ToolRow, ToolUse};

/// The events that an installation asks for, where a client has them all.
pub(super) const EVENTS: &[&str] = &[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionStart",
    "SessionEnd",
];

/// The event's name: the payload's own, or the command line's.
pub(super) fn event_name<'a>(
    client: Client,
    payload: &'a Payload,
    field: &str,
    given: Option<&'a str>,
) -> Result<&'a str, PayloadError> {
    payload.text(field).or(given).ok_or(PayloadError::NoEvent { client: client.name() })
}

pub(super) fn unknown_event(client: Client, event: &str) -> PayloadError {
    PayloadError::UnknownEvent { client: client.title(), event: shown(event) }
}

/// Who speaks. `run` is the field that names the turn.
pub(super) fn frame(client: Client, payload: &Payload, event: &str, run: &str) -> Frame {
    let text = |field: &str| payload.text(field).filter(|text| !text.is_empty());
    Frame {
        session: text("session_id").map(Into::into),
        run: text(run).map(Into::into),
        folder: text("cwd").map(str::to_owned),
        mode: text("permission_mode").map(str::to_owned),
        sub_agent: text("agent_id").map(|id| SubAgent {
            id: id.to_owned(),
            kind: text("agent_type").map(str::to_owned),
            parent: text("parent_agent_id").map(str::to_owned),
        }),
        ..Frame::new(client, event)
    }
}

/// The tool call in a payload.
pub(super) fn tool_use(
    payload: &Payload,
    event: &str,
    rows: &[ToolRow],
    spelling: McpSpelling,
) -> Result<ToolUse, PayloadError> {
    let name = payload.need("tool_name", event)?;
    let arguments = payload.arguments("tool_input", event)?;
    let id = payload.text("tool_call_id").or_else(|| payload.text("tool_use_id"));
    Ok(ToolUse::new(rows, name, id, arguments, || {
        named_server(payload, name).or_else(|| spelling.read(name, &[]))
    }))
}

/// The MCP server that a payload names beside the joined name.
fn named_server(payload: &Payload, name: &str) -> Option<McpTool> {
    let server = payload.part("mcp_server")?;
    let server = server.text("name")?;
    let tool = name.strip_prefix("mcp__")?.strip_prefix(server)?.strip_prefix("__")?;
    McpTool::on(server, tool)
}

/// What a tool returned, under `field`.
pub(super) fn tool_output(call: ToolUse, payload: &Payload, field: &str) -> ToolOutput {
    let body = payload.get(field).cloned().unwrap_or(Value::Null);
    ToolOutput {
        call,
        body: ResultBody::new(body),
        is_error: false,
        duration_ms: payload.number("duration_ms"),
    }
}

/// What a tool that failed said, under `error`.
pub(super) fn tool_failure(call: ToolUse, payload: &Payload) -> ToolOutput {
    ToolOutput { is_error: true, ..tool_output(call, payload, "error") }
}

/// The end of a turn.
pub(super) fn stop(payload: &Payload) -> Stop {
    Stop {
        again: payload.flag("stop_hook_active"),
        last_message: payload.text("last_assistant_message").map(Into::into),
    }
}

/// A user's message. One without text is nobody's message (Qwen Code reports such after tool results).
pub(super) fn prompt(payload: &Payload, event: &str) -> Result<Moment, PayloadError> {
    let text = payload.need("prompt", event)?;
    Ok(if text.is_empty() { Moment::Other } else { Moment::Prompt(text.into()) })
}

/// The moments that all of them name alike; `None` for any other event.
pub(super) fn moment(
    payload: &Payload,
    event: &str,
    rows: &[ToolRow],
    spelling: McpSpelling,
) -> Result<Option<Moment>, PayloadError> {
    let call = || tool_use(payload, event, rows, spelling);
    Ok(Some(match event {
        "PreToolUse" => Moment::ToolCall(call()?),
        "PermissionRequest" => Moment::Permission(call()?),
        "PostToolUse" => Moment::ToolResult(tool_output(call()?, payload, "tool_response")),
        "PostToolUseFailure" => Moment::ToolResult(tool_failure(call()?, payload)),
        "UserPromptSubmit" => prompt(payload, event)?,
        "Stop" => Moment::Stop(stop(payload)),
        "SubagentStop" => Moment::SubAgentStop(stop(payload)),
        "SubagentStart" => Moment::SubAgentStart,
        "SessionStart" => {
            Moment::SessionStart { resumed: matches!(payload.text("source"), Some("resume" | "compact")) }
        }
        "SessionEnd" => Moment::SessionEnd { reason: payload.text("reason").map(str::to_owned) },
        "PreCompact" => Moment::BeforeCompaction,
        "PostCompact" => Moment::AfterCompaction,
        _ => return Ok(None),
    }))
}
