//! The bodies of answers to clients.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, header};
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::driver::Driver;
use super::ending::{EndWatch, Ended};
use super::load::{Running, Streaming, Visitor};
use crate::endpoint::Endpoint;
use crate::error::{Cause, Failure};
use crate::error_body;
use crate::record::{Outcome, RecordEnd, Recorder};
use crate::upstream::{Provider, Silence, UpstreamBody};

/// An answer on its way to the client.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    kind: Kind,
    /// What lasts as long as the answer is under way.
    held: Held,
}

/// What lasts as long as an answer is under way.
#[derive(Debug, Default)]
struct Held {
    /// The request counts as running.
    running: Option<Running>,
    streaming: Option<Streaming>,
    visitor: Option<Visitor>,
    /// One of the answers that operators may be given at once.
    shown: Option<OwnedSemaphorePermit>,
    /// Its record ends with it.
    record: Option<RecordEnd>,
}

#[derive(Debug)]
enum Kind {
    Whole(Bytes),
    Passing(Box<Passing>),
    Driven(Box<Driver>),
    Told(mpsc::Receiver<Result<Bytes, BrokenOff>>),
}

/// The answer broke off where nothing can be said about it any more: the client sees the connection break, as it
/// would have without a gateway.
#[derive(Debug, Error)]
#[error("the provider's answer broke off")]
pub(crate) struct BrokenOff;

impl AnswerBody {
    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole(bytes), held: Held::default() }
    }

    /// Bytes of a provider, untouched. One that `owes` something and ends without a byte ends as a failure.
    pub(crate) fn passing(
        endpoint: Endpoint,
        headers: &HeaderMap,
        upstream: UpstreamBody,
        provider: &Arc<Provider>,
        ending: EndWatch,
        recorder: Recorder,
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
            recorder,
            begun: false,
            owes,
        };
        Self { kind: Kind::Passing(Box::new(passing)), held: Held::default() }
    }

    /// Bytes that an exchange lets out.
    pub(crate) fn driven(driver: Box<Driver>) -> Self {
        Self { kind: Kind::Driven(driver), held: Held::default() }
    }

    /// What somebody tells piece by piece.
    pub(crate) fn told(pieces: mpsc::Receiver<Result<Bytes, BrokenOff>>) -> Self {
        Self { kind: Kind::Told(pieces), held: Held::default() }
    }

    /// An answer that is under way on its connection.
    pub(crate) fn visiting(mut self, visitor: Visitor) -> Self {
        self.held.visitor = Some(visitor);
        self
    }

    /// The answer to this request.
    pub(crate) fn during(mut self, running: Running) -> Self {
        self.held.running = Some(running);
        self
    }

    /// A stream of events.
    pub(crate) fn streaming(mut self, streaming: Streaming) -> Self {
        self.held.streaming = Some(streaming);
        self
    }

    /// One of the answers that operators may be given at once.
    pub(crate) fn shown(mut self, permit: OwnedSemaphorePermit) -> Self {
        self.held.shown = Some(permit);
        self
    }

    /// The answer by which a record ends. Of one that has no body nothing more is waited for.
    pub(crate) fn recorded(mut self, mut end: RecordEnd, has_body: bool) -> Self {
        if !has_body || self.is_end_stream() {
            end.complete();
        }
        self.held.record = Some(end);
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
        let this = self.get_mut();
        let polled = match &mut this.kind {
            Kind::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Kind::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Kind::Passing(passing) => passing.poll(cx),
            Kind::Told(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|piece| piece.map(Frame::data))),
            Kind::Driven(driver) => driver.poll_data(cx).map(|data| data.map(|data| data.map(Frame::data))),
        };
        // Whoever knows that nothing more comes does not ask again.
        let is_over = polled.is_ready() && this.is_end_stream();
        if let (Some(end), Poll::Ready(polled)) = (&mut this.held.record, &polled) {
            match polled {
                Some(Ok(frame)) => end.left(frame.data_ref().map_or(0, Bytes::len)),
                Some(Err(BrokenOff)) => end.recorder().becomes(Outcome::Failed),
                None => end.complete(),
            }
            if is_over {
                end.complete();
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Whole(bytes) => bytes.is_empty(),
            Kind::Passing(passing) => passing.upstream.as_ref().is_none_or(Body::is_end_stream),
            Kind::Told(_) => false,
            Kind::Driven(driver) => driver.is_over(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Passing(passing) => {
                passing.upstream.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
            }
            Kind::Told(_) => SizeHint::default(),
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
    recorder: Recorder,
    /// Something has come.
    begun: bool,
    /// It has to say something, and has not yet.
    owes: bool,
}

impl Passing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        let Some(upstream) = &mut self.upstream else { return Poll::Ready(None) };
        if let Some(ended) = self.ending.over(cx) {
            // An event that is under way may still end, and so may what is no stream: a gateway that stops waits a little. Nobody
            // waits for a token.
            let is_between = self.boundary.as_ref().is_some_and(Boundary::is_here);
            if is_between || ended == Ended::Token {
                return Poll::Ready(Some(self.give_up(&ended.failure())));
            }
        }
        // Trailers are headers that no table has, and no wire.
        let is_data = |frame: &Result<Frame<Bytes>, _>| !frame.as_ref().is_ok_and(Frame::is_trailers);
        match Pin::new(upstream).poll_frame(cx).map(|frame| frame.filter(is_data)) {
            Poll::Ready(Some(Ok(frame))) => {
                self.silence.broken();
                if !std::mem::replace(&mut self.begun, true) {
                    self.recorder.came(true);
                }
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
        self.recorder.failed(failure);
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
