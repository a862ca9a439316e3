//! The hook's side: one question, and waiting for its answer.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::Said;
use super::key::Key;
use super::peer::{Kin, is_kin};
use super::protocol::{Question, Unreadable, Word, read_word, said, write_question};

/// The longest that a daemon takes to say that it has a question. Judging may take longer; this takes no thought.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(5);

/// What came of asking.
#[derive(Debug)]
pub(crate) enum Asked {
    /// Nobody listens.
    Nobody,
    /// Whoever listens leaves it to the hook.
    Declined,
    /// The answer.
    Answered(Said),
    /// The daemon could not judge it, and says why.
    Failed(String),
}

/// Why a daemon that seems to be there gives no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DaemonError {
    #[error("the daemon's socket `{0}` is not the user's alone")]
    NotPrivate(String),
    #[error(
        "whoever listens at `{0}` is not the daemon that belongs there\nhint: only the `backstop run` that started the client may be named by a variable; elsewhere unset `BACKSTOP_SOCKET`"
    )]
    Foreign(String),
    #[error(
        "the daemon at `{socket}` gives no answer: {source}\nhint: start `backstop serve` again, or stop it"
    )]
    Silent { socket: String, source: Unreadable },
}

/// Asks the daemon at `socket`, which must be `kin`, and waits for its answer until `deadline`.
pub(crate) fn ask(
    socket: &Path,
    kin: Kin,
    question: &Question,
    payload: &[u8],
    deadline: Instant,
) -> Result<Asked, DaemonError> {
    let silent = |source: Unreadable| DaemonError::Silent { socket: socket.display().to_string(), source };
    if !is_there(socket)? {
        return Ok(Asked::Nobody);
    }
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(Asked::Nobody),
        Err(error) => return Err(silent(error.into())),
    };
    if !is_kin(&stream, kin) {
        return Err(DaemonError::Foreign(socket.display().to_string()));
    }
    let key = Key::of(socket).map_err(|error| silent(error.into()))?;
    match converse(&mut stream, &key, question, payload, deadline) {
        Err(Unreadable::OtherVersion(_)) => Ok(Asked::Declined),
        other => other.map_err(silent),
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// Whether there is a socket that only this user can have made.
fn is_there(socket: &Path) -> Result<bool, DaemonError> {
    let not_private = || DaemonError::NotPrivate(socket.display().to_string());
    let found = match std::fs::symlink_metadata(socket) {
        Ok(found) => found,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(_) => return Err(not_private()),
    };
    let folder = socket.parent().and_then(|folder| std::fs::symlink_metadata(folder).ok());
    let us = rustix::process::geteuid().as_raw();
    let is_ours = found.file_type().is_socket()
        && found.uid() == us
        && folder.is_some_and(|folder| folder.uid() == us && folder.mode() & 0o077 == 0);
    if is_ours { Ok(true) } else { Err(not_private()) }
}

fn converse(
    stream: &mut UnixStream,
    key: &Key,
    question: &Question,
    payload: &[u8],
    deadline: Instant,
) -> Result<Asked, Unreadable> {
    let accepted_by = deadline.min(Instant::now() + ACCEPT_PATIENCE);
    wait_until(stream, accepted_by)?;
    // A daemon that declines may do so before it has read everything.
    let sent = write_question(stream, question, payload);
    match read_word(stream, key, &question.nonce)? {
        Word::Accepted => sent?,
        Word::Declined { .. } => return Ok(Asked::Declined),
        Word::Failed { why } => return Ok(Asked::Failed(why)),
        Word::Answered { .. } | Word::Look(_) => return Err(Unreadable::Nonsense),
    }
    wait_until(stream, deadline)?;
    match read_word(stream, key, &question.nonce)? {
        Word::Answered { stdout, stderr, exit_code, remark } => {
            Ok(Asked::Answered(said(stdout, stderr, exit_code, remark)?))
        }
        Word::Failed { why } => Ok(Asked::Failed(why)),
        Word::Accepted | Word::Declined { .. } | Word::Look(_) => Err(Unreadable::Nonsense),
    }
}

/// Bounds each of the next reads and writes. A daemon that sends a byte at a time is bounded by whoever watches
/// the hook's clock.
fn wait_until(stream: &UnixStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}
