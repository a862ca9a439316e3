//! Lists of parts, whatever wire they are written on.

use backstop_hooks::conversation::Part;

use super::align::{Step, align};
use crate::live::span::{Node, Slot, Splices, quote};

/// What became of a list of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is edited.
    Edited,
    /// Nothing is left of it.
    Empty,
    /// It has to be written anew.
    Rewrite,
}

/// How a wire writes parts.
pub(super) trait PartWire {
    /// Edits one part in place, if its form allows; else it is written anew.
    fn edit_part(&self, node: &Node<'_>, old: &Part, new: &Part, splices: &mut Splices) -> Outcome;

    /// A part as an item of a list; `None` if the wire has no place for it.
    fn encode_part(&self, part: &Part) -> Option<String>;
}

/// Whether one part may be the changed form of the other.
pub(super) fn are_alike(old: &Part, new: &Part) -> bool {
    match (old, new) {
        (Part::Text { .. }, Part::Text { .. })
        | (Part::Thinking { .. }, Part::Thinking { .. })
        | (Part::Image { .. }, Part::Image { .. })
        | (Part::Unknown { .. }, Part::Unknown { .. }) => true,
        (Part::ToolCall(old), Part::ToolCall(new)) => old.id == new.id,
        (Part::ToolResult(old), Part::ToolResult(new)) => old.tool_call_id == new.tool_call_id,
        _ => false,
    }
}

/// Edits a `content`: a string, or an array of parts.
pub(super) fn edit_content(
    wire: &impl PartWire,
    node: &Node<'_>,
    old: &[Part],
    new: &[Part],
    splices: &mut Splices,
) -> Outcome {
    if old == new {
        return Outcome::Edited;
    }
    if new.is_empty() {
        return Outcome::Empty;
    }
    if let Some(text) = node.string() {
        return match (old, new) {
            ([Part::Text { text: old, meta: old_meta }], [Part::Text { text: new, meta }])
                if old_meta == meta && *old == *text =>
            {
                splices.replace(node.span(), quote(new));
                Outcome::Edited
            }
            _ => Outcome::Rewrite,
        };
    }
    let items = node.items();
    if items.len() != old.len() {
        return Outcome::Rewrite;
    }
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    let mut slots = Vec::new();
    for step in align(old, new, are_alike) {
        match step {
            Step::Keep(place) => slots.push(Slot::Keep(place)),
            Step::New(at) => {
                slots.extend(new.get(at).and_then(|part| wire.encode_part(part)).map(Slot::New));
            }
            Step::Edit(place, at) => {
                let (Some(item), Some(old), Some(new)) = (items.get(place), old.get(place), new.get(at))
                else {
                    return Outcome::Rewrite;
                };
                match wire.edit_part(item, old, new, splices) {
                    Outcome::Edited => slots.push(Slot::Keep(place)),
                    Outcome::Empty => {}
                    Outcome::Rewrite => slots.extend(wire.encode_part(new).map(Slot::New)),
                }
            }
        }
    }
    if slots.is_empty() {
        return Outcome::Empty;
    }
    splices.set_list(node, &spans, slots);
    Outcome::Edited
}

/// Writes a text in place of the string `field` of an object.
pub(super) fn set_text(object: &Node<'_>, field: &str, text: &str, splices: &mut Splices) -> Outcome {
    match object.get_some(field).filter(|value| value.raw().starts_with('"')) {
        Some(value) => {
            splices.replace(value.span(), quote(text));
            Outcome::Edited
        }
        None => Outcome::Rewrite,
    }
}
