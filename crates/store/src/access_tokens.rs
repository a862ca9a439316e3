//! Access tokens: who may use a gateway, and until when.
//!
//! A token is shown once, to whoever makes it. What is stored is its id, which is part of the token and no secret, and the
//! SHA-256 of the whole: a token holds 244 random bits, so nothing slower than one hash is needed against guessing.
//!
//! Laws:
//!
//! - *A token counts between its creation and its end.* It ends when it expires or is revoked, whichever comes first, and
//!   nothing makes it count again. Every token expires.
//! - *A token belongs to one agent, or to one person.* Whoever presents it is that agent or person and nobody else. One of an agent uses
//!   the proxy, or asks the API for decisions ([`Scope::Judge`]); one of a person answers and reads there. None does both: who is
//!   judged answers nothing.
//! - *What can't be read does not count*, and nothing else suffers from it.
//! - *The trail says who made and who revoked it*, in the transaction that does so.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{AgentId, Digest, Secret};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::names::named;
use crate::{StoreError, Timestamp};

/// How every token begins.
const PREFIX: &str = "bst_";
/// The hex digits of an id.
const ID_LEN: usize = 16;
/// The hex digits behind the id, most of which are random.
const SECRET_LEN: usize = 64;
/// The role of a token in its digest.
const ROLE: &str = "access_token";

/// The bytes of a token.
pub const ACCESS_TOKEN_LEN: usize = PREFIX.len() + ID_LEN + 1 + SECRET_LEN;

/// The part of a token that names it. It is no secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AccessTokenId(String);

impl AccessTokenId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the id in a text that has the form of a token, whether or not there is such a token.
    pub fn in_token(token: &[u8]) -> Option<Self> {
        let (prefix, rest) = token.split_at_checked(PREFIX.len())?;
        let (id, rest) = rest.split_at_checked(ID_LEN)?;
        let (line, secret) = rest.split_first()?;
        let is_hex = |text: &[u8]| text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_token = prefix == PREFIX.as_bytes() && *line == b'_' && secret.len() == SECRET_LEN;
        (is_token && is_hex(id) && is_hex(secret)).then(|| Self(String::from_utf8_lossy(id).into_owned()))
    }
}

impl From<String> for AccessTokenId {
    fn from(id: String) -> Self {
        Self(id)
    }
}

impl fmt::Display for AccessTokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether there is a token of this form anywhere in `text`: one of this installation, one that has ended, or any other.
pub fn holds_access_token(text: &[u8]) -> bool {
    text.windows(ACCESS_TOKEN_LEN).any(|window| AccessTokenId::in_token(window).is_some())
}

/// Returns the digest by which a token is known.
pub fn access_token_digest(token: &str) -> Digest {
    Digest::of_text(ROLE, token)
}

named! {
    /// What a token allows at the API. Without any, it opens the proxy for its agent and nothing of the API.
    pub enum Scope {
        /// To have events judged, for an agent.
        Judge = "judge",
        /// To answer questions and to revoke grants, for a person.
        Approve = "approve",
        /// To read what there is, for a person.
        Read = "read",
        /// To see the configuration and have it read anew, to revoke tokens, and to talk with the agent on the console, for a person.
        Admin = "admin",
    }
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Judge, Self::Approve, Self::Read, Self::Admin];
}

/// What is stored of a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewAccessToken {
    /// Its id.
    pub id: AccessTokenId,
    /// Its digest, as [`access_token_digest`] returns it.
    pub digest: Digest,
    /// The agent that it belongs to; `None` for a token of a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// The user on whose behalf that agent asks, if it is only one; the person to whom a token without an agent belongs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What it allows at the API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Scope>,
    /// What it is for, in the words of whoever made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The token that it takes the place of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<Replaced>,
    /// Who made it.
    pub created_by: String,
    /// When.
    pub created_at: Timestamp,
    /// The first moment at which it no longer counts.
    pub expires_at: Timestamp,
}

impl NewAccessToken {
    /// Makes a token of an agent for the proxy that counts for `span` from `now` on. The token itself is returned here and nowhere else.
    pub fn make(agent: AgentId, by: String, now: Timestamp, span: Duration) -> (Secret, Self) {
        Self::fresh(Some(agent), by, now, span)
    }

    /// Makes a token of a person with these scopes, as [`make`](Self::make) does for an agent.
    pub fn make_for_person(
        user: String,
        scopes: Vec<Scope>,
        by: String,
        now: Timestamp,
        span: Duration,
    ) -> (Secret, Self) {
        let (token, made) = Self::fresh(None, by, now, span);
        (token, Self { user: Some(user), scopes, ..made })
    }

    /// Returns whether it is a token of an agent or of a person, and allows nothing that is the other's.
    pub fn is_sound(&self) -> bool {
        let holder = (self.agent.is_some(), self.user.is_some());
        match (self.scopes.as_slice(), holder) {
            ([] | [Scope::Judge], (true, _)) => true,
            ([], _) | (_, (true, _) | (false, false)) => false,
            (scopes, (false, true)) => !scopes.contains(&Scope::Judge),
        }
    }

