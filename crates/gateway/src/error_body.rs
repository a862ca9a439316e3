//! Error responses, error bodies and error events in the format that the client's API defines.

use backstop_llm::{Api, ProviderError};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::endpoint::{Endpoint, Family, Operation};
use crate::error::Failure;

/// Returns the error response for a failure.
pub(crate) fn response(family: Family, failure: &Failure) -> Response<Bytes> {
    let error = failure.to_provider_error();
    let mut response = Response::new(Bytes::from(body(family, &error).to_string()));
    *response.status_mut() = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.extend(failure.retry_after().map(|seconds| (header::RETRY_AFTER, HeaderValue::from(seconds))));
    match failure {
        // What is spoken instead belongs to this answer (RFC 9110, 15.5.22).
        Failure::Socket | Failure::NoSocket { .. } => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("HTTP/1.1"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        }
        _ => {}
    }
    response
}

/// Returns the event that ends a stream because of a failure.
pub(crate) fn stream_error(endpoint: Endpoint, failure: &Failure) -> Bytes {
    let api = match endpoint.operation {
        Operation::Responses | Operation::StoredResponse => Api::OpenAiResponses,
        Operation::Converse => Api::BedrockConverse,
        _ => api(endpoint.family),
    };
    api.encode_stream_error(&failure.to_provider_error()).encode()
}

/// Returns the body of an error response.
pub(crate) fn body(family: Family, error: &ProviderError) -> Value {
    api(family).encode_error(error)
}

/// Returns the API whose error format the whole family uses.
const fn api(family: Family) -> Api {
    match family {
        Family::Anthropic => Api::AnthropicMessages,
        Family::OpenAi => Api::OpenAiChat,
        Family::Gemini => Api::Gemini,
    }
}
