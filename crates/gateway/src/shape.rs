//! Failures in the shape that a client of the wire expects.

use backstop_llm::sse::SseEvent;
use backstop_llm::{Api, ProviderError, ProviderErrorKind};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use crate::endpoint::{Endpoint, Family, Operation};
use crate::error::Failure;

/// The answer that tells of a failure.
pub(crate) fn response(family: Family, failure: &Failure) -> Response<Bytes> {
    let error = failure.to_provider_error();
    let mut response = Response::new(Bytes::from(body(family, &error).to_string()));
    *response.status_mut() = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if matches!(failure, Failure::Overloaded) {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// The event that ends a stream because of a failure.
pub(crate) fn stream_error(endpoint: Endpoint, failure: &Failure) -> Bytes {
    let error = failure.to_provider_error();
    match (endpoint.family, endpoint.operation) {
        (Family::Anthropic, _) => Api::AnthropicMessages.encode_stream_error(&error).encode(),
        (Family::OpenAi, Operation::Responses | Operation::StoredResponse) => {
            Api::OpenAiResponses.encode_stream_error(&error).encode()
        }
        (Family::OpenAi, _) => Api::OpenAiChat.encode_stream_error(&error).encode(),
        (Family::Gemini, _) => SseEvent::new(None, gemini(&error).to_string()).encode(),
    }
}

/// The body of an error answer.
pub(crate) fn body(family: Family, error: &ProviderError) -> Value {
    match family {
        Family::Anthropic => Api::AnthropicMessages.encode_error(error),
        Family::OpenAi => Api::OpenAiChat.encode_error(error),
        Family::Gemini => gemini(error),
    }
}

fn gemini(error: &ProviderError) -> Value {
    let status = match (error.kind, error.status) {
        (ProviderErrorKind::Auth, 403) => "PERMISSION_DENIED",
        (ProviderErrorKind::Auth, _) => "UNAUTHENTICATED",
        (ProviderErrorKind::RateLimit | ProviderErrorKind::Quota, _) => "RESOURCE_EXHAUSTED",
        (ProviderErrorKind::Overloaded, _) => "UNAVAILABLE",
        (ProviderErrorKind::NotFound, _) => "NOT_FOUND",
        (ProviderErrorKind::Server, 504) => "DEADLINE_EXCEEDED",
        (ProviderErrorKind::Server | ProviderErrorKind::Unexpected, _) => "INTERNAL",
        (
            ProviderErrorKind::InvalidRequest
            | ProviderErrorKind::ContextLength
            | ProviderErrorKind::RequestTooLarge
            | ProviderErrorKind::ContentFilter,
            _,
        ) => "INVALID_ARGUMENT",
    };
    json!({"error": {"code": error.status, "message": error.message, "status": status}})
}
