//! Claude Code 2.1.330, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "claude",
    title: "Claude Code",
    aliases: &["claude-code"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
