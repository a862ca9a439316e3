//! Qwen Code 0.24.4, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "qwen",
    title: "Qwen Code",
    aliases: &["qwen-code"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::Stop,
        Kind::SessionStart,
        Kind::SessionEnd,
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
