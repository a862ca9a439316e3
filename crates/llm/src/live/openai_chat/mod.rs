//! OpenAI Chat Completions on their way.
//!
//! | what | treatment |
//! | --- | --- |
//! | content, refusal | visible text: leaves as it is settled; an edited delta has its one string spliced, a chunk that says nothing any more is dropped |
//! | reasoning (`reasoning_content`, `reasoning`) | thinking; unsigned, so it is edited like text. Both names in one chunk must say the same, and are edited alike |
//! | `tool_calls` | held until the calls are decided; a chunk with text and calls is held as a whole. Removed calls go, later ones of the choice move up |
//! | `function_call` | a call like others, with an id that is made up; refused beside `tool_calls` |
//! | custom calls | a call like others, whose free text is the argument `input` |
//! | calls of other types | a call named after its type, with the whole entry as arguments |
//! | finish reason | `tool_calls` and `function_call` become `stop` if no call of the choice is left |
//! | log probabilities | null from the first edit of their choice on. Where they say another text than their chunk, they wait until the choice is settled |
//! | usage | as billed |
//! | `audio` | refused: nobody here can judge what is said aloud |
//! | `reasoning_details` | repeat the reasoning beside them; texts that do not stand in it are an error |
//! | annotations, `citations`, `search_results` | results: judged before they leave. Annotations are dropped where the text beside them is edited, which they may quote |
//! | other fields of an answer, a choice, a delta or message, a call | a call named after the field, `"withheld": null` if it is refused |
//! | a message in a stream, a delta in a whole answer, calls outside of both | refused if they say something |
//!
//! Every choice is edited on its own. A note about withheld calls is added to the content, after a blank line
//! if there is text. A choice that never begins, so that indexes have a gap, is an error.

mod stream;
mod whole;

pub(crate) use stream::ChatStream;
pub(crate) use whole::ChatWhole;

use std::borrow::Cow;

use super::findings::{CITATIONS, Findings, tool_of};
use super::span::Node;
use crate::error::{WireError, out_of_order};
use crate::wire::openai_chat::FUNCTION_CALL;
use crate::wire::{
    Api, CHAT_ANSWER, CHAT_CALL, CHAT_CHOICE, CHAT_CUSTOM, CHAT_DETAIL, CHAT_FUNCTION, CHAT_MESSAGE,
    CHAT_REFUSAL, CHAT_SILENT, CHAT_TEXT,
};

const API: Api = Api::OpenAiChat;
/// The fields of calls, which are also the finish reasons of an answer that waits for them.
const CALLS: [&str; 2] = [TOOL_CALLS, FUNCTION_CALL];
const TOOL_CALLS: &str = "tool_calls";
/// What says something in a chunk, and in a whole answer.
const DELTA: &str = "delta";
const MESSAGE: &str = "message";
/// The finish reason of an answer that waits for nothing.
const STOP: &str = "stop";
/// The fields of a message that are read here; the first two are reasoning and say the same.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
const VISIBLE: [&str; 2] = ["content", "refusal"];
const KNOWN: [&str; 7] =
    ["role", "content", "refusal", TOOL_CALLS, FUNCTION_CALL, "reasoning_content", "reasoning"];

/// Refuses calls and texts that stand where none belong: whoever reads them there was told something that nobody judged.
/// `message` is where a choice says nothing.
fn check_misplaced(root: &Node<'_>, choices: &[Node<'_>], message: &str) -> Result<(), WireError> {
    let speaks = |node: &Node<'_>| !matches!(node.raw(), "\"\"" | "[]" | "{}");
    let has = |node: &Node<'_>, field: &str| node.get_some(field).is_some_and(|node| speaks(&node));
    let has_calls = |node: &Node<'_>| CALLS.iter().any(|field| has(node, field));
    let says = |other: Node<'_>| KNOWN.iter().any(|field| *field != "role" && has(&other, field));
    let is_misplaced = |choice: &Node<'_>| has_calls(choice) || choice.get_some(message).is_some_and(says);
    if !choices.is_empty() && (has_calls(root) || choices.iter().any(is_misplaced)) {
        return Err(out_of_order("the answer speaks where it has no place to"));
    }
    Ok(())
}

