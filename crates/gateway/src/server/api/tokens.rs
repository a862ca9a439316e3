//! Access tokens: which there are, and their end.
//!
//! The law: *nothing is made here.* Whoever has the scope `admin` takes rights away by this and gives none, so that a token that falls into
//! the wrong hands makes no other that outlives it; tokens are made on the machine itself (`backstop token create`). Neither tokens nor
//! their digests are in any response.

use backstop_hooks::AgentId;
use backstop_store::{AccessToken, AccessTokenId, Scope, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::operators::Problem;
use super::approvals::millis;
use super::asked::{Answer, Asked, Empty, Number, limit};

/// Access tokens.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "AccessTokens")]
pub(super) struct Tokens {
    tokens: Vec<Token>,
    /// Whether there are more, older ones.
    more: bool,
    /// The `after` of the next page, if there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How many of this page can't be read; none of them counts.
    unreadable: usize,
}

/// Which tokens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TokenPage")]
pub(super) struct TokenPage {
    /// The `next` of the page before; the newest tokens where absent.
    #[serde(default)]
    #[schemars(regex(pattern = r"^-?[0-9]{1,18}$"))]
    after: Option<String>,
    /// The most entries, from 1 to 1000; 100 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    limit: Option<Number>,
}

/// An access token, without what opens anything.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AccessToken")]
pub(super) struct Token {
    /// Its id, by which it is revoked. It opens nothing.
    id: String,
    /// Whose it is, if it is an agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<AgentId>,
    /// The person to whom it belongs, or on whose behalf the agent asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    /// What it allows here: `judge`, `approve`, `read`, `admin`; nothing for one that opens the proxy.
    scopes: Vec<&'static str>,
    /// What it is for, in the words of whoever made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Who made it.
    created_by: String,
    /// In Unix milliseconds, as all times here.
    created_at: i64,
    /// The first moment at which it no longer counts.
    ends_at: i64,
    /// When it was revoked, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<i64>,
    /// When it was last presented, to some seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_used_at: Option<i64>,
    /// Whether it counts.
    counts: bool,
}

impl Token {
    fn of(token: AccessToken, now: Timestamp) -> Self {
        let counts = token.counts(now);
        let AccessToken { made, ends_at, revoked_at, last_used_at } = token;
        Self {
            id: made.id.to_string(),
            agent: made.agent,
            user: made.user,
            scopes: made.scopes.into_iter().map(Scope::as_str).collect(),
            note: made.note,
            created_by: made.created_by,
            created_at: millis(made.created_at),
            ends_at: millis(ends_at),
            revoked_at: revoked_at.map(millis),
            last_used_at: last_used_at.map(millis),
            counts,
        }
    }
}

/// Lists tokens.
pub(super) async fn list(asked: Asked, page: TokenPage, _: Empty) -> Result<Answer<Tokens>, Problem> {
    let store = asked.engine()?.store();
    let most = limit(page.limit)?;
    let after = page.after.as_deref().map(str::parse).transpose();
    let after = after.map_err(|_| Problem::query("`after` is the `next` of the page before".to_owned()))?;
    let page = store.access_tokens_after(after, most).await.map_err(|_| Problem::store())?;
    let (now, next) = (Timestamp::now(), page.next.map(|next| next.to_string()));
    let tokens = page.tokens.into_iter().map(|token| Token::of(token, now)).collect();
    Ok(Tokens { tokens, more: next.is_some(), next, unreadable: page.unreadable.len() }.into())
}

/// Revokes a token, which may be that of whoever asks.
pub(super) async fn revoke(asked: Asked, _: Empty, _: Empty) -> Result<Answer<Token>, Problem> {
    let store = asked.engine()?.store();
    let (id, by, now) = (AccessTokenId::from(asked.name().to_owned()), asked.caller.name(), Timestamp::now());
    let revoked = store.revoke_access_token(&id, &by, now).await.map_err(|_| Problem::store())?;
    Ok(Token::of(revoked.ok_or(Problem::no_token())?, now).into())
}
