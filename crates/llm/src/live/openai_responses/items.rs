//! The items of an answer: which texts they have, which of them are calls, and how they are edited.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::frames::message_item;
use crate::error::{WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Slot, Splices, quote};
use crate::live::steps::step;
use crate::live::stream::{Edits, TextPiece};
use crate::live::{PartKey, TextKind};
use crate::wire::openai_responses::Place;
use crate::wire::{RESPONSES_ITEMS, TypeClass};

/// Items by their `output_index`.
#[derive(Debug, Default)]
pub(super) struct Items {
    items: BTreeMap<usize, Item>,
    parts: u32,
    /// The calls in the order of their items.
    calls: Vec<PartKey>,
    /// Where items stand once calls are removed; worked out once, since each event asks.
    moved: OnceCell<Moved>,
}

/// Where items stand in an answer without the removed ones.
#[derive(Debug)]
struct Moved {
    /// `None` for a removed item.
    indexes: BTreeMap<usize, Option<usize>>,
    /// The removed ones, in order.
    gone: Vec<usize>,
    /// Behind all others.
    next: usize,
}

/// More items than any provider gives.
const MOST_ITEMS: usize = 10_000;

#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: ItemKind,
    pub(super) id: String,
    pub(super) texts: BTreeMap<Place, ItemText>,
}

impl Item {
    /// The id of the call that it is.
    fn call_id(&self) -> Option<&str> {
        match &self.kind {
            ItemKind::Call { id, .. } => Some(id),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call {
        part: PartKey,
        id: String,
    },
    /// What the provider itself answered to a call.
    Result {
        call: String,
    },
    Other,
}

/// A text of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct ItemText {
    pub(super) id: TextId,
    /// Whether pieces of it have come.
    pub(super) streamed: bool,
    /// How many of its annotations have left.
    pub(super) annotations: usize,
}

/// A text as it stands in an item.
struct Said<'a> {
    place: Place,
    part: Node<'a>,
    literal: Node<'a>,
}

impl Items {
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<&Item> {
        self.items.get(&index)
    }

    pub(super) fn indexes(&self) -> Vec<usize> {
        self.items.keys().copied().collect()
    }

    /// An item appears; nothing happens if it has.
    ///
    /// # Errors
    /// If there are items beyond all bounds.
    pub(super) fn begin(&mut self, index: usize, item: &Node<'_>) -> Result<(), WireError> {
        if self.items.contains_key(&index) {
            return Ok(());
        }
        if self.items.len() >= MOST_ITEMS {
            return Err(out_of_order("there are items beyond all bounds"));
        }
        let field = |name: &str| item.get(name).and_then(|value| value.string().map(Cow::into_owned));
        let type_name = field("type").unwrap_or_default();
        let call = || field("call_id").or_else(|| field("id")).unwrap_or_default();
        let kind = match RESPONSES_ITEMS.class_or_call(&type_name) {
            TypeClass::Text if type_name == "reasoning" => ItemKind::Reasoning,
            TypeClass::Text => ItemKind::Message,
            TypeClass::Call => ItemKind::Call { part: self.next_part(), id: call() },
            TypeClass::Result => ItemKind::Result { call: call() },
            TypeClass::Ran | TypeClass::Inert => ItemKind::Other,
        };
        if let ItemKind::Call { part, .. } = kind {
            self.calls.push(part);
        }
        let item = Item { kind, id: field("id").unwrap_or_default(), texts: BTreeMap::new() };
        self.items.insert(index, item);
        self.moved.take();
        Ok(())
    }

    fn next_part(&mut self) -> PartKey {
        self.parts = self.parts.saturating_add(1);
        PartKey { choice: 0, part: self.parts - 1 }
    }

    /// A text, which begins now if it has not. `None` if the item has no texts that are judged.
    pub(super) fn text(&mut self, index: usize, place: Place, ledger: &mut Ledger) -> Option<&mut ItemText> {
        let item = self.items.get(&index)?;
        let (kind, place) = match (&item.kind, place) {
            (ItemKind::Message, Place::Content(_) | Place::Refusal(_)) => (TextKind::Visible, place),
            (ItemKind::Reasoning, Place::Summary(_) | Place::Reasoning(_) | Place::Content(_)) => {
                (TextKind::Thinking, place.within("reasoning"))
            }
            _ => return None,
        };
        if !item.texts.contains_key(&place) {
            let id = ledger.begin(self.next_part(), kind, false);
            let text = ItemText { id, streamed: false, annotations: 0 };
            self.items.get_mut(&index)?.texts.insert(place, text);
        }
        self.items.get_mut(&index)?.texts.get_mut(&place)
    }

