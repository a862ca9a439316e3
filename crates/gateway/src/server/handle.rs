//! One request, from the door to the head of its answer.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::sync::watch;

use super::Shared;
use super::answer::AnswerBody;
use super::load::{Running, Visitor};
use super::sockets::{self, Guests, is_asked_for};
use super::visit::Visit;
use crate::door::family_of;
use crate::endpoint::Family;
use crate::error::Failure;
use crate::shape;

/// Answers a request. Failures become answers in the shape of the client's wire.
pub(super) async fn handle(
    changes: watch::Receiver<Arc<Shared>>,
    visitor: Visitor,
    guests: &Guests,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let shared = Arc::clone(&changes.borrow());
    let (head, body) = request.into_parts();
    let running = match shared.load.begin(visitor) {
        Ok(running) => running,
        Err(failure) => return failed(family_of(&head), &failure, None),
    };
    if is_asked_for(&head.headers) {
        let family = family_of(&head);
        let opened = tokio::select! {
            opened = sockets::open(changes, guests, head) => opened,
            () = shared.ending.clone().heard() => Err(Failure::Stopping),
        };
        return match opened {
            Ok(response) => response.map(|body| body.during(running)),
            Err(failure) => failed(family, &failure, Some(running)),
        };
    }
    match Visit::enter(&shared, &head) {
        Ok((visit, plan)) => {
            let family = visit.endpoint().family;
            let answered = tokio::select! {
                answered = visit.answer(plan, body) => answered,
                () = shared.ending.clone().heard() => Err(Failure::Stopping),
            };
            match answered {
                Ok(response) => response.map(|body| body.during(running)),
                Err(failure) => failed(family, &failure, Some(running)),
            }
        }
        Err(failure) => failed(family_of(&head), &failure, Some(running)),
    }
}

fn failed(family: Family, failure: &Failure, running: Option<Running>) -> Response<AnswerBody> {
    let response = shape::response(family, failure).map(AnswerBody::whole);
    match running {
        Some(running) => response.map(|body| body.during(running)),
        None => response,
    }
}
