//! What a client sends, bounded in size, in silence and in all the time that it takes.
//!
//! - *A client that drips is slow.* Beside the patience for one piece there is a time for the whole body: a constant, and
//!   for each byte that came what a slow line takes for it. So a large upload has the time that it needs, and a byte now and
//!   then holds nothing for long.
//! - *Only the client's time counts.* While a provider does not take more, nobody waits for the client; and while the client
//!   is waited for, nobody waits for the provider ([`Progress`]).

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::body::BodyError;

/// How long a client may take for a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// For the next piece of it.
    pub(crate) piece: Duration,
    /// For all of it, whatever its size.
    pub(crate) whole: Duration,
    /// Bytes a second that a body which takes longer comes with at least; more than none.
    pub(crate) rate: u64,
}

impl Pace {
    /// How long so many bytes may take in all.
    fn allows(&self, bytes: u64) -> Duration {
        let rate = self.rate.max(1);
        let millis = bytes.saturating_mul(1_000) / rate;
        self.whole.saturating_add(Duration::from_millis(millis))
    }
}

/// How a body comes, for whoever waits for what follows it.
#[derive(Debug)]
pub(crate) struct Progress(Mutex<Came>);

#[derive(Debug)]
enum Came {
    /// The client is waited for.
    Waiting,
    /// The last piece came then, and no more was asked for since.
    At(Instant),
}

impl Progress {
    fn set(&self, came: Came) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = came;
    }

    /// When a provider was silent for as long as `patience`, as far as is known now.
    pub(crate) fn end(&self, patience: Duration) -> Instant {
        match *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Came::Waiting => Instant::now() + patience,
            Came::At(last) => last + patience,
        }
    }
}

/// What a client sends.
#[derive(Debug)]
pub(crate) struct ClientBody<B = Incoming> {
    incoming: B,
    limit: usize,
    left: usize,
    pace: Pace,
    /// How long the client was waited for.
    waited: Duration,
    /// Since when it is.
    since: Option<Instant>,
    /// It ends when the client is waited for no longer, or earlier: it is not set anew by each piece.
    timer: Option<Pin<Box<Sleep>>>,
    progress: Arc<Progress>,
}

impl<B> ClientBody<B> {
    pub(crate) fn new(incoming: B, limit: usize, pace: Pace) -> Self {
        Self {
            incoming,
            limit,
            left: limit,
            pace,
            waited: Duration::ZERO,
            since: None,
            timer: None,
            progress: Arc::new(Progress(Mutex::new(Came::At(Instant::now())))),
        }
    }

    /// How it comes.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Why the client is waited for no longer. Wakes the task when that may be.
    fn is_slow(&mut self, cx: &mut Context<'_>) -> Option<BodyError> {
        let since = *self.since.get_or_insert_with(|| {
            self.progress.set(Came::Waiting);
            Instant::now()
        });
        let came = u64::try_from(self.limit.saturating_sub(self.left)).unwrap_or(u64::MAX);
        let left = self.pace.allows(came).saturating_sub(self.waited);
        let end = since + left.min(self.pace.piece);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
        loop {
            if timer.as_mut().poll(cx).is_pending() {
                return None;
            }
            if Instant::now() >= end {
                let is_silent = self.pace.piece <= left;
                return Some(if is_silent {
                    BodyError::Slow(self.pace.piece)
                } else {
                    BodyError::Dripping(self.pace.rate)
                });
            }
            timer.as_mut().reset(end);
        }
    }

    /// Something came, or nothing more does.
    fn came(&mut self) {
        let now = Instant::now();
        if let Some(since) = self.since.take() {
            self.waited += now.duration_since(since);
        }
        self.progress.set(Came::At(now));
    }
}

