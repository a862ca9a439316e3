//! OpenAI Codex CLI 0.169.0, observed with the real client.

mod answer;
mod capabilities;
mod config;
mod events;

use crate::adapter::Adapter;

pub(crate) static ADAPTER: Adapter = Adapter {
    name: "codex",
    title: "Codex",
    aliases: &["codex-cli", "openai-codex"],
    read: events::read,
    gates: answer::GATES,
    other_dialect: None,
    facts: capabilities::FACTS,
    layout: config::LAYOUT,
};
