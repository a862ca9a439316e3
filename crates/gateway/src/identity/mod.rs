//! Identity that others vouch for: signed tokens of OpenID Connect issuers (JWTs), which say which agent or user a caller is.
//!
//! Laws:
//!
//! - *The operator decides who vouches, for whom and how.* Issuers, audiences, algorithms and the claims that count are configured;
//!   a token chooses none of them. A claim leads to an agent only by a list of its values. Symmetric algorithms and `none` do not
//!   exist here.
//! - *Read strictly.* What stands twice, has another type than it must, or has to be understood and is not, makes a token
//!   unreadable ([`token`]).
//! - *A key fixes its algorithm* ([`keys`]), and who sends tokens can't have keys read again and again ([`source`]).
//! - *A token ends.* `exp` is required, and what a token has opened ends with it.
//! - *A token stays here.* One that is for this gateway (by issuer and audience) is never passed on, valid or not.
//!
//! The cryptography is `ring`'s; what is here is what the token may say. A caller learns why its token is refused, and that is all it
//! learns: nothing of a token is logged.
//!
//! Limits: tokens are not asked about at their issuer (no introspection), so one that was revoked there counts until it ends.
//! Encrypted and nested tokens, `x5c`, `jku` and the like are not read.

mod endpoints;
mod keys;
mod people;
mod settings;
mod source;
mod token;

use std::sync::Arc;

use backstop_hooks::AgentId;
use jiff::Timestamp;

use self::keys::Unfit;
pub(crate) use self::people::{Asked, Known, Login, Unknown};
pub use self::settings::{PersonClaim, PersonIssuer, TokenAlgorithm, TokenIssuer};
pub(crate) use self::source::KeyState;
use self::source::Source;
use self::token::{Said, Token};
use crate::access::TokenLife;
use crate::error::StartError;
use crate::settings::Settings;

/// Everybody who vouches for callers.
#[derive(Debug, Default)]
pub(crate) struct Issuers(Vec<Arc<Source>>);

/// Whom an issuer vouches for.
#[derive(Debug)]
pub(crate) struct Verified {
    pub(crate) agent: Option<AgentId>,
    pub(crate) user: Option<String>,
    pub(crate) life: TokenLife,
}

/// Why a token of a known issuer does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("is too long: at most {} bytes are read", token::LONGEST)]
    TooLong,
    #[error("is malformed, holds a member twice, or holds one of the wrong type")]
    Form,
    #[error("holds `crit`: its extensions are not known here")]
    Critical,
    #[error("is of a kind (`typ`, `cty`, `enc`) that says nothing about a caller")]
    Kind,
    #[error("has an algorithm that is not allowed, or not that of its key")]
    Algorithm,
    #[error("is signed by a key that its issuer does not have, or whose keys can't be read now")]
    Key,
    #[error("names no key (`kid`), and its issuer has several")]
    NoKey,
    #[error("is not signed by the key that it names")]
    Signature,
    #[error("is of another issuer")]
    Issuer,
    #[error("is for others (`aud`)")]
    Audience,
    #[error("was asked for by somebody else (`azp`)")]
    Party,
    #[error("has no end (`exp`)")]
    NoEnd,
    #[error("has expired")]
    Expired,
    #[error("does not count yet (`nbf`, `iat`)")]
    Early,
    #[error("lacks a claim that it needs, or has another value in it")]
    Required,
    #[error("leads to no agent")]
    Agent,
    #[error("does not say who its caller is as it has to")]
    NoName,
}

