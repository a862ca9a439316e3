//! Sessions: one stretch of a conversation, and which process may run turns in it.
//!
//! A conversation has a stable [`SessionKey`]; each reset starts a new session under the same key. Two
//! processes never run turns in one session at once: a process takes the session's *lease* and renews it
//! while it works. A lease that was not renewed in time belongs to a process that was killed, and the
//! next process takes it over. The law: *at any time at most one holder has an unexpired lease*.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{AgentId, Json, SessionId, SessionKey};
use serde::{Deserialize, Serialize};

use crate::{StoreError, Timestamp};

/// One stretch of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The session.
    pub id: SessionId,
    /// The conversation it belongs to.
    pub key: SessionKey,
    /// The agent that works in it.
    pub agent: AgentId,
    /// The folder that the agent's tools work in.
    pub workspace: String,
    /// When it began.
    pub created_at: Timestamp,
    /// When something last happened in it.
    pub updated_at: Timestamp,
    /// How it ended; `None` while it can go on.
    pub ended: Option<SessionEnd>,
    /// The session that it continues.
    pub resumed_from: Option<SessionId>,
    /// What the host wants to remember about it.
    pub meta: Json,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: SessionEndReason,
}

/// The holder of a lease, unique to one process. A holder created by [`LeaseHolder::unique`] identifies its
/// process well enough that another process on the same machine can tell when it is gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseHolder(String);

impl LeaseHolder {
    /// Creates a holder by that name.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// Creates a new, unique holder for this process.
    pub fn unique() -> Self {
        let pid = std::process::id();
        let tag = uuid::Uuid::new_v4().simple().to_string();
        Self(match (process::here(), process::started(pid)) {
            (Some(here), Ok(Some(started))) => format!("pid {pid} ({tag} {here} {started})"),
            _ => format!("pid {pid} ({tag})"),
        })
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the holder's process is known to have ended, so that its lease is free before it runs out.
    /// Only a process of this machine, since its last start and in the same namespace of process ids, can
    /// be known; of any other the answer is no.
    pub fn is_gone(&self) -> bool {
        let known = || -> Option<bool> {
            let (pid, rest) = self.0.strip_prefix("pid ")?.split_once(' ')?;
            let mut parts = rest.strip_prefix('(')?.strip_suffix(')')?.split(' ');
            let (_tag, here, started) = (parts.next()?, parts.next()?, parts.next()?);
            let (ours, pid) = (process::here()? == here, pid.parse().ok()?);
            let has_ended = || match process::started(pid) {
                Ok(Some(now)) => now != started,
                Ok(None) => !process::is_hidden(pid),
                // INVARIANT (known to have ended): what can't be looked at, as where no file can be opened, is no end.
                Err(process::Unknown) => false,
            };
            Some(ours && has_ended())
        };
        known().unwrap_or(false)
    }
}

/// What the system says of processes.
mod process {
    use std::sync::OnceLock;

    /// This machine since its last start, and the namespace of process ids: what makes a process id mean
    /// one process. Neither changes while this process runs.
    pub(super) fn here() -> Option<&'static str> {
        static HERE: OnceLock<Option<String>> = OnceLock::new();
        let read = || -> Option<String> {
            let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
            Some(format!("{}/{}", boot.trim(), namespace.display()))
        };
        HERE.get_or_init(read).as_deref()
    }

    /// What the system says of a process can't be read.
    #[derive(Debug, PartialEq, Eq)]
    pub(super) struct Unknown;

    /// When the process began, in clock ticks since the machine's start; `None` if there is none.
    pub(super) fn started(pid: u32) -> Result<Option<String>, Unknown> {
        // The name of the program may hold any bytes.
        match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(stat) => began(&String::from_utf8_lossy(&stat)),
            Err(error) if is_none(&error) => Ok(None),
            Err(_) => Err(Unknown),
        }
    }

    /// When it began, by what the system says of it.
    pub(super) fn began(stat: &str) -> Result<Option<String>, Unknown> {
        // The name of the program, in parentheses, may hold anything.
        let (_, fields) = stat.rsplit_once(") ").ok_or(Unknown)?;
        let mut fields = fields.split(' ');
        // A process that has ended and is not yet collected runs nothing any more.
        if matches!(fields.next(), Some("Z" | "X")) {
            return Ok(None);
        }
        fields.nth(18).map(|began| Some(began.to_owned())).ok_or(Unknown)
    }

    /// Whether there is no such process, also where it went while it was looked at.
    pub(super) fn is_none(error: &std::io::Error) -> bool {
        error.kind() == std::io::ErrorKind::NotFound || went(error)
    }

    #[cfg(target_os = "linux")]
    fn went(error: &std::io::Error) -> bool {
        error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
    }

    #[cfg(not(target_os = "linux"))]
    fn went(_error: &std::io::Error) -> bool {
        false
    }

    /// Whether there is a process of which the system shows nothing here, as it does with those of other accounts where `/proc` is mounted
    /// with `hidepid`.
    pub(super) fn is_hidden(pid: u32) -> bool {
        std::fs::metadata(format!("/proc/{pid}/stat")).is_err() && is_there(pid)
    }

    #[cfg(target_os = "linux")]
    fn is_there(pid: u32) -> bool {
        use rustix::process::{Pid, test_kill_process};
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // One that may not be sent a signal is there.
        pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }

    #[cfg(not(target_os = "linux"))]
    fn is_there(_pid: u32) -> bool {
        true
    }
}

