//! Whole answers.

use serde_json::Value;

use super::{API, Added, PartMark, candidates, check_form, edit_candidate, find_in_candidate, key, parts};
use crate::error::{WireError, out_of_order};
use crate::live::ledger::Ledger;
use crate::live::span::{Node, Splices};
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::live::{MOST_CHOICES, PartKey, TextKind, spaced_note};
use crate::model::ModelResponse;
use crate::wire::gemini::decode_candidates;
use crate::wire::{Api, GEMINI_ANSWER};
use backstop_hooks::conversation::Part;

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct GeminiWhole {
    responses: Vec<ModelResponse>,
    /// None if the provider refused the prompt.
    candidates: Vec<Candidate>,
}

#[derive(Debug, Default)]
struct Candidate {
    marks: Vec<PartMark>,
    calls: Vec<PartKey>,
}

/// Enters what a candidate says into the ledger.
fn read_candidate(
    choice: u32,
    response: &ModelResponse,
    node: &Node<'_>,
    ledger: &mut Ledger,
    pieces: &mut Vec<TextPiece>,
) -> Result<Candidate, WireError> {
    let mut found = Candidate::default();
    let items = parts(node).map(|parts| parts.items()).unwrap_or_default();
    let mut said = response.message.content.iter().enumerate();
    for item in &items {
        let literal = item.get_some("text");
        if literal.as_ref().is_some_and(|text| text.raw() == "\"\"") && is_bare(item) {
            found.marks.push(PartMark::Other);
            continue;
        }
        let (index, part) = said.next().ok_or_else(mismatch)?;
        let key = key(choice, index);
        let (kind, text) = match part {
            Part::Text { text, .. } => (TextKind::Visible, text),
            Part::Thinking { text, .. } => (TextKind::Thinking, text),
            Part::ToolCall(_) => {
                found.calls.push(key);
                found.marks.push(PartMark::Call(key));
                continue;
            }
            Part::ToolResult(_) | Part::Image { .. } | Part::Unknown { .. } => {
                found.marks.push(PartMark::Other);
                continue;
            }
        };
        let literal = literal.filter(|literal| literal.string().as_deref() == Some(text.as_str()));
        let id = ledger.begin(key, kind, false);
        let piece = ledger.append(id, text);
        ledger.close(id);
        pieces.push(TextPiece { id, piece, literal: literal.ok_or_else(mismatch)?.span() });
        found.marks.push(PartMark::Text(id));
    }
    if said.next().is_some() { Err(mismatch()) } else { Ok(found) }
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
        ledger.findings.fields(root, &GEMINI_ANSWER, false);
        let nodes = candidates(root);
        if nodes.len() > MOST_CHOICES {
            return Err(out_of_order("there are candidates beyond all bounds"));
        }
        let responses = decode_candidates(body)?;
        if !nodes.is_empty() && nodes.len() != responses.len() {
            return Err(mismatch());
        }
        let mut pieces = Vec::new();
        for ((choice, response), node) in (0..).zip(&responses).zip(&nodes) {
            find_in_candidate(node, &mut ledger.findings)?;
            self.candidates.push(read_candidate(choice, response, node, ledger, &mut pieces)?);
        }
        self.responses = responses;
        Ok(pieces)
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.candidates.get(usize::try_from(choice).ok()?)?.calls.get(call).copied()
    }

    fn has_calls(&self) -> bool {
        self.candidates.iter().any(|candidate| !candidate.calls.is_empty())
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        for ((choice, candidate), node) in (0..).zip(&self.candidates).zip(candidates(root)) {
            let mut added = Added::default();
            if let Some(note) = edits.calls.note(choice) {
                let note = spaced_note(note, edits.ledger.choice_has_visible(choice));
                added.text(candidate.marks.len(), &note);
            }
            edit_candidate(&node, choice, &candidate.marks, added, edits, &mut None, splices);
        }
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
