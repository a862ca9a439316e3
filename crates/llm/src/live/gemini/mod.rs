//! Gemini on its way.
//!
//! | part | treatment |
//! | --- | --- |
//! | text | leaves as it is settled; an edited piece has its one string spliced, and stays where it is even if it says nothing any more |
//! | thought | thinking; unsigned, so it is edited like text |
//! | signature (`thoughtSignature`) of a text or thought | dropped where that text was edited: nobody here can read what it holds |
//! | `functionCall` | held until the calls are decided, whether it comes whole or argument by argument; an event with text and calls is held as a whole. A removed call goes, and leaves its signature to the next call that stays and has none: the provider wants it at the first one |
//! | code and calls of server tools | they have run already, and are judged before they leave |
//! | media | passes in order |
//! | results of code and tools, grounding, citations, what was fetched | judged before they leave |
//! | fields of an answer, a candidate, content or a call that nobody knows | a call named after the field, `"withheld": null` if it is refused |
//! | parts with a field that nobody knows | a call named after the field, with the whole part as arguments; refused beside other content |
//! | finish reason | `STOP` in any case |
//! | log probabilities | dropped from the first edit on. Where they spell another text than their event, they wait until the answer is settled |
//! | grounding | waits until the answer is settled; `groundingSupports`, which quote it, are dropped if it was edited |
//! | finish message | judged like a result before it leaves; dropped if anything was edited: it may quote what the model said |
//! | prompt feedback, state of the model, errors | judged like results |
//! | usage | as it came |
//!
//! Every candidate is edited on its own. One without an index is the first; one that comes twice in an event, or
//! never begins so that the indexes have a gap, is an error. A stream has no last event: it is whole when its bytes
//! are over and every candidate gave a finish reason. A note about withheld calls, and text behind the end of another
//! one, is a part of its own in the event that ends what it belongs to.
//!
//! A stream comes as events or as one JSON array, and leaves as it came: elements are never dropped, so that what
//! stands between them stays. What ends it before its time is an element, behind which the array is closed.

mod stream;
mod whole;

pub(crate) use stream::GeminiStream;
pub(crate) use whole::GeminiWhole;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::WireError;
use crate::live::PartKey;
use crate::live::findings::{Findings, PROVIDER, camel, tool_of};
use crate::live::ledger::TextId;
use crate::live::span::{Node, Slot, Splices};
use crate::live::steps::step;
use crate::live::stream::Edits;
use crate::wire::{
    Api, GEMINI_ARGUMENT, GEMINI_CALL, GEMINI_CANDIDATE, GEMINI_CONTENT, GEMINI_PARTS, TypeClass,
};

const API: Api = Api::Gemini;
const SIGNATURE: [&str; 2] = ["thoughtSignature", "thought_signature"];
const LOG_PROBABILITIES: [&str; 2] = ["logprobsResult", "logprobs_result"];
const GROUNDING: [&str; 2] = ["groundingMetadata", "grounding_metadata"];
const SUPPORTS: [&str; 2] = ["groundingSupports", "grounding_supports"];
const FINISH_MESSAGE: [&str; 2] = ["finishMessage", "finish_message"];

/// What a part in the wire's list of parts is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartMark {
    /// A piece of a text.
    Text(TextId),
    /// A call, or a piece of one.
    Call(PartKey),
    Other,
}

fn key(choice: u32, part: usize) -> PartKey {
    PartKey { choice, part: u32::try_from(part).unwrap_or(u32::MAX) }
}

/// A field in either spelling.
fn either<'a>(object: &Node<'a>, names: [&str; 2]) -> Option<Node<'a>> {
    names.into_iter().find_map(|name| object.get_some(name))
}

fn candidates<'a>(root: &Node<'a>) -> Vec<Node<'a>> {
    root.get_some("candidates").map(|list| list.items()).unwrap_or_default()
}

fn parts<'a>(candidate: &Node<'a>) -> Option<Node<'a>> {
    candidate.get_some("content")?.get_some("parts")
}

/// Finds what a candidate says besides texts and calls.
fn find_in_candidate(candidate: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(candidate, &GEMINI_CANDIDATE, false);
    if let Some(said) = either(candidate, FINISH_MESSAGE) {
        findings.result(PROVIDER, "", &said)?;
    }
    for names in [
        GROUNDING,
        ["citationMetadata", "citation_metadata"],
        ["urlContextMetadata", "url_context_metadata"],
        ["groundingAttributions", "grounding_attributions"],
    ] {
        if let Some(found) = either(candidate, names) {
            let [name, _] = names;
            findings.result(tool_of(API, name), "", &found)?;
        }
    }
    if let Some(content) = candidate.get_some("content") {
        findings.fields(&content, &GEMINI_CONTENT, false);
    }
    for part in parts(candidate).iter().flat_map(Node::items) {
        for member in part.members() {
            // Readers take either spelling.
            let name = camel(&member.key).unwrap_or_else(|| member.key.clone().into_owned());
            match GEMINI_PARTS.class(&name) {
                Some(TypeClass::Result) => {
                    findings.result(tool_of(API, &name), "", &member.value)?;
                }
                Some(TypeClass::Inert) => findings.inert(&GEMINI_PARTS, &name, &member.value),
                Some(TypeClass::Call) => find_in_call(&name, &member.value, findings),
                Some(TypeClass::Ran) => {
                    let call = member.value.get_some("id").and_then(|id| id.string().map(Cow::into_owned));
                    findings.ran(tool_of(API, &name), &call.unwrap_or_default(), &member.value)?;
                }
                Some(TypeClass::Text) => {}
                // One that says something makes the part a call.
                None => findings.named(API, &member),
            }
        }
    }
    Ok(())
}