    /// Returns whom it belongs to, for people.
    pub fn holder(&self) -> String {
        match (&self.agent, &self.user) {
            (Some(agent), _) => format!("agent `{agent}`"),
            (None, Some(user)) => format!("user `{user}`"),
            (None, None) => "nobody".to_owned(),
        }
    }

    /// Returns whether one may take the place of the other: they belong to the same and allow the same.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let whose = |token: &Self| match &token.agent {
            Some(agent) => (Some(agent.clone()), None),
            None => (None, token.user.clone()),
        };
        whose(self) == whose(other) && self.scopes == other.scopes
    }

    fn fresh(agent: Option<AgentId>, by: String, now: Timestamp, span: Duration) -> (Secret, Self) {
        let random = || Uuid::new_v4().simple().to_string();
        let id: String = random().chars().take(ID_LEN).collect();
        let token = format!("{PREFIX}{id}_{}{}", random(), random());
        let made = Self {
            id: AccessTokenId(id),
            digest: access_token_digest(&token),
            agent,
            user: None,
            scopes: Vec::new(),
            note: None,
            replaces: None,
            created_by: by,
            created_at: now,
            expires_at: now.after(span),
        };
        (Secret::new(token), made)
    }
}

/// A token that another one takes the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replaced {
    /// Its id.
    pub id: AccessTokenId,
    /// When it ends, if it does not end before.
    pub ends_at: Timestamp,
}

/// A token, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessToken {
    /// What was stored when it was made.
    #[serde(flatten)]
    pub made: NewAccessToken,
    /// The first moment at which it no longer counts; earlier than what it was made with if another one took its place.
    pub ends_at: Timestamp,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last presented, to some seconds.
    pub last_used_at: Option<Timestamp>,
}

impl AccessToken {
    pub(crate) fn new(made: NewAccessToken) -> Self {
        Self { ends_at: made.expires_at, made, revoked_at: None, last_used_at: None }
    }

    /// Returns whether the token counts at `now`.
    pub fn counts(&self, now: Timestamp) -> bool {
        self.revoked_at.is_none() && now < self.ends_at
    }
}

/// Tokens, as they are stored.
#[derive(Clone, Debug, Default)]
pub struct AccessTokenList {
    /// Those that can be read.
    pub tokens: Vec<AccessToken>,
    /// Those that can't: none of them counts, and they keep no other from it.
    pub unreadable: Vec<UnreadableAccessToken>,
    /// Where the next page begins, if there are more: older ones.
    pub next: Option<i64>,
}

/// A token of which the store holds something else than a token.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnreadableAccessToken {
    /// Its id, if that can be read.
    pub id: Option<AccessTokenId>,
    /// The agent that it belongs to, if that can be read. Whose it is otherwise, nobody knows.
    pub agent: Option<AgentId>,
}

/// More tokens than this do not count at once.
pub const MAX_ACCESS_TOKENS: usize = 10_000;

/// Why no token was added.
#[derive(Debug, thiserror::Error)]
pub enum AddAccessTokenError {
    /// There are [`MAX_ACCESS_TOKENS`].
    #[error("{MAX_ACCESS_TOKENS} access tokens count already\nhint: revoke some of them")]
    TooMany,
    /// What it would replace does not count, is somebody else's, or allows something else.
    #[error("{holder} has no access token `{id}` that counts and allows the same")]
    NothingToReplace {
        /// Whom the new token belongs to.
        holder: String,
        /// The id of what it would replace.
        id: AccessTokenId,
    },
    /// It would belong to nobody, or to an agent and allow what people do.
    #[error(
        "a token belongs to an agent, which may judge, or to a person, who may approve, read and administer"
    )]
    Mixed,
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Access tokens.
#[async_trait]
pub trait AccessTokenStore {
    /// Adds a token. What it replaces ends as [`Replaced::ends_at`] says.
    ///
    /// # Errors
    /// [`AddAccessTokenError`]; then nothing was added, and nothing ends.
    async fn add_access_token(&self, made: NewAccessToken) -> Result<AccessToken, AddAccessTokenError>;

    /// Returns at most `limit` tokens, the newest first, also those that no longer count.
    async fn access_tokens(&self, limit: usize) -> Result<AccessTokenList, StoreError> {
        self.access_tokens_after(None, limit).await
    }

    /// As [`access_tokens`](Self::access_tokens), from behind a page on, whose [`next`](AccessTokenList::next) is named.
    async fn access_tokens_after(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<AccessTokenList, StoreError>;

    /// Returns the tokens that count at `now`, and those that might if they could be read.
    async fn counting_access_tokens(&self, now: Timestamp) -> Result<AccessTokenList, StoreError>;

    /// Revokes a token. Returns its new state, `None` if it does not exist; the first revocation is kept.
    async fn revoke_access_token(
        &self,
        id: &AccessTokenId,
        by: &str,
        now: Timestamp,
    ) -> Result<Option<AccessToken>, StoreError>;

    /// Notes when tokens were last presented. Earlier times change nothing.
    async fn note_access_tokens(&self, used: Vec<(AccessTokenId, Timestamp)>) -> Result<(), StoreError>;
}
