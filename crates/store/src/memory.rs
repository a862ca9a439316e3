//! The in-memory store, which forgets everything when the process ends.
//!
//! Each operation holds one lock from beginning to end, and never across an await.
//!
//! A process may keep only questions and answers here, so that nothing another program writes into a file counts as
//! one, and record answers in the audit trail of a durable store: first they are recorded, and only then do they count.

mod access_tokens;
mod approvals;
mod audit;
mod budgets;
mod decisions;
mod extensions;
mod grants;
mod injections;
mod notices;
mod retention;
mod runs;
mod sessions;
mod transcript;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_hooks::{RunId, SessionId, ToolCallId};

use self::budgets::Ledger;
use self::injections::Queued;
use crate::approvals::wait::Seats;
use crate::{
    AccessToken, AppendAuditError, ApprovalRecord, Entry, Extension, ExtensionKey, Grant, Lease,
    NewAuditEntry, RefusedQuestions, Run, Session, Store, StoreError, StoreErrorKind, Timestamp,
    ToolDecision,
};

/// State in memory.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    /// Those who wait for answers.
    seats: Seats,
    /// Whose audit trail tells of answers, if it is not the one in here.
    trail: Option<Arc<dyn Store>>,
    /// Held by whoever answers, so that what the trail says of an answer is still so when it counts.
    answering: tokio::sync::Mutex<()>,
}

/// Everything that is kept. What has an order is in it.
#[derive(Default)]
struct State {
    sessions: Vec<Session>,
    leases: HashMap<SessionId, Lease>,
    runs: Vec<Run>,
    transcripts: HashMap<SessionId, Transcript>,
    approvals: Vec<ApprovalRecord>,
    /// Those whose questions were refused last at the end.
    refused: Vec<RefusedQuestions>,
    grants: Vec<Grant>,
    access_tokens: Vec<AccessToken>,
    decisions: HashMap<(SessionId, RunId), HashMap<ToolCallId, (ToolDecision, Timestamp)>>,
    budgets: Ledger,
    injections: Vec<Queued>,
    last_injection: u64,
    extensions: BTreeMap<ExtensionKey, Extension>,
    last_extension: u64,
    audit: audit::Trail,
    notices: notices::Notices,
}

#[derive(Clone, Default)]
struct Transcript {
    entries: Vec<Entry>,
    last_seq: u64,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self {
            state: Mutex::default(),
            seats: Seats::default(),
            trail: None,
            answering: tokio::sync::Mutex::default(),
        }
    }

    /// Creates an empty store for the questions and answers of one process. Answers are recorded in the audit trail of `trail`
    /// before they count. It keeps two thousand questions; the oldest settled ones make room.
    pub fn for_answers(trail: Arc<dyn Store>) -> Self {
        Self { trail: Some(trail), ..Self::new() }
    }

    /// Says something in the audit trail of another store, where this one has none of its own.
    async fn announce(&self, entry: Option<NewAuditEntry>) -> Result<(), StoreError> {
        let (Some(trail), Some(entry)) = (&self.trail, entry) else { return Ok(()) };
        match trail.append_audit(entry).await {
            Ok(_) => Ok(()),
            Err(AppendAuditError::Store(error)) => Err(error),
            Err(error) => Err(StoreError::because("memory", StoreErrorKind::Internal, error)),
        }
    }

    /// Every operation leaves the state whole at each of its steps, so one that panicked spoils nothing.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    /// Adds an entry to the trail.
    fn tell(&mut self, entry: NewAuditEntry) -> Result<(), StoreError> {
        let because = |error| StoreError::because("memory", StoreErrorKind::Corrupt, error);
        self.audit.append(vec![entry]).map(drop).map_err(because)
    }

    fn has_session(&self, id: &SessionId) -> bool {
        self.sessions.iter().any(|session| session.id == *id)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("sessions", &self.sessions.len()).finish_non_exhaustive()
    }
}
