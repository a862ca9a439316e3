//! Errors: the shape of Chat Completions, and the codes of answers that failed.

use serde_json::Value;

use crate::error::{ProviderError, ProviderErrorKind};
use crate::sse::SseEvent;
use crate::wire::openai_chat;

pub(crate) use openai_chat::encode_error;

/// Reads the body of an error answer, the `error` of a failed one, or an `error` event. A status of 0 stands
/// for the last two, which have none.
pub(crate) fn decode_error(status: u16, body: &Value) -> ProviderError {
    let mut error = openai_chat::decode_error(status, body);
    if status == 0
        && error.kind == ProviderErrorKind::Server
        && let Some(kind) = error.code.as_deref().and_then(kind_of_code)
    {
        (error.kind, error.status) = (kind, kind.status());
    }
    error
}

/// The codes that only answers which failed have.
fn kind_of_code(code: &str) -> Option<ProviderErrorKind> {
    match code {
        "invalid_prompt" => Some(ProviderErrorKind::InvalidRequest),
        _ if code.contains("policy") => Some(ProviderErrorKind::ContentFilter),
        _ if code.contains("image") => Some(ProviderErrorKind::InvalidRequest),
        _ => None,
    }
}

/// The `error` event, which has the number `sequence` in the stream. Older readers look for the fields
/// themselves, newer ones for `error`.
pub(crate) fn encode_stream_error(error: &ProviderError, sequence: u64) -> SseEvent {
    let mut event = encode_error(error);
    if let Value::Object(fields) = &mut event {
        let code = fields.get("error").and_then(|error| error.get("code")).cloned().unwrap_or_default();
        fields.insert("type".to_owned(), "error".into());
        fields.insert("code".to_owned(), code);
        fields.insert("message".to_owned(), error.message.as_str().into());
        fields.insert("param".to_owned(), Value::Null);
        fields.insert("sequence_number".to_owned(), sequence.into());
    }
    SseEvent::new(Some("error"), event.to_string())
}
