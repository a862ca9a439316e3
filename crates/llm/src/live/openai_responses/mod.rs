//! OpenAI Responses on their way.
//!
//! | what | treatment |
//! | --- | --- |
//! | text, refusal | visible text: leaves as it is settled; an edited delta has its one string spliced, one that says nothing any more is dropped. Its copies (`*.done`, the part, the item, the final answer, `output_text`) are edited with it |
//! | reasoning summaries and texts | thinking, edited like text. Encrypted reasoning passes: nobody here, and no client, can read it |
//! | spoken answers | refused: nobody here can judge what is said aloud |
//! | annotations | results: judged before they leave, with the text they belong to; from the first edit of that text on they are dropped, since they quote it |
//! | log probabilities | none, from the first edit of their text on. Where they say another text than their event, they wait until everything that has begun is settled |
//! | calls that the client runs (functions, custom tools, shells, patches, the computer), and what makes somebody act (requests for approval, programs, searches among tools, messages to other agents) | held until the calls are decided; a removed one takes its item with it, and its result if the provider gave one; later items move up |
//! | what a call does where it begins, and in the last event | refused if it is neither what the whole item does nor nothing yet: only that is judged |
//! | items and events of unknown types | a call named after the type, with the whole of it as arguments |
//! | parts of unknown types | refused: a message can't leave without its parts |
//! | what the provider runs | it has run already, and its results stand in it: judged before it leaves |
//! | fields that nobody knows, of an answer, an event, a message or part, a call, a sealed item (`compaction`) | a call named after the field, `"withheld": null` if it is refused |
//! | status, usage | as billed; the status does not depend on calls |
//! | sequence numbers | ascend as they did, without the events that were dropped and with those that were added |
//!
//! A note about withheld calls is a message of its own at the end.

mod called;
mod frames;
mod items;
mod stream;
mod whole;

pub(crate) use stream::ResponsesStream;
pub(crate) use whole::ResponsesWhole;

use std::borrow::Cow;

use serde_json::Value;

use super::findings::{CITATIONS, Findings, ResultKey, tool_of};
use super::span::Node;
use crate::error::{WireError, out_of_order};
use crate::wire::{
    Api, RESPONSES_ITEMS, RESPONSES_SEAL, TypeClass, responses_call, responses_item, responses_part,
};

const API: Api = Api::OpenAiResponses;
/// What a person is told of a call of the computer.
const CHECKS: &str = "pending_safety_checks";

/// Refuses a part of an item that is said aloud.
fn refuse_spoken<'a>(parts: impl IntoIterator<Item = Node<'a>>) -> Result<(), WireError> {
    let is_spoken = |part: Node<'a>| {
        part.get_some("type").and_then(|kind| kind.string()).as_deref() == Some("output_audio")
    };
    if parts.into_iter().any(is_spoken) { Err(out_of_order("the answer is spoken")) } else { Ok(()) }
}

/// Finds what an item says besides texts and calls; gives the result that it is, if it is one.
fn find_in_item(item: &Node<'_>, findings: &mut Findings) -> Result<Option<ResultKey>, WireError> {
    let field = |name: &str| item.get_some(name).and_then(|value| value.string().map(Cow::into_owned));
    let kind = field("type").unwrap_or_default();
    match RESPONSES_ITEMS.class_or_call(&kind) {
        TypeClass::Text => {
            findings.fields(item, responses_item(&kind), false);
            for field in ["content", "summary"] {
                let is_list = |node: &Node<'_>| node.raw().starts_with('[');
                item.get_some(field)
                    .filter(|node| !is_list(node))
                    .iter()
                    .for_each(|node| findings.field(field, node));
            }
            for part in content(item).iter().chain(&summary(item)) {
                find_in_part(part, findings)?;
            }
            Ok(None)
        }
        TypeClass::Ran | TypeClass::Result => {
            let call = field("call_id").or_else(|| field("id")).unwrap_or_default();
            findings.result(tool_of(API, &kind), &call, item)
        }
        TypeClass::Call => {
            // One without a form of its own is judged as a whole.
            let Some(level) = responses_call(&kind) else { return Ok(None) };
            findings.fields(item, level, false);
            if let Some(told) = item.get_some(CHECKS).filter(|_| level.class(CHECKS).is_some()) {
                findings.result(tool_of(API, &kind), &field("call_id").unwrap_or_default(), &told)?;
            }
            Ok(None)
        }
        TypeClass::Inert => {
            findings.fields(item, &RESPONSES_SEAL, false);
            Ok(None)
        }
    }
}

/// The result that a stored item is: what policies call the tool, and the call that it answers. `None` if it is none.
pub fn listed_result(item: &Value) -> Option<(&'static str, String)> {
    let field = |name: &str| item.get(name).and_then(Value::as_str);
    let kind = field("type").unwrap_or_default();
    matches!(RESPONSES_ITEMS.class(kind), Some(TypeClass::Ran | TypeClass::Result)).then(|| {
        let call = field("call_id").or_else(|| field("id")).unwrap_or_default();
        (tool_of(API, kind), call.to_owned())
    })
}

fn find_in_part(part: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    let kind = part.get_some("type").and_then(|kind| kind.string().map(Cow::into_owned)).unwrap_or_default();
    let level = responses_part(&kind);
    findings.fields(part, level, false);
    let Some(annotations) = part.get_some("annotations").filter(|_| level.class("annotations").is_some())
    else {
        return Ok(());
    };
    if !annotations.raw().starts_with('[') {
        findings.field("annotations", &annotations);
    }
    for annotation in annotations.items() {
        findings.result(CITATIONS, "", &annotation)?;
    }
    Ok(())
}

/// The parts in an item's summary.
fn summary<'a>(item: &Node<'a>) -> Vec<Node<'a>> {
    item.get_some("summary").map(|summary| summary.items()).unwrap_or_default()
}

/// The parts in an item's content.
fn content<'a>(item: &Node<'a>) -> Vec<Node<'a>> {
    item.get_some("content").map(|content| content.items()).unwrap_or_default()
}
