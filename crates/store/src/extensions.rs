//! Session extensions: small state that a plugin keeps with a conversation.
//!
//! A value belongs to one owner, and other owners neither read nor write it. The law: *no change is lost*. Each value has a
//! revision, and whoever writes may name the one that was read; if there is another by then, nothing is written. What is
//! wiped with a conversation or its owner's installation is gone in one operation, with its injections.

use async_trait::async_trait;
use backstop_hooks::{Json, OwnerId, SessionKey};

use crate::{StoreError, Timestamp};

/// The largest value, as bytes of its JSON.
pub const MAX_EXTENSION_BYTES: usize = 262_144;
/// The longest name of a value, in characters.
pub const MAX_NAMESPACE_CHARS: usize = 128;
/// How many values an owner may have in one conversation.
pub const MAX_EXTENSIONS: usize = 32;

/// Names a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExtensionKey {
    /// The conversation.
    pub session_key: SessionKey,
    /// Its owner; set by the host.
    pub owner: OwnerId,
    /// Its name within the owner.
    pub namespace: String,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub struct Extension {
    /// Its name.
    pub key: ExtensionKey,
    /// The value.
    pub value: Json,
    /// Grows by one with each write in the whole store.
    pub revision: u64,
    /// When it was written.
    pub updated_at: Timestamp,
}

/// Why a value was not written.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// The value is too large.
    #[error("a session extension has at most {MAX_EXTENSION_BYTES} bytes of JSON, this one has {0}")]
    TooLarge(usize),
    /// The name is blank or too long.
    #[error(
        "the namespace of a session extension has 1 to {MAX_NAMESPACE_CHARS} characters and is not blank"
    )]
    BadNamespace,
    /// The owner has too many there.
    #[error("`{owner}` has {MAX_EXTENSIONS} session extensions in `{session_key}` already")]
    Full {
        /// Who wanted to write.
        owner: OwnerId,
        /// The conversation.
        session_key: SessionKey,
    },
    /// The value was written in between.
    #[error(
        "session extension `{namespace}` was written by somebody else meanwhile\nhint: read it and try again"
    )]
    Conflict {
        /// Its name.
        namespace: String,
        /// Its revision by now; `None` if there is no value.
        revision: Option<u64>,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Which value to replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whatever is there.
    Any,
    /// None: there must be no value yet.
    Absent,
    /// The one of this revision.
    Revision(u64),
}

impl Expected {
    pub(crate) fn fits(self, found: Option<u64>) -> bool {
        match self {
            Self::Any => true,
            Self::Absent => found.is_none(),
            Self::Revision(revision) => found == Some(revision),
        }
    }
}

/// What to wipe of an owner's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forget {
    /// One conversation: it was reset.
    Session(SessionKey),
    /// All of them: the owner was disabled or removed.
    Everything,
}

/// How much was wiped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Values.
    pub extensions: usize,
    /// Injections, those among them that a run had taken: its process may be gone, and would give them back to nobody.
    pub injections: usize,
}

/// Returns the JSON of a value that is within the limits, as is its name.
pub(crate) fn checked(key: &ExtensionKey, value: &Json) -> Result<String, ExtensionError> {
    if key.namespace.trim().is_empty() || key.namespace.chars().count() > MAX_NAMESPACE_CHARS {
        return Err(ExtensionError::BadNamespace);
    }
    let text = value.to_string();
    if text.len() > MAX_EXTENSION_BYTES {
        return Err(ExtensionError::TooLarge(text.len()));
    }
    Ok(text)
}

/// Session extensions.
#[async_trait]
pub trait ExtensionStore {
    /// One value.
    async fn extension(&self, key: &ExtensionKey) -> Result<Option<Extension>, StoreError>;

    /// Returns all values of a conversation, by owner and namespace.
    async fn extensions(&self, session: &SessionKey) -> Result<Vec<Extension>, StoreError>;

    /// Writes a value in place of the expected one. Returns its revision.
    async fn put_extension(
        &self,
        key: &ExtensionKey,
        value: &Json,
        expected: Expected,
        now: Timestamp,
    ) -> Result<u64, ExtensionError>;

    /// Takes a value away. Returns whether there was one.
    async fn remove_extension(&self, key: &ExtensionKey) -> Result<bool, StoreError>;

    /// Wipes what an owner keeps, and its injections, taken or not: none comes back.
    async fn forget_owner(&self, owner: &OwnerId, what: &Forget) -> Result<Forgotten, StoreError>;
}
