//! Factory's Droid, by the vendor's documents; it could not be run without an account.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "droid",
    title: "Droid",
    aliases: &["factory", "factory-droid"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::Stop,
        Kind::SessionStart,
        Kind::SessionEnd,
        Kind::BeforeCompaction,
        Kind::SubAgentStop,
    ],
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
