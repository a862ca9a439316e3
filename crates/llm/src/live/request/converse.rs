//! Converse of Bedrock.

use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use serde_json::{Map, Value};

use super::align::{Step, align};
use super::content::{Outcome, PartWire, edit_content, set_text};
use super::tools::edit_list;
use super::{BodyEdit, without_lists};
use crate::live::span::{Node, Slot, Splices};
use crate::model::ModelRequest;
use crate::wire::converse::{
    encode_content, encode_request, encode_request_part, encode_tool, encode_tool_choice, encode_tools,
};
use crate::wire::{Api, is_whole_call};

const TOOLS: &str = "toolConfig";

struct Blocks;

impl PartWire for Blocks {
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome {
        match (old, new) {
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new }) if old == new => {
                // The provider refuses texts that say nothing.
                if text.trim().is_empty() { Outcome::Empty } else { edit_text(node, text, splices) }
            }
            (Part::Thinking { meta: old, .. }, Part::Thinking { text, meta: new }) if old == new => {
                let Some(said) = inside(node, &["reasoningContent", "reasoningText"]) else {
                    return Outcome::Rewrite;
                };
                let is_signed = said.get_some("signature").is_some_and(|signature| signature.raw() != "\"\"");
                set_text(&said, "text", if is_signed { "" } else { text }, splices)
            }
            (Part::ToolCall(old), Part::ToolCall(new)) => edit_call(node, old, new, splices),
            (Part::ToolResult(old), Part::ToolResult(new))
                if old.is_error == new.is_error && old.meta == new.meta =>
            {
                let Some(content) = inside(node, &["toolResult", "content"]) else { return Outcome::Rewrite };
                match edit_content(self, &content, &old.content, &new.content, splices) {
                    Outcome::Edited => Outcome::Edited,
                    Outcome::Empty | Outcome::Rewrite => Outcome::Rewrite,
                }
            }
            _ => Outcome::Rewrite,
        }
    }

    fn encode_part(&self, part: &Part) -> Option<String> {
        encode_request_part(part).map(|block| block.to_string())
    }
}

fn inside<'a>(node: &Node<'a>, path: &[&str]) -> Option<Node<'a>> {
    path.iter().try_fold(node.clone(), |node, key| node.get_some(key))
}

/// Writes the text of a block, wherever it stands in it.
fn edit_text(node: &Node<'_>, text: &str, splices: &mut Splices) -> Outcome {
    if let Some(guarded) = inside(node, &["guardContent", "text"]) {
        return set_text(&guarded, "text", text, splices);
    }
    match inside(node, &["citationsContent"]) {
        None => set_text(node, "text", text, splices),
        Some(cited) => {
            let items = cited.get_some("content").map(|content| content.items()).unwrap_or_default();
            let [only] = items.as_slice() else { return Outcome::Rewrite };
            set_text(only, "text", text, splices)
        }
    }
}

fn edit_call(node: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    if is_whole_call(old, Api::BedrockConverse) {
        return if old == new { Outcome::Edited } else { Outcome::Rewrite };
    }
    if old.meta != new.meta || old.malformed.is_some() || new.malformed.is_some() {
        return Outcome::Rewrite;
    }
    let Some(call) = node.get_some("toolUse") else { return Outcome::Rewrite };
    let Some(input) = call.get_some("input") else { return Outcome::Rewrite };
    if old.arguments != new.arguments {
        splices.replace(input.span(), new.arguments.to_value().to_string());
    }
    if old.name == new.name { Outcome::Edited } else { set_text(&call, "name", &new.name, splices) }
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
    edit_messages(root, old, new, steps, edit);
    edit_tools(root, old, new, edit);
}

/// The fields that are compared as a whole: tools and the choice among them are edited in their place.
pub(super) fn fields(request: &ModelRequest) -> Map<String, Value> {
    let rest = ModelRequest { tool_choice: None, ..without_lists(request) };
    match encode_request(&rest) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
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
    edit: &mut BodyEdit,
) {
    let Some(list) = root.get_some("messages") else {
        // A stored prompt has messages of its own, and these follow them.
        let encoded: Vec<String> = new.messages.iter().filter_map(encode_message).collect();
        if !encoded.is_empty() {
            edit.set_field("messages", Some(format!("[{}]", encoded.join(","))));
        }
        return;
    };
    let splices = &mut edit.splices;
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
                let Some(content) = item.get_some("content") else { continue };
                match edit_content(&Blocks, &content, &old.content, &new.content, splices) {
                    Outcome::Edited => slots.push(Slot::Keep(place)),
                    Outcome::Empty => {}
                    Outcome::Rewrite => match encode_content(&new.content) {
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
    let body = encode_request(&ModelRequest::new("", vec![message.clone()]));
    Some(body.get("messages")?.as_array()?.first()?.to_string())
}

fn edit_tools(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, edit: &mut BodyEdit) {
    if old.tools == new.tools && old.tool_choice == new.tool_choice {
        return;
    }
    let Some(config) = root.get_some(TOOLS) else {
        let encoded = encode_tools(&new.tools, new.tool_choice.as_ref());
        edit.set_field(TOOLS, (!new.tools.is_empty()).then(|| encoded.to_string()));
        return;
    };
    if new.tools.is_empty() {
        edit.set_field(TOOLS, None);
        return;
    }
    if old.tools != new.tools
        && let Some(tools) = config.get_some("tools")
    {
        edit_list(&tools, &old.tools, &new.tools, encode_tool, &mut edit.splices);
    }
    if old.tool_choice != new.tool_choice {
        let choice = new.tool_choice.as_ref().and_then(encode_tool_choice);
        match (config.get_some("toolChoice"), choice) {
            (Some(node), Some(choice)) => edit.splices.replace(node.span(), choice.to_string()),
            _ => edit.splices.remove_members(&config, |key| key == "toolChoice"),
        }
    }
}
