//! One request, from the door to the head of its answer.

use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;

use super::Shared;
use super::answer::AnswerBody;
use super::load::{Running, Visitor};
use super::visit::Visit;
use crate::door::family_of;
use crate::endpoint::Family;
use crate::error::Failure;
use crate::shape;

/// Answers a request. Failures become answers in the shape of the client's wire.
pub(super) async fn handle(
    shared: Arc<Shared>,
    visitor: Visitor,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let (head, body) = request.into_parts();
    let running = match shared.load.begin(visitor) {
        Ok(running) => running,
        Err(failure) => return failed(family_of(&head), &failure, None),
    };
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
