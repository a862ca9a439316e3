//! What Kimi Code reports: Claude Code's events and fields with its own tool names, results under `tool_output`, and a message as
//! a list of parts.

use serde_json::Value;

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, tool_output, tool_use, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError, missing};
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

const TOOLS: &[ToolRow] = &[
    renamed("Bash", "exec", &[("cwd", "workdir")]),
    tool("Read", "read"),
    tool("ReadMediaFile", "read"),
    tool("Write", "write"),
    tool("Edit", "edit"),
    tool("FetchURL", "web_fetch"),
    tool("WebSearch", "web_search"),
    tool("Agent", "sessions_spawn"),
    tool("AgentSwarm", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Kimi, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Kimi, payload, event, "prompt_id");
    let spelling = McpSpelling::DoubleUnderscore;
    let moment = match event {
        _ if FACTS.leaves_out(event) => Moment::Other,
        "PostToolUse" => Moment::ToolResult(tool_output(
            tool_use(payload, event, TOOLS, spelling)?,
            payload,
            "tool_output",
        )),
        "UserPromptSubmit" => prompt(payload, event)?,
        _ => claude_like::moment(payload, event, TOOLS, spelling)?
            .ok_or_else(|| unknown_event(Client::Kimi, event))?,
    };
    Ok(ClientEvent { frame, moment })
}

/// The texts of a message; pictures and the like have none.
fn prompt(payload: &Payload, event: &str) -> Result<Moment, PayloadError> {
    let Some(Value::Array(parts)) = payload.get("prompt") else { return claude_like::prompt(payload, event) };
    let mut texts = Vec::new();
    for part in parts {
        match (part.get("text"), part.get("type").and_then(Value::as_str)) {
            (Some(Value::String(text)), _) => texts.push(text.as_str()),
            (None, Some(kind)) if kind != "text" => {}
            _ => return Err(missing("prompt", event)),
        }
    }
    Ok(if texts.is_empty() { Moment::Other } else { Moment::Prompt(texts.join("\n").into()) })
}
