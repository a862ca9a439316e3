//! What the generated plugin reports: the hook's name, its input and output as OpenCode gave them, and what
//! only the plugin can know: the configured MCP servers, and the session that a sub-agent's session belongs
//! to.

use serde_json::Value;

use super::capabilities::FACTS;
use crate::adapters::claude_like::unknown_event;
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Moment, Stop, SubAgent};
use crate::payload::{Payload, PayloadError, missing};
use crate::tools::{McpSpelling, ResultBody, ToolOutput, ToolRow, ToolUse, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("bash", "exec"),
    renamed("read", "read", &[("filePath", "path")]),
    renamed("write", "write", &[("filePath", "path")]),
    renamed("edit", "edit", &[("filePath", "path"), ("oldString", "old_text"), ("newString", "new_text")]),
    renamed("multiedit", "edit", &[("filePath", "path")]),
    renamed("apply_patch", "apply_patch", &[("patchText", "input")]),
    renamed("patch", "apply_patch", &[("patchText", "input")]),
    tool("webfetch", "web_fetch"),
    tool("websearch", "web_search"),
    tool("task", "sessions_spawn"),
];

/// Tools whose names look like those of a listed server, and are not.
const OWN: &[&str] = &["glob", "grep", "list", "skill", "todowrite", "todoread", "question"];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event =
        payload.text("event").or(given).ok_or(PayloadError::NoEvent { client: Client::OpenCode.name() })?;
    let input = payload.part("input").ok_or_else(|| missing("input", event))?;
    let mut frame = frame(payload, &input, event);
    let moment = match event {
        "tool.execute.before" => {
            let output = payload.part("output").ok_or_else(|| missing("output", event))?;
            Moment::ToolCall(tool_use(payload, &input, &output, event)?)
        }
        "tool.execute.after" => Moment::ToolResult(output(payload, &input, event)?),
        "chat.message" => Moment::Prompt(prompt(payload).into()),
        "event.session.created" => created(&input, &mut frame),
        "event.session.idle" if frame.sub_agent.is_some() => Moment::SubAgentStop(Stop::default()),
        "event.session.idle" => Moment::Other,
        "experimental.session.compacting" => Moment::BeforeCompaction,
        "event.session.compacted" => Moment::AfterCompaction,
        other if FACTS.leaves_out(other) => Moment::Other,
        other => return Err(unknown_event(Client::OpenCode, other)),
    };
    Ok(ClientEvent { frame, moment })
}

fn frame(payload: &Payload, input: &Payload, event: &str) -> Frame {
    let properties = input.part("properties");
    let session = input.text("sessionID").or(properties.as_ref().and_then(|fields| fields.text("sessionID")));
    let frame =
        Frame { folder: payload.text("directory").map(str::to_owned), ..Frame::new(Client::OpenCode, event) };
    match (session, payload.text("parentSessionID")) {
        (Some(child), Some(parent)) => child_of(frame, parent, child),
        (session, _) => Frame { session: session.map(Into::into), ..frame },
    }
}

fn child_of(frame: Frame, parent: &str, child: &str) -> Frame {
    let sub_agent = SubAgent { id: child.to_owned(), kind: None, parent: Some(parent.to_owned()) };
    Frame { session: Some(parent.into()), sub_agent: Some(sub_agent), ..frame }
}

/// A session that has a parent is a sub-agent's.
fn created(input: &Payload, frame: &mut Frame) -> Moment {
    let info = input.part("properties").and_then(|properties| properties.part("info"));
    let parent = info.as_ref().and_then(|info| info.text("parentID"));
    let Some((info, parent)) = info.as_ref().zip(parent) else {
        return Moment::SessionStart { resumed: false };
    };
    let child = info.text("id").unwrap_or("unknown");
    *frame = child_of(frame.clone(), parent, child);
    Moment::SubAgentStart
}

fn tool_use(
    payload: &Payload,
    input: &Payload,
    arguments: &Payload,
    event: &str,
) -> Result<ToolUse, PayloadError> {
    let name = input.need("tool", event)?;
    let arguments = arguments.arguments("args", event)?;
    let servers = payload.get("mcpServers").and_then(Value::as_array);
    let servers: Vec<&str> = servers.into_iter().flatten().filter_map(Value::as_str).collect();
    let mcp = || (!OWN.contains(&name)).then(|| McpSpelling::Listed.read(name, &servers)).flatten();
    Ok(ToolUse::new(TOOLS, name, input.text("callID"), arguments, mcp))
}

/// A tool of an MCP server returns `content`, any other `output`.
fn output(payload: &Payload, input: &Payload, event: &str) -> Result<ToolOutput, PayloadError> {
    let call = tool_use(payload, input, input, event)?;
    let output = payload.part("output").ok_or_else(|| missing("output", event))?;
    let body = output.get("content").or(output.get("output")).cloned().unwrap_or(Value::Null);
    Ok(ToolOutput { call, body: ResultBody::new(body), is_error: false, duration_ms: None })
}

fn prompt(payload: &Payload) -> String {
    let output = payload.part("output");
    let parts = output.as_ref().and_then(|output| output.get("parts")).and_then(Value::as_array);
    let texts = parts.into_iter().flatten().filter_map(|part| part.get("text")?.as_str());
    texts.collect::<Vec<_>>().join("\n")
}
