//! What the heads of requests and answers say besides where they belong.

use backstop_hooks::{Digest, Trace};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{charset, number};
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

/// The client's trace, with a span of our own; a new one if it has none.
pub(super) fn trace(parent: Option<&HeaderValue>) -> Trace {
    let fresh = format!("{:032x}", number::number());
    let span = fresh.get(..16).unwrap_or_default().to_owned();
    let parent = parent.and_then(|value| value.to_str().ok()).and_then(|value| {
        let mut fields = value.split('-').skip(1);
        let (trace, span) = (fields.next()?, fields.next()?);
        let hex = |text: &str, len| text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (hex(trace, 32) && hex(span, 16)).then(|| (trace.to_owned(), span.to_owned()))
    });
    match parent {
        Some((trace_id, parent)) => Trace { trace_id, span_id: span, parent_span_id: Some(parent) },
        None => Trace { trace_id: fresh, span_id: span, parent_span_id: None },
    }
}
