//! OpenAI Chat Completions.

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::conversation::{Message, Part, Role, ToolCall};
use serde_json::Value;

use super::align::{Step, align};
use super::content::{Outcome, PartWire, are_alike, edit_content, set_text};
use super::{BodyEdit, tools};
use crate::live::span::{Node, Slot, Splices};
use crate::live::steps::step;
use crate::model::{ModelRequest, ToolDefinition};
use crate::wire::openai_chat::{
    FUNCTION_CALL, FUNCTIONS, encode_content, encode_function, encode_part, encode_request, encode_tool,
    is_function, without_role,
};

struct Parts;

impl PartWire for Parts {
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome {
        match (old, new) {
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new }) if old == new => {
                let field = if node.get_some("text").is_some() { "text" } else { "refusal" };
                set_text(node, field, text, splices)
            }
            _ => Outcome::Rewrite,
        }
    }

    fn encode_part(&self, part: &Part) -> Option<String> {
        encode_part(part).map(|part| part.to_string())
    }
}

pub(super) fn edit(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, edit: &mut BodyEdit) {
    edit_tools(root, old, new, edit);
    let Some(list) = root.get("messages") else { return };
    let items = list.items();
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    let first = usize::from(!old.system.is_empty());
    let mut slots = Vec::new();
    edit_system(items.first().filter(|_| first == 1), old, new, &mut slots, &mut edit.splices);
    for step in align(&old.messages, &new.messages, |old, new| old.role == new.role && old.meta == new.meta) {
        match step {
            Step::Keep(place) => slots.push(Slot::Keep(place + first)),
            Step::New(at) => slots.extend(new.messages.get(at).into_iter().flat_map(encode_messages)),
            Step::Edit(place, at) => {
                let (Some(item), Some(old), Some(new)) =
                    (items.get(place + first), old.messages.get(place), new.messages.get(at))
                else {
                    continue;
                };
                match edit_message(item, old, new, &mut edit.splices) {
                    Outcome::Edited => slots.push(Slot::Keep(place + first)),
                    Outcome::Empty => {}
                    Outcome::Rewrite => slots.extend(encode_messages(new)),
                }
            }
        }
    }
    edit.splices.set_list(&list, &spans, slots);
}

/// Tools, and functions, each in their own list.
fn edit_tools(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, edit: &mut BodyEdit) {
    if old.tools == new.tools {
        return;
    }
    let parted =
        |request: &ModelRequest| -> (Vec<_>, Vec<_>) { request.tools.iter().cloned().partition(is_function) };
    let ((old_functions, old_tools), (new_functions, new_tools)) = (parted(old), parted(new));
    tools::edit(root, "tools", &old_tools, &new_tools, encode_tool, edit);
    tools::edit(root, FUNCTIONS, &old_functions, &new_functions, encode_function, edit);
}

/// Takes functions that are gone out of the choice among them, which is a field of its own.
pub(super) fn narrow_functions(old: &ModelRequest, new: &mut ModelRequest) {
    let left = |of_functions: bool| new.tools.iter().any(|tool| is_function(tool) == of_functions);
    let had_functions = old.tools.iter().any(is_function);
    let (no_tools, no_functions) = (!left(false), had_functions && !left(true));
    let named = new.extra.get(FUNCTION_CALL).and_then(|choice| choice.get("name")).and_then(Value::as_str);
    let is_gone = named.is_some_and(|name| {
        let has =
            |tools: &[ToolDefinition]| tools.iter().any(|tool| is_function(tool) && tool.name() == name);
        has(&old.tools) && !has(&new.tools)
    });
    if no_functions || is_gone {
        tools::drop_extra(new, FUNCTION_CALL);
    }
    if had_functions && no_tools && new.tools.len() < old.tools.len() {
        tools::drop_choice(new);
    }
}

