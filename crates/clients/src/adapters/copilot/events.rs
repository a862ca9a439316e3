//! What Copilot CLI reports. In the camelCase dialect the payload does not name its event (with two
//! exceptions), so it is given on the command line.

use serde_json::Value;

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment, Stop, SubAgent};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, McpTool, ResultBody, ToolOutput, ToolRow, ToolUse, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("bash", "exec"),
    tool("powershell", "exec"),
    tool("write_bash", "process"),
    tool("view", "read"),
    renamed("create", "write", &[("file_text", "content")]),
    // Where permission is asked for, an edit has `file_path` and a `diff`.
    renamed("edit", "edit", &[("file_path", "path"), ("old_str", "old_text"), ("new_str", "new_text")]),
    tool("web_fetch", "web_fetch"),
    tool("task", "sessions_spawn"),
    tool("write_agent", "sessions_send"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = payload
        .text("hook_event_name")
        .or(payload.text("hookName"))
        .or(given)
        .ok_or(PayloadError::NoEvent { client: Client::Copilot.name() })?;
    if super::answer::is_pascal_name(event) { pascal(payload, event) } else { camel(payload, event) }
}

fn pascal(payload: &Payload, event: &str) -> Result<ClientEvent, PayloadError> {
    let mut frame = claude_like::frame(Client::Copilot, payload, event, "turn_id");
    // A notification has a name of this dialect and fields of the other.
    frame.session = frame.session.or_else(|| payload.text("sessionId").map(Into::into));
    let moment = match event {
        "PostToolUse" => {
            let call = claude_like::tool_use(payload, event, TOOLS, McpSpelling::Dash)?;
            Moment::ToolResult(claude_like::tool_output(call, payload, "tool_result"))
        }
        _ => match claude_like::moment(payload, event, TOOLS, McpSpelling::Dash)? {
            Some(moment) => moment,
            None => left_out(event)?,
        },
    };
    Ok(ClientEvent { frame, moment })
}

fn camel(payload: &Payload, event: &str) -> Result<ClientEvent, PayloadError> {
    let frame = camel_frame(payload, event);
    let moment = match event {
        "preToolUse" => Moment::ToolCall(tool_use(payload, event, "toolArgs")?),
        "permissionRequest" => Moment::Permission(tool_use(payload, event, "toolInput")?),
        "postToolUse" => {
            Moment::ToolResult(output(tool_use(payload, event, "toolArgs")?, payload.get("toolResult")))
        }
        "postToolUseFailure" => {
            let failed = output(tool_use(payload, event, "toolArgs")?, payload.get("error"));
            Moment::ToolResult(ToolOutput { is_error: true, ..failed })
        }
        "userPromptSubmitted" => claude_like::prompt(payload, event)?,
        "agentStop" => Moment::Stop(stop(payload)),
        "subagentStop" => Moment::SubAgentStop(stop(payload)),
        "subagentStart" => Moment::SubAgentStart,
        "sessionStart" => Moment::SessionStart { resumed: payload.text("source") == Some("resume") },
        "sessionEnd" => Moment::SessionEnd { reason: payload.text("reason").map(str::to_owned) },
        "preCompact" => Moment::BeforeCompaction,
        _ => left_out(event)?,
    };
    Ok(ClientEvent { frame, moment })
}

fn left_out(event: &str) -> Result<Moment, PayloadError> {
    let known = FACTS.leaves_out(event);
    known.then_some(Moment::Other).ok_or_else(|| unknown_event(Client::Copilot, event))
}

fn camel_frame(payload: &Payload, event: &str) -> Frame {
    Frame {
        session: payload.text("sessionId").map(Into::into),
        folder: payload.text("cwd").map(str::to_owned),
        sub_agent: payload.text("agentId").map(|id| SubAgent {
            id: id.to_owned(),
            kind: payload.text("agentType").map(str::to_owned),
            parent: payload.text("parentAgentId").map(str::to_owned),
        }),
        ..Frame::new(Client::Copilot, event)
    }
}

fn tool_use(payload: &Payload, event: &str, field: &'static str) -> Result<ToolUse, PayloadError> {
    let name = payload.need("toolName", event)?;
    let arguments = payload.arguments(field, event)?;
    let mcp = || named_server(payload, name).or_else(|| McpSpelling::Dash.read(name, &[]));
    Ok(ToolUse::new(TOOLS, name, payload.text("toolCallId"), arguments, mcp))
}

fn named_server(payload: &Payload, name: &str) -> Option<McpTool> {
    McpTool::on(payload.text("serverName")?, name)
}

fn output(call: ToolUse, result: Option<&Value>) -> ToolOutput {
    let body = ResultBody::new(result.cloned().unwrap_or(Value::Null));
    ToolOutput { call, body, is_error: false, duration_ms: None }
}

fn stop(payload: &Payload) -> Stop {
    Stop { again: payload.flag("stop_hook_active"), last_message: payload.text("response").map(Into::into) }
}
