//! `gateway.identity`: who vouches for callers of the gateway. Only the operator can set it: whoever could name an issuer could be
//! anybody.

use serde_json::{Value, json};

use crate::config_value::{ConfigValue, Entries, item, section};
use crate::place::{Setting, Spanned};
use crate::problem::{Problem, ProblemKind, suggestion};
use crate::reader::Reader;
use crate::text::Text;
use crate::values::{IssuerAlgorithm, Name, Whole, plain_text};
use backstop_yaml::{Kind, Node};

use super::callers::GatewayAgent;
use super::providers::Address;

section! {
    /// Who vouches for callers, besides tokens of Backstop's own.
    pub struct GatewayIdentity {
        /// Issuers of signed tokens (OpenID Connect, JWT).
        issuers ("issuers"): Vec<GatewayIssuer>, OperatorOnly;
    }
}

item! {
    /// An issuer whose tokens say which agent or user a caller is. At least one of `agent_claim` and `user_claim` must be there.
    pub struct GatewayIssuer {
        /// Its name, exactly as `iss` of its tokens has it: an `https` address, or an `http` address of this machine.
        issuer ("issuer"): Spanned<Text>, OperatorOnly;
        /// For whom its tokens are: `aud` has to hold one of these. Nobody else's tokens may have them.
        audience ("audience"): Spanned<Vec<Spanned<Text>>>, OperatorOnly;
        /// Where its keys are (a JWKS document). Without it, they are found by `/.well-known/openid-configuration` below `issuer`.
        jwks ("jwks"): Option<Spanned<Text>>, OperatorOnly;
        /// A PEM file with the authorities that vouch for its server. Without it, those that the system trusts.
        ca_file ("ca_file"): Option<Spanned<Text>>, OperatorOnly;
        /// The signature algorithms that its tokens may have. Without it, all that are known here. A key also fixes its own.
        algorithms ("algorithms"): Vec<Spanned<IssuerAlgorithm>>, OperatorOnly;
        /// Who may have asked for a token (`azp`). Without it, a token for several audiences must have been asked for by one of
        /// `audience`.
        authorized_parties ("authorized_parties"): Vec<Spanned<Text>>, OperatorOnly;
        /// The claim that leads to an agent, such as `azp` or `sub`.
        agent_claim ("agent_claim"): Option<Spanned<Name>>, OperatorOnly;
        /// Which of `gateway.agents` each value of that claim leads to. Tokens with another value are refused.
        agents ("agents"): Entries<Name, Spanned<Name>>, OperatorOnly;
        /// The claim that names the user, such as `sub` or `email`. The issuer has to make sure that no two users have the same.
        user_claim ("user_claim"): Option<Spanned<Name>>, OperatorOnly;
        /// Claims that a token must have, with their values. A claim that is a list has to hold the value.
        require ("require"): Entries<Name, Spanned<ClaimValue>>, OperatorOnly;
        /// By how many seconds the clocks of the issuer and of this machine may differ.
        leeway ("leeway_seconds"): Setting<Whole<0, 300>> = Whole::clamped(60), OperatorOnly;
    }
    check: check;
}

impl GatewayIssuer {
    fn check(&self, cx: &mut Reader<'_>) -> Option<()> {
        let at = &self.issuer.at;
        let problem = if self.audience.value.is_empty() {
            Some((&self.audience.at, "`audience` must not be empty: tokens for anybody would count"))
        } else if self.agent_claim.is_none() && self.user_claim.is_none() {
            Some((at, "the tokens of this issuer lead to nobody: add `agent_claim` or `user_claim`"))
        } else if self.agent_claim.is_some() && self.agents.is_empty() {
            Some((at, "`agent_claim` leads to no agent without `agents`"))
        } else if self.agent_claim.is_none() && !self.agents.is_empty() {
            Some((at, "`agents` counts for nothing without `agent_claim`"))
        } else {
            None
        };
        let problem = problem.map(|(at, message)| Problem::new(ProblemKind::BadValue, at.clone(), message));
        let addresses = [("issuer", Some(&self.issuer)), ("jwks", self.jwks.as_ref())];
        let wrong = || addresses.into_iter().find_map(|(key, address)| unusable(key, address?));
        let Some(problem) = problem.or_else(wrong) else { return Some(()) };
        cx.report(problem);
        None
    }
}

/// Why keys can't be read at an address.
pub(super) fn unusable(key: &str, address: &Spanned<Text>) -> Option<Problem> {
    let (message, hint) = match Address::parse(address.value.expose()) {
        None => ("must be an address", "for example `https://login.example.com`"),
        Some(found) if found.has_user => ("must not hold a user or a password", "keys of issuers are public"),
        Some(found) if !found.is_private => (
            "could be read, and changed, on its way",
            "use `https://`; plain `http://` is for this machine only",
        ),
        Some(_) => return None,
    };
    let message = format!("`{key}` {message}");
    Some(Problem::new(ProblemKind::BadValue, address.at.clone(), message).with_hint(hint))
}

impl GatewayIdentity {
    /// Checks that issuers are different, and that the agents exist to whom their tokens lead.
    pub(super) fn check(&self, agents: &Entries<Name, GatewayAgent>, cx: &mut Reader<'_>) {
        for (index, issuer) in self.issuers.iter().enumerate() {
            let name = issuer.issuer.value.expose();
            if self.issuers.iter().take(index).any(|other| other.issuer.value.expose() == name) {
                let message = format!("the issuer `{}` stands twice", issuer.issuer.value.as_written());
                cx.report(Problem::new(ProblemKind::Conflict, issuer.issuer.at.clone(), message));
            }
            for (_, agent) in issuer.agents.iter() {
                let name = agent.value.as_str();
                if agents.get(name).is_none() {
                    let known: Vec<&str> = agents.iter().map(|(name, _)| name.value.as_str()).collect();
                    let message = format!("no agent in `gateway.agents` is called `{name}`");
                    let problem = Problem::new(ProblemKind::UnknownName, agent.at.clone(), message);
                    cx.report(problem.with_hint(suggestion(name, &known, "agents")));
                }
            }
        }
    }
}

/// The value that a claim has to have: a text, a number without a fraction, `true` or `false`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimValue(Value);

impl ClaimValue {
    /// Returns the value as JSON.
    pub fn json(&self) -> &Value {
        &self.0
    }
}

impl ConfigValue for ClaimValue {
    fn read(node: &Node, cx: &mut Reader<'_>) -> Option<Self> {
        const WHAT: &str = "a text, a whole number, `true` or `false`";
        match &node.kind {
            Kind::Bool(value) => Some(Self(Value::from(*value))),
            Kind::Integer(number) => Some(Self(Value::from(*number))),
            Kind::Text(_) => plain_text(node, cx, WHAT).map(|text| Self(Value::from(text))),
            _ => cx.expected(node, WHAT),
        }
    }

    fn schema() -> Value {
        json!({ "type": ["string", "integer", "boolean"] })
    }

    fn show(&self) -> Value {
        self.0.clone()
    }
}