impl<B: Body<Data = Bytes, Error = hyper::Error> + Unpin> Body for ClientBody<B> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.as_mut().get_mut();
        let Poll::Ready(frame) = Pin::new(&mut this.incoming).poll_frame(cx) else {
            return match this.is_slow(cx) {
                Some(slow) => Poll::Ready(Some(Err(slow))),
                None => Poll::Pending,
            };
        };
        this.came();
        let frame = match frame {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(BodyError::Broken(error)))),
            Some(Ok(frame)) => frame,
        };
        // Trailers are headers that no table has, and no wire; nothing comes behind them.
        let Ok(data) = frame.into_data() else { return Poll::Ready(None) };
        let size = data.len();
        match this.left.checked_sub(size) {
            Some(left) => this.left = left,
            None => return Poll::Ready(Some(Err(BodyError::TooLarge(this.limit)))),
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tokio::time::{advance, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PACE: Pace = Pace { piece: Duration::from_secs(30), whole: Duration::from_secs(300), rate: 100 };

    /// Pieces of so many bytes, each so long after it was first asked for.
    struct Pieces {
        left: VecDeque<(Duration, usize)>,
        timer: Option<Pin<Box<Sleep>>>,
    }

    impl Body for Pieces {
        type Data = Bytes;
        type Error = hyper::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
            let Some((after, size)) = self.left.front().copied() else { return Poll::Ready(None) };
            let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(after)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.timer = None;
            self.left.pop_front();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![0; size])))))
        }
    }

    fn body(pieces: impl IntoIterator<Item = (Duration, usize)>, pace: Pace) -> ClientBody<Pieces> {
        let pieces = Pieces { left: pieces.into_iter().collect(), timer: None };
        ClientBody::new(pieces, usize::MAX, pace)
    }

    /// Reads a body, and says how many bytes came, and why no more did.
    async fn read(mut body: ClientBody<Pieces>, between: Duration) -> (usize, Option<BodyError>) {
        let mut came = 0;
        loop {
            match std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
                None => return (came, None),
                Some(Err(error)) => return (came, Some(error)),
                Some(Ok(frame)) => came += frame.data_ref().map_or(0, Bytes::len),
            }
            advance(between).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_drips_ends_in_time() {
        let began = Instant::now();
        let (came, error) =
            read(body((0..).map(|_| (29 * SECOND, 1)).take(10_000), PACE), SECOND / 1_000).await;
        assert!(matches!(error, Some(BodyError::Dripping(100))), "{error:?}");
        assert_eq!(came, 10, "at 290 s; the next piece would have come at 319 s");
        assert!((300..302).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_line_has_the_time_that_it_needs() {
        // 200 MB at the least rate, and a little above.
        let pace = Pace { rate: 20_000, ..PACE };
        let (came, error) = read(body((0..10_000).map(|_| (SECOND, 20_000)), pace), Duration::ZERO).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(came, 200_000_000);
        // Half of it takes too long, and not before what it may take anyway.
        let began = Instant::now();
        let (came, error) = read(body((0..10_000).map(|_| (SECOND, 10_000)), pace), Duration::ZERO).await;
        assert!(matches!(error, Some(BodyError::Dripping(20_000))), "{error:?}");
        assert!((599..=600).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
        assert!(came >= 5_980_000, "{came}");
    }

    /// However a body is cut, it has the same time.
    #[tokio::test(start_paused = true)]
    async fn small_pieces_are_no_way_to_stay() {
        for (after, size) in [(25, 10), (5, 2), (1, 1)] {
            let began = Instant::now();
            let pieces = (0..).map(|_| (after * SECOND, size)).take(10_000);
            let (_, error) = read(body(pieces, PACE), Duration::ZERO).await;
            assert!(matches!(error, Some(BodyError::Dripping(_))), "{error:?}");
            assert!((300..=304).contains(&began.elapsed().as_secs()), "{after}: {:?}", began.elapsed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_takes_nothing_is_not_the_clients_fault() {
        let (came, error) = read(body((0..100).map(|_| (SECOND, 1)), PACE), 60 * SECOND).await;
        assert!(error.is_none(), "{error:?}");
        assert_eq!(came, 100);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_body_earlier() {
        let began = Instant::now();
        let (_, error) = read(body([(SECOND, 1), (31 * SECOND, 1)], PACE), Duration::ZERO).await;
        assert!(matches!(error, Some(BodyError::Slow(_))), "{error:?}");
        assert_eq!(began.elapsed().as_secs(), 31);
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_the_provider_while_the_client_is_waited_for() {
        let mut body = body([(20 * SECOND, 1), (20 * SECOND, 1)], PACE);
        let progress = body.progress();
        let began = Instant::now();
        let next = async |body: &mut ClientBody<Pieces>| {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
            assert!(matches!(frame, Some(Ok(_)) | None), "{frame:?}");
        };
        next(&mut body).await;
        advance(3 * SECOND).await;
        assert_eq!(progress.end(SECOND), began + 21 * SECOND, "since the piece came");
        let polled =
            std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_pending())).await;
        assert!(polled);
        advance(5 * SECOND).await;
        assert_eq!(progress.end(SECOND), Instant::now() + SECOND, "the client is waited for");
        next(&mut body).await;
        next(&mut body).await;
        advance(9 * SECOND).await;
        assert!(progress.end(SECOND) < Instant::now(), "the body is whole");
    }
}
