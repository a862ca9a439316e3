//! Pages for operators on the gateway's own address, or on one of their own ([`Settings::operators_listen`](crate::Settings)): `/-/health`, `/-/ready`,
//! `/-/metrics`, the [API](super::api) below `/-/v1`, the [console](super::console), and the [witness] for other trails.
//!
//! Laws:
//!
//! - *Paths under `/-/` never reach a provider*, however they are spelled and whatever prefix they have
//!   (see [`auth`](crate::auth)).
//! - *Nobody learns more than they may.* Whoever can connect may be a watched agent, or a page in a browser. Without the operators'
//!   token ([`access`]) an answer carries one bit, as its status. Tokens of agents and of the process, which agents hold, give no
//!   access here; what tokens of people open is said there. Pages of other sites get no answer, at any address
//!   ([`Authenticator::knows_operators_host`](crate::auth::Authenticator::knows_operators_host)).
//! - *A full gateway can be inspected*: the limits of the proxy do not count requests to these pages. What operators are shown has a
//!   limit of its own ([`MOST_SHOWN`]), which requests without the token can't use up.
//! - *Answers name no file and no secret*; the log does, where it helps.
//!
//! Errors are problem details (RFC 9457).

mod access;
mod problem;
mod readiness;
mod witness;

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::{Semaphore, watch};

pub(super) use self::access::{Access, Denied};
pub(super) use self::problem::Problem;
use self::readiness::Probe;
use super::Shared;
use super::answer::AnswerBody;
use super::{api, console, surfaces};
use crate::auth::bearer;
use crate::exchange::NotReady;
use crate::identity::KeyState;
use crate::metrics::{Format, Metrics, Now};

/// How many answers operators may be given at once. One is at most some megabytes.
const MOST_SHOWN: usize = 8;

/// What all requests of operators share, for as long as the gateway runs.
#[derive(Debug)]
pub(super) struct Operators {
    metrics: Option<Metrics>,
    shown: Arc<Semaphore>,
    witnessed: Arc<Semaphore>,
    probe: Probe,
    stopping: watch::Sender<bool>,
}

impl Operators {
    /// Requests that are shown these metrics.
    pub(super) fn showing(metrics: Option<Metrics>) -> Self {
        let (shown, stopping) = (Arc::new(Semaphore::new(MOST_SHOWN)), watch::Sender::new(false));
        let witnessed = Arc::new(Semaphore::new(witness::MOST_AT_ONCE));
        Self { metrics, shown, witnessed, probe: Probe::default(), stopping }
    }

    /// What is counted, if anybody counts.
    pub(super) const fn metrics(&self) -> Option<&Metrics> {
        self.metrics.as_ref()
    }

    /// Says that no more requests are wanted.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Hears when no more requests are wanted.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }
}

/// Answers a request whose path is [for operators](crate::auth::is_for_operators).
pub(super) async fn answer(
    shared: &Arc<Shared>,
    head: request::Parts,
    body: Incoming,
) -> Response<AnswerBody> {
    if api::is_below(head.uri.path()) {
        return told_once(match shared.auth.knows_operators_host(&head) {
            true => Box::pin(api::answer(shared, head, body)).await,
            false => Problem::host().response(),
        });
    }
    if console::is_below(head.uri.path()) {
        return match shared.auth.knows_operators_host(&head) {
            true => Box::pin(console::answer(shared, head, body)).await,
            false => told_once(Problem::host().response()),
        };
    }
    if let Some(witness) = shared.witness.as_ref().filter(|_| head.uri.path() == witness::PATH) {
        return told_once(match (shared.auth.knows_operators_host(&head), &head.method) {
            (false, _) => Problem::host().response(),
            (true, &Method::POST) => {
                Box::pin(witness::add_checkpoint(witness, &shared.operators.witnessed, body)).await
            }
            (true, _) => Problem::only_post().response(),
        });
    }
    if surfaces::is_below(head.uri.path()) {
        return told_once(match shared.auth.knows_operators_host(&head) {
            true => Box::pin(surfaces::answer(shared, head, body)).await,
            false => Problem::host().response(),
        });
    }
    let head = &head;
    let answered = match asked(shared, head) {
        Ok(Page::Health) => Ok(status("ok")),
        Ok(Page::Ready) => ready(shared, head).await,
        Ok(Page::Metrics) => metrics(shared, &head.headers).await,
        Err(problem) => Err(problem),
    };
    told_once(answered.unwrap_or_else(|problem| problem.response()))
}

