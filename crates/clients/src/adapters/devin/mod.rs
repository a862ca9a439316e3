//! Devin CLI, by the vendor's documents; it could not be run without an account.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "devin",
    title: "Devin CLI",
    aliases: &["devin-cli"],
    read: events::read,
    reports: &[
        Kind::ToolCall,
        Kind::ToolResult,
        Kind::Prompt,
        Kind::Stop,
        Kind::SessionStart,
        Kind::SessionEnd,
    ],
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
