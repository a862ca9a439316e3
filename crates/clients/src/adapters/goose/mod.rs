//! goose from version 1.48 on, by its documents and source; it could not be run.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;
use crate::event::MomentKind as Kind;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "goose",
    title: "goose",
    aliases: &["block-goose"],
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
