//! goose from version 1.48 on, by its documents and source; it could not be run.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "goose",
    title: "goose",
    aliases: &["block-goose"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
