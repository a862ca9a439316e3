//! Cursor, by the vendor's documents; it could not be run.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "cursor",
    title: "Cursor",
    aliases: &["cursor-agent"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
