//! What comes while a request is on its way, or an answer: some of it passes, and the rest waits.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;

use futures_util::StreamExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::ending::Ending;
use super::message::Said;
use super::realtime::{Talk, Utterance};
use super::relay::{Heard, Next, Relay};
use super::steer::Unsteered;

/// Requests that wait for the answer to another.
const MOST_WAITING: usize = 16;
/// Pieces of sound that wait until the first request of a session was judged.
const MOST_SOUND: usize = 2_000;
/// Messages to an answer under way, each of which is told that it does not pass.
const MOST_STEERS: usize = 16;

impl Relay {
    /// What comes next while a request is on its way; with `is_asked` also that the provider is silent.
    pub(super) async fn next(&mut self, is_asked: bool) -> Next {
        let silent = is_asked.then_some(self.silent);
        let quiet = self.patience.map(|patience| self.told + patience);
        let at = |instant: Option<Instant>| async move {
            match instant {
                Some(instant) => sleep_until(instant).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            ended = self.session.ending().heard() => Next::Ended(ended),
            frame = self.client.next() => Next::Client(frame),
            // Read so that its pings are answered; one message further than anybody wants at most.
            frame = self.upstream.next(), if self.ahead.is_none() => Next::Upstream(frame),
            () = at(quiet) => Next::Quiet,
            () = at(silent) => Next::Silent,
        }
    }

    /// Waits for a decision, and for both sides meanwhile.
    pub(super) async fn attend<T>(&mut self, deciding: impl Future<Output = T>) -> Result<T, Ending> {
        let mut deciding = pin!(deciding);
        loop {
            let next = tokio::select! {
                biased;
                decided = &mut deciding => return Ok(decided),
                next = self.next(false) => next,
            };
            self.mind(next).await?;
        }
    }

    /// Takes what came while a request is on its way.
    pub(super) async fn mind(&mut self, next: Next) -> Result<(), Ending> {
        match next {
            Next::Client(frame) => {
                if let Some(text) = self.text_of(frame)? {
                    self.wait(text).await?;
                }
            }
            Next::Upstream(Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)))) => {}
            Next::Upstream(frame) => self.ahead = Some(frame),
            Next::Quiet => self.put(Message::Ping(bytes::Bytes::new())).await?,
            Next::Silent => {}
            Next::Ended(ended) => return Err(Ending::of(ended).told(ended.failure())),
        }
        Ok(())
    }

    /// A request waits for its turn. What is said to an answer under way is no request, nor is sound.
    async fn wait(&mut self, text: Utf8Bytes) -> Result<(), Ending> {
        let read = self.read(text);
        let is_sound = |heard: &Heard| heard.said.as_ref().is_ok_and(Said::is_sound);
        let sound = self.waiting.iter().filter(|heard| is_sound(heard)).count();
        let is_full = match &read {
            Ok(heard) if is_sound(heard) => sound >= MOST_SOUND,
            _ => self.waiting.len() - sound >= MOST_WAITING,
        };
        if is_full {
            return Err(Ending::saying(
                CloseCode::Policy,
                "too many requests wait for the answer to another",
            ));
        }
        match read {
            Ok(Heard { said: Ok(Said::Steer(steer)), mut buffered, .. }) => {
                self.interrupt()?;
                let told = match (&mut self.steering, buffered.pop()) {
                    (Some(steering), Some(buffered)) => steering.take(steer, buffered),
                    _ => steer.failed(Unsteered::Over),
                };
                self.say([told]).await
            }
            Ok(Heard { said: Ok(Said::Talk(Utterance::Cancel)), .. }) => {
                self.interrupt()?;
                self.send(vec![Talk::cancel().into()]).await
            }
            Ok(heard) if heard.said.as_ref().is_ok_and(|said| self.dialect.passes(said)) => {
                // In its order: what came before anything could pass goes first.
                let waiting = std::mem::take(&mut self.waiting);
                let (passing, waiting): (VecDeque<_>, _) = waiting.into_iter().partition(is_sound);
                self.waiting = waiting;
                for heard in passing.into_iter().chain([heard]) {
                    if let Heard { said: Ok(said), mut buffered, .. } = heard
                        && let Some(buffered) = buffered.pop()
                    {
                        Box::pin(self.talk(said, buffered)).await?;
                    }
                }
                Ok(())
            }
            Ok(heard) => {
                self.waiting.push_back(heard);
                Ok(())
            }
            Err(failure) => Err(Ending::too_much(failure)),
        }
    }

    /// Something is said to the answer under way.
    fn interrupt(&mut self) -> Result<(), Ending> {
        self.steers += 1;
        if self.steers > MOST_STEERS {
            return Err(Ending::saying(CloseCode::Policy, "too much was said to one answer"));
        }
        Ok(())
    }
}