/// Finds what the answer says besides its choices.
fn find_in_answer(root: &Node<'_>, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(root, &CHAT_ANSWER, true);
    for field in ["citations", "search_results"] {
        if let Some(found) = root.get_some(field) {
            findings.result(tool_of(API, field), "", &found)?;
        }
    }
    Ok(())
}

/// Finds what a choice says besides texts and calls, and what its `said` does: the message of a whole answer, or the delta of a
/// chunk. The other one of the two says nothing.
fn find_in_choice(choice: &Node<'_>, said: &str, findings: &mut Findings) -> Result<(), WireError> {
    findings.fields(choice, &CHAT_CHOICE, true);
    let other = if said == DELTA { MESSAGE } else { DELTA };
    if let Some(silent) = choice.get_some(other) {
        findings.object(other, &silent, &CHAT_SILENT);
    }
    let Some(message) = choice.get_some(said) else { return Ok(()) };
    findings.fields(&message, &CHAT_MESSAGE, false);
    find_in_calls(&message, findings);
    if let Some(annotations) = message.get_some("annotations") {
        findings.result(CITATIONS, "", &annotations)?;
    }
    for part in message.get_some("content").iter().flat_map(Node::items) {
        let level = if part.get_some("text").is_some() { &CHAT_TEXT } else { &CHAT_REFUSAL };
        findings.object("content", &part, level);
    }
    if let Some(details) = message.get_some("reasoning_details") {
        match details.raw().starts_with('[') {
            true => details
                .items()
                .iter()
                .for_each(|detail| findings.object("reasoning_details", detail, &CHAT_DETAIL)),
            false => findings.field("reasoning_details", &details),
        }
    }
    Ok(())
}

/// Finds what the calls of a message or delta say beside their arguments.
fn find_in_calls(message: &Node<'_>, findings: &mut Findings) {
    for call in message.get_some(TOOL_CALLS).iter().flat_map(Node::items) {
        let (function, custom) = (call.get_some("function"), call.get_some("custom"));
        let kind = call.get_some("type").and_then(|kind| kind.string().map(Cow::into_owned));
        let is_known = kind.is_none_or(|kind| matches!(kind.as_str(), "" | "function" | "custom"));
        // One of another type that holds neither is judged as a whole.
        if !is_known && function.is_none() && custom.is_none() {
            continue;
        }
        findings.fields(&call, &CHAT_CALL, false);
        for (name, called, level) in
            [("function", function, &CHAT_FUNCTION), ("custom", custom, &CHAT_CUSTOM)]
        {
            called.iter().for_each(|called| findings.object(name, called, level));
        }
    }
    if let Some(function) = message.get_some(FUNCTION_CALL) {
        findings.object(FUNCTION_CALL, &function, &CHAT_FUNCTION);
    }
}

/// Refuses what a message or delta says in fields that nobody judges.
fn check_others(message: &Node<'_>) -> Result<(), WireError> {
    if message.get_some("audio").is_some() {
        return Err(out_of_order("the answer is spoken"));
    }
    let Some(details) = message.get_some("reasoning_details") else { return Ok(()) };
    let reasoning = REASONING.into_iter().find_map(|field| message.get_some(field)?.string());
    let reasoning = reasoning.unwrap_or_default();
    let details = details.items();
    let mut texts = details.iter().flat_map(|detail| ["text", "summary"].map(|field| detail.get_some(field)));
    let is_copy = |text: Node<'_>| text.string().is_some_and(|text| reasoning.contains(&*text));
    if texts.all(|text| text.is_none_or(is_copy)) {
        return Ok(());
    }
    Err(out_of_order("the copies of a text disagree"))
}

/// Whether a finish reason says that the answer waits for calls.
fn waits_for_calls(reason: &Node<'_>) -> bool {
    reason.string().is_some_and(|reason| CALLS.contains(&&*reason))
}
