//! Whole answers.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::stream::end_turn;
use super::{API, find_in_block};
use crate::error::WireError;
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Slot, Splices};
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::live::{PartKey, TextKind};
use crate::model::ModelResponse;
use crate::wire::{ANTHROPIC_BLOCKS, ANTHROPIC_MESSAGE, Api, TypeClass};

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct AnthropicWhole {
    response: Option<ModelResponse>,
    blocks: Vec<Block>,
    calls: Vec<PartKey>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Text(TextId),
    Thinking(TextId),
    Call,
    Other,
}

impl AnthropicWhole {
    fn part(block: usize) -> PartKey {
        PartKey { choice: 0, part: u32::try_from(block).unwrap_or(u32::MAX) }
    }
}

impl WholeWire for AnthropicWhole {
    const API: Api = API;

    fn read(
        &mut self,
        body: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError> {
        self.response = Some(API.decode_response(body)?);
        ledger.findings.fields(root, &ANTHROPIC_MESSAGE, false);
        let mut texts = Vec::new();
        for (place, block) in root.get("content").iter().flat_map(Node::items).enumerate() {
            find_in_block(&block, &mut ledger.findings)?;
            let kind = block.get("type").and_then(|kind| kind.string().map(Cow::into_owned));
            let text = match kind.as_deref() {
                Some("text") => Some(("text", TextKind::Visible)),
                Some("thinking") => Some(("thinking", TextKind::Thinking)),
                _ => None,
            };
            let literal = text.and_then(|(field, kind)| Some((kind, block.get(field)?)));
            self.blocks.push(match literal {
                Some((text_kind, literal)) => {
                    let id = ledger.begin(Self::part(place), text_kind, text_kind == TextKind::Thinking);
                    let piece = ledger.append(id, &literal.string().unwrap_or_default());
                    ledger.close(id);
                    texts.push(TextPiece { id, piece, literal: literal.span() });
                    if text_kind == TextKind::Visible { Block::Text(id) } else { Block::Thinking(id) }
                }
                None if kind.is_some_and(|kind| ANTHROPIC_BLOCKS.class_or_call(&kind) == TypeClass::Call) => {
                    Block::Call
                }
                None => Block::Other,
            });
        }
        let is_call = |(_, block): &(usize, &Block)| **block == Block::Call;
        self.calls =
            self.blocks.iter().enumerate().filter(is_call).map(|(place, _)| Self::part(place)).collect();
        Ok(texts)
    }

    fn responses(&self) -> &[ModelResponse] {
        self.response.as_slice()
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls.get(call).copied().filter(|part| part.choice == choice)
    }

    fn has_calls(&self) -> bool {
        self.blocks.contains(&Block::Call)
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        let Some(content) = root.get("content") else { return };
        let items = content.items();
        for (block, item) in self.blocks.iter().zip(&items) {
            if let Block::Text(id) = block
                && edits.ledger.has_edits(*id)
            {
                splices.remove_members(item, |key| key == "citations");
            }
        }
        let is_removed = |place: usize| match self.blocks.get(place) {
            // Clients can't send empty texts back.
            Some(Block::Text(id)) => edits.ledger.whole_replacement(*id).is_some_and(|new| new.is_empty()),
            _ => edits.calls.is_removed(Self::part(place)),
        };
        let spans: Vec<_> = items.iter().map(Node::span).collect();
        let mut slots: Vec<Slot> =
            (0..spans.len()).filter(|place| !is_removed(*place)).map(Slot::Keep).collect();
        if let Some(note) = edits.calls.note(0) {
            slots.push(Slot::New(json!({"type": "text", "text": note}).to_string()));
        }
        splices.set_list(&content, &spans, slots);
        let call_left =
            self.blocks.iter().enumerate().any(|(place, block)| *block == Block::Call && !is_removed(place));
        if !call_left && edits.calls.any_removed() {
            end_turn(Some(root.clone()), splices);
        }
    }
}
