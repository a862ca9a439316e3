//! OpenAI Codex CLI 0.169.0, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "codex",
    title: "Codex",
    aliases: &["codex-cli", "openai-codex"],
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
