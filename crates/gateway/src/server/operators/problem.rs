//! Errors for operators: problem details as RFC 9457 defines them.

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::access::Denied;
use super::told;
use crate::exchange::NotReady;
use crate::server::answer::AnswerBody;

/// A problem. Its words are the same for everybody who has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    status: StatusCode,
    detail: &'static str,
    /// What is not ready, for operators.
    missing: Option<NotReady>,
}

impl Problem {
    const fn new(status: StatusCode, detail: &'static str) -> Self {
        Self { status, detail, missing: None }
    }

    pub(super) const fn host() -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "this address is not served under that name; `gateway.hosts` lists names besides those of this machine",
        )
    }

    pub(super) const fn unknown() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "there is nothing at this address; what is below `/-/` is for operators",
        )
    }

    pub(super) const fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here")
    }

    pub(super) const fn not_ready(missing: Option<NotReady>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "not ready");
        Self { missing, ..problem }
    }

    /// For whoever is no operator, where only they are answered.
    pub(super) const fn denied(why: Denied) -> Self {
        match why {
            Denied::Closed => Self::new(
                StatusCode::FORBIDDEN,
                "nobody is an operator here: `gateway.operators.token` says who is, and is not set",
            ),
            Denied::Token => Self::new(
                StatusCode::UNAUTHORIZED,
                "this is for operators: bring the token of operators as `Authorization: Bearer`",
            ),
        }
    }

    pub(super) const fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "operators are being shown as much as they may be at once")
    }

    pub(super) fn response(&self) -> Response<AnswerBody> {
        let Self { status, detail, missing } = self;
        let mut body = json!({
            "type": "about:blank",
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        if let (Some(missing), Value::Object(fields)) = (missing, &mut body) {
            fields.insert("missing".to_owned(), missing.as_str().into());
        }
        let mut response = told(*status, "application/problem+json", body.to_string());
        match *status {
            StatusCode::METHOD_NOT_ALLOWED => {
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            }
            StatusCode::UNAUTHORIZED => {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}
