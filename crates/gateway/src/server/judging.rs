//! Where large requests are judged: on threads that serve no connection.
//!
//! What a few kilobytes decompress to may take seconds to judge. On a thread that serves connections everybody else would wait
//! for that, also whoever asks for something that no hook reads. So a request of [`LARGE`] bytes and more is judged on the
//! runtime's threads for work that blocks, step by step: a step lasts until the exchange waits for something or lets others have
//! their turn.
//!
//! - *At most as many steps run at once as the machine has processors.* Others wait for their turn, first come, first served, and
//!   between its steps a request holds no place.
//! - *Who leaves is not judged.* Nothing runs for a client that has left but the step that is under way; no other is begun.
//!
//! What is judged counts against `max_buffered_bytes` meanwhile. Bodies are decompressed in such places, too: how long that takes
//! is known only afterwards.
//!
//! Limits: one step is at most what one hook point does with one request, whose size `max_body_bytes` bounds. A request below
//! [`LARGE`] is judged where it is served.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::available_parallelism;

use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};
use tokio::task::spawn_blocking;

use crate::exchange::{Body, Exchange, Requested};

/// How many bytes a request has that is judged elsewhere.
const LARGE: usize = 32 << 10;
/// How often a large request is in memory while it is judged, besides as it was sent: as it was read, and as hooks rewrite it.
const COPIES: usize = 2;

/// How many bytes a request takes in memory while it is judged, besides those that were sent.
pub(super) fn held(bytes: &Bytes) -> usize {
    if bytes.len() < LARGE { 0 } else { bytes.len().saturating_mul(COPIES) }
}

/// The places for steps.
#[derive(Clone, Debug)]
pub(super) struct Judging(Arc<Semaphore>);

impl Default for Judging {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(available_parallelism().map_or(1, NonZeroUsize::get))))
    }
}

impl Judging {
    /// Shows a request to its exchange, which comes back with what it made of it.
    pub(super) async fn request(
        &self,
        mut exchange: Box<dyn Exchange>,
        bytes: Bytes,
        provider: Arc<str>,
    ) -> (Box<dyn Exchange>, Requested) {
        let is_large = bytes.len() >= LARGE;
        let judged = async move {
            let requested = exchange.request(&Body { bytes: &bytes, provider: &provider }).await;
            (exchange, requested)
        };
        if is_large { self.in_steps(judged).await } else { judged.await }
    }

    /// Judges something of that many bytes.
    pub(super) async fn sized<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        if bytes < LARGE { work.await } else { self.in_steps(work).await }
    }

    /// Does work that waits for nothing in a place of its own.
    pub(super) async fn aside<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let done = spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        match done.await {
            Ok(done) => done,
            Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
            // The runtime ends, and whoever waits here with it.
            Err(_) => std::future::pending().await,
        }
    }

    async fn in_steps<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        let woken = Arc::new(Woken::default());
        let mut work = Box::pin(work);
        loop {
            let place = Arc::clone(&self.0).acquire_owned().await;
            let waker = Waker::from(Arc::clone(&woken));
            let step = spawn_blocking(move || {
                let polled = work.as_mut().poll(&mut Context::from_waker(&waker));
                drop(place);
                (work, polled)
            });
            work = match step.await {
                Ok((_, Poll::Ready(done))) => return done,
                Ok((work, Poll::Pending)) => work,
                Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
                // The runtime ends, and whoever waits here with it.
                Err(_) => std::future::pending().await,
            };
            woken.0.notified().await;
        }
    }
}

/// Whether a step that waited can go on.
#[derive(Debug, Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}
