//! Errors for operators and programs: problem details as RFC 9457 defines them.

use std::borrow::Cow;

use http::{HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::access::Denied;
use super::told;
use crate::exchange::NotReady;
use crate::server::answer::AnswerBody;

/// A problem. Its words quote nothing that was sent: hooks would take some of it out of texts.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::server) struct Problem {
    status: StatusCode,
    /// Which problem, for programs; `None` for those that their status says all about.
    kind: Option<&'static str>,
    detail: Cow<'static, str>,
    /// By which methods something is there.
    allow: Option<String>,
    /// What is not ready, for operators.
    missing: Option<NotReady>,
}

impl Problem {
    const fn new(status: StatusCode, detail: &'static str) -> Self {
        Self { status, kind: None, detail: Cow::Borrowed(detail), allow: None, missing: None }
    }

    const fn of(status: StatusCode, kind: &'static str, detail: &'static str) -> Self {
        Self { status, kind: Some(kind), detail: Cow::Borrowed(detail), allow: None, missing: None }
    }

    fn with(status: StatusCode, kind: &'static str, detail: String) -> Self {
        Self { status, kind: Some(kind), detail: detail.into(), allow: None, missing: None }
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

    pub(super) fn method() -> Self {
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
        Self { allow: Some("GET, HEAD".to_owned()), ..problem }
    }

    pub(super) fn only_post() -> Self {
        let problem = Self::new(StatusCode::METHOD_NOT_ALLOWED, "only POST is answered here");
        Self { allow: Some("POST".to_owned()), ..problem }
    }

    pub(super) fn not_ready(missing: Option<NotReady>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "not ready");
        Self { missing, ..problem }
    }

