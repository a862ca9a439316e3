//! The service: one daemon for all users of a machine, which runs as a user of its own.
//!
//! Where hooks judge alone, or a daemon of the user does, judge and agent share one account, and what the one keeps
//! the other can change. Here program, configuration, database, questions and grants belong to somebody else, and a
//! hook is a pipe: it hands the event over and says what it is told. The laws:
//!
//! - **The system says who asks.** The service reads the peer's user off the socket, and each user has a database of
//!   their own, so that no user's grant counts for another.
//! - **Who is there is known by the folder.** A hook believes whoever listens in a folder that only root, or the
//!   service's own user, writes; it demands a peer that is one of the two, and never itself.
//! - **What the hook says only tightens.** The service can't read a user's files and does not try to. The hook
//!   sends the texts of the user's and the workspace's configuration, which are laid over `/etc/backstop` as a
//!   repository's are: they can tighten and nothing else.
//! - **The hook looks, the service judges.** What a judgement needs to see of the disk (a script's text, where a link leads)
//!   it asks the hook for, over the same connection. A hook that gives no answer is refused.
//! - **Failing is not passing.** Nobody there, another version, no answer in time: refused. There is no judging alone.
//!
//! Limits: what the hook says to have seen is believed. Whoever could make it lie (a debugger, a library that is loaded into
//! it) can as well have it answer its client by itself.

mod ask;
mod eyes;
mod serve;

pub(crate) use self::ask::{ask_service, owner_of_place};
pub(crate) use self::serve::Service;
