//! OpenAI Responses.
//!
//! A message of the assistant is several items, and an item may be several parts. An item of which nothing is
//! left goes; one that is edited is spliced; what is new is an item of its own.

use std::collections::BTreeMap;
use std::ops::Range;

use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult};
use serde_json::Value;

use super::align::{Step, align};
use super::content::{Outcome, PartWire, are_alike, edit_content, set_text};
use super::{BodyEdit, tools};
use crate::live::span::{Node, Slot, Splices, quote};
use crate::model::ModelRequest;
use crate::wire::openai_responses::{
    CallKind, INPUT_TEXT, Writer, decode_input_item, encode_input, encode_items, encode_part, encode_tool,
};

struct Parts;

impl PartWire for Parts {
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome {
        match (old, new) {
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new }) if old == new => {
                let field = if node.get_some("text").is_some() { "text" } else { "refusal" };
                // They spell the old text.
                splices.remove_members(node, |key| key == "logprobs");
                set_text(node, field, text, splices)
            }
            _ => Outcome::Rewrite,
        }
    }

    fn encode_part(&self, part: &Part) -> Option<String> {
        encode_part(part, INPUT_TEXT).map(|part| part.to_string())
    }
}

pub(super) fn edit(root: &Node<'_>, old: &ModelRequest, new: &ModelRequest, edit: &mut BodyEdit) {
    tools::edit(root, "tools", &old.tools, &new.tools, encode_tool, edit);
    if old.system != new.system {
        edit.set_field("instructions", new.system_text().map(|text| quote(&text)));
    }
    if old.messages != new.messages && edit_input(root, &old.messages, &new.messages, edit).is_none() {
        let input = (!new.messages.is_empty()).then(|| Value::from(encode_input(&new.messages)).to_string());
        edit.set_field("input", input);
    }
}

/// `None` if the input has to be written anew.
fn edit_input(root: &Node<'_>, old: &[Message], new: &[Message], edit: &mut BodyEdit) -> Option<()> {
    let list = root.get_some("input")?;
    if list.string().is_some() {
        return match (old, new) {
            ([old], [new]) if old.role == new.role && old.meta == new.meta => {
                let outcome = edit_content(&Parts, &list, &old.content, &new.content, &mut edit.splices);
                (outcome == Outcome::Edited).then_some(())
            }
            _ => None,
        };
    }
    let items = list.items();
    let spread = Spread::of(&items, old)?;
    let mut slots = Vec::new();
    for step in align(old, new, |old, new| old.role == new.role && old.meta == new.meta) {
        match step {
            Step::Keep(place) => slots.extend(spread.items_of(place)?.map(Slot::Keep)),
            Step::New(at) => slots.extend(new_items(new.get(at)?)),
            Step::Edit(place, at) => {
                let (own, old, new) = (spread.items_of(place)?, old.get(place)?, new.get(at)?);
                slots.extend(match old.role {
                    Role::Assistant => edit_assistant(&items, own, &spread, (old, new), &mut edit.splices)?,
                    Role::User | Role::System | Role::Tool => {
                        edit_message(items.get(own.start)?, own.start, old, new, &mut edit.splices)
                    }
                });
            }
        }
    }
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    edit.splices.set_list(&list, &spans, slots);
    Some(())
}

/// Which items each message is, and how many parts each item has.
struct Spread {
    messages: Vec<Range<usize>>,
    parts: Vec<usize>,
}

