//! Transcripts: what was said in a session, in order.
//!
//! Entries are appended, and changed only by hooks' rewrites and by compaction. Four laws: only *one process
//! writes*, the one that holds the session's lease at the moment of the write, which is checked in the same
//! operation; a batch of changes is *whole or absent*, even after a crash; *the order is stable* (sequence numbers grow
//! and are never used twice, except that a summary takes the last number of what it replaces); and
//! *removed is gone*: text that was replaced, removed or compacted is wiped from the database's files, not
//! merely unlinked. Copies in the file system, a backup or remapped disk sectors are out of reach.

use async_trait::async_trait;
use backstop_hooks::conversation::{Message, ToolCall};
use backstop_hooks::{MessageId, RunId, SessionId};
use serde::{Deserialize, Serialize};

use crate::{LeaseHolder, StoreError, Timestamp};

/// The largest message that a transcript takes, in bytes of JSON.
pub const MAX_MESSAGE_BYTES: usize = 32 * 1024 * 1024;

/// An entry to be written.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// The message's id, unique in the session.
    pub id: MessageId,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// The message. Its own `id` and `run_id` are set from the two fields above.
    pub message: Message,
    /// When it was said.
    pub at: Timestamp,
    /// How many tokens it is, where known.
    pub tokens: Option<u64>,
}

/// An entry of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its place in the order.
    pub seq: u64,
    /// The message's id, unique in the session.
    pub id: MessageId,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// The message.
    pub message: Message,
    /// When it was said.
    pub at: Timestamp,
    /// How many tokens it is, where known.
    pub tokens: Option<u64>,
}

impl Entry {
    pub(crate) fn new(seq: u64, new: NewEntry) -> Self {
        let NewEntry { id, run, message, at, tokens } = new;
        let message = stamped(message, &id, run.as_ref());
        Self { seq, id, run, message, at, tokens }
    }
}

/// Returns the message with the entry's ids in it.
pub(crate) fn stamped(mut message: Message, id: &MessageId, run: Option<&RunId>) -> Message {
    message.id = Some(id.clone());
    message.run_id = run.cloned();
    message
}

/// A message of a [page](TranscriptStore::transcript_page) of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Its place in the order.
    pub seq: u64,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// When it was said.
    pub at: Timestamp,
    /// The message; the size of its JSON in bytes where that is larger than was asked for.
    pub message: Result<Message, u64>,
}

/// One change of a transcript.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Adds an entry at the end.
    Append(NewEntry),
    /// Puts another message in an entry's place. Its count of tokens is no longer known.
    Replace {
        /// The entry.
        id: MessageId,
        /// What it says now.
        message: Message,
    },
    /// Removes an entry.
    Remove {
        /// The entry.
        id: MessageId,
    },
    /// Puts a summary in place of the entries up to and including `through`.
    Compact {
        /// The last sequence number that the summary stands for.
        through: u64,
        /// The summary.
        summary: NewEntry,
    },
}

/// Whether removed text has already been wiped from the database's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erasure {
    /// It is wiped.
    Complete,
    /// Another process was reading, so the old text may still be in the write-ahead log. It is no longer
    /// part of the transcript, and is wiped with the next write or at the next start. Always so with a database on a server, whose files keep
    /// what was taken out until the server vacuums, and its log and backups for as long as the server's owner has them.
    Pending,
}

/// Why a transcript was not changed. Nothing of the batch was kept.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// No session of that id exists.
    #[error("there is no session `{0}`")]
    UnknownSession(SessionId),
    /// The writer does not hold the session's lease: it never did, or another process has taken over.
    #[error(
        "the lease on session `{0}` was lost\nhint: stop working in it, another process may have taken over"
    )]
    LeaseLost(SessionId),
    /// The session has no such message.
    #[error("session `{session}` has no message `{message}`")]
    UnknownMessage {
        /// The session.
        session: SessionId,
        /// The message.
        message: MessageId,
    },
    /// The session has a message of that id.
    #[error("session `{session}` has a message `{message}` already")]
    DuplicateMessage {
        /// The session.
        session: SessionId,
        /// The message.
        message: MessageId,
    },
    /// No entry has a number up to the one that a summary should stand for, or that number was not given yet.
    #[error("session `{session}` has nothing to compact up to number {through}")]
    NothingToCompact {
        /// The session.
        session: SessionId,
        /// The number.
        through: u64,
    },
    /// The message is too large.
    #[error("message `{message}` has {bytes} bytes, the limit is {MAX_MESSAGE_BYTES}")]
    TooLarge {
        /// The message.
        message: MessageId,
        /// Its size as JSON.
        bytes: usize,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Transcripts of sessions.
#[async_trait]
pub trait TranscriptStore {
    /// Appends entries, all or none. Returns their sequence numbers. Only the holder of the session's lease can do so.
    async fn append(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        entries: Vec<NewEntry>,
    ) -> Result<Vec<u64>, TranscriptError>;

    /// Returns the whole transcript, in order. Empty for a session that does not exist.
    async fn transcript(&self, session: &SessionId) -> Result<Vec<Entry>, StoreError>;

    /// Returns the last `limit` entries before number `before`, in order. Messages of more than `most` bytes of JSON are not read.
    async fn transcript_page(
        &self,
        session: &SessionId,
        before: u64,
        limit: usize,
        most: usize,
    ) -> Result<Vec<Listed>, StoreError>;

    /// Applies changes in the given order, all or none. Only the holder of the session's lease can do so.
    async fn apply(
        &self,
        session: &SessionId,
        holder: &LeaseHolder,
        changes: Vec<Change>,
    ) -> Result<Erasure, TranscriptError>;
}

/// Returns the message's JSON, if it is within the limit.
pub(crate) fn encoded(id: &MessageId, message: &Message) -> Result<String, TranscriptError> {
    // A message always has a JSON form: its maps have string keys and none of its parts can fail.
    let json = serde_json::to_string(message).unwrap_or_default();
    if json.len() > MAX_MESSAGE_BYTES {
        return Err(TranscriptError::TooLarge { message: id.clone(), bytes: json.len() });
    }
    Ok(json)
}

/// A tool call that no result answers.
#[derive(Clone, Debug, PartialEq)]
pub struct UnansweredCall {
    /// The message that holds the call.
    pub message: MessageId,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// The call.
    pub call: ToolCall,
}

/// Returns the tool calls of a transcript that no later result answers, in order. At a crash these were
/// either running or not begun. Each result answers one call, so duplicate ids are counted.
pub fn unanswered_calls(entries: &[Entry]) -> Vec<UnansweredCall> {
    let mut open: Vec<UnansweredCall> = Vec::new();
    for entry in entries {
        for result in entry.message.tool_results() {
            if let Some(at) = open.iter().position(|open| open.call.id == result.tool_call_id) {
                open.remove(at);
            }
        }
        open.extend(entry.message.tool_calls().map(|call| UnansweredCall {
            message: entry.id.clone(),
            run: entry.run.clone(),
            call: call.clone(),
        }));
    }
    open
}
