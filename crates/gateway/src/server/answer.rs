//! The bodies of answers to clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, header};
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;

use super::driver::Driver;
use super::ending::EndWatch;
use super::load::Running;
use crate::endpoint::Endpoint;
use crate::error::{Cause, Failure};
use crate::error_body;
use crate::upstream::{Provider, Silence, UpstreamBody};

/// An answer on its way to the client.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    kind: Kind,
    /// The request counts as running for as long as its answer is under way.
    running: Option<Running>,
}

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    Passing(Box<Passing>),
    Driven(Box<Driver>),
}

/// The answer broke off where nothing can be said about it any more: the client sees the connection break, as it
/// would have without a gateway.
#[derive(Debug, Error)]
#[error("the provider's answer broke off")]
pub(crate) struct BrokenOff;

impl AnswerBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole(bytes), running: None }
    }

    /// Bytes of a provider, untouched. One that `owes` something and ends without a byte ends as a failure.
    pub(crate) fn passing(
        endpoint: Endpoint,
        headers: &HeaderMap,
        upstream: UpstreamBody,
        provider: &Arc<Provider>,
        ending: EndWatch,
        owes: bool,
    ) -> Self {
        let events = is_event_stream(headers) && !headers.contains_key(header::CONTENT_ENCODING);
        let passing = Passing {
            endpoint,
            provider: Arc::clone(provider),
            upstream: Some(upstream),
            silence: Silence::new(provider.idle_timeout),
            boundary: events.then(Boundary::default),
            ending,
            owes,
        };
        Self { kind: Kind::Passing(Box::new(passing)), running: None }
    }

    /// Bytes that an exchange lets out.
    pub(crate) fn driven(driver: Box<Driver>) -> Self {
        Self { kind: Kind::Driven(driver), running: None }
    }

    /// The answer to this request.
    pub(crate) fn during(mut self, running: Running) -> Self {
        self.running = Some(running);
        self
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        match &mut self.get_mut().kind {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Passing(passing) => passing.poll(cx),
            Kind::Driven(driver) => driver.poll_data(cx).map(|data| data.map(|data| data.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Passing(passing) => passing.upstream.as_ref().is_none_or(Body::is_end_stream),
            Kind::Driven(driver) => driver.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Passing(passing) => {
                passing.upstream.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
            }
            Kind::Driven(driver) => driver.size_hint(),
        }
    }
}

/// Whether an answer with these headers is a stream of events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(|value| value.as_bytes().trim_ascii_start());
    let kind = value.and_then(|value| value.get(.."text/event-stream".len()));
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

/// An answer that nobody looks at.
#[derive(Debug)]
struct Passing {
    endpoint: Endpoint,
    provider: Arc<Provider>,
    /// `None` when it has ended or was given up.
    upstream: Option<UpstreamBody>,
    silence: Silence,
    /// `None` for answers that are not event streams.
    boundary: Option<Boundary>,
    ending: EndWatch,
    /// It has to say something, and has not yet.
    owes: bool,
}

impl Passing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(upstream) = &mut self.upstream else { return Poll::Ready(None) };
        // An event that is under way may still end; what is no stream has nothing to say.
        if self.boundary.as_ref().is_some_and(Boundary::is_here) && self.ending.is_over(cx) {
            return Poll::Ready(Some(self.give_up(&Failure::Stopping)));
        }
        match Pin::new(upstream).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.broken();
                if let (Some(boundary), Some(data)) = (&mut self.boundary, frame.data_ref()) {
                    boundary.pass(data);
                }
                self.owes &= frame.data_ref().is_none_or(Bytes::is_empty);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) if std::mem::take(&mut self.owes) => {
                let failure = self.failure(Cause::Empty);
                Poll::Ready(Some(self.give_up(&failure)))
            }
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some(Err(_))) => {
                let failure = self.failure(Cause::Broken);
                Poll::Ready(Some(self.give_up(&failure)))
            }
            Poll::Pending if self.silence.is_over(cx) => {
                let failure = self.failure(Cause::Silent(self.silence.patience));
                Poll::Ready(Some(self.give_up(&failure)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn failure(&self, cause: Cause) -> Failure {
        Failure::Upstream { provider: self.provider.name.as_ref().to_owned(), cause }
    }

    fn give_up(&mut self, failure: &Failure) -> Result<Frame<Bytes>, BrokenOff> {
        self.upstream = None;
        let between_events = self.boundary.as_ref().is_some_and(Boundary::is_here);
        if !between_events {
            return Err(BrokenOff);
        }
        Ok(Frame::data(error_body::stream_error(self.endpoint, failure)))
    }
}

/// Whether a stream of events stands between two of them: only there can another event follow.
#[derive(Debug, Default)]
struct Boundary {
    last: [u8; 4],
    begun: bool,
}

impl Boundary {
    fn pass(&mut self, data: &[u8]) {
        self.begun |= !data.is_empty();
        if let Some(last) = data.last_chunk() {
            self.last = *last;
            return;
        }
        for byte in data {
            self.last.rotate_left(1);
            if let Some(last) = self.last.last_mut() {
                *last = *byte;
            }
        }
    }

    fn is_here(&self) -> bool {
        !self.begun
            || self.last.ends_with(b"\n\n")
            || self.last.ends_with(b"\r\r")
            || self.last.ends_with(b"\r\n\r\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boundaries_are_found_however_the_stream_is_cut() {
        for end in ["\n\n", "\r\r", "\r\n\r\n"] {
            let stream = format!("data: x{end}data: y{end}");
            for cut in 0..stream.len() {
                let mut boundary = Boundary::default();
                assert!(boundary.is_here());
                boundary.pass(&stream.as_bytes()[..cut]);
                let whole = cut == 0 || stream.as_bytes()[..cut].ends_with(end.as_bytes());
                assert_eq!(boundary.is_here(), whole, "{cut} {end:?}");
                for byte in &stream.as_bytes()[cut..] {
                    boundary.pass(&[*byte]);
                }
                assert!(boundary.is_here());
            }
        }
    }
}
