//! GitHub Copilot CLI 1.0.102, observed with the real client. It speaks two dialects: hooks under camelCase
//! names get and give flat camelCase JSON, hooks under PascalCase names something like Claude Code's. An
//! installation uses the first, which can do more.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::{Adapter, Dialect};
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "copilot",
    title: "Copilot CLI",
    aliases: &["copilot-cli", "github-copilot"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::Stop,
        Kind::SessionStart,
        Kind::SessionEnd,
        Kind::BeforeCompaction,
        Kind::SubAgentStart,
        Kind::SubAgentStop,
    ],
    gates: answer::GATES,
    other_dialect: Some(Dialect { speaks: answer::is_pascal, gates: answer::PASCAL_GATES }),
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