    /// A text that has begun.
    pub(super) fn known_text(&self, index: usize, place: Place) -> Option<&ItemText> {
        let item = self.items.get(&index)?;
        let place = if matches!(item.kind, ItemKind::Reasoning) { place.within("reasoning") } else { place };
        item.texts.get(&place)
    }

    /// An annotation of a text has left.
    pub(super) fn annotation_left(&mut self, index: usize, place: Place) {
        if let Some(text) = self.items.get_mut(&index).and_then(|item| item.texts.get_mut(&place)) {
            text.annotations += 1;
        }
    }

    /// The texts that stand in an item. One that has not come yet comes with it. If the item is `whole`, so
    /// are they.
    pub(super) fn copies(
        &mut self,
        index: usize,
        item: &Node<'_>,
        whole: bool,
        ledger: &mut Ledger,
    ) -> Vec<TextPiece> {
        let Some(known) = self.items.get(&index) else { return Vec::new() };
        let said = said(&known.kind, item);
        let copies = said.into_iter().filter_map(|said| {
            let id = self.text(index, said.place, ledger)?.id;
            Some(copy(id, &said.literal, whole, ledger))
        });
        copies.collect()
    }

    pub(super) fn is_call(&self, index: usize) -> bool {
        self.items.get(&index).is_some_and(|item| matches!(item.kind, ItemKind::Call { .. }))
    }

    pub(super) fn is_result(&self, index: usize) -> bool {
        self.items.get(&index).is_some_and(|item| matches!(item.kind, ItemKind::Result { .. }))
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(super) fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls.get(call).copied().filter(|part| part.choice == choice)
    }

    fn moved(&self, edits: &Edits<'_>) -> &Moved {
        self.moved.get_or_init(|| {
            let removed = |item: &Item| match &item.kind {
                ItemKind::Call { part, .. } => edits.calls.is_removed(*part),
                _ => false,
            };
            let refused = self.items.values().filter(|item| removed(item));
            let unanswered: BTreeSet<&str> = refused.filter_map(Item::call_id).collect();
            let (mut indexes, mut gone) = (BTreeMap::new(), Vec::new());
            for (index, item) in &self.items {
                step();
                let is_gone = match &item.kind {
                    ItemKind::Result { call } => unanswered.contains(call.as_str()),
                    _ => removed(item),
                };
                indexes.insert(*index, (!is_gone).then(|| index - gone.len()));
                gone.extend(is_gone.then_some(*index));
            }
            let next = indexes.values().flatten().max().map_or(0, |last| last + 1);
            Moved { indexes, gone, next }
        })
    }

    /// Whether an item never leaves: a removed call, or the answer to one.
    pub(super) fn is_removed(&self, index: usize, edits: &Edits<'_>) -> bool {
        edits.calls.any_removed() && self.moved(edits).indexes.get(&index) == Some(&None)
    }

    /// The index of an item in an answer without the removed ones; `None` for those.
    pub(super) fn new_index(&self, index: usize, edits: &Edits<'_>) -> Option<usize> {
        if !edits.calls.any_removed() {
            return Some(index);
        }
        let moved = self.moved(edits);
        match moved.indexes.get(&index) {
            Some(new) => *new,
            None => Some(index - moved.gone.partition_point(|gone| *gone < index)),
        }
    }