impl fmt::Display for LeaseHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The process is what a human can do something about; the rest tells it from others.
        f.write_str(self.0.split_once(" (").map_or(&self.0, |(process, _)| process))
    }
}

/// The right to run turns in a session, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The session.
    pub session: SessionId,
    /// Its holder.
    pub holder: LeaseHolder,
    /// Until when, unless renewed.
    pub until: Timestamp,
}

/// Why a session operation failed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A session of that id exists.
    #[error("session `{0}` exists already")]
    Exists(SessionId),
    /// No session of that id exists.
    #[error("there is no session `{0}`")]
    Unknown(SessionId),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a lease was not granted or kept.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Another holder has it.
    #[error(
        "session `{session}` is in use by {holder} until {until}\nhint: wait for it, or end that process"
    )]
    Held {
        /// The session.
        session: SessionId,
        /// Its holder.
        holder: LeaseHolder,
        /// Until when, unless renewed.
        until: Timestamp,
    },
    /// The lease to renew is no longer the holder's: it ran out and was taken over, or was released.
    #[error(
        "the lease on session `{0}` was lost\nhint: stop working in it, another process may have taken over"
    )]
    Lost(SessionId),
    /// No session of that id exists.
    #[error("there is no session `{0}`")]
    Unknown(SessionId),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Sessions and their leases.
#[async_trait]
pub trait SessionStore {
    /// Adds a session.
    async fn create_session(&self, session: Session) -> Result<(), SessionError>;

    /// Returns the session of that id.
    async fn session(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// Returns the session of that key that was created last, ended or not.
    async fn latest_session(&self, key: &SessionKey) -> Result<Option<Session>, StoreError>;

    /// Returns at most `limit` sessions, the one with the latest activity first.
    async fn sessions(&self, limit: usize) -> Result<Vec<Session>, StoreError>;

    /// Ends a session. Returns whether it ended now; the first end is kept.
    async fn end_session(
        &self,
        id: &SessionId,
        reason: SessionEndReason,
        now: Timestamp,
    ) -> Result<bool, SessionError>;

    /// Records that something happened in the session.
    async fn touch_session(&self, id: &SessionId, now: Timestamp) -> Result<(), SessionError>;

    /// Takes the session's lease until `now + ttl`, if it is free, expired, or already the holder's, or if
    /// its holder [is gone](LeaseHolder::is_gone).
    async fn lease_session(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError>;

    /// Extends the holder's lease to `now + ttl`. Fails with [`LeaseError::Lost`] if another holder took it.
    async fn renew_lease(
        &self,
        id: &SessionId,
        holder: &LeaseHolder,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Lease, LeaseError>;

    /// Releases the lease. Nothing happens if it is not the holder's.
    async fn release_lease(&self, id: &SessionId, holder: &LeaseHolder) -> Result<(), StoreError>;
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};

    use super::process::{Unknown, began, is_none};

    #[test]
    fn what_can_not_be_looked_at_is_not_known_to_have_ended() {
        let fields: Vec<String> = (4..40).map(|field: u32| field.to_string()).collect();
        let stat = |state: &str| format!("7 (a) b) {state} {}", fields.join(" "));
        assert_eq!(began(&stat("S")), Ok(Some("22".to_owned())));
        assert_eq!(began(&stat("Z")), Ok(None));
        for unreadable in ["", "7 (a", "7 (a) S 1 2"] {
            assert_eq!(began(unreadable), Err(Unknown), "{unreadable}");
        }
        assert!(is_none(&Error::from(ErrorKind::NotFound)));
        // Too many files are open.
        assert!(!is_none(&Error::from_raw_os_error(24)));
        assert!(!is_none(&Error::from(ErrorKind::PermissionDenied)));
    }
}
