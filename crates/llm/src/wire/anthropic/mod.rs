//! Anthropic Messages.
//!
//! What this wire cannot carry: system messages inside the conversation (they join the system prompt, in
//! order), thinking without a signature of this provider (left out of requests), empty texts (refused by
//! the provider, left out). Results of parallel tool calls must come back in one message, so consecutive
//! tool messages are joined. Malformed arguments go back as an empty object: the provider takes nothing else,
//! and the tool's result says what was wrong.

mod content;
mod error;
mod request;
mod response;
mod stream;

pub(crate) use content::{encode_content, encode_request_part};
pub(crate) use error::{decode_error, encode_error};
pub(crate) use request::{
    decode_frame, decode_message, decode_system, decode_tools, encode_request, encode_tool,
};
pub(crate) use response::{decode_response, encode_response};
pub(crate) use stream::{StreamDecoder, StreamEncoder};

use crate::wire::Api;

const API: Api = Api::AnthropicMessages;
