//! Bedrock's Converse on its way.
//!
//! | part | treatment |
//! | --- | --- |
//! | text, also that of citations and of what a guardrail marked | leaves as it is settled; an edited delta has its one string spliced, one that says nothing any more is dropped |
//! | citations | results: judged before they leave; those of a text that was edited are dropped, since they quote it |
//! | reasoning | leaves as a whole: its signature is for all of it. If it was edited, its text is withheld (`"text": ""`) and the signature stays. A judge who does not care settles it once and for all, and it streams |
//! | sealed reasoning | passes: nobody here can read it |
//! | `toolUse` | held until the calls are decided; a removed one takes its block with it, and the results in the answer that name it; later blocks move up. One of which its `type` says that the provider ran it is judged alike: who does not know that field runs it |
//! | results of tools, found documents | judged before they leave |
//! | pictures | pass; what is said of one that failed is a result |
//! | what a model says in fields of its own (`additionalModelResponseFields`) | a call that is named so, and a result |
//! | findings of a guardrail (`trace`) | a result |
//! | sounds, videos | calls that are named so: nobody here can judge what is said aloud |
//! | fields that nobody knows, of an answer, an event, a text, a call | a call named after the field, `"withheld": null` if it is refused |
//! | blocks, deltas and events of unknown types | a call named after the type, with what they say as arguments |
//! | stop reason | `tool_use` becomes `end_turn` if no call is left |
//! | usage | as billed |
//!
//! A note about withheld calls is a text block of its own at the end. A union with two things in it ends the answer.

mod stream;
mod whole;

pub(crate) use stream::ConverseStream;
pub(crate) use whole::ConverseWhole;

use std::borrow::Cow;

use super::findings::{CITATIONS, Findings, tool_of};
use super::span::{Node, Splices, quote};
use crate::error::WireError;
use crate::wire::{
    Api, CONVERSE_CITED, CONVERSE_PICTURE, CONVERSE_WORDS, Level, TypeClass, TypeTable, converse_call,
    converse_text,
};

const API: Api = Api::BedrockConverse;

/// The stop reason of an answer that waits for tools, and of one that does not.
const TOOL_USE: &str = "tool_use";
const END_TURN: &str = "end_turn";

/// What a model says in fields of its own.
const OWN_FIELDS: &str = "additionalModelResponseFields";

/// The only thing that a union is, with its name.
fn member<'a>(union: &Node<'a>) -> Option<(String, Node<'a>)> {
    let mut members = union.members().into_iter().filter(|member| !member.value.is_null());
    members.next().map(|member| (member.key.into_owned(), member.value))
}

fn text_of(node: &Node<'_>, field: &str) -> String {
    node.get_some(field).and_then(|value| value.string().map(Cow::into_owned)).unwrap_or_default()
}

/// Finds what an answer or an event, whose fields are those of `level`, says besides blocks and deltas.
fn find_in_answer(root: &Node<'_>, level: &Level, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(root, level, false);
    if let Some(trace) = root.get_some("trace").filter(|_| level.class("trace").is_some()) {
        findings.result(tool_of(API, "trace"), "", &trace)?;
    }
    if let Some(own) = root.get_some(OWN_FIELDS).filter(|_| level.class(OWN_FIELDS).is_some()) {
        findings.result(tool_of(API, OWN_FIELDS), "", &own)?;
        findings.field(OWN_FIELDS, &own);
    }
    Ok(())
}

/// Finds what a block, a start or a delta says besides texts and calls. `table` has the types.
fn find_in_union(union: &Node<'_>, table: &TypeTable, findings: &mut Findings) -> Result<(), WireError> {
    find_names(union, findings);
    let Some((kind, inside)) = member(union) else { return Ok(()) };
    match (table.class(&kind), kind.as_str()) {
        (Some(TypeClass::Text), kind) => find_in_text(&inside, converse_text(kind), findings)?,
        (Some(TypeClass::Result), "citation") => {
            findings.result(CITATIONS, "", &inside)?;
        }
        (Some(TypeClass::Result), _) => {
            let named = text_of(&inside, "type");
            let tool = if named.is_empty() { kind.as_str() } else { named.as_str() };
            findings.result(tool_of(API, tool), &text_of(&inside, "toolUseId"), &inside)?;
        }
        (Some(TypeClass::Call), "toolUse") => findings.object("toolUse", &inside, converse_call(table)),
        (Some(TypeClass::Inert), "image") => {
            findings.fields(&inside, &CONVERSE_PICTURE, true);
            if let Some(error) = inside.get_some("error") {
                findings.result(tool_of(API, "image"), "", &error)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// Finds the names of what a union is not.
fn find_names(union: &Node<'_>, findings: &mut Findings) {
    union.members().iter().for_each(|member| findings.named(API, member));
}

/// Finds what stands beside a text. Those inside of a block of citations, of what is guarded or of reasoning are one deeper.
fn find_in_text(inside: &Node<'_>, level: &Level, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(inside, level, false);
    if let Some(citations) = inside.get_some("citations") {
        findings.result(CITATIONS, "", &citations)?;
    }
    for text in inside.get_some("content").iter().flat_map(Node::items) {
        findings.fields(&text, &CONVERSE_CITED, false);
    }
    for deeper in ["reasoningText", "text"] {
        inside.get_some(deeper).iter().for_each(|text| findings.fields(text, &CONVERSE_WORDS, false));
    }
    Ok(())
}

/// Writes `end_turn` in place of the stop reason `tool_use`.
fn end_turn(holder: &Node<'_>, splices: &mut Splices) {
    if let Some(reason) = holder.get("stopReason")
        && reason.string().as_deref() == Some(TOOL_USE)
    {
        splices.replace(reason.span(), quote(END_TURN));
    }
}
