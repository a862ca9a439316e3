//! Runs: one turn each, and how it ended.
//!
//! A run is recorded when it starts and when it ends. If the holder of a session's lease finds a
//! run that has not ended, its process was killed, and the holder can tell the model what happened to the
//! tool calls that have no result (see [`unanswered_calls`](crate::unanswered_calls)).

use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId};
use serde::{Deserialize, Serialize};

use crate::names::named;
use crate::{StoreError, Timestamp};

/// One turn of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The run.
    pub id: RunId,
    /// The session it belongs to.
    pub session: SessionId,
    /// When it began.
    pub started_at: Timestamp,
    /// How it ended; `None` while it runs, or if its process was killed.
    pub ended: Option<RunEnd>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When.
    pub at: Timestamp,
    /// With what outcome.
    pub outcome: RunOutcome,
}

named! {
    /// The outcome of a run.
    pub enum RunOutcome {
        /// The model gave its final answer.
        Finished = "finished",
        /// A hook ended it.
        Blocked = "blocked",
        /// An error ended it.
        Failed = "failed",
        /// Its process was killed, or the user ended it.
        Interrupted = "interrupted",
    }
}

/// Why a run operation failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A run of that id exists in the session.
    #[error("session `{session}` has a run `{run}` already")]
    Exists {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
    /// The session has no run of that id.
    #[error("session `{session}` has no run `{run}`")]
    Unknown {
        /// The session.
        session: SessionId,
        /// The run.
        run: RunId,
    },
    /// No session of that id exists.
    #[error("there is no session `{0}`")]
    UnknownSession(SessionId),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Runs of sessions.
#[async_trait]
pub trait RunStore {
    /// Records that a run begins.
    async fn start_run(&self, session: &SessionId, run: &RunId, now: Timestamp) -> Result<(), RunError>;

    /// Records how a run ended. Returns whether it ended now; the first end is kept.
    async fn end_run(
        &self,
        session: &SessionId,
        run: &RunId,
        outcome: RunOutcome,
        now: Timestamp,
    ) -> Result<bool, RunError>;

    /// Returns the run of that id.
    async fn run(&self, session: &SessionId, run: &RunId) -> Result<Option<Run>, StoreError>;

    /// Returns the runs that have not ended, oldest first.
    async fn open_runs(&self, session: &SessionId) -> Result<Vec<Run>, StoreError>;
}
