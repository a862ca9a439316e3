//! Whole answers.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::{
    API, CALLS, KNOWN, MESSAGE, REASONING, STOP, TOOL_CALLS, check_misplaced, check_others, find_in_answer,
    find_in_choice, waits_for_calls,
};
use crate::error::{WireError, out_of_order};
use crate::live::ledger::{Ledger, TextId};
use crate::live::span::{Node, Slot, Splices, quote};
use crate::live::stream::{Edits, TextPiece};
use crate::live::whole::WholeWire;
use crate::live::{MOST_CHOICES, PartKey, TextKind, spaced_note};
use crate::model::ModelResponse;
use crate::wire::Api;
use crate::wire::openai_chat::FUNCTION_CALL;

/// The wire's knowledge about one whole answer.
#[derive(Debug, Default)]
pub(crate) struct ChatWhole {
    responses: Vec<ModelResponse>,
    choices: Vec<Choice>,
}

#[derive(Debug, Default)]
struct Choice {
    texts: Vec<TextId>,
    /// The text in `content`, if that is a string.
    content: Option<TextId>,
    calls: Vec<PartKey>,
}

/// Enters the texts of one choice into the ledger, part by part as the codec reads them.
struct Reader<'a> {
    choice: u32,
    next_part: u32,
    ledger: &'a mut Ledger,
    found: Choice,
    pieces: Vec<TextPiece>,
}

impl Reader<'_> {
    fn next(&mut self) -> PartKey {
        self.next_part += 1;
        PartKey { choice: self.choice, part: self.next_part - 1 }
    }

    /// A text that stands in each of `literals`.
    fn text(&mut self, kind: TextKind, literals: &[Node<'_>]) -> Result<Option<TextId>, WireError> {
        let Some(text) = literals.first().and_then(Node::string) else { return Ok(None) };
        if literals.iter().any(|copy| copy.string().as_deref() != Some(&*text)) {
            return Err(out_of_order("the copies of a text disagree"));
        }
        let part = self.next();
        let id = self.ledger.begin(part, kind, false);
        let piece = self.ledger.append(id, &text);
        self.ledger.close(id);
        self.pieces.extend(literals.iter().map(|literal| TextPiece {
            id,
            piece: piece.clone(),
            literal: literal.span(),
        }));
        self.found.texts.push(id);
        Ok(Some(id))
    }

    fn message(&mut self, message: &Node<'_>) -> Result<(), WireError> {
        check_others(message)?;
        let says = |node: &Node<'_>| node.raw() != "\"\"";
        let reasoning: Vec<Node<'_>> =
            REASONING.into_iter().filter_map(|field| message.get_some(field)).filter(says).collect();
        self.text(TextKind::Thinking, &reasoning)?;
        if let Some(content) = message.get_some("content") {
            if content.raw().starts_with('[') {
                for item in content.items() {
                    match item.get_some("text").or_else(|| item.get_some("refusal")) {
                        Some(literal) => self.text(TextKind::Visible, &[literal]).map(|_| ())?,
                        None => self.next_part += 1,
                    }
                }
            } else if says(&content) {
                self.found.content = self.text(TextKind::Visible, &[content])?;
            }
        }
        if let Some(refusal) = message.get_some("refusal") {
            self.text(TextKind::Visible, &[refusal])?;
        }
        for _ in message.get_some(TOOL_CALLS).iter().flat_map(Node::items) {
            let part = self.next();
            self.found.calls.push(part);
        }
        if message.get_some(FUNCTION_CALL).is_some() {
            let part = self.next();
            self.found.calls.push(part);
        }
        Ok(())
    }
}

/// The answer in each choice. Of several, each has what all of them share, and nothing else of the body: there
/// may be a lot of it, and many choices.
fn decode_choices(body: &Value) -> Result<Vec<ModelResponse>, WireError> {
    let choices = body.get("choices").and_then(Value::as_array).map(Vec::as_slice);
    let Some(choices @ [_, _, ..]) = choices else { return Ok(vec![API.decode_response(body)?]) };
    if choices.len() > MOST_CHOICES {
        return Err(WireError::OutOfOrder { problem: "there are choices beyond all bounds".to_owned() });
    }
    let shared = ["id", "model", "usage"].into_iter().filter_map(|key| Some((key, body.get(key)?)));
    let shared: Map<String, Value> = shared.map(|(key, value)| (key.to_owned(), value.clone())).collect();
    let alone = |choice| {
        let mut alone = shared.clone();
        alone.insert("choices".to_owned(), json!([choice]));
        API.decode_response(&alone.into())
    };
    choices.iter().map(alone).collect()
}