/// The system prompt is the first message.
fn edit_system(
    message: Option<&Node<'_>>,
    old: &ModelRequest,
    new: &ModelRequest,
    slots: &mut Vec<Slot>,
    splices: &mut Splices,
) {
    let alone = || {
        let request = ModelRequest { system: new.system.clone(), ..ModelRequest::default() };
        messages_of(&request)
    };
    let (Some(message), false) = (message, new.system.is_empty()) else {
        slots.extend(alone());
        return;
    };
    if old.system == new.system {
        slots.push(Slot::Keep(0));
        return;
    }
    let plain = |parts: &[Part]| parts.iter().map(without_role).collect::<Vec<_>>();
    let (old, new) = (plain(&old.system), plain(&new.system));
    let content = message.get_some("content");
    let outcome = content
        .as_ref()
        .map_or(Outcome::Rewrite, |content| edit_content(&Parts, content, &old, &new, splices));
    match (outcome, content) {
        (Outcome::Edited, _) => slots.push(Slot::Keep(0)),
        (Outcome::Empty, _) => {}
        (Outcome::Rewrite, Some(content)) => {
            splices.replace(content.span(), encode_content(&new).to_string());
            slots.push(Slot::Keep(0));
        }
        (Outcome::Rewrite, None) => slots.extend(alone()),
    }
}

fn encode_messages(message: &Message) -> Vec<Slot> {
    messages_of(&ModelRequest::new("", vec![message.clone()]))
}

fn messages_of(request: &ModelRequest) -> Vec<Slot> {
    let body = encode_request(request, false);
    let messages = body.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().map(|message| Slot::New(message.to_string())).collect()
}

fn edit_message(node: &Node<'_>, old: &Message, new: &Message, splices: &mut Splices) -> Outcome {
    let content = node.get_some("content");
    match (old.role, old.content.as_slice(), new.content.as_slice()) {
        (Role::Assistant, ..) => edit_assistant(node, old, new, splices),
        (Role::Tool, [Part::ToolResult(old)], [Part::ToolResult(new)])
            if old.tool_call_id == new.tool_call_id && old.meta == new.meta =>
        {
            match content.map(|content| edit_content(&Parts, &content, &old.content, &new.content, splices)) {
                Some(Outcome::Edited) => Outcome::Edited,
                _ => Outcome::Rewrite,
            }
        }
        (Role::Tool, _, []) => Outcome::Empty,
        (Role::Tool, ..) => Outcome::Rewrite,
        (Role::User | Role::System, old, new) => {
            content.map_or(Outcome::Rewrite, |content| edit_content(&Parts, &content, old, new, splices))
        }
    }
}

/// Where a part of an assistant's message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Field(&'static str),
    Item(&'static str, usize),
}

/// The places of the parts, in the order in which the codec reads them.
fn places(node: &Node<'_>) -> Vec<Place> {
    let says = |value: &Node<'_>| value.raw() != "\"\"";
    let mut places = Vec::new();
    let reasoning = ["reasoning_content", "reasoning"];
    let reasoning = reasoning.into_iter().filter(|field| node.get_some(field).is_some_and(|it| says(&it)));
    places.extend(reasoning.map(Place::Field));
    if let Some(content) = node.get_some("content") {
        if content.raw().starts_with('[') {
            places.extend((0..content.items().len()).map(|item| Place::Item("content", item)));
        } else if says(&content) {
            places.push(Place::Field("content"));
        }
    }
    if node.get_some("refusal").is_some() {
        places.push(Place::Field("refusal"));
    }
    let calls = node.get_some("tool_calls").map_or(0, |calls| calls.items().len());
    places.extend((0..calls).map(|item| Place::Item("tool_calls", item)));
    places.extend(node.get_some(FUNCTION_CALL).map(|_| Place::Field(FUNCTION_CALL)));
    places
}

