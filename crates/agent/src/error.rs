//! Why an agent can't go on at all.

use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{SessionId, SessionKey};
use backstop_store::{LeaseError, RunError, SessionError, StoreError, TranscriptError};

/// A session could not be opened, or a turn not be kept. What the model or a hook did wrong is not here:
/// that is an outcome of the turn ([`crate::TurnOutcome`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// No session of that id exists.
    #[error("there is no session `{0}`\nhint: start a new one, or list the sessions that exist")]
    NoSession(SessionId),
    /// The session has ended.
    #[error("session `{id}` has ended ({})\nhint: start a new one under `{key}`", word(.reason))]
    Ended {
        /// The session.
        id: SessionId,
        /// Its conversation.
        key: SessionKey,
        /// Why it ended.
        reason: SessionEndReason,
    },
    /// The session can't be created or found.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Another process works in the session, or took it over.
    #[error(transparent)]
    Lease(#[from] LeaseError),
    /// The run can't be written down.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A message can't be written down.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn word(reason: &SessionEndReason) -> String {
    format!("{reason:?}").to_lowercase()
}
