//! What the heads of requests and answers say besides where they belong.

use backstop_hooks::{Digest, TraceParent};
use http::{HeaderMap, StatusCode, header};

use super::charset;
use crate::exchange::Answered;

/// Why an answer leads past whoever judges it. Errors, and successes in UTF-8, do not.
pub(super) fn unjudgeable(answered: &Answered<'_>) -> Option<&'static str> {
    let status = answered.status;
    if status.is_redirection() && answered.headers.contains_key(header::LOCATION) {
        return Some(
            "it sends the client elsewhere, where no hook stands; if that is right, make it the `base_url` of the provider",
        );
    }
    match status {
        StatusCode::NOT_MODIFIED => None,
        _ if status.is_client_error() || status.is_server_error() => None,
        _ if !status.is_success() => Some("its status means neither success nor failure"),
        _ if !charset::is_utf8(answered.headers) => Some("its charset is not UTF-8"),
        _ => None,
    }
}

pub(super) fn is_event_stream(headers: &HeaderMap) -> bool {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    content_type.is_some_and(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// Whether an answer says that it is a recording, or bytes of which nothing is said.
pub(super) fn is_sound(headers: &HeaderMap) -> bool {
    let content_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind.starts_with("audio/") || kind == "application/octet-stream"
}

pub(super) fn upstream_id(headers: &HeaderMap) -> Option<Digest> {
    let id = headers.get("request-id").or_else(|| headers.get("x-request-id"))?;
    Some(Digest::of_text("upstream_request_id", id.to_str().ok()?))
}

/// The span of the client, if the head names one and only one.
pub(crate) fn trace_parent(headers: &HeaderMap) -> Option<(&str, TraceParent)> {
    let mut values = headers.get_all(TraceParent::HEADER).iter();
    let text = values.next()?.to_str().ok()?;
    values.next().is_none().then(|| TraceParent::parse(text)).flatten().map(|parent| (text, parent))
}
