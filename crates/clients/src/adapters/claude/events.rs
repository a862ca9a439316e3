//! What Claude Code reports. 33 events, 24 of them recorded; those that no hook point is about pass.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("Bash", "exec"),
    tool("PowerShell", "exec"),
    // Runs a shell command in the background and reports its lines.
    tool("Monitor", "exec"),
    renamed("Read", "read", &[("file_path", "path")]),
    renamed("Write", "write", &[("file_path", "path")]),
    renamed("Edit", "edit", &[("file_path", "path"), ("old_string", "old_text"), ("new_string", "new_text")]),
    renamed("MultiEdit", "edit", &[("file_path", "path")]),
    renamed("NotebookEdit", "edit", &[("notebook_path", "path"), ("new_source", "new_text")]),
    tool("WebFetch", "web_fetch"),
    tool("WebSearch", "web_search"),
    tool("Agent", "sessions_spawn"),
    tool("Task", "sessions_spawn"),
    tool("SendMessage", "sessions_send"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Claude, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Claude, payload, event, "prompt_id");
    let moment = match claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore)? {
        Some(moment) => moment,
        None if FACTS.leaves_out(event) => Moment::Other,
        None => return Err(unknown_event(Client::Claude, event)),
    };
    Ok(ClientEvent { frame, moment })
}
