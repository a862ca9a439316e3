//! What Kiro reports. Version 2 names events in camelCase, version 3 in PascalCase; both are read.

use super::capabilities::FACTS;
use crate::adapters::claude_like::{self, event_name, unknown_event};
use crate::client::Client;
use crate::event::{ClientEvent, Moment};
use crate::payload::{Payload, PayloadError};
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

const TOOLS: &[ToolRow] = &[
    tool("execute_bash", "exec"),
    tool("shell", "exec"),
    tool("fs_read", "read"),
    tool("read", "read"),
    renamed("fs_write", "write", &[("file_text", "content")]),
    tool("write", "write"),
    tool("web_fetch", "web_fetch"),
    tool("web_search", "web_search"),
    tool("use_subagent", "sessions_spawn"),
];

pub(super) fn read(payload: &Payload, given: Option<&str>) -> Result<ClientEvent, PayloadError> {
    let said = event_name(Client::Kiro, payload, "hook_event_name", given)?;
    let event = pascal(said);
    let frame = claude_like::frame(Client::Kiro, payload, said, "prompt_id");
    let moment = match event.as_str() {
        "AgentSpawn" => Moment::SessionStart { resumed: false },
        other if FACTS.leaves_out(other) => Moment::Other,
        "PreToolUse" | "PostToolUse" | "UserPromptSubmit" | "SessionStart" | "Stop" => {
            claude_like::moment(payload, &event, TOOLS, McpSpelling::At)?.unwrap_or(Moment::Other)
        }
        _ => return Err(unknown_event(Client::Kiro, said)),
    };
    Ok(ClientEvent { frame, moment })
}

fn pascal(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}