impl Issuers {
    /// Those of these settings. Who was known before under the same settings keeps the keys.
    ///
    /// # Errors
    /// If an issuer can't be asked, or its tokens would lead to nobody.
    pub(crate) fn of(settings: &Settings, before: Option<&Self>) -> Result<Self, StartError> {
        let mut sources: Vec<Arc<Source>> = Vec::new();
        for issuer in &settings.issuers {
            let wrong = |problem| Err(StartError::issuer(&issuer.issuer, problem));
            if sources.iter().any(|known| known.issuer.issuer == issuer.issuer) {
                return wrong("stands twice");
            }
            if issuer.audiences.iter().all(String::is_empty) || issuer.audiences.iter().any(String::is_empty)
            {
                return wrong("has no `audience`, or an empty one: tokens for anybody would count here");
            }
            if issuer.algorithms.is_empty() {
                return wrong("allows no algorithm");
            }
            if issuer.agent_claim.is_none() && issuer.user_claim.is_none() {
                return wrong("has neither `agent_claim` nor `user_claim`: its tokens would lead to nobody");
            }
            if issuer.agent_claim.is_some() == issuer.agents.is_empty() {
                return wrong(
                    "needs both `agent_claim` and `agents`, or neither: only listed values lead to an agent",
                );
            }
            let known = before.into_iter().flat_map(|before| &before.0);
            let known = known.into_iter().find(|known| known.is_of(issuer, &settings.proxies));
            sources.push(match known {
                Some(known) => Arc::clone(known),
                None => match Source::follow(issuer.clone(), settings.proxies.clone()) {
                    Ok(source) => source,
                    Err(problem) => return wrong(problem),
                },
            });
        }
        Ok(Self(sources))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How far the keys of each issuer can be gone by; the worst.
    pub(crate) fn state(&self) -> KeyState {
        self.0.iter().map(|source| source.state()).max().unwrap_or(KeyState::Fresh)
    }

    /// Whether some issuer vouches for the agent of this name.
    pub(crate) fn vouch_for(&self, agent: &str) -> bool {
        let mut agents = self.0.iter().flat_map(|source| source.issuer.agents.values());
        agents.any(|known| known.as_str() == agent)
    }

    /// Waits until the key of a token is known, or can't be known soon.
    pub(crate) async fn seek_key(&self, given: &[u8]) {
        if !self.is_empty()
            && token::is_one(given)
            && let Ok(token) = Token::read(given)
            && let Some(source) = self.issuer(&token)
            && token.algorithm.is_some_and(|algorithm| source.issuer.algorithms.contains(&algorithm))
        {
            source.seek(token.key.as_deref()).await;
        }
    }

    /// Returns whom a token vouches for, or why it does not count; `None` if it is none, or that of somebody who does not vouch.
    pub(crate) fn verify(&self, given: &[u8]) -> Option<Result<Verified, Refused>> {
        if self.is_empty() || !token::is_one(given) {
            return None;
        }
        let token = match Token::read(given) {
            Ok(token) => token,
            // A key of a provider may look so.
            Err(refused) => return self.holds_own(given).then_some(Err(refused)),
        };
        let source = self.issuer(&token)?;
        Some(checked(&token, source, Timestamp::now().as_second()))
    }

    /// Returns whether a token for this gateway stands anywhere in `text`, valid or not.
    pub(crate) fn holds_own(&self, text: &[u8]) -> bool {
        !self.is_empty()
            && token::any_in(text, |claims| {
                let issuer = claims.get("iss").and_then(serde_json::Value::as_str);
                let source = self.0.iter().find(|source| Some(source.issuer.issuer.as_str()) == issuer);
                source.is_some_and(|source| {
                    let audiences = token::audiences(claims);
                    audiences.is_none_or(|given| {
                        given.iter().any(|given| source.issuer.audiences.iter().any(|known| known == given))
                    })
                })
            })
    }

    fn issuer(&self, token: &Token<'_>) -> Option<&Source> {
        let named = token.issuer()?;
        self.0.iter().find(|source| source.issuer.issuer == named).map(Arc::as_ref)
    }
}

fn checked(token: &Token<'_>, source: &Source, now: i64) -> Result<Verified, Refused> {
    let Said { agent, user, ends_at } = authentic(token, source, now)?;
    let ends_at = Timestamp::from_second(ends_at).unwrap_or(Timestamp::MAX);
    Ok(Verified { agent, user, life: TokenLife::until(ends_at) })
}

/// Checks the signature of a token, and what every token has to say. Returns what follows from it.
fn authentic(token: &Token<'_>, source: &Source, now: i64) -> Result<Said, Refused> {
    let issuer = &source.issuer;
    let algorithm = token.algorithm.filter(|algorithm| issuer.algorithms.contains(algorithm));
    let algorithm = algorithm.ok_or(Refused::Algorithm)?;
    let checked = source.keys().check(token.key.as_deref(), algorithm, token.signed, &token.signature);
    checked.map_err(|unfit| match unfit {
        Unfit::Unknown => Refused::Key,
        Unfit::Unnamed => Refused::NoKey,
        Unfit::Algorithm => Refused::Algorithm,
        Unfit::Signature => Refused::Signature,
    })?;
    token.said(issuer, now)
}
