//! Cline CLI 3.0.65, observed with the real client; the VS Code extension by its documents.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "cline",
    title: "Cline",
    aliases: &["cline-cli"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