    /// The index of an item behind all others.
    pub(super) fn next_index(&self, edits: &Edits<'_>) -> usize {
        if edits.calls.any_removed() {
            return self.moved(edits).next;
        }
        self.items.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Edits the texts in an item.
    pub(super) fn splice_item(
        &self,
        index: usize,
        node: &Node<'_>,
        edits: &Edits<'_>,
        splices: &mut Splices,
    ) {
        let Some(item) = self.items.get(&index) else { return };
        for said in said(&item.kind, node) {
            if let Some(text) = item.texts.get(&said.place) {
                splice_copy(text, &said.part, Some(&said.literal), edits, splices);
            }
        }
    }

    /// Edits an answer as a whole: its items, and the copy of its text.
    pub(super) fn splice_answer(
        &self,
        answer: &Node<'_>,
        note: Option<(&str, &str)>,
        edits: &Edits<'_>,
        splices: &mut Splices,
    ) {
        if let Some(copy) = answer.get_some("output_text") {
            let mut text = self.visible_text(edits.ledger);
            text.push_str(note.map(|(_, note)| note).unwrap_or_default());
            splices.replace(copy.span(), quote(&text));
        }
        let Some(output) = answer.get_some("output") else { return };
        let nodes = output.items();
        // Some servers do not repeat the items at the end.
        if nodes.is_empty() {
            return;
        }
        for (index, node) in self.items.keys().zip(&nodes) {
            self.splice_item(*index, node, edits, splices);
        }
        let kept = self.items.keys().enumerate().filter(|(_, index)| !self.is_removed(**index, edits));
        let mut slots: Vec<Slot> = kept.map(|(place, _)| Slot::Keep(place)).collect();
        if let Some((id, note)) = note {
            slots.push(Slot::New(message_item(id, "completed", note).to_string()));
        }
        let spans: Vec<_> = nodes.iter().map(Node::span).collect();
        splices.set_list(&output, &spans, slots);
    }

    fn visible_text(&self, ledger: &Ledger) -> String {
        let texts = self.items.values().flat_map(|item| &item.texts);
        let visible = texts.filter(|(place, _)| matches!(place, Place::Content(_)));
        visible.map(|(_, text)| ledger.says(text.id)).collect()
    }

    /// An item with the edits of its texts.
    pub(super) fn edited(&self, index: usize, value: &Value, ledger: &Ledger) -> Value {
        let mut value = value.clone();
        for (place, text) in self.items.get(&index).into_iter().flat_map(|item| &item.texts) {
            let (list, field, at) = match *place {
                Place::Content(at) | Place::Reasoning(at) => ("content", "text", at),
                Place::Refusal(at) => ("content", "refusal", at),
                Place::Summary(at) => ("summary", "text", at),
                _ => continue,
            };
            let part = value.get_mut(list).and_then(|parts| parts.get_mut(at)).and_then(Value::as_object_mut);
            let (Some(part), Some(new)) = (part, ledger.whole_replacement(text.id)) else { continue };
            part.insert(field.to_owned(), new.into());
            if let Some(Value::Array(annotations)) = part.get_mut("annotations") {
                annotations.truncate(text.annotations);
            }
            if part.contains_key("logprobs") {
                part.insert("logprobs".to_owned(), json!([]));
            }
        }
        value
    }
}

/// A copy of a text, or the text itself if nothing of it has come.
pub(super) fn copy(id: TextId, literal: &Node<'_>, whole: bool, ledger: &mut Ledger) -> TextPiece {
    let so_far = ledger.append(id, "");
    let piece = match literal.string() {
        Some(text) if so_far.end == 0 => ledger.append(id, &text),
        _ => so_far,
    };
    if whole {
        ledger.close(id);
    }
    TextPiece { id, piece, literal: literal.span() }
}

/// Edits one copy of a whole text, and what quotes it beside it.
pub(super) fn splice_copy(
    text: &ItemText,
    part: &Node<'_>,
    literal: Option<&Node<'_>>,
    edits: &Edits<'_>,
    splices: &mut Splices,
) {
    let Some(new) = edits.ledger.whole_replacement(text.id) else { return };
    if let Some(literal) = literal {
        splices.replace(literal.span(), quote(&new));
    }
    if let Some(annotations) = part.get_some("annotations") {
        let spans: Vec<_> = annotations.items().iter().map(Node::span).collect();
        splices.remove(&annotations, &spans, |place| place >= text.annotations);
    }
    splice_logprobs(part, splices);
}

/// Takes log probabilities out: they spell the text.
pub(super) fn splice_logprobs(holder: &Node<'_>, splices: &mut Splices) {
    if let Some(logprobs) = holder.get_some("logprobs").filter(|logprobs| !logprobs.items().is_empty()) {
        splices.replace(logprobs.span(), "[]");
    }
}

/// The texts that stand in an item.
fn said<'a>(kind: &ItemKind, item: &Node<'a>) -> Vec<Said<'a>> {
    let parts = |list: &str| item.get(list).map(|list| list.items()).unwrap_or_default();
    let of = |place: Place, part: Node<'a>| {
        let field = if matches!(place, Place::Refusal(_)) { "refusal" } else { "text" };
        let literal = part.get(field).filter(|literal| literal.string().is_some())?;
        Some(Said { place, part, literal })
    };
    match kind {
        ItemKind::Message => {
            let parts = parts("content").into_iter().enumerate().map(|(index, part)| {
                let part_type = part.get("type").and_then(|kind| kind.string());
                (Place::in_message(index, part_type.as_deref()), part)
            });
            parts.filter_map(|(place, part)| of(place, part)).collect()
        }
        ItemKind::Reasoning => {
            let summary = parts("summary").into_iter().enumerate();
            let content = parts("content").into_iter().enumerate();
            summary
                .map(|(index, part)| (Place::Summary(index), part))
                .chain(content.map(|(index, part)| (Place::Reasoning(index), part)))
                .filter_map(|(place, part)| of(place, part))
                .collect()
        }
        ItemKind::Call { .. } | ItemKind::Result { .. } | ItemKind::Other => Vec::new(),
    }
}
