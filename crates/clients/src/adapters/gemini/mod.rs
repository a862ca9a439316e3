//! Gemini CLI 0.61.0, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "gemini",
    title: "Gemini CLI",
    aliases: &["gemini-cli"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::Stop,
        Kind::SessionStart,
        Kind::SessionEnd,
        Kind::BeforeCompaction,
    ],
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
