//! What Cursor reports. `preToolUse` stands before every tool; `beforeShellExecution`, `beforeMCPExecution` and
//! `beforeReadFile` report some of the same calls once more.

use serde_json::{Map, Value};

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment, Stop, SubAgent};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, McpTool, ResultBody, ToolOutput, ToolRow, ToolUse, renamed, tool};

const TOOLS: &[ToolRow] = &[
    renamed("Shell", "exec", &[("working_directory", "workdir"), ("cwd", "workdir")]),
    renamed("Read", "read", &[("file_path", "path"), ("target_file", "path")]),
    renamed("Write", "write", &[("file_path", "path"), ("target_file", "path")]),
    // Deleting a file writes to its folder.
    renamed("Delete", "write", &[("file_path", "path"), ("target_file", "path")]),
    tool("WebFetch", "web_fetch"),
    tool("WebSearch", "web_search"),
    tool("Task", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Cursor, payload, "hook_event_name", given)?;
    let frame = frame(payload, event);
    let moment = match event {
        "preToolUse" => Moment::ToolCall(tool_use(payload, event)?),
        "beforeShellExecution" => Moment::ToolCall(fixed(payload, "Shell", &["command", "cwd"], event)?),
        "beforeReadFile" => Moment::ToolCall(fixed(payload, "Read", &["file_path", "attachments"], event)?),
        "beforeMCPExecution" => Moment::ToolCall(mcp_call(payload, event)?),
        "postToolUse" => Moment::ToolResult(output(tool_use(payload, event)?, payload)),
        "postToolUseFailure" => {
            let body = payload.get("error_message").cloned().unwrap_or(Value::Null);
            let call = tool_use(payload, event)?;
            Moment::ToolResult(ToolOutput {
                call,
                body: ResultBody::new(body),
                is_error: true,
                duration_ms: payload.number("duration"),
            })
        }
        "beforeSubmitPrompt" => claude_like::prompt(payload, event)?,
        "stop" => Moment::Stop(Stop {
            again: payload.number("loop_count").is_some_and(|count| count > 0),
            last_message: None,
        }),
        "subagentStart" => Moment::SubAgentStart,
        "subagentStop" => Moment::SubAgentStop(Stop::default()),
        "sessionStart" => Moment::SessionStart { resumed: false },
        "sessionEnd" => Moment::SessionEnd { reason: payload.text("reason").map(str::to_owned) },
        "preCompact" => Moment::BeforeCompaction,
        other if FACTS.leaves_out(other) => Moment::Other,
        other => return Err(unknown_event(Client::Cursor, other)),
    };
    Ok(ClientEvent { frame, moment })
}

fn frame(payload: &Payload, event: &str) -> Frame {
    let roots = payload.get("workspace_roots").and_then(Value::as_array);
    let root = roots.and_then(|roots| roots.first()?.as_str());
    let of_child = event.starts_with("subagent").then(|| SubAgent {
        id: payload.text("subagent_id").unwrap_or("unknown").to_owned(),
        kind: payload.text("subagent_type").map(str::to_owned),
        parent: None,
    });
    Frame {
        session: payload.text("conversation_id").or(payload.text("session_id")).map(Into::into),
        run: payload.text("generation_id").map(Into::into),
        // What a call names as its folder is the agent's choice; which repository's rules hold must not be.
        folder: root.or(payload.text("cwd").filter(|cwd| !cwd.is_empty())).map(str::to_owned),
        sub_agent: of_child,
        ..Frame::new(Client::Cursor, event)
    }
}

fn tool_use(payload: &Payload, event: &str) -> Result<ToolUse, PayloadError> {
    let name = payload.need("tool_name", event)?;
    let arguments = payload.arguments("tool_input", event)?;
    let mcp = || McpSpelling::Prefix.read(name, &[]);
    Ok(ToolUse::new(TOOLS, name, payload.text("tool_use_id"), arguments, mcp))
}

/// A call of the tool that the event is about, with its arguments among the event's fields.
fn fixed(
    payload: &Payload,
    name: &str,
    fields: &[&'static str],
    event: &str,
) -> Result<ToolUse, PayloadError> {
    if let Some(first) = fields.first() {
        payload.need(first, event)?;
    }
    let present = fields.iter().filter_map(|field| Some(((*field).to_owned(), payload.get(field)?.clone())));
    let arguments: Map<String, Value> = present.collect();
    Ok(ToolUse::new(TOOLS, name, payload.text("tool_use_id"), arguments, || None))
}

fn mcp_call(payload: &Payload, event: &str) -> Result<ToolUse, PayloadError> {
    let tool = payload.need("tool_name", event)?.to_owned();
    let arguments = payload.arguments("tool_input", event)?;
    let name = format!("MCP:{tool}");
    Ok(ToolUse::new(&[], &name, payload.text("tool_use_id"), arguments, || {
        Some(McpTool { server: None, tool })
    }))
}

/// The result is JSON in a text.
fn output(call: ToolUse, payload: &Payload) -> ToolOutput {
    let body = match payload.get("tool_output") {
        Some(Value::String(text)) => {
            serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.clone()))
        }
        Some(other) => other.clone(),
        None => Value::Null,
    };
    ToolOutput { call, body: ResultBody::new(body), is_error: false, duration_ms: payload.number("duration") }
}
