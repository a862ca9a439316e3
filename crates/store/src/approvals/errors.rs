//! Why a question or an answer does not count.

use backstop_hooks::{AgentId, ApprovalId, Decision, Substitute};

use super::MAX_APPROVAL_BYTES;
use super::limits::TooMany;
use super::route::NotAsked;
use super::state::ApprovalStatus;
use super::substitute::MaskMoved;
use crate::{StoreError, Timestamp};

/// Why a question was not stored.
#[derive(Debug, thiserror::Error)]
pub enum CreateApprovalError {
    /// The request is too large.
    #[error("an approval request has at most {MAX_APPROVAL_BYTES} bytes, this one has {0}")]
    TooLarge(usize),
    /// The agent asks more than it may.
    #[error("agent `{agent}` asks too much: {why}")]
    TooMany {
        /// The agent.
        agent: AgentId,
        /// What it has asked already.
        why: TooMany,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why a name does not identify exactly one approval.
#[derive(Debug, thiserror::Error)]
pub enum FindApprovalError {
    /// No approval has that code, id or beginning of an id.
    #[error("there is no approval `{0}`\nhint: `backstop approvals list` shows what waits")]
    Unknown(String),
    /// Several ids begin that way.
    #[error("several approvals begin with `{0}`\nhint: give more of the id, or the code")]
    Ambiguous(String),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No approval of that id exists.
    #[error("there is no approval `{0}`")]
    Unknown(ApprovalId),
    /// Another answer, the deadline or the end of the run came first.
    #[error("approval `{code}` is already {status}{}", by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default())]
    AlreadyResolved {
        /// Its code.
        code: String,
        /// Its state.
        status: ApprovalStatus,
        /// Who was first, if that was a person.
        by: Option<String>,
    },
    /// The hooks that asked did not offer that answer.
    #[error("approval `{code}` can't be answered with {}", word(*decision))]
    NotOffered {
        /// Its code.
        code: String,
        /// The answer.
        decision: Decision,
    },
    /// Whoever asked can't take that in the place of the call, or what several must allow has nothing in its place.
    #[error(
        "approval `{code}` can't be answered with {substitute}\nhint: its answers are those that `backstop approvals show {code}` lists"
    )]
    NoSubstitute {
        /// Its code.
        code: String,
        /// What was given.
        substitute: Substitute,
    },
    /// The arguments hold the mask of a secret where it can't be told what it stands for.
    #[error("approval `{code}`: {moved}")]
    Masked {
        /// Its code.
        code: String,
        /// Where.
        moved: MaskMoved,
    },
    /// A part of the call has been shown to nobody.
    #[error(
        "approval `{code}` shows a part of its arguments only, so it can't be allowed yet\nhint: `backstop approvals show {code} --whole` shows all of them"
    )]
    Unseen {
        /// Its code.
        code: String,
    },
    /// Nobody waits for the answer any more: what allows the call is for a later one, which has to be said.
    #[error(
        "approval `{code}`: nobody waits for the answer any more\nhint: allow the next such call with `backstop allow-once {code}`, or on the console"
    )]
    Abandoned {
        /// Its code.
        code: String,
    },
    /// Whoever answers may not.
    #[error("{0}")]
    NotAsked(Box<NotAsked>),
    /// The person has answered otherwise.
    #[error("approval `{code}`: you have answered with {} already, and another answer does not count", word(*decision))]
    OtherVote {
        /// Its code.
        code: String,
        /// What the person answered.
        decision: Decision,
    },
    /// The answer came too late.
    #[error("approval `{code}` expired at {at}")]
    Expired {
        /// Its code.
        code: String,
        /// When it expired.
        at: Timestamp,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the answer as people type it.
fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::AllowOnce => "allow-once",
        Decision::AllowAlways => "allow-always",
        Decision::Deny => "deny",
    }
}

/// Why an approval does not permit a call.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    /// No approval of that id exists.
    #[error("there is no approval `{0}`")]
    Unknown(ApprovalId),
    /// The call is not the one that the human was shown.
    #[error("approval `{code}` was given for another call")]
    OtherCall {
        /// Its code.
        code: String,
    },
    /// Nobody allowed it, or another call has already used it.
    #[error("approval `{code}` is {status}")]
    NotAllowed {
        /// Its code.
        code: String,
        /// Its state.
        status: ApprovalStatus,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