/// What is answered where nothing is.
pub(super) fn nothing() -> Response<AnswerBody> {
    told_once(Problem::unknown().response())
}

/// An answer that nobody keeps.
fn told_once(mut response: Response<AnswerBody>) -> Response<AnswerBody> {
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
    Metrics,
}

fn asked(shared: &Shared, head: &request::Parts) -> Result<Page, Problem> {
    if !shared.auth.knows_operators_host(head) {
        return Err(Problem::host());
    }
    let page = match head.uri.path() {
        "/-/health" => Page::Health,
        "/-/ready" => Page::Ready,
        "/-/metrics" if shared.operators.metrics.is_some() => Page::Metrics,
        _ => return Err(Problem::unknown()),
    };
    match head.method {
        Method::GET | Method::HEAD => Ok(page),
        _ => Err(Problem::method()),
    }
}

async fn ready(shared: &Shared, head: &request::Parts) -> Result<Response<AnswerBody>, Problem> {
    let missing = if *shared.operators.stopping.borrow() {
        Some(NotReady::Stopping)
    } else {
        let missing = shared.operators.probe.missing(shared.interceptor.as_ref()).await;
        missing.or((shared.auth.issuers().state() == KeyState::None).then_some(NotReady::Keys))
    };
    match missing {
        // Keys that still count are no reason to send requests elsewhere, and one to look at their issuer.
        None if shared.auth.issuers().state() == KeyState::Old
            && shared.access.check(&head.headers).is_ok() =>
        {
            let said = json!({ "status": "ready", "old": "identity_keys" });
            Ok(told(StatusCode::OK, "application/json", said.to_string()))
        }
        None => Ok(status("ready")),
        Some(missing) => {
            let is_operator = shared.access.check(&head.headers).is_ok();
            Err(Problem::not_ready(is_operator.then_some(missing)))
        }
    }
}

async fn metrics(shared: &Shared, headers: &HeaderMap) -> Result<Response<AnswerBody>, Problem> {
    shared.access.check(headers).map_err(Problem::denied)?;
    let Operators { metrics: Some(metrics), shown, .. } = &*shared.operators else {
        return Err(Problem::unknown());
    };
    let permit = Arc::clone(shown).try_acquire_owned().map_err(|_| Problem::busy())?;
    let format = format(headers);
    let now = Now { unreadable_tokens: shared.access_tokens.unreadable(), ..shared.load.now() };
    let text = metrics.told(now, format).await;
    Ok(told(StatusCode::OK, format.content_type(), text).map(|body| body.shown(permit)))
}

/// The form that a scraper reads: the newer one where it says that it does.
fn format(headers: &HeaderMap) -> Format {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let is_new = |accepted: &str| accepted.contains("application/openmetrics-text");
    if accepted.into_iter().any(is_new) { Format::OpenMetrics } else { Format::Prometheus }
}

fn status(status: &str) -> Response<AnswerBody> {
    told(StatusCode::OK, "application/json", json!({ "status": status }).to_string())
}

/// Returns what a request's only `authorization: Bearer` holds.
pub(super) fn bearer_of(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    // Of two, one reader takes the first and another the last.
    all.next().filter(|_| all.next().is_none()).and_then(bearer)
}

pub(super) fn told(status: StatusCode, kind: &'static str, body: String) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::whole(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
