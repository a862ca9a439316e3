//! OpenCode 1.18.33, observed with the real client. Its hooks are functions of a plugin in its own process; the
//! plugin that an installation writes starts `backstop hook opencode` for each, and throws when that fails.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "opencode",
    title: "OpenCode",
    aliases: &["open-code"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::SessionStart,
        Kind::BeforeCompaction,
        Kind::AfterCompaction,
        Kind::SubAgentStart,
        Kind::SubAgentStop,
    ],
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
