//! Bodies that are sent to a provider, and how long it is waited for.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Instant, Sleep};

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
