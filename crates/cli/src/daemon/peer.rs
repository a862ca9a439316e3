//! Who is at the other end of a socket: of which user, and whether it is the run around this process.

use std::os::unix::net::UnixStream;

/// What a hook demands of whoever answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kin {
    /// A process of this user.
    SameUser,
    /// The `backstop run` that has started the client of this hook, at whatever distance.
    Ancestor,
}

/// The most steps from a process to its ancestors that are looked at.
#[cfg(target_os = "linux")]
const MOST_GENERATIONS: usize = 256;

/// Whether the peer is what is demanded.
#[cfg(target_os = "linux")]
pub(super) fn is_kin(stream: &UnixStream, kin: Kin) -> bool {
    let Ok(peer) = rustix::net::sockopt::socket_peercred(stream) else { return false };
    peer.uid == rustix::process::geteuid()
        && match kin {
            Kin::SameUser => true,
            Kin::Ancestor => ancestors().any(|ancestor| ancestor == peer.pid.as_raw_nonzero().get()),
        }
}

/// Elsewhere the mode of the socket's folder and the daemon's key say it.
#[cfg(not(target_os = "linux"))]
pub(super) fn is_kin(_: &UnixStream, _: Kin) -> bool {
    true
}

/// The processes above this one. One that has gone ends the row: whoever is above it then is not known.
#[cfg(target_os = "linux")]
fn ancestors() -> impl Iterator<Item = i32> {
    let first = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    std::iter::successors(first, |pid| parent_of(*pid)).take(MOST_GENERATIONS)
}

#[cfg(target_os = "linux")]
fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name stands in brackets and may hold anything, brackets included.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_processes_above_are_found_and_others_are_not() {
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert!(ancestors().any(|ancestor| ancestor == parent));
        let us = rustix::process::getpid().as_raw_nonzero().get();
        assert!(!ancestors().any(|ancestor| ancestor == us), "nobody is above itself");
        assert_eq!(parent_of(us), Some(parent));
    }

    #[test]
    fn a_peer_of_this_user_is_kin_and_no_ancestor() {
        let (here, _there) = UnixStream::pair().unwrap();
        assert!(is_kin(&here, Kin::SameUser));
        assert!(!is_kin(&here, Kin::Ancestor));
    }
}
