//! Who vouches for callers, as the operator configured it.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_hooks::{AgentId, Secret};
use backstop_store::Scope;
use serde_json::Value;

use crate::settings::Trust;

/// A signature algorithm of tokens. There is no symmetric one: a gateway that could check such a token could also make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 7518, 3.3).
    Rs256,
    /// RSASSA-PSS with SHA-256 (RFC 7518, 3.5).
    Ps256,
    /// ECDSA on P-256 with SHA-256 (RFC 7518, 3.4).
    Es256,
    /// ECDSA on P-384 with SHA-384 (RFC 7518, 3.4).
    Es384,
    /// Ed25519 (RFC 8037, 3.1, and under its own name RFC 9864).
    EdDsa,
}

impl TokenAlgorithm {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Rs256, Self::Ps256, Self::Es256, Self::Es384, Self::EdDsa];

    /// Returns the algorithm that a token names.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "RS256" => Self::Rs256,
            "PS256" => Self::Ps256,
            "ES256" => Self::Es256,
            "ES384" => Self::Es384,
            "EdDSA" | "Ed25519" => Self::EdDsa,
            _ => return None,
        })
    }
}

/// An issuer of tokens, and what its tokens say.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenIssuer {
    /// Its name, which `iss` of its tokens and of its discovery document repeats letter by letter. An `https` address, or an
    /// `http` address of this machine.
    pub issuer: String,
    /// What `aud` has to hold one of.
    pub audiences: Vec<String>,
    /// Where its keys are; found by its discovery document, if `None`.
    pub jwks: Option<String>,
    /// By whose certificates it is known.
    pub trust: Trust,
    /// The algorithms that its tokens may have.
    pub algorithms: Vec<TokenAlgorithm>,
    /// Who may have asked for a token (`azp`). If there are none, a token for several audiences has to be asked for by one of
    /// [`audiences`](Self::audiences).
    pub authorized_parties: Vec<String>,
    /// The claim that leads to an agent.
    pub agent_claim: Option<String>,
    /// To which agent each value of that claim leads. No other value leads to one.
    pub agents: BTreeMap<String, AgentId>,
    /// The claim that names the user.
    pub user_claim: Option<String>,
    /// Claims that a token needs, and their values. A claim that is a list has to hold the value.
    pub required: BTreeMap<String, Value>,
    /// How far the clocks of the issuer and of this machine may be apart.
    pub leeway: Duration,
}

impl TokenIssuer {
    /// The leeway unless the operator chooses another.
    pub const LEEWAY: Duration = Duration::from_secs(60);

    /// An issuer whose tokens lead to nobody yet: all algorithms, keys by discovery.
    pub fn new(issuer: impl Into<String>, audience: impl Into<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audiences: vec![audience.into()],
            jwks: None,
            trust: Trust::System,
            algorithms: TokenAlgorithm::ALL.to_vec(),
            authorized_parties: Vec::new(),
            agent_claim: None,
            agents: BTreeMap::new(),
            user_claim: None,
            required: BTreeMap::new(),
            leeway: Self::LEEWAY,
        }
    }
}

/// By which claim a person is known who signs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersonClaim {
    /// `email`, where `email_verified` is true (OpenID Connect Core, 5.1).
    Email,
    /// `sub`, which an issuer gives nobody else, ever (OpenID Connect Core, 2).
    Subject,
}

/// An issuer at which people sign in to the console, and what they may do there.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonIssuer {
    /// Its name, which `iss` of its tokens and of its discovery document repeats letter by letter. An `https` address, or an
    /// `http` address of this machine.
    pub issuer: String,
    /// What the console is called there.
    pub client_id: String,
    /// By what the console is known there; without it, by nothing but where people are sent back to.
    pub client_secret: Option<Secret>,
    /// By whose certificates it is known.
    pub trust: Trust,
    /// Where people open the console: `https`, a name of [`Settings::hosts`](crate::Settings::hosts), and no path. They are sent back to
    /// [`DONE`](Self::DONE) there.
    pub origin: String,
    /// What is asked for besides `openid`.
    pub scopes: Vec<String>,
    /// By which claim a person is known.
    pub user_claim: PersonClaim,
    /// The claim that says what a person may do: a text, or a list of texts.
    pub role_claim: String,
    /// What those may do who have a value in that claim. Nobody else is let in.
    pub roles: BTreeMap<String, Vec<Scope>>,
    /// How long a session lasts at most.
    pub longest: Duration,
    /// Whether people have to sign in there each time, also where their browser is signed in already.
    pub sign_in_anew: bool,
}

impl PersonIssuer {
    /// Where people are sent back to, below [`origin`](Self::origin).
    pub const DONE: &str = "/-/console/oidc/done";
}
