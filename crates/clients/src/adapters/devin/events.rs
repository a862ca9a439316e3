//! What Devin CLI reports: Claude Code's events and fields with its own tool names.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ToolRow, tool};

const TOOLS: &[ToolRow] =
    &[tool("exec", "exec"), tool("read", "read"), tool("write", "write"), tool("edit", "edit")];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Devin, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Devin, payload, event, "prompt_id");
    let moment = match claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore) {
        _ if FACTS.leaves_out(event) => Moment::Other,
        read => read?.ok_or_else(|| unknown_event(Client::Devin, event))?,
    };
    Ok(ClientEvent { frame, moment })
}
