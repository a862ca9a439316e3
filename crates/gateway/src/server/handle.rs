//! One request, from authentication to the head of its answer.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version, header, request};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::Shared;
use super::answer::{AnswerBody, is_event_stream};
use super::connection::ListenerKind;
use super::load::{Running, Visitor};
use super::operators;
use super::places::Place;
use super::request::ProxyRequest;
use super::sockets::{self, Guests, is_asked_for};
use crate::auth::{family_of, is_for_operators, speaks_bedrock};
use crate::cloud::bedrock;
use crate::endpoint::Family;
use crate::error::Failure;
use crate::error_body;
use crate::record::Recorder;

/// Answers a request. Failures become answers in the shape of the client's wire.
pub(super) async fn handle(
    changes: watch::Receiver<Arc<Shared>>,
    visitor: Visitor,
    guests: &Guests,
    (place, kind): (&Place, ListenerKind),
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let shared = Arc::clone(&changes.borrow());
    let (head, body) = request.into_parts();
    match (is_for_operators(head.uri.path()), kind) {
        (true, ListenerKind::Operators) => {
            return operators::answer(&shared, head, body).await.map(|body| body.visiting(visitor));
        }
        (true, ListenerKind::Clients) if !shared.has_operators_listener => {
            return operators::answer(&shared, head, body).await.map(|body| body.visiting(visitor));
        }
        // What is for operators never goes to a provider, and what is for a provider never comes in by their listener.
        (true, ListenerKind::Clients) | (false, ListenerKind::Operators) => return operators::nothing(),
        // A page that a provider makes would have the origin of the console: nobody looks at one here.
        (false, ListenerKind::Clients) if is_for_a_page(&head.headers) => return operators::nothing(),
        (false, ListenerKind::Clients) => {}
    }
    let recorder = shared.records.begin(&head.method);
    // Whoever goes before there is an answer ends the record, too.
    let end = recorder.ending();
    let has_body = head.method != Method::HEAD;
    let response = answered(changes, visitor, guests, place, (head, body), &shared, &recorder).await;
    recorder.has_status(response.status());
    let is_stream = is_event_stream(response.headers());
    let has_body = has_body && response.status() != StatusCode::SWITCHING_PROTOCOLS;
    response.map(|body| {
        let body = body.recorded(end, has_body);
        if is_stream { body.streaming(shared.load.stream()) } else { body }
    })
}

/// Returns whether a browser would show the answer, or run it: whatever it asks for but what a script of its reads.
fn is_for_a_page(headers: &HeaderMap) -> bool {
    let is_read = |value: &HeaderValue| value == "empty" || value == "websocket";
    headers.get_all("sec-fetch-dest").iter().any(|value| !is_read(value))
        || headers.get_all("sec-fetch-mode").iter().any(|value| value == "navigate")
}

async fn answered(
    changes: watch::Receiver<Arc<Shared>>,
    visitor: Visitor,
    guests: &Guests,
    place: &Place,
    (head, body): (request::Parts, Incoming),
    shared: &Arc<Shared>,
    recorder: &Recorder,
) -> Response<AnswerBody> {
    let failed = |shown, failure: &Failure, running| {
        recorder.failed(failure);
        failed(shown, failure, running)
    };
    if !place.admits() {
        let mut refused = failed(Shown::of(&head), &Failure::Overloaded, None);
        if head.version < Version::HTTP_2 {
            refused.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        return refused;
    }
    let running = match shared.load.begin(visitor) {
        Ok(running) => running,
        Err(failure) => return failed(Shown::of(&head), &failure, None),
    };
    shared.auth.seek_keys(&head).await;
    if is_asked_for(&head.headers) {
        let shown = Shown::of(&head);
        let opened = tokio::select! {
            opened = sockets::open(changes, guests, head) => opened,
            ended = shared.ending.clone().heard() => Err(ended.failure()),
        };
        return match opened {
            Ok(response) => response.map(|body| body.during(running)),
            Err(failure) => failed(shown, &failure, Some(running)),
        };
    }
    match ProxyRequest::accept(shared, &head, recorder) {
        Ok((mut proxied, plan)) => {
            let running = running.holding(proxied.place());
            let shown = Shown { family: proxied.endpoint().family, ..Shown::of(&head) };
            let ending = proxied.ending();
            let answered = tokio::select! {
                answered = proxied.answer(plan, body) => answered,
                ended = ending.heard() => Err(ended.failure()),
            };
            match answered {
                Ok(response) => response.map(|body| body.during(running)),
                Err(failure) => failed(shown, &failure, Some(running)),
            }
        }
        Err(failure) => failed(Shown::of(&head), &failure, Some(running)),
    }
}

/// Whose errors a client expects.
#[derive(Clone, Copy)]
struct Shown {
    family: Family,
    /// In the envelope of Bedrock.
    in_bedrock: bool,
}

impl Shown {
    fn of(head: &request::Parts) -> Self {
        Self { family: family_of(head), in_bedrock: speaks_bedrock(head) }
    }
}

fn failed(shown: Shown, failure: &Failure, running: Option<Running>) -> Response<AnswerBody> {
    let (mut head, mut body) = error_body::response(shown.family, failure).into_parts();
    if shown.in_bedrock {
        // A failure is no stream, so it does not matter whose.
        body = bedrock::whole_answer(bedrock::Events::Messages, head.status, &mut head.headers, body);
    }
    let response = Response::from_parts(head, AnswerBody::whole(body));
    match running {
        Some(running) => response.map(|body| body.during(running)),
        None => response,
    }
}
