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
//! | other fields of a delta or message (annotations) | pass, and are dropped where the text beside them is edited, which they may quote |
//!
//! Every choice is edited on its own. A note about withheld calls is added to the content, after a blank line
//! if there is text. A choice that never begins, so that indexes have a gap, is an error.

mod stream;
mod whole;

pub(crate) use stream::ChatStream;
pub(crate) use whole::ChatWhole;

use super::span::Node;
use crate::error::{WireError, out_of_order};
use crate::wire::Api;
use crate::wire::openai_chat::FUNCTION_CALL;

const API: Api = Api::OpenAiChat;
/// The fields of calls, which are also the finish reasons of an answer that waits for them.
const CALLS: [&str; 2] = [TOOL_CALLS, FUNCTION_CALL];
const TOOL_CALLS: &str = "tool_calls";
/// The finish reason of an answer that waits for nothing.
const STOP: &str = "stop";
/// The fields of a message that are read here; the first two are reasoning and say the same.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
const VISIBLE: [&str; 2] = ["content", "refusal"];
const KNOWN: [&str; 7] =
    ["role", "content", "refusal", TOOL_CALLS, FUNCTION_CALL, "reasoning_content", "reasoning"];

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
