//! Errors.

use serde_json::{Value, json};

use crate::error::{ProviderError, ProviderErrorKind};

/// Reads `{"type": "error", "error": {"type": ..., "message": ...}}`. A status of 0 stands for an error
/// inside a stream, which has none.
pub(crate) fn decode_error(status: u16, body: &Value) -> ProviderError {
    let error = body.get("error");
    let text = |field: &str| error.and_then(|error| error.get(field)).and_then(Value::as_str);
    let (code, message) = (text("type"), text("message").unwrap_or("no explanation"));
    let kind = kind(status, code, message);
    ProviderError::new(kind, if status == 0 { kind.status() } else { status }, code, message)
}

fn kind(status: u16, code: Option<&str>, message: &str) -> ProviderErrorKind {
    match code {
        Some("authentication_error" | "permission_error") => ProviderErrorKind::Auth,
        Some("rate_limit_error") => ProviderErrorKind::RateLimit,
        Some("billing_error") => ProviderErrorKind::Quota,
        Some("overloaded_error") => ProviderErrorKind::Overloaded,
        Some("request_too_large") => ProviderErrorKind::RequestTooLarge,
        Some("not_found_error") => ProviderErrorKind::NotFound,
        Some("invalid_request_error") if is_too_long(message) => ProviderErrorKind::ContextLength,
        Some("invalid_request_error") => ProviderErrorKind::InvalidRequest,
        Some("api_error" | "timeout_error") => ProviderErrorKind::Server,
        _ => ProviderErrorKind::of_status(status),
    }
}

/// The wire has no code for it; these are the provider's words.
fn is_too_long(message: &str) -> bool {
    message.contains("prompt is too long") || message.contains("exceed context limit")
}

pub(crate) fn encode_error(error: &ProviderError) -> Value {
    let code = match error.kind {
        ProviderErrorKind::Auth if error.status == 403 => "permission_error",
        ProviderErrorKind::Auth => "authentication_error",
        ProviderErrorKind::RateLimit => "rate_limit_error",
        ProviderErrorKind::Quota => "billing_error",
        ProviderErrorKind::Overloaded => "overloaded_error",
        ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::ContextLength
        | ProviderErrorKind::ContentFilter => "invalid_request_error",
        ProviderErrorKind::RequestTooLarge => "request_too_large",
        ProviderErrorKind::NotFound => "not_found_error",
        ProviderErrorKind::Server | ProviderErrorKind::Unexpected => "api_error",
    };
    json!({"type": "error", "error": {"type": code, "message": error.message}})
}
