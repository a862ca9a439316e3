//! OpenAI Chat Completions on their way.
//!
//! | what | treatment |
//! | --- | --- |
//! | content, refusal | visible text: leaves as it is settled; an edited delta has its one string spliced, a chunk that says nothing any more is dropped |
//! | reasoning (`reasoning_content`, `reasoning`) | thinking; unsigned, so it is edited like text. Both names in one chunk must say the same, and are edited alike |
//! | `tool_calls` | held until the calls are decided; a chunk with text and calls is held as a whole. Removed calls go, later ones of the choice move up |
//! | `function_call`, custom calls | refused: nobody who judges calls would see one in them |
//! | finish reason | `tool_calls` becomes `stop` if no call of the choice is left |
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

const API: Api = Api::OpenAiChat;
/// The finish reason of an answer that waits for tools, and of one that does not.
const TOOL_CALLS: &str = "tool_calls";
const STOP: &str = "stop";
/// The fields of a message that are read here; the first two are reasoning and say the same.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
const VISIBLE: [&str; 2] = ["content", "refusal"];
const KNOWN: [&str; 6] = ["role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning"];

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
