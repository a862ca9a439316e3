//! OpenAI Chat Completions, as OpenAI and the many compatible servers speak it.
//!
//! What this wire cannot carry: whether a tool failed, images in tool results (they follow in a user
//! message), the order of thinking, text and tool calls within one answer (it is always that one), and
//! thinking that came from another wire (left out). A refusal is a text part marked `refusal` in its `meta`,
//! so that whoever judges text judges it too; a stream that is written says it as plain text.
//!
//! The older form of tools and their calls (`functions`, `function_call`) is read as tools, and goes back as it came; a
//! stream that is written has the form of today.
//!
//! These codecs refuse answers with several choices: an answer is one here. [Live traffic](crate::live)
//! knows more of them.

mod calls;
mod content;
mod error;
mod functions;
mod request;
mod response;
mod stream;

pub(crate) use content::{
    arguments_text, decode_image_url, decode_message, encode_content, encode_image_url, encode_part,
};
pub(crate) use error::{decode_error, encode_error};
pub(crate) use functions::{FUNCTION_CALL, FUNCTIONS, encode_function, is_function};
pub(crate) use request::{
    decode_frame, decode_tools, encode_request, encode_tool, take_system, without_role,
};
pub(crate) use response::{decode_response, encode_response};
pub(crate) use stream::{
    ChoiceDecoder, Head, PADDING, Said, StreamDecoder, StreamEncoder, choices_of, is_done,
};

use crate::wire::Api;

const API: Api = Api::OpenAiChat;
