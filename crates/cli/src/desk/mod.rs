//! Where people answer: a desk.
//!
//! Questions and answers are usually rows of the database, which every process of the user can write. With
//! `agent.approvals.strict` they are kept in the memory of the process that asks (`serve`, `run`, `agent`) and end with it;
//! that process opens a *desk*, a socket at which `backstop approvals` and `backstop grants` see and answer them.
//!
//! The laws:
//!
//! - **Only people answer.** A desk looks at who connects: another user, or a process from inside of a guarded agent, is
//!   refused, whatever program that process runs.
//! - **Nobody behind walls is heard.** Whoever asks says a key, which the desk has written beside its socket. Landlock lets a
//!   confined tree connect to any socket of the disk (before its version 9), but not read that file; behind mounts neither is there.
//! - **What is granted follows from the question.** Nobody hands a grant in: who answers names a question and how far the
//!   answer goes, and the desk works out what that grants.
//! - **Memory is not read from outside.** A process with a desk can't be traced or dumped by others of its user.
//!
//! Limits: whoever has the rights of the system's administrator reads and writes any memory. A hook that judges alone has
//! no desk: what it asks is denied, and no answer waits for it.

mod answers;
mod client;
mod server;

use std::path::PathBuf;
use std::time::Duration;

use backstop::hooks::{ApprovalId, Decision};
use backstop::store::{
    Always, ApprovalRecord, Given, Grant, GrantId, MAX_WHOLE_BYTES, RefusedQuestions, VoidGrant,
};
use serde::{Deserialize, Serialize};

pub(crate) use self::client::Answers;
pub(crate) use self::server::{Desk, close_memory};

/// The longest request, in bytes: with arguments that a person changed.
const MOST_REQUEST_BYTES: usize = MAX_WHOLE_BYTES + 64 * 1024;
/// The longest reply, in bytes.
const MOST_REPLY_BYTES: usize = 64 * 1024 * 1024;
/// The longest that a request or a reply may take to travel.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most questions, and the most grants, that are listed.
const MOST_LISTED: usize = 1_000;

/// What is asked of a desk.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// All questions, the newest first.
    List { limit: usize },
    /// Those that can be answered: those that wait first.
    Open { limit: usize },
    /// How many were refused.
    Refused,
    /// The one that is meant by a code, an id, or the beginning of one.
    Find { name: String },
    /// All of its arguments were shown.
    Seen { id: ApprovalId },
    /// The answer to the call that waits.
    Answer { id: ApprovalId, decision: Decision, word: Option<String>, by: String },
    /// The same, and from now on.
    Always { id: ApprovalId, always: Always, by: String },
    /// Something in the place of the call that waits.
    Substitute { id: ApprovalId, given: Given, by: String },
    /// An answer to one later call.
    Later { id: ApprovalId, ttl: Duration, by: String },
    /// All grants, the newest first.
    Grants,
    /// Takes one back.
    Revoke { id: GrantId, by: String },
}

/// A request, and the key that lies beside the socket.
#[derive(Debug, Serialize, Deserialize)]
struct Signed {
    key: String,
    request: Request,
}

/// What it says to that.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Questions(Vec<ApprovalRecord>),
    /// Some questions, and how many there are.
    Open(Vec<ApprovalRecord>, usize),
    Refusals(Vec<RefusedQuestions>),
    Question(Box<ApprovalRecord>),
    /// The question is answered, and this is granted.
    Granted(Box<ApprovalRecord>, Vec<Grant>),
    Grants(Vec<Grant>, Vec<VoidGrant>),
    Revoked(Option<Box<Grant>>),
    /// Nothing has that name.
    Unknown,
    Refused(String),
}

/// The folder of the desks' sockets.
fn folder(data: PathBuf) -> PathBuf {
    data.join("daemon").join("desks")
}
