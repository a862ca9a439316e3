//! What Codex reports. Shell calls come as `Bash`, whatever the model's tool is called; a patch comes as
//! `apply_patch` with its text under `command`, or inside a shell command, which is for the command guard to
//! see. Nested calls of the code mode come one by one.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("Bash", "exec"),
    renamed("exec_command", "exec", &[("cmd", "command")]),
    tool("write_stdin", "process"),
    renamed("apply_patch", "apply_patch", &[("command", "input")]),
    tool("view_image", "read"),
    tool("web_search", "web_search"),
    tool("collaborationspawn_agent", "sessions_spawn"),
    tool("collaborationsend_message", "sessions_send"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let event = event_name(Client::Codex, payload, "hook_event_name", given)?;
    let frame = claude_like::frame(Client::Codex, payload, event, "turn_id");
    let moment = match claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore)? {
        Some(moment) => moment,
        None if FACTS.leaves_out(event) => Moment::Other,
        None => return Err(unknown_event(Client::Codex, event)),
    };
    Ok(ClientEvent { frame, moment })
}
