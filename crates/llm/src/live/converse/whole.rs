//! Whole answers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{API, end_turn, find_in_answer, find_in_union, member, text_of};
use crate::error::{WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Slot, Splices};
use crate::live::steps::step;
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::live::{PartKey, TextKind};
use crate::model::ModelResponse;
use crate::wire::{Api, CONVERSE_ANSWER, CONVERSE_BLOCKS, CONVERSE_MESSAGE, CONVERSE_OUTPUT};
use backstop_hooks::conversation::Part;

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct ConverseWhole {
    response: Option<ModelResponse>,
    blocks: Vec<Block>,
    calls: Vec<PartKey>,
    parts: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Block {
    /// Its texts; several where they are cited.
    Texts(Vec<TextId>),
    Call(PartKey),
    /// A result, and the call in the same answer that it is of.
    Result(Option<PartKey>),
    Other,
}

impl ConverseWhole {
    fn next_part(&mut self) -> PartKey {
        let part = PartKey { choice: 0, part: self.parts };
        self.parts = self.parts.saturating_add(1);
        part
    }

    /// The text of a block whose literals are these.
    fn texts(
        &mut self,
        kind: TextKind,
        literals: &[Node<'_>],
        ledger: &mut Ledger,
        pieces: &mut Vec<TextPiece>,
    ) -> Block {
        let ids = literals.iter().map(|literal| {
            let id = ledger.begin(self.next_part(), kind, kind == TextKind::Thinking);
            let piece = ledger.append(id, &literal.string().unwrap_or_default());
            ledger.close(id);
            pieces.push(TextPiece { id, piece, literal: literal.span() });
            id
        });
        Block::Texts(ids.collect())
    }
}

/// The literals of the texts in a block of this kind.
fn literals<'a>(kind: &str, inside: &Node<'a>) -> Option<(TextKind, Vec<Node<'a>>)> {
    let text = |node: Node<'a>| Some(vec![node.get("text")?]);
    match kind {
        "text" => Some((TextKind::Visible, vec![inside.clone()])),
        "guardContent" => Some((TextKind::Visible, text(inside.get_some("text")?)?)),
        "reasoningContent" => Some((TextKind::Thinking, text(inside.get_some("reasoningText")?)?)),
        "citationsContent" => {
            let items = inside.get_some("content").map(|content| content.items()).unwrap_or_default();
            let found = items.iter().filter_map(|item| Some(member(item)?.1));
            Some((TextKind::Visible, found.collect()))
        }
        _ => None,
    }
}

fn blocks<'a>(root: &Node<'a>) -> Option<Node<'a>> {
    root.get_some("output")?.get_some("message")?.get_some("content")
}

impl WholeWire for ConverseWhole {
    const API: Api = API;

    fn read(
        &mut self,
        body: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError> {
        let response = API.decode_response(body)?;
        find_in_answer(root, &CONVERSE_ANSWER, &mut ledger.findings)?;
        let output = root.get_some("output");
        let message = output.as_ref().and_then(|output| output.get_some("message"));
        for (node, level) in [(&output, &CONVERSE_OUTPUT), (&message, &CONVERSE_MESSAGE)] {
            node.iter().for_each(|node| ledger.findings.fields(node, level, false));
        }
        let mut pieces = Vec::new();
        let items = blocks(root).map(|content| content.items()).unwrap_or_default();
        // The first call of each id.
        let mut calls: BTreeMap<String, PartKey> = BTreeMap::new();
        for (item, part) in items.iter().zip(&response.message.content) {
            step();
            let (kind, inside) = member(item).ok_or_else(|| out_of_order("a block is nothing"))?;
            let block = match (part, literals(&kind, &inside)) {
                (Part::ToolCall(call), _) => {
                    let part = self.next_part();
                    self.calls.push(part);
                    calls.entry(call.id.as_str().to_owned()).or_insert(part);
                    Block::Call(part)
                }
                (_, Some((text_kind, literals))) => self.texts(text_kind, &literals, ledger, &mut pieces),
                (Part::ToolResult(_), None) => {
                    let of = text_of(&inside, "toolUseId");
                    Block::Result(calls.get(&of).copied())
                }
                _ => Block::Other,
            };
            // Of the calls, one of a type that nobody knows is judged as a whole.
            if !matches!(block, Block::Call(_)) || kind == "toolUse" {
                find_in_union(item, &CONVERSE_BLOCKS, &mut ledger.findings)?;
            }
            self.blocks.push(block);
        }
        self.response = Some(response);
        Ok(pieces)
    }

    fn responses(&self) -> &[ModelResponse] {
        self.response.as_slice()
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls.get(call).copied().filter(|part| part.choice == choice)
    }

    fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        let Some(content) = blocks(root) else { return };
        let items = content.items();
        for (block, item) in self.blocks.iter().zip(&items) {
            if let Block::Texts(ids) = block
                && ids.iter().any(|id| edits.ledger.has_edits(*id))
                && let Some(cited) = item.get_some("citationsContent")
            {
                splices.remove_members(&cited, |key| key == "citations");
            }
        }
        let is_gone = |id: &TextId| edits.ledger.whole_replacement(*id).is_some_and(|new| new.is_empty());
        let is_visible = |id: &TextId| edits.ledger.kind(*id) == Some(TextKind::Visible);
        let is_removed = |place: usize| match self.blocks.get(place) {
            // Clients can't send empty texts back.
            Some(Block::Texts(ids)) => !ids.is_empty() && ids.iter().all(|id| is_visible(id) && is_gone(id)),
            Some(Block::Call(part) | Block::Result(Some(part))) => edits.calls.is_removed(*part),
            Some(Block::Result(None) | Block::Other) | None => false,
        };
        let spans: Vec<_> = items.iter().map(Node::span).collect();
        let mut slots: Vec<Slot> =
            (0..spans.len()).filter(|place| !is_removed(*place)).map(Slot::Keep).collect();
        if let Some(note) = edits.calls.note(0) {
            slots.push(Slot::New(json!({ "text": note }).to_string()));
        }
        splices.set_list(&content, &spans, slots);
        let call_left = self.calls.iter().any(|part| !edits.calls.is_removed(*part));
        if !call_left && edits.calls.any_removed() {
            end_turn(root, splices);
        }
    }
}
