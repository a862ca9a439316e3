//! The digest of an event that holds a conversation: a tree over its messages.
//!
//! A conversation comes again with every turn, longer by a message or two. Its digest is computed from the digests of
//! its messages, of which those of an earlier turn are known ([`Content::digest`](crate::conversation::Content::digest)).
//!
//! ```text
//! digest  = H(point "/v2"        NUL  fields  count  message 1 … message n)
//! fields  = H(point "/v2/fields" NUL  canonical JSON of the event without the list of messages)
//! message = H("message/v2"       NUL  content  canonical JSON of the message without `content`)
//! content = H("content/v2"       NUL  canonical JSON of the list of parts)
//! ```
//!
//! `H` is SHA-256, `point` the name of the hook point, a digest inside of another its 32 bytes, and `count` the
//! number of messages in 8 bytes, the highest first. What varies in length stands at an end or is counted, so no two
//! events are one text. The names of the roles have the version in them: a digest of another form is never equal.
//! `docs/digests.md` describes how to compute one from a transcript.

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Digest, canonical};
use crate::conversation::{Message, Role};

/// The conversation that an event holds.
#[derive(Clone, Copy, Debug)]
pub struct Conversation<'a> {
    /// The name of the field, as in the event's JSON.
    pub field: &'static str,
    /// The messages in it.
    pub messages: &'a [Message],
}

/// How the digest of an event is computed. Digests of different forms can't be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestForm {
    /// From the canonical JSON of all of it.
    #[default]
    Whole,
    /// As a tree over the messages of its conversation.
    Tree,
}

impl DigestForm {
    /// Returns the number of the form in records.
    pub fn version(self) -> u32 {
        match self {
            Self::Whole => 1,
            Self::Tree => 2,
        }
    }
}

/// Says where an event holds a conversation: the field, and its name in JSON.
macro_rules! conversation_in {
    ($field:ident, $name:literal) => {
        fn conversation(&self) -> Option<crate::digest::Conversation<'_>> {
            Some(crate::digest::Conversation { field: $name, messages: &self.$field })
        }
    };
    ($field:ident?, $name:literal) => {
        fn conversation(&self) -> Option<crate::digest::Conversation<'_>> {
            Some(crate::digest::Conversation { field: $name, messages: self.$field.as_deref()? })
        }
    };
}

pub(crate) use conversation_in;

impl Digest {
    /// Returns the digest of `event` in the role `kind`, as a tree over the messages of its conversation.
    pub(crate) fn of_conversation<T: Serialize>(
        kind: &str,
        event: &T,
        conversation: Conversation<'_>,
    ) -> Self {
        let Conversation { field, messages } = conversation;
        let mut hasher = hashing(&[kind, "/v2"]);
        let mut fields = hashing(&[kind, "/v2/fields"]);
        fields.update(without(event, field));
        hasher.update(fields.finalize());
        hasher.update((messages.len() as u64).to_be_bytes());
        for message in messages {
            hasher.update(message.digest().as_bytes());
        }
        Self(hasher.finalize().into())
    }
}

impl Message {
    /// Returns the digest of the message: a leaf of the tree that the digest of a conversation is. That of its content is
    /// computed once for all copies.
    pub fn digest(&self) -> Digest {
        let mut hasher = hashing(&["message/v2"]);
        hasher.update(self.content.digest().as_bytes());
        match self {
            // Most messages of live traffic say nothing else, and are as many as the turns of a conversation.
            Self { role, content: _, id: None, run_id: None, meta: None } => hasher.update(plain(*role)),
            other => hasher.update(without(other, "content")),
        }
        Digest(hasher.finalize().into())
    }
}

/// Returns the canonical JSON of a message that has a role and a content, without the content.
fn plain(role: Role) -> &'static [u8] {
    match role {
        Role::System => br#"{"role":"system"}"#,
        Role::User => br#"{"role":"user"}"#,
        Role::Assistant => br#"{"role":"assistant"}"#,
        Role::Tool => br#"{"role":"tool"}"#,
    }
}

/// Returns the canonical JSON of an object without one of its fields; `null` if it has none.
fn without<T: Serialize>(value: &T, field: &'static str) -> Vec<u8> {
    canonical::without(value, field).unwrap_or_else(|_| b"null".to_vec())
}

fn hashing(role: &[&str]) -> Sha256 {
    let mut hasher = Sha256::new();
    role.iter().for_each(|piece| hasher.update(piece.as_bytes()));
    hasher.update([0]);
    hasher
}
