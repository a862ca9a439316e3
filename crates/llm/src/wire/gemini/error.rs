//! Errors.

use std::time::Duration;

use serde_json::{Value, json};

use crate::error::{ProviderError, ProviderErrorKind};

const RETRY_INFO: &str = "type.googleapis.com/google.rpc.RetryInfo";
const QUOTA_FAILURE: &str = "type.googleapis.com/google.rpc.QuotaFailure";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// Reads `{"error": {"code": ..., "message": ..., "status": ..., "details": [...]}}`, alone or in a list of
/// one. A status of 0 stands for an error inside a stream, which has none but the code.
pub(crate) fn decode_error(status: u16, body: &Value) -> ProviderError {
    let body = body.as_array().and_then(|items| items.first()).unwrap_or(body);
    let error = body.get("error").unwrap_or(&Value::Null);
    let text = |field: &str| error.get(field).and_then(Value::as_str);
    let code = error.get("code").and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok());
    let status = if status == 0 { code.unwrap_or(0) } else { status };
    let message = text("message").or_else(|| error.as_str()).unwrap_or("no explanation");
    let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let kind = kind(status, text("status"), message, details);
    let reason = detail(details, ERROR_INFO).and_then(|info| info.get("reason")).and_then(Value::as_str);
    let status = if status == 0 { kind.status() } else { status };
    let mut decoded = ProviderError::new(kind, status, reason.or_else(|| text("status")), message);
    decoded.retry_after = detail(details, RETRY_INFO)
        .and_then(|info| info.get("retryDelay")?.as_str()?.strip_suffix('s')?.parse::<f64>().ok())
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    decoded
}

fn detail<'a>(details: &'a [Value], kind: &str) -> Option<&'a Value> {
    details.iter().find(|detail| detail.get("@type").and_then(Value::as_str) == Some(kind))
}

fn kind(status: u16, code: Option<&str>, message: &str, details: &[Value]) -> ProviderErrorKind {
    match code {
        Some("UNAUTHENTICATED" | "PERMISSION_DENIED") => ProviderErrorKind::Auth,
        Some("INVALID_ARGUMENT") if is_about_the_key(message, details) => ProviderErrorKind::Auth,
        Some("INVALID_ARGUMENT" | "OUT_OF_RANGE") if message.contains("maximum number of tokens") => {
            ProviderErrorKind::ContextLength
        }
        Some("INVALID_ARGUMENT") if message.contains("payload size exceeds") => {
            ProviderErrorKind::RequestTooLarge
        }
        Some("INVALID_ARGUMENT" | "FAILED_PRECONDITION" | "OUT_OF_RANGE") => {
            ProviderErrorKind::InvalidRequest
        }
        Some("RESOURCE_EXHAUSTED") if is_for_today(details) => ProviderErrorKind::Quota,
        Some("RESOURCE_EXHAUSTED") => ProviderErrorKind::RateLimit,
        Some("NOT_FOUND") => ProviderErrorKind::NotFound,
        Some("UNAVAILABLE") => ProviderErrorKind::Overloaded,
        Some("INTERNAL" | "UNKNOWN" | "DATA_LOSS" | "DEADLINE_EXCEEDED") => ProviderErrorKind::Server,
        _ if status == 0 => ProviderErrorKind::Server,
        _ => ProviderErrorKind::of_status(status),
    }
}

/// A wrong key is a bad argument to this provider.
fn is_about_the_key(message: &str, details: &[Value]) -> bool {
    let reason = detail(details, ERROR_INFO).and_then(|info| info.get("reason")).and_then(Value::as_str);
    matches!(reason, Some("API_KEY_INVALID")) || message.starts_with("API key not valid")
}

/// Whether the limit is one of a whole day, which waiting a little does not help.
fn is_for_today(details: &[Value]) -> bool {
    let violations = detail(details, QUOTA_FAILURE).and_then(|failure| failure.get("violations")?.as_array());
    violations.into_iter().flatten().any(|violation| {
        violation.get("quotaId").and_then(Value::as_str).is_some_and(|quota| quota.contains("PerDay"))
    })
}

pub(crate) fn encode_error(error: &ProviderError) -> Value {
    let (code, mut details) = match error.kind {
        ProviderErrorKind::Auth if error.status == 403 => ("PERMISSION_DENIED", Vec::new()),
        ProviderErrorKind::Auth => ("UNAUTHENTICATED", Vec::new()),
        ProviderErrorKind::RateLimit => ("RESOURCE_EXHAUSTED", Vec::new()),
        ProviderErrorKind::Quota => {
            let violation = json!({"quotaId": "RequestsPerDay"});
            ("RESOURCE_EXHAUSTED", vec![json!({"@type": QUOTA_FAILURE, "violations": [violation]})])
        }
        ProviderErrorKind::Overloaded => ("UNAVAILABLE", Vec::new()),
        ProviderErrorKind::InvalidRequest
        | ProviderErrorKind::ContextLength
        | ProviderErrorKind::RequestTooLarge
        | ProviderErrorKind::ContentFilter => ("INVALID_ARGUMENT", Vec::new()),
        ProviderErrorKind::NotFound => ("NOT_FOUND", Vec::new()),
        ProviderErrorKind::Server | ProviderErrorKind::Unexpected => ("INTERNAL", Vec::new()),
    };
    if let Some(wait) = error.retry_after {
        details.push(json!({"@type": RETRY_INFO, "retryDelay": format!("{}s", wait.as_secs_f64())}));
    }
    let mut body = json!({"code": error.status, "message": error.message, "status": code});
    if let (Value::Object(body), false) = (&mut body, details.is_empty()) {
        body.insert("details".to_owned(), details.into());
    }
    json!({"error": body})
}
