//! What Qwen Code reports: Claude Code's events and fields with its own tool names. A second
//! `UserPromptSubmit` without text follows each tool result, and is nobody's message.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ResultBody, ToolOutput, ToolRow, renamed, tool};

const EDIT: &[(&str, &str)] =
    &[("file_path", "path"), ("old_string", "old_text"), ("new_string", "new_text")];

const TOOLS: &[ToolRow] = &[
    renamed("run_shell_command", "exec", &[("directory", "workdir")]),
    renamed("read_file", "read", &[("file_path", "path")]),
    renamed("write_file", "write", &[("file_path", "path")]),
    renamed("edit", "edit", EDIT),
    renamed("notebook_edit", "edit", &[("notebook_path", "path"), ("new_source", "new_text")]),
    tool("web_fetch", "web_fetch"),
    tool("web_search", "web_search"),
    tool("agent", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Qwen, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Qwen, payload, event, "prompt_id");
    let moment = match claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore)? {
        Some(Moment::ToolResult(output)) if !output.is_error => Moment::ToolResult(as_read(output)),
        Some(moment) => moment,
        None if FACTS.leaves_out(event) => Moment::Other,
        None => return Err(unknown_event(Client::Qwen, event)),
    };
    Ok(ClientEvent { frame, moment })
}

/// The model reads `llmContent`; the rest is for the screen.
fn as_read(output: ToolOutput) -> ToolOutput {
    match output.body.raw().get("llmContent").cloned() {
        Some(read) => ToolOutput { body: ResultBody::new(read), ..output },
        None => output,
    }
}
