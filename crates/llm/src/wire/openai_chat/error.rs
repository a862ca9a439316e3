//! Errors.

use serde_json::{Value, json};

use crate::error::{ProviderError, ProviderErrorKind};

/// Reads `{"error": {"message": ..., "type": ..., "code": ...}}`, or the shorter forms of compatible
/// servers. A status of 0 stands for an error inside a stream, which has none.
pub(crate) fn decode_error(status: u16, body: &Value) -> ProviderError {
    let error = body.get("error").unwrap_or(body);
    let text = |field: &str| error.get(field).and_then(Value::as_str);
    let (code, class) = (text("code"), text("type"));
    let message =
        text("message").or_else(|| error.as_str()).or_else(|| text("detail")).unwrap_or("no explanation");
    // Inside streams, some servers send the status as the code.
    let status = match error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()) {
        Some(code) if status == 0 => code,
        _ => status,
    };
    let kind = kind(status, code, class, message);
    ProviderError::new(kind, if status == 0 { kind.status() } else { status }, code.or(class), message)
}

fn kind(status: u16, code: Option<&str>, class: Option<&str>, message: &str) -> ProviderErrorKind {
    match (code, class) {
        (Some("context_length_exceeded"), _) => ProviderErrorKind::ContextLength,
        (Some("insufficient_quota"), _) | (_, Some("insufficient_quota")) => ProviderErrorKind::Quota,
        (Some("content_filter" | "content_policy_violation"), _) => ProviderErrorKind::ContentFilter,
        (Some("rate_limit_exceeded"), _) => ProviderErrorKind::RateLimit,
        (Some("invalid_api_key"), _) | (_, Some("authentication_error")) => ProviderErrorKind::Auth,
        (Some("model_not_found"), _) => ProviderErrorKind::NotFound,
        _ if status == 400 && message.contains("maximum context length") => ProviderErrorKind::ContextLength,
        (_, Some("overloaded_error")) => ProviderErrorKind::Overloaded,
        (_, Some("invalid_request_error")) if matches!(status, 0 | 400) => ProviderErrorKind::InvalidRequest,
        _ if status == 0 => ProviderErrorKind::Server,
        _ => ProviderErrorKind::of_status(status),
    }
}

/// The codes of errors that are Backstop's own.
const OWN_CODES: [&str; 3] = ["blocked_by_policy", "operation_not_allowed", "judgement_unavailable"];

pub(crate) fn encode_error(error: &ProviderError) -> Value {
    let (class, code) = match error.kind {
        ProviderErrorKind::Auth => ("invalid_request_error", Some("invalid_api_key")),
        ProviderErrorKind::RateLimit => ("requests", Some("rate_limit_exceeded")),
        ProviderErrorKind::Quota => ("insufficient_quota", Some("insufficient_quota")),
        ProviderErrorKind::Overloaded => ("overloaded_error", None),
        ProviderErrorKind::InvalidRequest | ProviderErrorKind::RequestTooLarge => {
            ("invalid_request_error", None)
        }
        ProviderErrorKind::ContextLength => ("invalid_request_error", Some("context_length_exceeded")),
        ProviderErrorKind::NotFound => ("invalid_request_error", Some("model_not_found")),
        ProviderErrorKind::ContentFilter => ("invalid_request_error", Some("content_filter")),
        ProviderErrorKind::Server | ProviderErrorKind::Unexpected => ("server_error", None),
    };
    let code = error.code.as_deref().filter(|code| OWN_CODES.contains(code)).or(code);
    json!({"error": {"message": error.message, "type": class, "param": null, "code": code}})
}
