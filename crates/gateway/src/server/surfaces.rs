//! What services post to surfaces, below `/-/surfaces/`: presses and answers of people.
//!
//! No token opens this, since services have none of ours: the [surface](backstop_surfaces::Surface) looks at the headers before
//! the body is read, and checks the signature before it reads anything else, and everything until then is bounded here. Whoever is not the service learns nothing but that.

use std::sync::Arc;
use std::time::Duration;

use backstop_store::Timestamp;
use backstop_surfaces::{Answered, Given, Posted, Refused};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::Semaphore;

use super::Shared;
use super::answer::AnswerBody;
use super::api::read_bounded;
use super::operators::{Problem, nothing, told};

/// Where what is posted goes, with the name of the surface behind it.
const PREFIX: &str = "/-/surfaces/";
/// The most bytes of what is posted. A press at Slack brings the whole message along.
const MOST_BYTES: usize = 256 << 10;
/// How many may be read at once.
const MOST_READ: usize = 32;
/// How long one may take to come.
const PATIENCE: Duration = Duration::from_secs(3);

/// What all such requests share.
#[derive(Debug)]
pub(super) struct PostLimit(Arc<Semaphore>);

impl Default for PostLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_READ)))
    }
}

/// Returns whether a path is one of a surface.
pub(super) fn is_below(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Answers a request whose path [is one of a surface](is_below), and whose host is known.
pub(super) async fn answer(shared: &Shared, head: Parts, body: Incoming) -> Response<AnswerBody> {
    let (Some(desk), Some(name)) = (&shared.surfaces, head.uri.path().strip_prefix(PREFIX)) else {
        return nothing();
    };
    if head.method != Method::POST {
        return Problem::other_method(&["POST"]).response();
    }
    // Whoever has no name of a surface and no signature takes no place of those who have.
    if let Err(refused) = desk.expects(name, &head.headers, Timestamp::now()) {
        return refusal(refused);
    }
    let Ok(_place) = Arc::clone(&shared.surface_posts.0).try_acquire_owned() else {
        return Problem::api_busy().response();
    };
    let body = match read_bounded(&head, body, MOST_BYTES, PATIENCE).await {
        Ok(body) => body,
        Err(problem) => return problem.response(),
    };
    let posted = Posted { headers: &head.headers, body: &body, now: Timestamp::now() };
    match Box::pin(desk.posted(name, &posted)).await {
        Err(refused) => refusal(refused),
        Ok(Given::Busy) => Problem::api_busy().response(),
        Ok(Given::Later) => told(StatusCode::OK, "text/plain", String::new()),
        Ok(Given::Now(answered)) => outcome(answered.last().unwrap_or(&Answered::Nothing)),
    }
}

fn refusal(refused: Refused) -> Response<AnswerBody> {
    match refused {
        Refused::NotHere => nothing(),
        Refused::Unsigned => Problem::unsigned().response(),
        Refused::Malformed(why) => Problem::body(why.to_owned()).response(),
    }
}

fn outcome(answered: &Answered) -> Response<AnswerBody> {
    let (status, outcome) = match answered {
        Answered::Counts { .. } => (StatusCode::OK, "counts"),
        Answered::Later { .. } => (StatusCode::OK, "later"),
        Answered::Waits { .. } => (StatusCode::OK, "waits"),
        Answered::Again => (StatusCode::OK, "again"),
        Answered::Stranger => (StatusCode::FORBIDDEN, "stranger"),
        Answered::Nothing => (StatusCode::NOT_FOUND, "nothing"),
        Answered::Spent { .. } => (StatusCode::CONFLICT, "spent"),
        Answered::NotHere | Answered::OnMachine => (StatusCode::CONFLICT, "not-here"),
        Answered::Refused(_) => (StatusCode::CONFLICT, "refused"),
        Answered::Unclear(_) => (StatusCode::UNPROCESSABLE_ENTITY, "unclear"),
        Answered::Store => (StatusCode::SERVICE_UNAVAILABLE, "store"),
    };
    let said = json!({ "outcome": outcome, "message": answered.told() });
    told(status, "application/json", said.to_string())
}
