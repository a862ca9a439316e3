//! The daemon: hooks of coding agents answered by a process that is there already.
//!
//! `backstop hook` can do everything alone: read the configuration, build the guards, open the database, judge. Where
//! `backstop serve` or `backstop run` listens on a Unix socket, it hands the event over instead, and only writes the
//! answer down. The laws:
//!
//! - **The same policy.** The daemon judges by the configuration that the hook itself would have loaded: the
//!   operator's file and the repository files above the folder that the event is about, read anew for each event and
//!   kept only while their texts are what they were. A hook with another operator's file, another home, another data
//!   folder or another version is *declined*, and judges alone.
//! - **A daemon never makes a call pass that would not pass without it.** One that listens and does not answer,
//!   answers nonsense, or belongs to somebody else is a failure, and a failure blocks (`daemon.on_failure`).
//!   Where nobody listens, the hook judges alone.
//! - **The user's alone.** The socket has mode 0600 in a folder of mode 0700, and both sides look at the other's user.
//!   What a connection may send, how long it may take, and how many there are is bounded.
//! - **No squatter is believed.** A daemon signs what it says with a [key](key) that lies beside its socket; and the one
//!   that a variable names counts only where it is the `backstop run` above the hook.
//! - **One at a time.** A lock beside the socket says who listens. It goes with its process, so that what a killed
//!   daemon left behind is replaced, and a living one is respected.
//!
//! Variables in the configuration (`${VAR}`) are those of the daemon's environment.

mod ask;
mod connections;
mod heard;
mod key;
mod lock;
mod peer;
mod policies;
mod protocol;
mod server;
mod service;
mod twins;

use std::path::PathBuf;

use backstop::clients::Answer;

pub(crate) use self::ask::{Asked, ask};
pub(crate) use self::heard::Heard;
pub(crate) use self::key::Key;
pub(crate) use self::lock::private_folder;
pub(crate) use self::peer::Kin;
pub(crate) use self::policies::Policies;
pub(crate) use self::protocol::{Claims, Question, Viewpoint};
pub(crate) use self::server::{Daemon, ListenError};
pub(crate) use self::service::{Service, ask_service, owner_of_place};

/// The environment variable by which `backstop run` tells the hooks below it where its daemon listens.
pub(crate) const SOCKET_VARIABLE: &str = "BACKSTOP_SOCKET";

/// The socket of the daemon that `backstop run` has started around this process.
pub(crate) fn socket_of_run() -> Option<PathBuf> {
    std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// What a hook says to its client, and what it says to the user beside it.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) answer: Answer,
    pub(crate) remark: Option<String>,
}
