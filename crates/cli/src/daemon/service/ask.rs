//! The hook's side: a pipe to the service, and eyes for it.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use backstop::guards::{real_path, seen};
use backstop::hooks::Seen;

use crate::daemon::Said;
use crate::daemon::key::Key;
use crate::daemon::protocol::{
    Lookup, Question, Sighting, Unreadable, Word, read_word, said, write_question, write_sighting,
};

/// The most things that the service has looked at for one question.
pub(super) const MOST_LOOKS: usize = 4096;
/// Who may write in a folder beside its owner.
const BY_GROUP_OR_OTHERS: u32 = 0o022;
/// Others may add to such a folder, and not replace.
const STICKY: u32 = 0o1000;

/// Why the service says nothing about an event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error(
        "the service that judges for this machine does not listen at `{0}`, so every call is refused\nhint: only root can start it: `systemctl start backstop.socket`, or `backstop daemon`"
    )]
    Nobody(String),
    #[error(
        "`{0}` can't be taken for the place of the service: {1}\nhint: `backstop doctor --system` says more"
    )]
    Place(String, &'static str),
    #[error("whoever listens at `{0}` is not the service\nhint: `backstop doctor --system` says more")]
    Foreign(String),
    #[error("the service does not judge this: {0}")]
    Declined(String),
    #[error("{0}")]
    Failed(String),
    #[error("the service at `{socket}` gives no answer: {source}")]
    Silent { socket: String, source: Unreadable },
}

/// Has the service at `socket` judge, until `deadline`.
pub(crate) fn ask_service(
    socket: &Path,
    question: &Question,
    payload: &[u8],
    deadline: Instant,
) -> Result<Said, ServiceError> {
    let place = || socket.display().to_string();
    let silent = |source: Unreadable| ServiceError::Silent { socket: place(), source };
    let owner = owner_of(socket)?;
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Err(ServiceError::Nobody(place())),
        Err(error) => return Err(silent(error.into())),
    };
    if !is_service(&stream, owner) {
        return Err(ServiceError::Foreign(place()));
    }
    bound(&stream, deadline).map_err(|error| silent(error.into()))?;
    let nonce = &question.nonce;
    let key = Key::of_service();
    let sent = write_question(&mut stream, question, payload);
    match read_word(&mut stream, &key, nonce).map_err(silent)? {
        Word::Accepted => sent.map_err(silent)?,
        Word::Declined { why } => return Err(ServiceError::Declined(why)),
        Word::Failed { why } => return Err(ServiceError::Failed(why)),
        Word::Answered { .. } | Word::Look(_) => return Err(silent(Unreadable::Nonsense)),
    }
    for _ in 0..MOST_LOOKS {
        bound(&stream, deadline).map_err(|error| silent(error.into()))?;
        match read_word(&mut stream, &key, nonce).map_err(silent)? {
            Word::Look(lookup) => write_sighting(&mut stream, &look(&lookup)).map_err(silent)?,
            Word::Answered { stdout, stderr, exit_code, remark } => {
                return said(stdout, stderr, exit_code, remark).map_err(silent);
            }
            Word::Failed { why } => return Err(ServiceError::Failed(why)),
            Word::Accepted | Word::Declined { .. } => return Err(silent(Unreadable::Nonsense)),
        }
    }
    Err(silent(Unreadable::TooLong))
}

/// Looks, as this user.
fn look(lookup: &Lookup) -> Sighting {
    match lookup {
        Lookup::File(path) => match seen(path) {
            Seen::Text(text) => Sighting::Text(text),
            Seen::Missing => Sighting::Missing,
            Seen::Unreadable => Sighting::Unreadable,
        },
        Lookup::Links(path) => Sighting::LeadsTo(real_path(path)),
    }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

/// The user whose folder the socket lies in. No other, root aside, can have put it there, or any of the folders above.
fn owner_of(socket: &Path) -> Result<u32, ServiceError> {
    let place = || socket.display().to_string();
    let wrong = |why| Err(ServiceError::Place(place(), why));
    let Some(folder) = socket.parent().filter(|_| socket.is_absolute()) else {
        return wrong("it is no absolute path");
    };
    let mut owner = None;
    for folder in folder.ancestors() {
        let Ok(found) = std::fs::symlink_metadata(folder) else {
            return Err(ServiceError::Nobody(place()));
        };
        if found.is_symlink() {
            // What it leads to is looked at by its own name.
            let Ok(real) = std::fs::canonicalize(folder) else { return wrong("a folder above it is a loop") };
            return owner_of(&real.join(socket.strip_prefix(folder).unwrap_or(socket)));
        }
        let own = *owner.get_or_insert_with(|| found.uid());
        let writable = found.mode() & BY_GROUP_OR_OTHERS != 0 && found.mode() & STICKY == 0;
        if writable {
            return wrong("others may write in a folder above it");
        }
        if found.uid() != 0 && found.uid() != own {
            return wrong("a folder above it is another user's");
        }
    }
    match std::fs::symlink_metadata(socket) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ServiceError::Nobody(place())),
        Ok(found) if found.file_type().is_socket() => Ok(owner.unwrap_or_default()),
        _ => wrong("it is no socket"),
    }
}

/// Who owns the folder of a socket that only the service can have put there, or why it can't be taken for that.
pub(crate) fn owner_of_place(socket: &Path) -> Result<u32, String> {
    owner_of(socket).map_err(|error| error.to_string())
}

/// Whether the peer is root, which binds the socket and hands it on, or the owner of its folder; and is nobody whom this user
/// can be.
#[cfg(target_os = "linux")]
fn is_service(stream: &UnixStream, owner: u32) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    let (peer, us) = (peer.uid.as_raw(), rustix::process::geteuid().as_raw());
    (peer == 0 || peer == owner) && (us == 0 || us != peer && us != owner)
}

/// Elsewhere the folder says it.
#[cfg(not(target_os = "linux"))]
fn is_service(_: &UnixStream, owner: u32) -> bool {
    let us = rustix::process::geteuid().as_raw();
    us == 0 || us != owner
}

fn bound(stream: &UnixStream, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(left))?;
    stream.set_write_timeout(Some(left))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_place_that_others_can_write_is_not_the_services() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("run");
        std::fs::create_dir(&place).unwrap();
        let socket = place.join("hooks.sock");
        let mode = |mode| std::fs::set_permissions(&place, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        assert!(matches!(owner_of(&socket), Err(ServiceError::Nobody(_))), "nothing is there");
        std::fs::write(&socket, "").unwrap();
        assert!(matches!(owner_of(&socket), Err(ServiceError::Place(..))), "a file is no socket");
        std::fs::remove_file(&socket).unwrap();
        let _listening = UnixListener::bind(&socket).unwrap();
        assert_eq!(owner_of(&socket).unwrap(), rustix::process::geteuid().as_raw());
        for open in [0o777, 0o775] {
            mode(open);
            assert!(matches!(owner_of(&socket), Err(ServiceError::Place(..))), "{open:o}");
        }
        assert!(matches!(owner_of(Path::new("hooks.sock")), Err(ServiceError::Place(..))));
    }

    #[test]
    fn a_link_is_judged_by_where_it_leads() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        std::fs::create_dir(&open).unwrap();
        let _listening = UnixListener::bind(open.join("hooks.sock")).unwrap();
        std::os::unix::fs::symlink(&open, folder.path().join("run")).unwrap();
        let socket = folder.path().join("run/hooks.sock");
        assert!(owner_of(&socket).is_ok());
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(owner_of(&socket), Err(ServiceError::Place(..))));
    }
}
