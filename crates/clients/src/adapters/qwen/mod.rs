//! Qwen Code 0.24.4, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "qwen",
    title: "Qwen Code",
    aliases: &["qwen-code"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
