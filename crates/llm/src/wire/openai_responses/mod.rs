//! OpenAI Responses.
//!
//! An answer is a list of items; a message of the assistant here is all items that stand next to each other.
//! An item's own fields (id, status, phase, encrypted reasoning) are in the `meta` of its first part under
//! `item`; a part that shares the item of the part before it is marked `continues`.
//!
//! Calls that the client runs are tool calls, whatever their item: `function_call`; `custom_tool_call`, whose
//! free text is the argument `input`; `shell_call`, `local_shell_call`, `apply_patch_call` and
//! `computer_call`, whose action is the arguments of a tool of that name. The item's type is in `meta`, so that
//! they leave as they came. What the provider runs itself (searches, code, images, MCP) and items that nobody
//! here knows are unknown parts, in their place.
//!
//! What this wire cannot carry: whether a tool failed, thinking that came from another wire (left out of
//! requests), the blocks of a system prompt (one text), the stop reason (an answer with calls that nobody has
//! answered waits for tools). Token probabilities spell the text a second time and are not read. A refusal is a
//! text part marked `refusal` in its `meta`; a stream that is written says it as plain text, gives each text an
//! item of its own and says all reasoning as summaries. Items without an id are written with one that is made
//! of the answer's id and their place, and such an id is read as none.
//!
//! The wire says everything several times: as deltas, in `*.done` events, in the item and in the final answer.
//! A stream whose copies disagree is refused. Two things may differ: ciphertext, which is made anew for each
//! copy, and a final answer without any output, which some servers send: whoever reads only that reads nothing.

mod call;
mod content;
mod error;
mod item;
mod request;
mod response;
mod stream;

pub(crate) use call::CallKind;
pub(crate) use content::{INPUT_TEXT, encode_part};
pub(crate) use error::{decode_error, encode_error, encode_stream_error};
pub use item::listed_calls;
pub(crate) use item::{Writer, encode_items, made_id};
pub(crate) use request::{
    append, decode_element, decode_frame, decode_input_item, decode_tools, encode_input, encode_request,
    encode_tool,
};
pub(crate) use response::{decode_response, encode_frame, encode_response};
pub(crate) use stream::{Change, Piece, Place, StreamDecoder, StreamEncoder};

use crate::wire::Api;

const API: Api = Api::OpenAiResponses;
