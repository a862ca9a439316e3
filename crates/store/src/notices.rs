//! What people were told of questions away from this machine, and what they can answer there with.
//!
//! A *notice* is one question told to one addressee of a surface: a chat, a topic, a mailbox, a server. Its row says who tells it now, what the
//! surface calls the message, and whether that was withdrawn. A *handle* is what a button carries: random characters that stand for one answer
//! to one question by one addressee. The row holds their digest and never the characters.
//!
//! The laws: *one process at a time tells a notice*, so that several that share the questions send it once; *a handle is used once* by each person, and
//! means nothing for a question that was answered or is over; *a delivery that is remembered counts once*; *a clock that is set loses nothing*: a
//! question and its handles end on the clock that nobody sets, and nobody holds anything for longer than [`LONGEST_HOLD`].

use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{ApprovalId, Decision, Digest};

use crate::{StoreError, Timestamp};

/// The longest that somebody holds a notice or a surface at once. What is held for longer was held before the clock was set back, and is free.
pub const LONGEST_HOLD: Duration = Duration::from_hours(2);

/// The longest reference to a message, in bytes.
pub const MAX_REFERENCE_BYTES: usize = 1_024;

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addressee {
    /// The surface, by its name in the configuration.
    pub surface: String,
    /// Where there: a chat, a channel, a topic, a mailbox; empty where there is only one.
    pub place: String,
}

/// A message that was sent, and that somebody can still answer or that is to be withdrawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentNotice {
    /// The question.
    pub approval: ApprovalId,
    /// Who was told.
    pub addressee: Addressee,
    /// What the surface calls the message.
    pub reference: String,
}

/// What a button stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionHandle {
    /// The SHA-256 of its characters.
    pub hash: Digest,
    /// The question.
    pub approval: ApprovalId,
    /// The call that was shown.
    pub digest: Digest,
    /// The answer.
    pub decision: Decision,
    /// Who was told, and can answer with it.
    pub addressee: Addressee,
    /// The last moment at which it counts, where the machine that asked is another one, or was started since.
    pub expires_at: Timestamp,
}

/// Notices, handles and deliveries.
#[async_trait]
pub trait NoticeStore {
    /// Returns at most `limit` questions that wait, and that nobody tells this addressee of now or has told it: of each agent the one that ends
    /// first, then of each agent the next one, and so on. Agents are in the order in which they began to wait.
    async fn untold_approvals(
        &self,
        to: &Addressee,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<ApprovalId>, StoreError>;

    /// Says that `holder` tells somebody of a question, until `until`, which is [`LONGEST_HOLD`] away at most. Returns whether it is to do so: not if it was told, or another one
    /// tells it now.
    async fn claim_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Records that a notice was sent. The reference is cut off beyond [`MAX_REFERENCE_BYTES`].
    async fn sent_notice(
        &self,
        approval: &ApprovalId,
        to: &Addressee,
        reference: &str,
    ) -> Result<(), StoreError>;

    /// Returns at most `limit` notices of a surface whose questions are answered or over, and that nobody has withdrawn or withdraws now.
    async fn stale_notices(
        &self,
        surface: &str,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SentNotice>, StoreError>;

    /// Says that `holder` withdraws a notice, until `until`, which is [`LONGEST_HOLD`] away at most. Returns whether it is to do so.
    async fn claim_withdrawal(
        &self,
        notice: &SentNotice,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Records that a notice was withdrawn, or never can be.
    async fn withdrawn_notice(&self, notice: &SentNotice) -> Result<(), StoreError>;

    /// Returns the notice of a question to somebody, if it was sent.
    async fn notice(&self, approval: &ApprovalId, to: &Addressee) -> Result<Option<SentNotice>, StoreError>;

    /// Adds handles. Those that ended a day ago make room, unless their question still waits.
    async fn add_handles(&self, handles: Vec<ActionHandle>, now: Timestamp) -> Result<(), StoreError>;

    /// Returns the handle with this hash.
    async fn handle(&self, hash: &Digest) -> Result<Option<ActionHandle>, StoreError>;

    /// Uses a handle up for a person. Succeeds once for each, before it ends, while its question waits: where several must agree, each of them has
    /// the same message before them.
    async fn use_handle(&self, hash: &Digest, who: &str, now: Timestamp) -> Result<bool, StoreError>;

    /// Remembers the id of a delivery to a surface until `until`. Returns whether it is new.
    async fn remember_delivery(
        &self,
        surface: &str,
        id: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Says that `holder` alone hears a surface, until `until`, which is [`LONGEST_HOLD`] away at most. Returns whether it does.
    async fn lease_surface(
        &self,
        surface: &str,
        holder: &str,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<bool, StoreError>;
}

/// Returns the part of a reference that is kept.
pub(crate) fn kept_reference(reference: &str) -> &str {
    let end =
        (0..=MAX_REFERENCE_BYTES.min(reference.len())).rev().find(|end| reference.is_char_boundary(*end));
    reference.get(..end.unwrap_or_default()).unwrap_or_default()
}