/// Finds what a call says beside its arguments.
fn find_in_call(name: &str, call: &Node<'_>, findings: &mut Findings) {
    findings.object(name, call, &GEMINI_CALL);
    let Some(pieces) = either(call, ["partialArgs", "partial_args"]) else { return };
    // A single object stands for a list of one.
    let pieces = if pieces.raw().starts_with('[') { pieces.items() } else { vec![pieces] };
    pieces.iter().for_each(|piece| findings.object("partialArgs", piece, &GEMINI_ARGUMENT));
}

/// Refuses single objects where lists are documented: what is spliced must be one form.
fn check_form(root: &Node<'_>) -> Result<(), WireError> {
    let is_list = |node: Option<Node<'_>>| node.is_none_or(|node| node.raw().starts_with('['));
    let are_lists = candidates(root).iter().all(|candidate| is_list(parts(candidate)));
    if is_list(root.get_some("candidates")) && are_lists {
        return Ok(());
    }
    Err(WireError::Malformed { what: "answer", field: "candidates".to_owned(), problem: "is not an array" })
}

/// Text that is put in as parts of its own.
#[derive(Debug, Default)]
struct Added {
    /// Each stands before the part of this place.
    texts: Vec<(usize, Value)>,
}

impl Added {
    fn text(&mut self, place: usize, text: &str) {
        self.texts.push((place, json!({"text": text})));
    }

    fn thought(&mut self, place: usize, text: &str) {
        self.texts.push((place, json!({"text": text, "thought": true})));
    }
}

/// Edits the candidate `choice`; the texts themselves are in `splices` already. `orphan` is the signature of a removed
/// call that no call has taken over yet, as it is written.
fn edit_candidate(
    node: &Node<'_>,
    choice: u32,
    marks: &[PartMark],
    added: Added,
    edits: &Edits<'_>,
    orphan: &mut Option<String>,
    splices: &mut Splices,
) {
    let is_edited = edits.ledger.choice_is_edited(choice);
    let mut new_content = None;
    match parts(node) {
        Some(list) => edit_parts(&list, marks, &added, edits, orphan, splices),
        None if added.texts.is_empty() => {}
        None => {
            let texts: Vec<&Value> = added.texts.iter().map(|(_, text)| text).collect();
            let content = json!({"parts": texts, "role": "model"});
            match node.get("content") {
                Some(old) => splices.replace(old.span(), content.to_string()),
                None => new_content = Some(format!("\"content\":{content}")),
            }
        }
    }
    if is_edited && let Some(grounding) = either(node, GROUNDING) {
        splices.remove_members(&grounding, |key| SUPPORTS.contains(&key));
    }
    let is_gone = |key: &str| {
        (is_edited && LOG_PROBABILITIES.contains(&key))
            || ((is_edited || edits.calls.lost_one(choice)) && FINISH_MESSAGE.contains(&key))
    };
    let members = node.members();
    if new_content.is_none() && !members.iter().any(|member| is_gone(&member.key)) {
        return;
    }
    let spans: Vec<_> = members.iter().map(|member| member.span.clone()).collect();
    let kept = members.iter().enumerate().filter(|(_, member)| !is_gone(&member.key));
    let mut slots: Vec<Slot> = kept.map(|(place, _)| Slot::Keep(place)).collect();
    slots.extend(new_content.map(Slot::New));
    splices.set_list(node, &spans, slots);
}

fn edit_parts(
    list: &Node<'_>,
    marks: &[PartMark],
    added: &Added,
    edits: &Edits<'_>,
    orphan: &mut Option<String>,
    splices: &mut Splices,
) {
    let items = list.items();
    let mut slots = Vec::new();
    // What stands before each part, in the order in which it was added.
    let mut before: BTreeMap<usize, Vec<&Value>> = BTreeMap::new();
    for (at, text) in &added.texts {
        before.entry((*at).min(items.len())).or_default().push(text);
    }
    let add = |slots: &mut Vec<Slot>, at: usize| {
        let here = before.get(&at).into_iter().flatten();
        slots.extend(here.map(|text| Slot::New(text.to_string())));
    };
    for (place, (item, mark)) in items.iter().zip(marks).enumerate() {
        step();
        add(&mut slots, place);
        match mark {
            PartMark::Call(part) if edits.calls.is_removed(*part) => {
                *orphan = orphan.take().or_else(|| Some(either(item, SIGNATURE)?.raw().to_owned()));
                continue;
            }
            PartMark::Call(_) => adopt(item, orphan, splices),
            PartMark::Text(id) if edits.ledger.has_edits(*id) => {
                splices.remove_members(item, |key| SIGNATURE.contains(&key));
            }
            PartMark::Text(_) | PartMark::Other => {}
        }
        slots.push(Slot::Keep(place));
    }
    add(&mut slots, items.len());
    let is_same = slots.len() == items.len() && slots.iter().all(|slot| matches!(slot, Slot::Keep(_)));
    if is_same {
        return;
    }
    if slots.is_empty() {
        // Clients take an answer for broken if a piece of it has no parts.
        slots.push(Slot::New(json!({"text": ""}).to_string()));
    }
    let spans: Vec<_> = items.iter().map(Node::span).collect();
    splices.set_list(list, &spans, slots);
}

/// Gives a call the signature of a removed one.
fn adopt(call: &Node<'_>, orphan: &mut Option<String>, splices: &mut Splices) {
    let Some(signature) = orphan.take() else { return };
    if either(call, SIGNATURE).is_some() {
        return;
    }
    let spans: Vec<_> = call.members().iter().map(|member| member.span.clone()).collect();
    let mut slots: Vec<Slot> = (0..spans.len()).map(Slot::Keep).collect();
    slots.push(Slot::New(format!("\"thoughtSignature\":{signature}")));
    splices.set_list(call, &spans, slots);
}
