//! What a client is told in place of an answer.

use std::time::Duration;

use backstop_engine::Blocked;
use backstop_hooks::conversation::Part;
use backstop_llm::json_array::ArrayEncoder;
use backstop_llm::{Api, ModelRequest, ModelResponse, ProviderError, ProviderErrorKind, StopReason};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::form::AnswerForm;
use super::number;
use crate::endpoint::Family;
use crate::error_body;
use crate::exchange::Reply;

/// After how long a client may try again where nobody could judge.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the text of a blocked answer says.
pub(super) fn note(blocked: &Blocked) -> String {
    format!("[backstop] blocked: {}", blocked.reason_or_default())
}

/// A block as an error of the provider. Not one that a client would try again, unless nobody could judge.
pub(super) fn error_of(blocked: &Blocked) -> ProviderError {
    if blocked.is_unavailable() {
        // What failed names files and hosts, which are nobody's business here.
        let told = "backstop: what judges this can't be reached, so nothing passes; try again later";
        let code = Some("judgement_unavailable");
        let mut error = ProviderError::new(ProviderErrorKind::Overloaded, 503, code, told);
        error.retry_after = Some(RETRY_AFTER);
        return error;
    }
    ProviderError::new(ProviderErrorKind::Auth, 403, Some("blocked_by_policy"), &note(blocked))
}

/// An error answer in the shape of the family.
pub(super) fn error(family: Family, error: &ProviderError) -> Reply {
    let status = StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut headers = typed("application/json");
    if let Some(wait) = error.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait.as_secs()));
    }
    Reply { status, headers, body: Bytes::from(error_body::body(family, error).to_string()) }
}

/// A valid answer to `request` that says `note` and nothing else.
pub(super) fn answer(api: Api, request: &ModelRequest, form: AnswerForm, note: &str) -> Reply {
    let id = format!("backstop_{}", number::timed().simple());
    let parts = vec![Part::text(note)];
    let response = ModelResponse::new(id, request.model.clone(), parts, StopReason::EndTurn);
    let mut encoder = api.stream_encoder(request);
    let events = response.to_events(usize::MAX).into_iter().flat_map(|event| encoder.push(&event));
    let (headers, body) = match form {
        AnswerForm::Whole => {
            (typed("application/json"), Bytes::from(api.encode_response(&response).to_string()))
        }
        AnswerForm::Events => {
            let mut headers = typed("text/event-stream; charset=utf-8");
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
            let body: BytesMut = events.flat_map(|event| event.encode()).collect();
            (headers, body.freeze())
        }
        AnswerForm::Array => {
            let (mut array, mut body) = (ArrayEncoder::default(), BytesMut::new());
            events.for_each(|event| body.extend_from_slice(&array.push(&event)));
            body.extend_from_slice(&array.finish());
            (typed("application/json; charset=UTF-8"), body.freeze())
        }
    };
    Reply { status: StatusCode::OK, headers, body }
}

fn typed(content_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))])
}
