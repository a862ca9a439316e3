//! Next-turn injections: text that hooks leave for the next turn of a conversation.
//!
//! A turn takes what is queued. It confirms the text when the model has been asked with it, or gives it
//! back. The law: *nothing is lost and nothing is delivered twice*. A turn whose process was killed has
//! done neither; whoever resumes the session gives back for it. *A host delivers for those who are on in it*: the store may be that of
//! hosts with another configuration, so that a turn takes what is of the owners that its host names, and leaves the rest to them.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::points::Placement;
use backstop_hooks::{Json, OwnerId, RunId, SessionKey, Text};
use serde::{Deserialize, Serialize};

use crate::{MAX_EXTENSION_BYTES, StoreError, Timestamp};

/// The longest text, in characters.
pub const MAX_INJECTION_CHARS: usize = 32_768;
/// The longest idempotency key, in characters.
pub const MAX_IDEMPOTENCY_KEY_CHARS: usize = 512;
/// How many may wait for one conversation from one owner.
pub const MAX_QUEUED_INJECTIONS: usize = 32;

/// An injection to be queued.
#[derive(Clone, Debug, PartialEq)]
pub struct NewInjection {
    /// The conversation.
    pub session_key: SessionKey,
    /// The owner that leaves it; set by the host.
    pub owner: OwnerId,
    /// The text. White space around it is cut off.
    pub text: Text,
    /// Where it goes.
    pub placement: Placement,
    /// A second one of the same owner, conversation and key is not queued while the first one waits.
    pub idempotency_key: Option<String>,
    /// How long it may wait; `None` for no limit.
    pub ttl: Option<Duration>,
    /// The owner's metadata for hooks that see the queue. The model does not read it.
    pub metadata: Option<Json>,
}

/// A queued injection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Injection {
    /// Its place in the order of all injections.
    pub seq: u64,
    /// The conversation.
    pub session_key: SessionKey,
    /// Who left it.
    pub owner: OwnerId,
    /// The text.
    pub text: Text,
    /// Where it goes.
    pub placement: Placement,
    /// The key that keeps it from being queued twice.
    pub idempotency_key: Option<String>,
    /// When it was queued.
    pub created_at: Timestamp,
    /// The last moment at which it may be taken.
    pub expires_at: Option<Timestamp>,
    /// What the owner says of it.
    pub metadata: Option<Json>,
}

impl Injection {
    /// Returns how long it may wait, counted from when it was queued; `None` for no limit.
    pub fn ttl(&self) -> Option<Duration> {
        self.expires_at.map(|end| self.created_at.until(end))
    }
}

/// The result of a request to queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enqueued {
    /// It is queued under this number.
    Queued(u64),
    /// One with the same key was already queued under this number.
    Duplicate(u64),
}

/// Why an injection was not queued.
#[derive(Debug, thiserror::Error)]
pub enum EnqueueError {
    /// No text but white space.
    #[error("an injection needs text")]
    Empty,
    /// The text is too long.
    #[error("an injection has at most {MAX_INJECTION_CHARS} characters, this one has {0}")]
    TooLong(usize),
    /// The key is blank or too long.
    #[error("an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY_CHARS} characters and is not blank")]
    BadKey,
    /// The metadata is too large.
    #[error("the metadata of an injection has at most {MAX_EXTENSION_BYTES} bytes of JSON, this one has {0}")]
    MetadataTooLarge(usize),
    /// Too many wait already.
    #[error("`{owner}` has {MAX_QUEUED_INJECTIONS} injections waiting for `{session_key}` already")]
    Full {
        /// Who wanted to queue.
        owner: OwnerId,
        /// The conversation.
        session_key: SessionKey,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Returns the injection with its text trimmed, if it is within the limits.
pub(crate) fn checked(mut new: NewInjection) -> Result<NewInjection, EnqueueError> {
    let text = new.text.trim();
    let chars = text.chars().count();
    if chars == 0 {
        return Err(EnqueueError::Empty);
    }
    if chars > MAX_INJECTION_CHARS {
        return Err(EnqueueError::TooLong(chars));
    }
    if let Some(key) = &new.idempotency_key
        && (key.trim().is_empty() || key.chars().count() > MAX_IDEMPOTENCY_KEY_CHARS)
    {
        return Err(EnqueueError::BadKey);
    }
    if let Some(bytes) = new.metadata.as_ref().map(|metadata| metadata.to_string().len())
        && bytes > MAX_EXTENSION_BYTES
    {
        return Err(EnqueueError::MetadataTooLarge(bytes));
    }
    if text.len() != new.text.len() {
        new.text = text.to_owned().into();
    }
    Ok(new)
}

/// Queues of next-turn injections.
#[async_trait]
pub trait InjectionStore {
    /// Queues an injection.
    async fn enqueue_injection(
        &self,
        injection: NewInjection,
        now: Timestamp,
    ) -> Result<Enqueued, EnqueueError>;

    /// Takes what waits for a conversation, is of one of `owners`, and no other run has taken, in the order in which it was queued.
    /// What the run has taken before of theirs and not given back is among it. What is of others waits on. What has expired is dropped.
    async fn take_injections(
        &self,
        key: &SessionKey,
        run: &RunId,
        owners: &BTreeSet<OwnerId>,
        now: Timestamp,
    ) -> Result<Vec<Injection>, StoreError>;

    /// Confirms that the run has delivered what it took. Returns the count.
    async fn confirm_injections(&self, run: &RunId) -> Result<usize, StoreError>;

    /// Gives back what the run took and did not deliver. Returns how many are queued again.
    async fn give_back_injections(&self, run: &RunId) -> Result<usize, StoreError>;
}
