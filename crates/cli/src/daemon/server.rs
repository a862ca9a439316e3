//! The daemon's side: who may connect, and how much of everything there may be.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;

use super::key::Key;
use super::lock::Lock;
use super::policies::Policies;
use super::protocol::{Unreadable, Word, payload_length, read_body, read_question, write_word};
use crate::commands::hook::Unjudged;

/// The most hooks that are answered at once. More wait for their turn.
pub(super) const MOST_CONNECTIONS: usize = 128;
/// The most bytes of payloads that are in memory at once.
pub(super) const MOST_PAYLOAD_BYTES: usize = 64 * 1024 * 1024;
/// The longest that a question may take to arrive, and an answer to be taken.
pub(super) const TRAVEL_PATIENCE: Duration = Duration::from_secs(10);
/// The longest that a hook waits.
pub(super) const LONGEST_PATIENCE: Duration = Duration::from_mins(15);
/// How long hooks that are being answered may go on at the end.
pub(super) const DRAIN: Duration = Duration::from_secs(5);
/// What a failing system is given to recover before the next connection is taken.
pub(super) const PAUSE: Duration = Duration::from_millis(100);

/// Why a daemon can't listen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenError {
    /// Another daemon does.
    #[error("another daemon answers hooks at `{0}`")]
    Taken(String),
    /// Others could get at the socket.
    #[error(
        "`{0}` is not the user's alone, so the daemon can't listen there\nhint: chmod 700, or set `daemon.socket`, or `daemon.enabled: false`"
    )]
    NotPrivate(String),
    /// Something else is there.
    #[error("`{0}` is there and is no socket; it was left as it is\nhint: set `daemon.socket`")]
    Occupied(String),
    /// It fails.
    #[error(
        "the daemon can't listen at `{socket}`: {source}\nhint: set `daemon.socket`, or `daemon.enabled: false`"
    )]
    Io {
        /// The socket.
        socket: String,
        /// Why.
        source: io::Error,
    },
}

/// A daemon that listens until it is told to stop.
#[derive(Debug)]
pub(crate) struct Daemon {
    socket: PathBuf,
    policies: Arc<Policies>,
    serving: JoinHandle<()>,
    stop: Arc<Semaphore>,
    /// Held until the socket is gone.
    _lock: Lock,
}

impl Daemon {
    /// Listens at `socket` and answers there.
    pub(crate) fn start(socket: &Path, policies: Policies) -> Result<Self, ListenError> {
        let lock = Lock::take(socket)?;
        let failed = |source: io::Error| ListenError::Io { socket: socket.display().to_string(), source };
        // Before anybody can connect.
        let key = Key::create(socket).map_err(failed)?;
        let listener = UnixListener::bind(socket).map_err(failed)?;
        fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        let (policies, stop) = (Arc::new(policies), Arc::new(Semaphore::new(0)));
        let serving = tokio::spawn(serve(listener, key, Arc::clone(&policies), Arc::clone(&stop)));
        Ok(Self { socket: socket.to_path_buf(), policies, serving, stop, _lock: lock })
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Whether any hook has come to it.
    pub(crate) fn was_asked(&self) -> bool {
        self.policies.were_asked()
    }

    /// Takes no more questions, lets those end that are being answered, and clears up. Answers whether the audit
    /// trail is complete.
    pub(crate) async fn stop(self) -> bool {
        // Gone first: who comes now judges alone.
        let _ = fs::remove_file(&self.socket);
        self.stop.close();
        // A bug in there was reported where it happened.
        let _ = self.serving.await;
        Key::remove(&self.socket);
        self.policies.shut_down().await
    }
}

async fn serve(listener: UnixListener, key: Key, policies: Arc<Policies>, stop: Arc<Semaphore>) {
    let connections = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let payload_bytes = Arc::new(Semaphore::new(MOST_PAYLOAD_BYTES));
    let mut answering = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            // Nothing is ever acquired: it ends when the semaphore is closed.
            _ = stop.acquire() => break,
            Some(_) = answering.join_next(), if !answering.is_empty() => continue,
            accepted = next(&listener, &connections) => accepted,
        };
        match accepted {
            Ok((stream, turn)) if is_user(&stream) => {
                let (policies, room, key) = (Arc::clone(&policies), Arc::clone(&payload_bytes), key.clone());
                answering.spawn(async move {
                    // Who went away needs no answer, and nobody else could use the reason.
                    let _ = Box::pin(answer(stream, &key, &policies, &room)).await;
                    drop(turn);
                });
            }
            Ok(_) => tracing::warn!("somebody else than the user connected to the daemon's socket"),
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
pub(super) async fn next(
    listener: &UnixListener,
    connections: &Arc<Semaphore>,
) -> io::Result<(UnixStream, Option<OwnedSemaphorePermit>)> {
    let turn = Arc::clone(connections).acquire_owned().await.ok();
    Ok((listener.accept().await?.0, turn))
}

fn is_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// Answers one connection.
async fn answer(
    mut stream: UnixStream,
    key: &Key,
    policies: &Policies,
    room: &Semaphore,
) -> Result<(), Unreadable> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let question = match timeout(TRAVEL_PATIENCE, read_question(&mut stream)).await.map_err(late)? {
        Err(Unreadable::OtherVersion(_)) => {
            let why = "another version of the protocol is spoken here".to_owned();
            return say(&mut stream, &Word::Declined { why }, key, "").await;
        }
        question => question?,
    };
    if let Some(why) = policies.declines(&question) {
        return say(&mut stream, &Word::Declined { why: why.to_owned() }, key, &question.nonce).await;
    }
    let arrival = arrival(&mut stream, room);
    let (payload, _room) = timeout(TRAVEL_PATIENCE, arrival).await.map_err(late)??;
    say(&mut stream, &Word::Accepted, key, &question.nonce).await?;
    let patience = Duration::from_millis(question.patience_ms).min(LONGEST_PATIENCE);
    let word = tokio::select! {
        judged = timeout(patience, policies.judge(&question, &payload)) => match judged {
            Ok(Ok(said)) => Word::answered(&said),
            Ok(Err(Unjudged(why))) => Word::Failed { why },
            Err(_) => Word::Failed { why: "judging took too long".to_owned() },
        },
        // Its client has gone, or has stopped waiting: what is being asked on its behalf is withdrawn.
        () = gone(&mut stream) => return Ok(()),
    };
    say(&mut stream, &word, key, &question.nonce).await
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

async fn say(stream: &mut UnixStream, word: &Word, key: &Key, nonce: &str) -> Result<(), Unreadable> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(TRAVEL_PATIENCE, write_word(stream, word, key, nonce)).await.map_err(late)?
}

/// Returns when the other side has closed the connection. It has nothing more to say until then.
async fn gone(stream: &mut UnixStream) {
    let mut more = [0; 64];
    while stream.read(&mut more).await.is_ok_and(|read| read > 0) {}
}