impl Spread {
    fn of(items: &[Node<'_>], messages: &[Message]) -> Option<Self> {
        let (mut read, mut spread) = (Vec::new(), Self { messages: Vec::new(), parts: Vec::new() });
        for (place, item) in items.iter().enumerate() {
            let value: Value = serde_json::from_str(item.raw()).ok()?;
            let before = read.last().map_or(0, |last: &Message| last.content.len());
            let count = read.len();
            decode_input_item(&value, &mut read).ok()?;
            let parts = read.last()?.content.len();
            if read.len() == count {
                spread.messages.last_mut()?.end = place + 1;
                spread.parts.push(parts - before);
            } else {
                spread.messages.push(place..place + 1);
                spread.parts.push(parts);
            }
        }
        (read == messages).then_some(spread)
    }

    fn items_of(&self, message: usize) -> Option<Range<usize>> {
        self.messages.get(message).cloned()
    }
}

fn new_items(message: &Message) -> Vec<Slot> {
    let items = encode_input(std::slice::from_ref(message));
    items.into_iter().map(|item| Slot::New(item.to_string())).collect()
}

/// A message, or result, that is one item.
fn edit_message(
    item: &Node<'_>,
    place: usize,
    old: &Message,
    new: &Message,
    splices: &mut Splices,
) -> Vec<Slot> {
    let outcome = match (old.role, old.content.as_slice(), new.content.as_slice()) {
        (Role::Tool, [Part::ToolResult(old)], [Part::ToolResult(new)]) => {
            edit_result(item, old, new, splices)
        }
        (Role::Tool, _, []) => Outcome::Empty,
        (Role::Tool, ..) => Outcome::Rewrite,
        (_, old, new) => match item.get_some("content") {
            Some(content) => edit_content(&Parts, &content, old, new, splices),
            None => Outcome::Rewrite,
        },
    };
    match outcome {
        Outcome::Edited => vec![Slot::Keep(place)],
        Outcome::Empty => Vec::new(),
        Outcome::Rewrite => new_items(new),
    }
}

fn edit_result(item: &Node<'_>, old: &ToolResult, new: &ToolResult, splices: &mut Splices) -> Outcome {
    let facts = |result: &ToolResult| {
        (result.tool_call_id.clone(), result.is_error, result.tool_name.clone(), result.meta.clone())
    };
    let Some(output) = item.get_some("output").filter(|_| facts(old) == facts(new)) else {
        return Outcome::Rewrite;
    };
    if item.get("type").and_then(|kind| kind.string()).as_deref() == Some("shell_call_output") {
        return edit_shell_output(&output, old, new, splices);
    }
    match edit_content(&Parts, &output, &old.content, &new.content, splices) {
        Outcome::Edited => Outcome::Edited,
        Outcome::Empty | Outcome::Rewrite => Outcome::Rewrite,
    }
}

/// Two texts for each command.
fn edit_shell_output(
    output: &Node<'_>,
    old: &ToolResult,
    new: &ToolResult,
    splices: &mut Splices,
) -> Outcome {
    let items = output.items();
    let fields = items.iter().flat_map(|item| [(item, "stdout"), (item, "stderr")]);
    if old.content.len() != new.content.len() || items.len() * 2 != old.content.len() {
        return Outcome::Rewrite;
    }
    for ((old, new), (item, field)) in old.content.iter().zip(&new.content).zip(fields) {
        let outcome = match (old, new) {
            (old, new) if old == new => Outcome::Edited,
            (Part::Text { meta: old, .. }, Part::Text { text, meta: new }) if old == new => {
                set_text(item, field, text, splices)
            }
            _ => Outcome::Rewrite,
        };
        if outcome != Outcome::Edited {
            return outcome;
        }
    }
    Outcome::Edited
}

/// What becomes of a part.
#[derive(Clone, Copy)]
enum Fate<'a> {
    Kept,
    Changed(&'a Part),
    Gone,
}

/// The items `own` are the message `old`.
fn edit_assistant(
    items: &[Node<'_>],
    own: Range<usize>,
    spread: &Spread,
    (old, new): (&Message, &Message),
    splices: &mut Splices,
) -> Option<Vec<Slot>> {
    let mut fates = vec![Fate::Gone; old.content.len()];
    // New parts, by the old part that they stand before.
    let mut added: BTreeMap<usize, Vec<Part>> = BTreeMap::new();
    let mut next = 0;
    for step in align(&old.content, &new.content, are_alike) {
        match step {
            Step::Keep(place) => *fates.get_mut(place)? = Fate::Kept,
            Step::Edit(place, at) => *fates.get_mut(place)? = Fate::Changed(new.content.get(at)?),
            Step::New(at) => {
                added.entry(next).or_default().push(new.content.get(at)?.clone());
                continue;
            }
        }
        if let Step::Keep(place) | Step::Edit(place, _) = step {
            next = place + 1;
        }
    }
    let (mut slots, mut first) = (Vec::new(), 0);
    for place in own {
        let (item, count) = (items.get(place)?, *spread.parts.get(place)?);
        // New parts inside an item stand before it.
        for (_, parts) in added.range(first..first + count) {
            slots.extend(encoded(parts));
        }
        let (old, fates) = (old.content.get(first..first + count)?, fates.get(first..first + count)?);
        first += count;
        if fates.iter().all(|fate| matches!(fate, Fate::Gone)) {
            continue;
        }
        if edit_item(item, old, fates, splices) == Outcome::Edited {
            slots.push(Slot::Keep(place));
            continue;
        }
        let left = old.iter().zip(fates).filter_map(|(old, fate)| match fate {
            Fate::Kept => Some(old.clone()),
            Fate::Changed(new) => Some((*new).clone()),
            Fate::Gone => None,
        });
        slots.extend(encoded(&left.collect::<Vec<_>>()));
    }
    slots.extend(added.range(first..).flat_map(|(_, parts)| encoded(parts)));
    Some(slots)
}

fn encoded(parts: &[Part]) -> Vec<Slot> {
    let items = encode_items(parts, Writer::Provider, &mut BTreeMap::new());
    items.into_iter().map(|item| Slot::New(item.to_string())).collect()
}

/// Edits an item of which something is left.
fn edit_item(item: &Node<'_>, old: &[Part], fates: &[Fate<'_>], splices: &mut Splices) -> Outcome {
    if fates.iter().all(|fate| matches!(fate, Fate::Kept)) {
        return Outcome::Edited;
    }
    if let ([Part::ToolCall(old)], [Fate::Changed(Part::ToolCall(new))]) = (old, fates) {
        return edit_call(item, old, new, splices);
    }
    let content = item.get_some("content");
    if let (Some(content), [Part::Text { meta: old, .. }], [Fate::Changed(Part::Text { text, meta })]) =
        (content.filter(|content| content.string().is_some()), old, fates)
        && old == meta
    {
        splices.replace(content.span(), quote(text));
        return Outcome::Edited;
    }
    edit_lists(item, old, fates, splices)
}

/// Edits an item whose parts stand in lists.
fn edit_lists(item: &Node<'_>, old: &[Part], fates: &[Fate<'_>], splices: &mut Splices) -> Outcome {
    let lists: Vec<Node<'_>> = ["summary", "content"].iter().filter_map(|list| item.get_some(list)).collect();
    let entries: Vec<Node<'_>> = lists.iter().flat_map(Node::items).collect();
    if entries.len() != old.len() {
        return Outcome::Rewrite;
    }
    for ((entry, old), fate) in entries.iter().zip(old).zip(fates) {
        let outcome = match (fate, old) {
            (Fate::Kept | Fate::Gone, _) => Outcome::Edited,
            (Fate::Changed(Part::Thinking { text, meta: new }), Part::Thinking { meta: old, .. })
                if old == new =>
            {
                set_text(entry, "text", text, splices)
            }
            (Fate::Changed(new), old) => Parts.edit_part(entry, old, new, splices),
        };
        if outcome != Outcome::Edited {
            return Outcome::Rewrite;
        }
    }
    let mut first = 0;
    for list in &lists {
        let spans: Vec<_> = list.items().iter().map(Node::span).collect();
        let is_gone = |place: usize| matches!(fates.get(first + place), Some(Fate::Gone));
        splices.remove(list, &spans, is_gone);
        first += spans.len();
    }
    Outcome::Edited
}

fn edit_call(item: &Node<'_>, old: &ToolCall, new: &ToolCall, splices: &mut Splices) -> Outcome {
    let kind = CallKind::of_call(new);
    if !kind.has_fields() {
        return if old == new { Outcome::Edited } else { Outcome::Rewrite };
    }
    if old.meta != new.meta || old.id != new.id || CallKind::of_call(old) != kind {
        return Outcome::Rewrite;
    }
    if old.name != new.name && set_text(item, "name", &new.name, splices) != Outcome::Edited {
        return Outcome::Rewrite;
    }
    if old.arguments == new.arguments && old.malformed == new.malformed {
        return Outcome::Edited;
    }
    let parts = [Part::ToolCall(new.clone())];
    let encoded = encode_items(&parts, Writer::Provider, &mut BTreeMap::new());
    for field in kind.payload().iter().filter(|field| **field != "name") {
        match (item.get_some(field), encoded.first().and_then(|item| item.get(*field))) {
            (None, None) => {}
            (Some(place), Some(value)) => splices.replace(place.span(), value.to_string()),
            _ => return Outcome::Rewrite,
        }
    }
    Outcome::Edited
}
