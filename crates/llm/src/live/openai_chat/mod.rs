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
//! | other fields of a delta or message (audio, annotations) | pass, and are dropped where the text beside them is edited, which they may quote |
//!
//! Every choice is edited on its own. A note about withheld calls is added to the content, after a blank line
//! if there is text. A choice that never begins, so that indexes have a gap, is an error.

mod stream;
mod whole;

pub(crate) use stream::ChatStream;
pub(crate) use whole::ChatWhole;

use crate::wire::Api;

const API: Api = Api::OpenAiChat;
/// The finish reason of an answer that waits for tools, and of one that does not.
const TOOL_CALLS: &str = "tool_calls";
const STOP: &str = "stop";
/// The fields of a message that are read here; the first two are reasoning and say the same.
const REASONING: [&str; 2] = ["reasoning_content", "reasoning"];
const VISIBLE: [&str; 2] = ["content", "refusal"];
const KNOWN: [&str; 6] = ["role", "content", "refusal", "tool_calls", "reasoning_content", "reasoning"];
