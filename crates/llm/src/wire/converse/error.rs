//! Errors.

use serde_json::{Value, json};

use crate::error::{ProviderError, ProviderErrorKind};
use crate::sse::SseEvent;

/// How the names of all exceptions end.
const EXCEPTION: &str = "Exception";

/// Reads `{"message": ...}`. What kind of error it is stands in a header, which says no more than the status.
pub(crate) fn decode_error(status: u16, body: &Value) -> ProviderError {
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    // Some answers of the service's front have the other letter.
    let message = text("message").or_else(|| text("Message")).unwrap_or("no explanation");
    ProviderError::new(kind(status, message), status, text("__type"), message)
}

fn kind(status: u16, message: &str) -> ProviderErrorKind {
    match status {
        400 if is_too_long(message) => ProviderErrorKind::ContextLength,
        // The model took too long, or failed in its own way.
        408 | 424 => ProviderErrorKind::Server,
        503 => ProviderErrorKind::Overloaded,
        _ => ProviderErrorKind::of_status(status),
    }
}

/// The wire has no code for it; these are the words of the service and of its models.
fn is_too_long(message: &str) -> bool {
    ["Input is too long", "prompt is too long", "exceed context limit", "maximum context length"]
        .iter()
        .any(|words| message.contains(words))
}

/// Reads an exception that ends a stream.
pub(super) fn decode_exception(name: &str, body: &Value) -> ProviderError {
    let status = match name {
        "throttlingException" => 429,
        "validationException" => 400,
        "serviceUnavailableException" => 503,
        "modelStreamErrorException" => 424,
        "modelTimeoutException" => 408,
        _ => 500,
    };
    decode_error(status, body)
}

/// Whether an event of this name is an exception.
pub(super) fn is_exception(name: &str) -> bool {
    name.ends_with(EXCEPTION)
}

pub(crate) fn encode_error(error: &ProviderError) -> Value {
    json!({ "message": error.message })
}

/// The exception that ends a stream.
pub(crate) fn encode_stream_error(error: &ProviderError) -> SseEvent {
    let name = match error.kind {
        ProviderErrorKind::RateLimit | ProviderErrorKind::Quota => "throttlingException",
        ProviderErrorKind::Overloaded => "serviceUnavailableException",
        ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::ContextLength
        | ProviderErrorKind::ContentFilter
        | ProviderErrorKind::RequestTooLarge
        | ProviderErrorKind::NotFound
        | ProviderErrorKind::Auth => "validationException",
        ProviderErrorKind::Server | ProviderErrorKind::Unexpected => "internalServerException",
    };
    SseEvent::new(Some(name), encode_error(error).to_string())
}