fn edit_assistant(node: &Node<'_>, old: &Message, new: &Message, splices: &mut Splices) -> Outcome {
    let places = places(node);
    if places.len() != old.content.len() {
        return Outcome::Rewrite;
    }
    let lists: BTreeMap<&str, Vec<Node<'_>>> = ["content", "tool_calls"]
        .into_iter()
        .filter_map(|list| Some((list, node.get_some(list)?.items())))
        .collect();
    let mut kept = BTreeSet::new();
    for step in align(&old.content, &new.content, are_alike) {
        match step {
            Step::Keep(place) => kept.extend(places.get(place).copied()),
            Step::New(_) => return Outcome::Rewrite,
            Step::Edit(place, at) => {
                let (Some(stands), Some(old), Some(new)) =
                    (places.get(place), old.content.get(place), new.content.get(at))
                else {
                    return Outcome::Rewrite;
                };
                if edit_assistant_part((node, &lists), *stands, old, new, splices) != Outcome::Edited {
                    return Outcome::Rewrite;
                }
                kept.insert(*stands);
            }
        }
    }
    if kept.is_empty() {
        return Outcome::Empty;
    }
    let known: BTreeSet<Place> = places.iter().copied().collect();
    let is_gone = |place: &Place| {
        step();
        known.contains(place) && !kept.contains(place)
    };
    for (list, items) in &lists {
        let list = *list;
        if kept.iter().any(|place| matches!(place, Place::Item(name, _) if *name == list))
            && let Some(whole) = node.get(list)
        {
            let spans: Vec<_> = items.iter().map(Node::span).collect();
            splices.remove(&whole, &spans, |item| is_gone(&Place::Item(list, item)));
        }
    }
    // Fields that held something, and whether all of it is gone.
    let mut gone: BTreeMap<&str, bool> = BTreeMap::new();
    for place in &places {
        let (Place::Field(field) | Place::Item(field, _)) = *place;
        *gone.entry(field).or_insert(true) &= is_gone(place);
    }
    let field_is_gone = |field: &str| gone.get(field) == Some(&true);
    if let Some(content) = node.get("content").filter(|_| field_is_gone("content")) {
        splices.replace(content.span(), "null");
    }
    splices.remove_members(node, |key| key != "content" && field_is_gone(key));
    Outcome::Edited
}

fn edit_assistant_part(
    (node, lists): (&Node<'_>, &BTreeMap<&str, Vec<Node<'_>>>),
    place: Place,
    old: &Part,
    new: &Part,
    splices: &mut Splices,
) -> Outcome {
    match (place, old, new) {
        (Place::Field(field), Part::Text { meta: old, .. }, Part::Text { text, meta: new })
        | (Place::Field(field), Part::Thinking { meta: old, .. }, Part::Thinking { text, meta: new })
            if old == new =>
        {
            set_text(node, field, text, splices)
        }
        (Place::Field(FUNCTION_CALL), Part::ToolCall(old), Part::ToolCall(new)) => node
            .get_some(FUNCTION_CALL)
            .map_or(Outcome::Rewrite, |call| edit_function(&call, old, new, splices)),
        (Place::Item(list, item), old, new) => {
            step();
            match (lists.get(list).and_then(|items| items.get(item)), old, new) {
                (Some(item), Part::ToolCall(old), Part::ToolCall(new)) => edit_call(item, old, new, splices),
                (Some(item), old, new) => Parts.edit_part(item, old, new, splices),
                (None, ..) => Outcome::Rewrite,
            }
        }
        _ => Outcome::Rewrite,
    }
}

fn edit_call(node: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    let function = node.get_some("function");
    function.map_or(Outcome::Rewrite, |function| edit_function(&function, old, new, splices))
}

/// Edits the object with a call's name and arguments.
fn edit_function(function: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    if old.meta != new.meta {
        return Outcome::Rewrite;
    }
    if old.name != new.name && set_text(function, "name", &new.name, splices) != Outcome::Edited {
        return Outcome::Rewrite;
    }
    if old.arguments == new.arguments && old.malformed == new.malformed {
        return Outcome::Edited;
    }
    let arguments = match &new.malformed {
        Some(text) => text.to_string(),
        None => new.arguments.to_value().to_string(),
    };
    set_text(function, "arguments", &arguments, splices)
}
