//! What Droid reports: Claude Code's events and fields with its own tool names.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("Execute", "exec"),
    renamed("Read", "read", &[("file_path", "path")]),
    renamed("Create", "write", &[("file_path", "path")]),
    renamed("Write", "write", &[("file_path", "path")]),
    renamed("Edit", "edit", &[("file_path", "path")]),
    tool("ApplyPatch", "apply_patch"),
    tool("FetchUrl", "web_fetch"),
    tool("WebSearch", "web_search"),
    tool("Task", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Droid, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Droid, payload, event, "prompt_id");
    let moment = match claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore) {
        _ if FACTS.leaves_out(event) => Moment::Other,
        read => read?.ok_or_else(|| unknown_event(Client::Droid, event))?,
    };
    Ok(ClientEvent { frame, moment })
}
