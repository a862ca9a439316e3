//! The loop that every listener for hooks runs, whoever it answers: the user's daemon and the system's service.
//!
//! *Bounded:* connections and the bytes of their payloads have a fixed number of places, and whoever finds none waits
//! for one. A question that does not arrive and an answer that is not taken end after [`TRAVEL_PATIENCE`], so nobody
//! keeps a place by doing nothing.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::protocol::{Unreadable, payload_length, read_body};

/// The most hooks that are answered at once. More wait for their turn.
pub(super) const MOST_CONNECTIONS: usize = 128;
/// The longest that a question may take to arrive, and an answer to be taken.
pub(super) const TRAVEL_PATIENCE: Duration = Duration::from_secs(10);
/// The longest that a hook waits.
pub(super) const LONGEST_PATIENCE: Duration = Duration::from_mins(15);
/// The most bytes of payloads that are in memory at once.
const MOST_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;
/// How long hooks that are being answered may go on at the end.
const DRAIN: Duration = Duration::from_secs(5);
/// What a failing system is given to recover before the next connection is taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Answers connections by `answer`, which is given each one and the room for payloads, until `stop` is closed; then
/// lets those end that are being answered.
pub(super) async fn serve<A>(
    listener: UnixListener,
    stop: Arc<Semaphore>,
    answer: impl Fn(UnixStream, Arc<Semaphore>) -> A + Send,
) where
    A: Future<Output = Result<(), Unreadable>> + Send + 'static,
{
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let room = Arc::new(Semaphore::new(MOST_PAYLOAD_BYTES));
    let mut answering = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Nothing is ever acquired: it ends when the semaphore is closed.
            _ = stop.acquire() => break,
            Some(_) = answering.join_next(), if !answering.is_empty() => continue,
            accepted = next(&listener, &connections) => accepted,
        };
        match accepted {
            Ok((stream, turn)) => {
                let answered = Box::pin(answer(stream, Arc::clone(&room)));
                answering.spawn(async move {
                    // Who went away needs no answer, and nobody else could use the reason.
                    let _ = answered.await;
                    drop(turn);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a hook can't be answered");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    let drained = async { while answering.join_next().await.is_some() {} };
    let _ = timeout(DRAIN, drained).await;
}

/// The next connection, as soon as there is room for one more.
async fn next(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(UnixStream, Option<OwnedSemaphorePermit>)> {
    let turn = Arc::clone(connections).acquire_owned().await.ok();
    Ok((listener.accept().await?.0, turn))
}

/// The payload, and the room that it takes up.
pub(super) async fn arrival<'r>(
    stream: &mut (impl AsyncRead + Unpin),
    room: &'r Semaphore,
) -> Result<(Vec<u8>, Option<SemaphorePermit<'r>>), Unreadable> {
    let length = payload_length(stream).await?;
    let bytes = u32::try_from(length).map_err(|_| Unreadable::TooLong)?;
    let taken = room.acquire_many(bytes).await.ok();
    Ok((read_body(stream, length).await?, taken))
}
