//! Bodies of answers.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};

use crate::pool::{Http1, Pool, RequestBody};

/// What arrived together is passed on together, up to about this size.
const MOST_TOGETHER: usize = 64 << 10;

/// The body of an answer. It holds the connection that brings it, and gives it back when the answer is whole.
///
/// A frame is everything that has arrived, however the other side cut it into chunks: what arrives together is looked at
/// once, and leaves together.
#[derive(Debug)]
pub struct ResponseBody<B: RequestBody> {
    incoming: Incoming,
    connection: Option<(Http1<B>, Arc<Pool<B>>)>,
    /// The first data, where somebody looked whether there is any, and it was not passed on yet.
    first: Option<Bytes>,
    /// What came behind the data of the last frame and is none: trailers, a failure.
    behind: Option<Result<Frame<Bytes>, hyper::Error>>,
    is_over: bool,
}

impl<B: RequestBody> ResponseBody<B> {
    pub(crate) fn new(incoming: Incoming, connection: Option<(Http1<B>, Arc<Pool<B>>)>) -> Self {
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
    pub async fn has_any(&mut self) -> bool {
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
    pub async fn first(&mut self) -> Option<Bytes> {
        self.has_any().await;
        self.first.clone()
    }

    /// Discards what has arrived, so that the connection can be reused if that was all.
    pub(crate) fn leave(&mut self) {
        if self.connection.is_some() {
            // One frame holds all that has arrived, up to its size. Reading more is not worth a connection.
            let mut cx = Context::from_waker(Waker::noop());
            if Pin::new(&mut *self).poll_frame(&mut cx).is_ready() && !self.is_over {
                let _ = Pin::new(self).poll_frame(&mut cx);
            }
        }
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

    /// The next piece, as the other side cut it.
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

impl<B: RequestBody> Body for ResponseBody<B> {
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
