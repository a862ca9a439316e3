//! What Gemini CLI reports. It names no id of a tool call, and no permission mode. The client sums up before
//! every turn whether there is something to sum up or not.

use serde_json::Value;

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment, Stop};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, McpTool, ResultBody, ToolOutput, ToolRow, ToolUse, renamed, tool};

const TOOLS: &[ToolRow] = &[
    renamed("run_shell_command", "exec", &[("dir_path", "workdir"), ("directory", "workdir")]),
    renamed("read_file", "read", &[("file_path", "path")]),
    tool("read_many_files", "read"),
    renamed("write_file", "write", &[("file_path", "path")]),
    renamed(
        "replace",
        "edit",
        &[("file_path", "path"), ("old_string", "old_text"), ("new_string", "new_text")],
    ),
    tool("web_fetch", "web_fetch"),
    tool("google_web_search", "web_search"),
    tool("invoke_agent", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Gemini, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Gemini, payload, event, "prompt_id");
    let moment = match event {
        "BeforeTool" => Moment::ToolCall(tool_use(payload, event)?),
        "AfterTool" => Moment::ToolResult(output(tool_use(payload, event)?, payload)),
        "BeforeAgent" => claude_like::prompt(payload, event)?,
        "AfterAgent" => Moment::Stop(Stop {
            again: payload.flag("stop_hook_active"),
            last_message: payload.text("prompt_response").map(Into::into),
        }),
        "SessionStart" => Moment::SessionStart { resumed: payload.text("source") == Some("resume") },
        "SessionEnd" => Moment::SessionEnd { reason: payload.text("reason").map(str::to_owned) },
        "PreCompress" => Moment::BeforeCompaction,
        other if FACTS.leaves_out(other) => Moment::Other,
        other => return Err(unknown_event(Client::Gemini, other)),
    };
    Ok(ClientEvent { frame, moment })
}

fn tool_use(payload: &Payload, event: &str) -> Result<ToolUse, PayloadError> {
    let name = payload.need("tool_name", event)?;
    let arguments = payload.arguments("tool_input", event)?;
    let server = || {
        let context = payload.part("mcp_context")?;
        McpTool::on(context.text("server_name")?, context.text("tool_name")?)
    };
    let mcp = || server().or_else(|| McpSpelling::SingleUnderscore.read(name, &[]));
    Ok(ToolUse::new(TOOLS, name, None, arguments, mcp))
}

/// The model reads `llmContent`; the rest is for the screen.
fn output(call: ToolUse, payload: &Payload) -> ToolOutput {
    let response = payload.get("tool_response");
    let read = response.and_then(|response| response.get("llmContent")).or(response);
    ToolOutput {
        call,
        body: ResultBody::new(read.cloned().unwrap_or(Value::Null)),
        is_error: response
            .is_some_and(|response| response.get("error").is_some_and(|error| !error.is_null())),
        duration_ms: None,
    }
}
