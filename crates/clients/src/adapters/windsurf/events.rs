//! What Windsurf reports: one event per kind of tool, and the arguments under `tool_info`.

use serde_json::{Map, Value};

use super::capabilities::FACTS;
use crate::adapters::claude_like::{event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment};
use crate::payload::{Payload, PayloadError, missing};
use crate::tools::{McpSpelling, McpTool, ResultBody, ToolOutput, ToolRow, ToolUse, renamed};

const TOOLS: &[ToolRow] = &[
    renamed("run_command", "exec", &[("command_line", "command"), ("cwd", "workdir")]),
    renamed("read_code", "read", &[("file_path", "path")]),
    renamed("write_code", "edit", &[("file_path", "path")]),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Windsurf, payload, "agent_action_name", given)?;
    let mut frame = Frame {
        session: payload.text("trajectory_id").map(Into::into),
        run: payload.text("execution_id").map(Into::into),
        ..Frame::new(Client::Windsurf, event)
    };
    if FACTS.leaves_out(event) {
        return Ok(ClientEvent { frame, moment: Moment::Other });
    }
    let info = payload.part("tool_info").ok_or_else(|| missing("tool_info", event))?;
    frame.folder = info.text("cwd").filter(|cwd| !cwd.is_empty()).map(str::to_owned);
    let moment = match event {
        "pre_user_prompt" => Moment::Prompt(info.need("user_prompt", event)?.into()),
        "pre_run_command" | "pre_read_code" | "pre_write_code" | "pre_mcp_tool_use" => {
            Moment::ToolCall(tool_use(payload, &info, event)?)
        }
        "post_run_command" | "post_read_code" | "post_write_code" | "post_mcp_tool_use" => {
            let body = info.get("mcp_result").cloned().unwrap_or(Value::Null);
            let call = tool_use(payload, &info, event)?;
            Moment::ToolResult(ToolOutput {
                call,
                body: ResultBody::new(body),
                is_error: false,
                duration_ms: None,
            })
        }
        other => return Err(unknown_event(Client::Windsurf, other)),
    };
    Ok(ClientEvent { frame, moment })
}

fn tool_use(payload: &Payload, info: &Payload, event: &str) -> Result<ToolUse, PayloadError> {
    if event.ends_with("mcp_tool_use") {
        let server = info.need("mcp_server_name", event)?;
        let name = info.need("mcp_tool_name", event)?;
        let arguments = info.arguments("mcp_tool_arguments", event)?;
        let mcp = || McpTool::on(server, name).or_else(|| McpSpelling::Fields.read(name, &[]));
        return Ok(ToolUse::new(&[], name, None, arguments, mcp));
    }
    let arguments: Map<String, Value> = payload.arguments("tool_info", event)?;
    let name = event.split_once('_').map_or(event, |(_, name)| name);
    let (field, ..) = match name {
        "run_command" => ("command_line",),
        _ => ("file_path",),
    };
    info.need(field, event)?;
    Ok(ToolUse::new(TOOLS, name, None, arguments, || None))
}
