//! What goose reports: the tools of its extensions as `extension__tool`.

use serde_json::Value;

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ResultBody, ToolOutput, ToolRow, ToolUse, tool};

/// The tools of the built-in extension. Those of any other are tools of an MCP server.
const TOOLS: &[ToolRow] = &[
    tool("developer__shell", "exec"),
    tool("developer__text_editor", "edit"),
    tool("developer__write", "write"),
    tool("developer__edit", "edit"),
    tool("developer__read", "read"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Goose, payload, "event", given)?;
    let frame = Frame {
        session: payload.text("session_id").map(Into::into),
        folder: payload.text("working_dir").map(str::to_owned),
        ..Frame::new(Client::Goose, event)
    };
    let moment = match event {
        "PreToolUse" => Moment::ToolCall(tool_use(payload, event)?),
        "PostToolUse" => Moment::ToolResult(output(tool_use(payload, event)?, payload, false)),
        "PostToolUseFailure" => Moment::ToolResult(output(tool_use(payload, event)?, payload, true)),
        "UserPromptSubmit" => Moment::Prompt(payload.need("message", event)?.into()),
        "Stop" => Moment::Stop(claude_like::stop(payload)),
        "SessionStart" => Moment::SessionStart { resumed: false },
        "SessionEnd" => Moment::SessionEnd { reason: payload.text("reason").map(str::to_owned) },
        other if FACTS.leaves_out(other) => Moment::Other,
        other => return Err(unknown_event(Client::Goose, other)),
    };
    Ok(ClientEvent { frame, moment })
}

fn tool_use(payload: &Payload, event: &str) -> Result<ToolUse, PayloadError> {
    let name = payload.need("tool_name", event)?;
    let arguments = payload.arguments("tool_input", event)?;
    let mcp = || McpSpelling::ServerFirst.read(name, &[]);
    Ok(ToolUse::new(TOOLS, name, payload.text("tool_call_id"), arguments, mcp))
}

fn output(call: ToolUse, payload: &Payload, is_error: bool) -> ToolOutput {
    let body = payload.get("tool_output").cloned().unwrap_or(Value::Null);
    ToolOutput { call, body: ResultBody::new(body), is_error, duration_ms: None }
}