impl ChatWhole {
    fn edit_choice(
        &self,
        place: u32,
        choice: &Choice,
        node: &Node<'_>,
        edits: &Edits<'_>,
        splices: &mut Splices,
    ) {
        let is_edited = choice.texts.iter().any(|id| edits.ledger.has_edits(*id));
        if let Some(copies) = node.get_some("logprobs").filter(|_| is_edited) {
            splices.replace(copies.span(), "null");
        }
        let Some(message) = node.get_some("message") else { return };
        let is_removed =
            |call: usize| choice.calls.get(call).is_some_and(|part| edits.calls.is_removed(*part));
        let lost_all = edits.calls.lost_one(place) && (0..choice.calls.len()).all(is_removed);
        if edits.calls.lost_one(place)
            && !lost_all
            && let Some(calls) = message.get_some(TOOL_CALLS)
        {
            let spans: Vec<_> = calls.items().iter().map(Node::span).collect();
            splices.remove(&calls, &spans, is_removed);
        }
        if let Some(reason) = node.get_some("finish_reason")
            && lost_all
            && waits_for_calls(&reason)
        {
            splices.replace(reason.span(), quote(STOP));
        }
        let mut new = Vec::new();
        if let Some(note) = edits.calls.note(place) {
            new.extend(self.note(
                choice,
                &message,
                &spaced_note(note, edits.ledger.choice_has_visible(place)),
                edits,
                splices,
            ));
        }
        let members = message.members();
        let is_gone = |key: &str| (lost_all && CALLS.contains(&key)) || (is_edited && !KNOWN.contains(&key));
        if new.is_empty() && !members.iter().any(|member| is_gone(&member.key)) {
            return;
        }
        let spans: Vec<_> = members.iter().map(|member| member.span.clone()).collect();
        let kept = members.iter().enumerate().filter(|(_, member)| !is_gone(&member.key));
        let mut slots: Vec<Slot> = kept.map(|(place, _)| Slot::Keep(place)).collect();
        slots.extend(new.into_iter().map(Slot::New));
        splices.set_list(&message, &spans, slots);
    }

    /// Adds a note to the content; gives the member to add if there is no content.
    fn note(
        &self,
        choice: &Choice,
        message: &Node<'_>,
        note: &str,
        edits: &Edits<'_>,
        splices: &mut Splices,
    ) -> Option<String> {
        let Some(content) = message.get("content") else {
            return Some(format!("\"content\":{}", quote(note)));
        };
        if content.raw().starts_with('[') {
            let spans: Vec<_> = content.items().iter().map(Node::span).collect();
            let mut slots: Vec<Slot> = (0..spans.len()).map(Slot::Keep).collect();
            slots.push(Slot::New(json!({"type": "text", "text": note}).to_string()));
            splices.set_list(&content, &spans, slots);
            return None;
        }
        let edited = choice.content.and_then(|id| edits.ledger.whole_replacement(id));
        let text = edited.or_else(|| content.string().map(Cow::into_owned)).unwrap_or_default();
        splices.replace(content.span(), quote(&format!("{text}{note}")));
        None
    }
}

impl WholeWire for ChatWhole {
    const API: Api = API;

    fn read(
        &mut self,
        body: &Value,
        root: &Node<'_>,
        ledger: &mut Ledger,
    ) -> Result<Vec<TextPiece>, WireError> {
        self.responses = decode_choices(body)?;
        let mut pieces = Vec::new();
        find_in_answer(root, &mut ledger.findings)?;
        let choices = root.get("choices").map(|choices| choices.items()).unwrap_or_default();
        check_misplaced(root, &choices, "delta")?;
        for (place, choice) in (0..).zip(&choices) {
            find_in_choice(choice, MESSAGE, &mut ledger.findings)?;
            let index = choice.get_some("index");
            if index.is_some_and(|index| index.raw() != place.to_string()) {
                return Err(out_of_order("the indexes of the choices are not in order"));
            }
            let found = Choice::default();
            let mut reader = Reader { choice: place, next_part: 0, ledger, found, pieces: Vec::new() };
            if let Some(message) = choice.get_some("message") {
                reader.message(&message)?;
            }
            self.choices.push(reader.found);
            pieces.append(&mut reader.pieces);
        }
        Ok(pieces)
    }

    fn responses(&self) -> &[ModelResponse] {
        &self.responses
    }

    fn call_part(&self, choice: u32, call: usize) -> Option<PartKey> {
        self.choices.get(usize::try_from(choice).ok()?)?.calls.get(call).copied()
    }

    fn has_calls(&self) -> bool {
        self.choices.iter().any(|choice| !choice.calls.is_empty())
    }

    fn edit(&self, root: &Node<'_>, edits: &Edits<'_>, splices: &mut Splices) {
        let nodes = root.get("choices").map(|choices| choices.items()).unwrap_or_default();
        for ((place, choice), node) in (0..).zip(&self.choices).zip(&nodes) {
            self.edit_choice(place, choice, node, edits, splices);
        }
    }
}
