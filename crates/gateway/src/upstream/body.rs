//! Bodies: those sent to a provider, and those it answers with.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep};

use super::pool::{Http1, Pool};
use super::upload::{ClientBody, Progress};

/// A request's body on its way to the provider.
#[derive(Debug)]
pub(crate) enum RequestBody {
    /// In memory: can be sent again.
    Whole(Bytes),
    /// Straight from the client: can be sent once.
    Stream(Box<ClientBody>),
}

/// Why a body can't be passed on.
#[derive(Debug, Error)]
pub(crate) enum BodyError {
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    #[error("nothing more of the body came within {0:?}")]
    Slow(Duration),
    #[error("the body takes too long: less than {0} bytes of it came in a second")]
    Dripping(u64),
    #[error("the body broke off")]
    Broken(#[source] hyper::Error),
}

impl RequestBody {
    /// How it comes from the client, if it is not here yet.
    pub(super) fn progress(&self) -> Option<Arc<Progress>> {
        match self {
            Self::Whole(_) => None,
            Self::Stream(body) => Some(body.progress()),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.get_mut() {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(body) => Pin::new(body.as_mut()).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.is_empty(),
            Self::Stream(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(body) => body.size_hint(),
        }
    }
}

/// How long nothing came. A timer runs only while somebody waits, and is not set anew by each piece.
#[derive(Debug)]
pub(crate) struct Silence {
    pub(crate) patience: Duration,
    since: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Silence {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { patience, since: Instant::now(), timer: None }
    }

    /// Something came.
    pub(crate) fn broken(&mut self) {
        if self.timer.is_some() {
            self.since = Instant::now();
        }
    }

    /// Whether it has lasted too long. Wakes the task when it may have.
    pub(crate) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(timer) = &mut self.timer else {
            self.since = Instant::now();
            let timer = self.timer.insert(Box::pin(tokio::time::sleep(self.patience)));
            return timer.as_mut().poll(cx).is_ready();
        };
        loop {
            if timer.as_mut().poll(cx).is_pending() {
                return false;
            }
            let end = self.since + self.patience;
            if Instant::now() >= end {
                return true;
            }
            timer.as_mut().reset(end);
        }
    }
}

/// What arrived together is passed on together, up to about this size.
const MOST_TOGETHER: usize = 64 << 10;

/// A provider's answer. It holds the connection that brings it, and gives it back when the answer is whole.
///
/// A frame is everything that has arrived, however the provider cut it into chunks: what arrives together is looked at
/// once, and leaves together.
#[derive(Debug)]
pub(crate) struct UpstreamBody {
    incoming: Incoming,
    connection: Option<(Http1, Arc<Pool>)>,
    /// The first data, where somebody looked whether there is any, and it was not passed on yet.
    first: Option<Bytes>,
    /// What came behind the data of the last frame and is none: trailers, a failure.
    behind: Option<Result<Frame<Bytes>, hyper::Error>>,
    is_over: bool,
}

impl UpstreamBody {
    pub(super) fn new(incoming: Incoming, connection: Option<(Http1, Arc<Pool>)>) -> Self {
        let mut body = Self { incoming, connection, first: None, behind: None, is_over: false };
        if body.incoming.is_end_stream() {
            body.is_over = true;
            if let Some((connection, pool)) = body.connection.take() {
                pool.put(connection);
            }
        }
        body
    }

    /// Whether anything comes: waits for the first data, and keeps it. A failure is something.
    pub(crate) async fn has_any(&mut self) -> bool {
        loop {
            if self.first.is_some() {
                return true;
            }
            match std::future::poll_fn(|cx| Pin::new(&mut *self).poll_frame(cx)).await {
                None => return false,
                Some(Err(error)) => {
                    self.behind = Some(Err(error));
                    return true;
                }
                // Trailers are about what came.
                Some(Ok(frame)) => self.first = frame.into_data().ok().filter(|data| !data.is_empty()),
            }
        }
    }

    /// The first data, which stays where it is; `None` if nothing comes but an end or a failure.
    pub(crate) async fn first(&mut self) -> Option<Bytes> {
        self.has_any().await;
        self.first.clone()
    }

    fn give_back(&mut self, cx: &mut Context<'_>) {
        self.is_over = true;
        if let Some((mut connection, pool)) = self.connection.take()
            // It takes note that the answer was read to its end.
            && connection.poll_drive(cx).is_pending()
        {
            pool.put(connection);
        }
    }

    /// The next piece, as the provider cut it.
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let mut polled = Pin::new(&mut self.incoming).poll_frame(cx);
        if polled.is_pending()
            && let Some((connection, _)) = &mut self.connection
        {
            // The connection only moves when it is polled; then it may have brought something.
            let ended = connection.poll_drive(cx).is_ready();
            polled = Pin::new(&mut self.incoming).poll_frame(cx);
            if ended {
                self.connection = None;
            }
        }
        match &polled {
            Poll::Ready(Some(Err(_))) => {
                self.connection = None;
                self.is_over = true;
            }
            Poll::Ready(None) => self.give_back(cx),
            // Whoever knows the length does not ask for more.
            Poll::Ready(Some(Ok(_))) if self.incoming.is_end_stream() => self.give_back(cx),
            Poll::Ready(Some(Ok(_))) | Poll::Pending => {}
        }
        polled
    }
}

impl Body for UpstreamBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if let Some(behind) = this.behind.take() {
            return Poll::Ready(Some(behind));
        }
        let mut first = Bytes::new();
        let mut together = BytesMut::new();
        while first.len().max(together.len()) < MOST_TOGETHER {
            let piece = match this.poll_piece(cx) {
                Poll::Ready(Some(piece)) => piece.map(Frame::into_data),
                Poll::Ready(None) if first.is_empty() => return Poll::Ready(None),
                Poll::Pending if first.is_empty() => return Poll::Pending,
                Poll::Ready(None) | Poll::Pending => break,
            };
            match piece {
                Ok(Ok(data)) if first.is_empty() => first = data,
                Ok(Ok(data)) => {
                    if together.is_empty() {
                        together.extend_from_slice(&first);
                    }
                    together.extend_from_slice(&data);
                }
                Ok(Err(other)) if first.is_empty() => return Poll::Ready(Some(Ok(other))),
                Err(error) if first.is_empty() => return Poll::Ready(Some(Err(error))),
                Ok(Err(other)) => {
                    this.behind = Some(Ok(other));
                    break;
                }
                Err(error) => {
                    this.behind = Some(Err(error));
                    break;
                }
            }
        }
        Poll::Ready(Some(Ok(Frame::data(if together.is_empty() { first } else { together.freeze() }))))
    }

    fn is_end_stream(&self) -> bool {
        self.first.is_none() && self.behind.is_none() && self.is_over
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.incoming.size_hint();
        let kept = self.first.as_ref().map_or(0, |data| data.len() as u64);
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper.saturating_add(kept));
        }
        hint.set_lower(rest.lower().saturating_add(kept));
        hint
    }
}
