//! Converse of Amazon Bedrock: one wire for the models of many makers.
//!
//! The facts are those of the service model of `bedrock-runtime` in Amazon's SDKs. Blocks, deltas and tools are unions: an object
//! with exactly one key, which says what it is. One with several is refused, since readers differ in what they make of it.
//!
//! The model, and whether the answer streams, stand in the address (`/model/<id>/converse`, `/converse-stream`). Where that is
//! gone, as behind the door of a proxy, the body has them as `modelId` and `stream`; no request leaves with them. Streams are
//! [frames](crate::frames); here an event of one is a server-sent event that is named after its type, and an exception one that
//! is named after that.
//!
//! What this wire cannot carry: an id of the answer and the name of its model, system messages inside the conversation (they join
//! the system prompt), images by an address that is not in S3, empty texts (refused by the provider, left out). Malformed
//! arguments go back as an empty object, as on Anthropic's wire. A block of citations with several texts has them as one.

mod content;
mod error;
mod event;
mod request;
mod response;
mod stream;
mod target;

pub(crate) use content::{encode_content, encode_request_part};
pub(crate) use error::{decode_error, encode_error, encode_stream_error};
pub use event::{event_of, frame_of};
pub(crate) use request::{
    decode_frame, decode_message, encode_request, encode_tool, encode_tool_choice, encode_tools,
};
pub(crate) use response::{decode_response, encode_response};
pub(crate) use stream::{StreamDecoder, StreamEncoder};
pub(crate) use target::{request_path, request_target};

use serde_json::{Map, Value};

use crate::error::WireError;
use crate::wire::Api;
use crate::wire::json::{Object, malformed};

const API: Api = Api::BedrockConverse;

/// What a union is: its only entry; `None` if it has none. Nulls are none.
///
/// # Errors
/// If it is no object, or several things at once.
pub(crate) fn member<'a>(
    what: &'static str,
    value: &'a Value,
) -> Result<Option<(&'a str, &'a Value)>, WireError> {
    let fields = value.as_object().ok_or_else(|| malformed(what, what, "is not an object"))?;
    let mut entries = fields.iter().filter(|(_, value)| !value.is_null());
    match (entries.next(), entries.next()) {
        (None, _) => Ok(None),
        (Some((key, value)), None) => Ok(Some((key, value))),
        (Some((key, _)), Some(_)) => Err(malformed(what, key, "is not the only thing in it")),
    }
}

/// The same of a union that has to be something.
fn only<'a>(what: &'static str, value: &'a Value) -> Result<(&'a str, &'a Value), WireError> {
    member(what, value)?.ok_or_else(|| malformed(what, what, "is nothing"))
}

/// An object with one entry.
fn union(key: &str, value: impl Into<Value>) -> Value {
    Map::from_iter([(key.to_owned(), value.into())]).into()
}

fn object<'a>(what: &'static str, value: &'a Value) -> Result<Object<'a>, WireError> {
    Object::of(what, value)
}
