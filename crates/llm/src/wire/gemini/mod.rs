//! Google Gemini: `generateContent` and `streamGenerateContent`.
//!
//! Model and kind of answer stand in the address, not in the body (see [`RequestTarget`](super::RequestTarget)).
//! Both spellings of field names are read, `functionCall` and `function_call`; a field that stands in both is
//! refused, and the documented one is written. Where the documentation has a list, a single object is read as
//! a list of one, as the provider does.
//!
//! *Ids.* The provider may leave out the id of a function call. Hooks need one, so one is made up: from the
//! answer's id in answers, by counting in conversations. The call remembers in its `meta` that the id is
//! not the provider's, and neither the call nor its result sends it back.
//!
//! *Results.* A result is an object. One text under one name (`output`, `error`, `result`, ...) is read as
//! that text; any other object is read as its JSON text and leaves as the object that the text then holds.
//! `error` says that the tool failed.
//!
//! What this wire cannot carry: system messages inside the conversation (they join the system prompt, in
//! order), thinking that came from another wire (left out of requests), how the text of a result was cut into
//! parts, malformed arguments (they go back as an empty object; a client is shown them as a string, which its
//! reader refuses), tokens written to a cache, and the difference between the end of a turn and a stop
//! sequence. A turn that ends with tool calls says only that it ended. Neighbouring texts of one kind become
//! one in a stream.
//!
//! What quotes the answer a second time is left out: token probabilities, and the texts of grounding
//! segments (their positions stay).
//!
//! These codecs refuse answers with several candidates: an answer is one here.
//! [Live traffic](crate::live) knows more of them.

mod content;
mod error;
mod names;
mod partial;
mod request;
mod response;
mod stream;
mod target;

pub(crate) use content::Calls;
pub(crate) use error::{decode_error, encode_error};
pub(crate) use request::{
    contents, decode_content, decode_frame, decode_tools, encode_request, encode_request_content,
    encode_request_part,
};
pub(crate) use response::{candidates_of, decode_candidates, decode_response, encode_response};
pub(crate) use stream::{CandidateDecoder, Head, StreamDecoder, StreamEncoder};
pub(crate) use target::{VERSION, request_path, request_target};

use crate::wire::Api;

const API: Api = Api::Gemini;
