//! What operators ask the gateway itself, at its own address: `/-/health`, `/-/ready`.
//!
//! Laws:
//!
//! - *What is below `/-/` never reaches a provider*, however it is spelt and whatever stands in front of it
//!   (see [`auth`](crate::auth)).
//! - *Nobody learns more than they may.* Whoever can connect may be an agent that is watched, or a page in a browser. So without
//!   the token of operators ([`access`]) one bit is told, as the status of an answer, and nothing else; the tokens of agents and of
//!   the process, which agents hold, open nothing here. A page of another site is told nothing, at any address
//!   ([`Authenticator::knows_operators_host`](crate::auth::Authenticator::knows_operators_host)).
//! - *A gateway that is full can be looked at*: no limit of the proxy counts what is asked here.
//! - *No answer names a place or a secret of the operator's*; those stand in the log.
//!
//! Errors are problems as RFC 9457 defines them.

mod access;
mod problem;
mod readiness;

use http::{HeaderValue, Method, Response, StatusCode, header, request};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use self::access::Access;
use self::problem::Problem;
use self::readiness::Probe;
use super::Shared;
use super::answer::AnswerBody;
use crate::exchange::NotReady;

/// What all requests of operators share, for as long as the gateway runs.
#[derive(Debug, Default)]
pub(super) struct Operators {
    probe: Probe,
    is_stopping: AtomicBool,
}

impl Operators {
    /// Says that no more requests are wanted.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}

/// Answers a request whose path is [for operators](crate::auth::is_for_operators).
pub(super) async fn answer(shared: &Shared, head: &request::Parts) -> Response<AnswerBody> {
    let answered = match asked(shared, head) {
        Ok(Page::Health) => Ok(json!({ "status": "ok" })),
        Ok(Page::Ready) => ready(shared, head).await,
        Err(problem) => Err(problem),
    };
    let mut response = match answered {
        Ok(said) => told(StatusCode::OK, "application/json", said.to_string()),
        Err(problem) => problem.response(),
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// What can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Health,
    Ready,
}

fn asked(shared: &Shared, head: &request::Parts) -> Result<Page, Problem> {
    if !shared.auth.knows_operators_host(head) {
        return Err(Problem::host());
    }
    let page = match head.uri.path() {
        "/-/health" => Page::Health,
        "/-/ready" => Page::Ready,
        _ => return Err(Problem::unknown()),
    };
    match head.method {
        Method::GET | Method::HEAD => Ok(page),
        _ => Err(Problem::method()),
    }
}

async fn ready(shared: &Shared, head: &request::Parts) -> Result<serde_json::Value, Problem> {
    let missing = if shared.operators.is_stopping.load(Ordering::Relaxed) {
        Some(NotReady::Stopping)
    } else {
        shared.operators.probe.missing(shared.interceptor.as_ref()).await
    };
    match missing {
        None => Ok(json!({ "status": "ready" })),
        Some(missing) => {
            let is_operator = shared.access.check(&head.headers).is_ok();
            Err(Problem::not_ready(is_operator.then_some(missing)))
        }
    }
}

fn told(status: StatusCode, kind: &'static str, body: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
