//! Whole answers.

use serde_json::Value;

use super::{API, Added, CHOICE, PartMark, candidate, check_form, edit_candidate, key, parts, spaced_note};
use crate::error::{WireError, out_of_order};
use crate::live::ledger::Ledger;
use crate::live::span::{Node, Splices};
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::live::{PartKey, TextKind};
use crate::model::ModelResponse;
use crate::wire::Api;
use backstop_hooks::conversation::Part;

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct GeminiWhole {
    responses: Vec<ModelResponse>,
    marks: Vec<PartMark>,
    calls: Vec<PartKey>,
}

impl WholeWire for GeminiWhole {
    const API: Api = API;

    fn read(
        &mut self,
        body: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError> {
        check_form(root)?;
        let response = API.decode_response(body)?;
        let items = candidate(root).as_ref().and_then(parts).map(|parts| parts.items()).unwrap_or_default();
        let mut said = response.message.content.iter().enumerate();
        let mut pieces = Vec::new();
        for item in &items {
            let literal = item.get_some("text");
            if literal.as_ref().is_some_and(|text| text.raw() == "\"\"") && is_bare(item) {
                self.marks.push(PartMark::Other);
                continue;
            }
            let (index, part) = said.next().ok_or_else(mismatch)?;
            let (kind, text) = match part {
                Part::Text { text, .. } => (TextKind::Visible, text),
                Part::Thinking { text, .. } => (TextKind::Thinking, text),
                Part::ToolCall(_) => {
                    self.calls.push(key(index));
                    self.marks.push(PartMark::Call(key(index)));
                    continue;
                }
                Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => {
                    self.marks.push(PartMark::Other);
                    continue;
                }
            };
            let literal = literal.filter(|literal| literal.string().as_deref() == Some(text.as_str()));
            let id = ledger.begin(key(index), kind, false);
            let piece = ledger.append(id, text);
            ledger.close(id);
            pieces.push(TextPiece { id, piece, literal: literal.ok_or_else(mismatch)?.span() });
            self.marks.push(PartMark::Text(id));
        }
        if said.next().is_some() {
            return Err(mismatch());
        }
        self.responses = vec![response];
        Ok(pieces)
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.calls.get(call).copied().filter(|_| choice == CHOICE)
    }

    fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        let Some(node) = candidate(root) else { return };
        let mut added = Added::default();
        if let Some(note) = edits.calls.note(CHOICE) {
            added.text(self.marks.len(), &spaced_note(note, edits.ledger.choice_has_visible(CHOICE)));
        }
        edit_candidate(&node, &self.marks, added, edits, &mut None, splices);
    }
}

/// Whether a part has nothing but its text.
fn is_bare(part: &Node<'_>) -> bool {
    part.members().iter().all(|member| match &*member.key {
        "text" => true,
        "thought" => member.value.raw() == "false" || member.value.is_null(),
        _ => member.value.is_null(),
    })
}

fn mismatch() -> WireError {
    out_of_order("the parts of an answer are not what they seem")
}
