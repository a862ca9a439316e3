//! Whole answers.

use serde_json::Value;

use super::items::Items;
use super::{API, content, find_in_item, refuse_spoken};
use crate::error::WireError;
use crate::live::PartKey;
use crate::live::ledger::Ledger;
use crate::live::span::{Node, Splices};
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::model::ModelResponse;
use crate::wire::openai_responses::made_id;
use crate::wire::{Api, RESPONSES_ANSWER};

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct ResponsesWhole {
    response: Option<ModelResponse>,
    items: Items,
}

impl WholeWire for ResponsesWhole {
    const API: Api = API;

    fn read(
        &mut self,
        body: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError> {
        self.response = Some(API.decode_response(body)?);
        ledger.findings.fields(root, &RESPONSES_ANSWER, false);
        let mut texts = Vec::new();
        for (index, item) in root.get("output").iter().flat_map(Node::items).enumerate() {
            refuse_spoken(content(&item))?;
            self.items.begin(index, &item)?;
            find_in_item(&item, &mut ledger.findings)?;
            texts.extend(self.items.copies(index, &item, true, ledger));
        }
        Ok(texts)
    }

    fn responses(&self) -> &[ModelResponse] {
        self.response.as_slice()
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.items.call_part(choice, call)
    }

    fn has_calls(&self) -> bool {
        self.items.has_calls()
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        let id = self.response.as_ref().map(|response| response.id.as_str()).unwrap_or_default();
        let id = made_id("message", id, self.items.next_index(edits));
        let note = edits.calls.note(0).map(|note| (id.as_str(), note));
        self.items.splice_answer(root, note, edits, splices);
    }
}