    /// For whoever is no operator, where only they are answered.
    pub(in crate::server) const fn denied(why: Denied) -> Self {
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

    /// Returns the problem as RFC 9457 has it.
    pub(in crate::server) fn document(&self) -> Value {
        let Self { status, kind, detail, missing, .. } = self;
        let kind =
            kind.map_or_else(|| "about:blank".to_owned(), |kind| format!("urn:backstop:problem:{kind}"));
        let mut body = json!({
            "type": kind,
            "title": status.canonical_reason(),
            "status": status.as_u16(),
            "detail": detail,
        });
        if let (Some(missing), Value::Object(fields)) = (missing, &mut body) {
            fields.insert("missing".to_owned(), missing.as_str().into());
        }
        body
    }

    pub(in crate::server) fn response(&self) -> Response<AnswerBody> {
        let Self { status, allow, .. } = self;
        let mut response = told(*status, "application/problem+json", self.document().to_string());
        if let Some(allow) = allow.as_ref().and_then(|allow| HeaderValue::from_str(allow).ok()) {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        if *status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The problems of surfaces.
impl Problem {
    pub(in crate::server) const fn unsigned() -> Self {
        Self::of(
            StatusCode::FORBIDDEN,
            "unsigned",
            "this is not signed by whoever has the secret, or its time is more than five minutes away",
        )
    }
}

/// The problems of the API.
impl Problem {
    pub(in crate::server) const fn api_token() -> Self {
        Self::of(
            StatusCode::UNAUTHORIZED,
            "token",
            "bring an access token with scopes as `Authorization: Bearer`; `backstop token create --scope` makes one",
        )
    }

    pub(in crate::server) fn scope(scope: &'static str) -> Self {
        Self::with(StatusCode::FORBIDDEN, "scope", format!("this token lacks the scope `{scope}`"))
    }

    pub(in crate::server) const fn agent() -> Self {
        Self::of(StatusCode::FORBIDDEN, "agent", "`context.agentId` is not the agent of this token")
    }

    pub(in crate::server) const fn no_route() -> Self {
        Self::of(
            StatusCode::NOT_FOUND,
            "no-route",
            "there is nothing at this address; `/-/v1/openapi.json` says what there is",
        )
    }

    pub(in crate::server) fn other_method(methods: &[&str]) -> Self {
        let detail = "this address is not asked by that method".to_owned();
        let problem = Self::with(StatusCode::METHOD_NOT_ALLOWED, "method", detail);
        Self { allow: Some(methods.join(", ")), ..problem }
    }

    pub(in crate::server) const fn media() -> Self {
        Self::of(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media-type",
            "a body is `content-type: application/json`",
        )
    }

    pub(in crate::server) fn body(detail: String) -> Self {
        Self::with(StatusCode::UNPROCESSABLE_ENTITY, "body", detail)
    }

    pub(in crate::server) fn query(detail: String) -> Self {
        Self::with(StatusCode::BAD_REQUEST, "query", format!("the query can't be read: {detail}"))
    }

    pub(in crate::server) fn too_large(most: usize) -> Self {
        Self::with(StatusCode::PAYLOAD_TOO_LARGE, "too-large", format!("a body has at most {most} bytes"))
    }

    pub(in crate::server) const fn broken() -> Self {
        Self::of(StatusCode::BAD_REQUEST, "broken", "the body broke off")
    }

    pub(in crate::server) const fn slow() -> Self {
        Self::of(StatusCode::REQUEST_TIMEOUT, "slow", "the body did not come in time")
    }

    pub(in crate::server) fn point(nearest: Option<&'static str>) -> Self {
        let hint = nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Self::with(StatusCode::NOT_FOUND, "point", format!("no such hook point is judged here{hint}"))
    }

    pub(in crate::server) const fn gates() -> Self {
        Self::of(
            StatusCode::NOT_FOUND,
            "point",
            "this is one of the gates that a tool call passes together; post the call to `hooks/before_tool_call`",
        )
    }

    pub(in crate::server) const fn no_host() -> Self {
        Self::of(
            StatusCode::CONFLICT,
            "no-host",
            "no host of this process fires this point, so that no hook can stand there and nothing would be judged",
        )
    }

    pub(in crate::server) const fn no_decision() -> Self {
        Self::of(
            StatusCode::NOT_FOUND,
            "decision",
            "there is no such decision of this agent; one is kept for ten minutes after it was made",
        )
    }

    pub(in crate::server) const fn no_approval() -> Self {
        Self::of(StatusCode::NOT_FOUND, "approval", "there is no approval of this id")
    }

    pub(in crate::server) const fn no_grant() -> Self {
        Self::of(StatusCode::NOT_FOUND, "grant", "there is no grant of this id")
    }

    pub(in crate::server) const fn no_token() -> Self {
        Self::of(StatusCode::NOT_FOUND, "no-token", "there is no access token of this id")
    }

    pub(in crate::server) fn conflict(detail: String) -> Self {
        Self::with(StatusCode::CONFLICT, "conflict", detail)
    }

    pub(in crate::server) fn not_asked(detail: String) -> Self {
        Self::with(StatusCode::FORBIDDEN, "not-asked", detail)
    }

    pub(in crate::server) const fn other_call() -> Self {
        Self::of(
            StatusCode::CONFLICT,
            "other-call",
            "the question is about another call than this digest says; look at it again",
        )
    }

    pub(in crate::server) const fn strict() -> Self {
        Self::of(
            StatusCode::FORBIDDEN,
            "strict",
            "by `agent.approvals.strict`, answers are given on the machine itself: `backstop approvals`",
        )
    }

    pub(in crate::server) const fn idempotency(detail: &'static str) -> Self {
        Self::of(StatusCode::UNPROCESSABLE_ENTITY, "idempotency-key", detail)
    }

    pub(in crate::server) const fn under_way() -> Self {
        Self::of(
            StatusCode::CONFLICT,
            "under-way",
            "the first request with this idempotency key is still being answered",
        )
    }

    pub(in crate::server) const fn api_busy() -> Self {
        Self::of(
            StatusCode::SERVICE_UNAVAILABLE,
            "busy",
            "there is as much under way as there may be at once",
        )
    }

    pub(in crate::server) fn streams(most: usize) -> Self {
        Self::with(
            StatusCode::TOO_MANY_REQUESTS,
            "streams",
            format!("this token has {most} streams, which are as many as it may have; end one first"),
        )
    }

    pub(in crate::server) const fn stream_token() -> Self {
        Self::of(
            StatusCode::FORBIDDEN,
            "stream-token",
            "streams are for access tokens with the scope `read`: `backstop token create --user YOU --scope read`",
        )
    }

    pub(in crate::server) const fn last_event() -> Self {
        Self::of(StatusCode::BAD_REQUEST, "last-event-id", "`last-event-id` is no id of this stream")
    }

    pub(in crate::server) const fn store() -> Self {
        Self::of(
            StatusCode::SERVICE_UNAVAILABLE,
            "store",
            "where state is kept can't be read or written now; nothing was decided by that",
        )
    }

    pub(in crate::server) const fn tokens() -> Self {
        Self::of(
            StatusCode::SERVICE_UNAVAILABLE,
            "store",
            "access tokens can't be looked up now, so that none counts: ask again later",
        )
    }

    pub(in crate::server) const fn failed() -> Self {
        Self::of(
            StatusCode::INTERNAL_SERVER_ERROR,
            "failed",
            "this could not be done, and nothing was allowed by it",
        )
    }
}
