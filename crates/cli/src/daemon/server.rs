//! The daemon's side: it answers hooks of its own user and nobody else.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::connections::{self, LONGEST_PATIENCE, TRAVEL_PATIENCE, arrival};
use super::key::Key;
use super::lock::Lock;
use super::policies::Policies;
use super::protocol::{Unreadable, Word, read_question, write_word};
use crate::commands::hook::Unjudged;

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
        let judges = Arc::clone(&policies);
        let serving = tokio::spawn(connections::serve(listener, Arc::clone(&stop), move |stream, room| {
            let (judges, key) = (Arc::clone(&judges), key.clone());
            async move {
                if !is_user(&stream) {
                    tracing::warn!("somebody else than the user connected to the daemon's socket");
                    return Ok(());
                }
                answer(stream, &key, &judges, &room).await
            }
        }));
        Ok(Self { socket: socket.to_path_buf(), policies, serving, stop, _lock: lock })
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
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

async fn say(stream: &mut UnixStream, word: &Word, key: &Key, nonce: &str) -> Result<(), Unreadable> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(TRAVEL_PATIENCE, write_word(stream, word, key, nonce)).await.map_err(late)?
}

/// Returns when the other side has closed the connection. It has nothing more to say until then.
async fn gone(stream: &mut UnixStream) {
    let mut more = [0; 64];
    while stream.read(&mut more).await.is_ok_and(|read| read > 0) {}
}
