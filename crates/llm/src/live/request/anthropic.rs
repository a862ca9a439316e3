//! Anthropic Messages.

use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use serde_json::Value;

use super::align::{Step, align};
use super::content::{Outcome, PartWire, edit_content, set_text};
use super::{BodyEdit, tools};
use crate::live::span::{Node, Slot, Splices};
use crate::model::ModelRequest;
use crate::wire::anthropic::{encode_content, encode_request, encode_request_part, encode_tool};
use crate::wire::{Api, is_whole_call};

struct Blocks;

impl PartWire for Blocks {
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome {
        match (old, new) {
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new }) if old == new => {
                // The provider refuses texts that say nothing.
                if text.trim().is_empty() { Outcome::Empty } else { set_text(node, "text", text, splices) }
            }
            (Part::Thinking { meta: old, .. }, Part::Thinking { text, meta: new }) if old == new => {
                let is_signed = node.get_some("signature").is_some_and(|signature| signature.raw() != "\"\"");
                set_text(node, "thinking", if is_signed { "" } else { text }, splices)
            }
            (Part::ToolCall(old), Part::ToolCall(new)) => edit_call(node, old, new, splices),
            (Part::ToolResult(old), Part::ToolResult(new))
                if old.is_error == new.is_error && old.meta == new.meta =>
            {
                match node.get_some("content") {
                    Some(content) => {
                        match edit_content(self, &content, &old.content, &new.content, splices) {
                            Outcome::Edited => Outcome::Edited,
                            Outcome::Empty | Outcome::Rewrite => Outcome::Rewrite,
                        }
                    }
                    None => Outcome::Rewrite,
                }
            }
            _ => Outcome::Rewrite,
        }
    }

    fn encode_part(&self, part: &Part) -> Option<String> {
        encode_request_part(part).map(|block| block.to_string())
    }
}

fn edit_call(node: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    let input = node.get_some("input");
    if is_whole_call(old, Api::AnthropicMessages) {
        return if old == new { Outcome::Edited } else { Outcome::Rewrite };
    }
    if old.meta != new.meta || old.malformed.is_some() || new.malformed.is_some() {
        return Outcome::Rewrite;
    }
    let Some(input) = input else { return Outcome::Rewrite };
    if old.arguments != new.arguments {
        splices.replace(input.span(), new.arguments.to_value().to_string());
    }
    if old.name == new.name { Outcome::Edited } else { set_text(node, "name", &new.name, splices) }
}

pub(super) fn edit(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, edit: &mut BodyEdit) {
    let steps = align(&old.messages, &new.messages, |old, new| old.role == new.role && old.meta == new.meta);
    // System messages that are new have no place inside the conversation.
    let added = steps.iter().filter_map(|step| match step {
        Step::New(at) => new.messages.get(*at).filter(|message| message.role == Role::System),
        Step::Keep(_) | Step::Edit(..) => None,
    });
    let added: Vec<Part> = added.flat_map(|message| message.content.clone()).collect();
    edit_system(root, &old.system, &[new.system.as_slice(), &added].concat(), edit);
    edit_messages(root, old, new, steps, &mut edit.splices);
    tools::edit(root, "tools", &old.tools, &new.tools, encode_tool, edit);
}

fn edit_system(root: &Node<'_>, old: &[Part], new: &[Part], edit: &mut BodyEdit) {
    if old == new {
        return;
    }
    let outcome = match root.get_some("system") {
        Some(system) => edit_content(&Blocks, &system, old, new, &mut edit.splices),
        None => Outcome::Rewrite,
    };
    match outcome {
        Outcome::Edited => {}
        Outcome::Empty => edit.set_field("system", None),
        Outcome::Rewrite => match encode_content(new) {
            Value::Array(blocks) if blocks.is_empty() => edit.set_field("system", None),
            content => edit.set_field("system", Some(content.to_string())),
        },
    }
}

fn edit_messages(
    root: &Node<'_>,
    old: &ModelRequest,
    new: &ModelRequest,
    steps: Vec<Step>,
    splices: &mut Splices,
) {
    let Some(list) = root.get("messages") else { return };
    let items = list.items();
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    let mut slots = Vec::new();
    for step in steps {
        match step {
            Step::Keep(place) => slots.push(Slot::Keep(place)),
            Step::New(at) => slots.extend(new.messages.get(at).and_then(encode_message).map(Slot::New)),
            Step::Edit(place, at) => {
                let (Some(item), Some(old), Some(new)) =
                    (items.get(place), old.messages.get(place), new.messages.get(at))
                else {
                    continue;
                };
                let content = item.get_some("content");
                let outcome = content.as_ref().map_or(Outcome::Rewrite, |content| {
                    edit_content(&Blocks, content, &old.content, &new.content, splices)
                });
                match (outcome, content) {
                    (Outcome::Edited, _) => slots.push(Slot::Keep(place)),
                    (Outcome::Empty, _) | (Outcome::Rewrite, None) => {}
                    (Outcome::Rewrite, Some(content)) => match encode_content(&new.content) {
                        Value::Array(blocks) if blocks.is_empty() => {}
                        encoded => {
                            splices.replace(content.span(), encoded.to_string());
                            slots.push(Slot::Keep(place));
                        }
                    },
                }
            }
        }
    }
    splices.set_list(&list, &spans, slots);
}

/// A new message; `None` if it says nothing or is part of the system prompt.
fn encode_message(message: &Message) -> Option<String> {
    let alone = ModelRequest::new("", vec![message.clone()]);
    let body = encode_request(&alone, false);
    Some(body.get("messages")?.as_array()?.first()?.to_string())
}
