//! Anthropic Messages on their way.
//!
//! | part | treatment |
//! | --- | --- |
//! | text | leaves as it is settled; an edited delta has its one string spliced, one that says nothing any more is dropped |
//! | citations | results: judged before they leave, with the text they belong to; those of a text that was edited are dropped, since they quote it |
//! | thinking | leaves as a whole: its signature is for all of it. If it was edited, its text is withheld (`"thinking": ""`, as the provider itself writes thinking that is not shown) and the signature stays, so that the conversation can go on. A judge who does not care settles it once and for all, and it streams |
//! | redacted thinking | passes: nobody here can read it |
//! | `tool_use` | held until the calls are decided; a removed one takes its block with it, later blocks move up |
//! | calls of server tools | they have run already, and are judged before they leave, as a whole |
//! | results of server tools | judged before they leave |
//! | fields that nobody knows, of a message, an event, a text, a call | a call named after the field, `"withheld": null` if it is refused |
//! | blocks of unknown types | a call named after the type, with the whole block as arguments |
//! | deltas and events of unknown types | a call named after the type, with what they say as arguments |
//! | stop reason | `tool_use` becomes `end_turn` if no call is left |
//! | usage | as billed |
//!
//! A note about withheld calls is a text block of its own at the end.

mod stream;
mod whole;

pub(crate) use stream::AnthropicStream;
pub(crate) use whole::AnthropicWhole;

use std::borrow::Cow;

use super::findings::{CITATIONS, Findings, tool_of};
use super::span::Node;
use crate::error::WireError;
use crate::wire::{
    ANTHROPIC_BLOCKS, ANTHROPIC_CHANGE, ANTHROPIC_MESSAGE, Api, TypeClass, anthropic_block, anthropic_delta,
    anthropic_event,
};

const API: Api = Api::AnthropicMessages;
/// The type of a block that sums up the conversation.
const COMPACTION: &str = "compaction";

fn text_in(node: &Node<'_>, name: &str) -> String {
    node.get_some(name).and_then(|value| value.string().map(Cow::into_owned)).unwrap_or_default()
}

/// Finds what a block says besides texts and calls.
fn find_in_block(block: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    let kind = text_in(block, "type");
    match ANTHROPIC_BLOCKS.class_or_call(&kind) {
        TypeClass::Text => {
            findings.fields(block, anthropic_block(&kind), false);
            if let Some(citations) = block.get_some("citations") {
                findings.result(CITATIONS, "", &citations)?;
            }
        }
        TypeClass::Result => {
            let call = text_in(block, "tool_use_id");
            findings.result(tool_of(API, &kind), &call, block)?;
        }
        TypeClass::Ran => {
            let tool = tool_of_call(&kind, &text_in(block, "name"));
            findings.ran(tool, &text_in(block, "id"), block)?;
        }
        TypeClass::Inert => {
            findings.fields(block, anthropic_block(&kind), false);
            find_summary(&kind, COMPACTION, block, findings)?;
        }
        // One of a type that nobody knows is judged as a whole.
        TypeClass::Call if kind == TOOL_USE => findings.fields(block, anthropic_block(&kind), false),
        TypeClass::Call => {}
    }
    Ok(())
}

/// Whether a block is a call that the provider ran.
fn is_ran(block: &Node<'_>) -> bool {
    ANTHROPIC_BLOCKS.class(&text_in(block, "type")) == Some(TypeClass::Ran)
}

/// What policies call the tool that the provider ran, by the type of the block and the name in it.
fn tool_of_call(kind: &str, name: &str) -> &'static str {
    tool_of(API, if kind == "server_tool_use" { name } else { kind })
}

/// A summary of the conversation is what a model made of it, and is judged like what a tool found.
fn find_summary(kind: &str, of: &str, node: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    if let Some(summary) = node.get_some("content").filter(|_| kind == of) {
        findings.result(tool_of(API, COMPACTION), "", &summary)?;
    }
    Ok(())
}

/// Finds what an event says besides texts and calls.
fn find_in_event(kind: &str, root: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(root, anthropic_event(kind), false);
    let inside = |name: &str| root.get_some(name);
    match kind {
        "message_start" => {
            inside("message").iter().for_each(|message| findings.fields(message, &ANTHROPIC_MESSAGE, false));
        }
        "message_delta" => {
            inside("delta").iter().for_each(|delta| findings.fields(delta, &ANTHROPIC_CHANGE, false));
        }
        "content_block_start" => {
            // What a provider ran is judged once it is whole.
            if let Some(block) = inside("content_block").filter(|block| !is_ran(block)) {
                find_in_block(&block, findings)?;
            }
        }
        "content_block_delta" => {
            if let Some(delta) = inside("delta") {
                let kind = text_in(&delta, "type");
                findings.fields(&delta, anthropic_delta(&kind), false);
                if let Some(citation) = delta.get_some("citation") {
                    findings.result(CITATIONS, "", &citation)?;
                }
                find_summary(&kind, "compaction_delta", &delta, findings)?;
            }
        }
        _ => {}
    }
    Ok(())
}
/// The stop reason of an answer that waits for tools, and of one that does not.
const TOOL_USE: &str = "tool_use";
const END_TURN: &str = "end_turn";
