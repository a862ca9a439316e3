//! One token: a signed JWT in its compact form (RFC 7515, 7519, 8725).
//!
//! Everything is read strictly. A member that stands twice, a claim of another type than it has to be, and an extension that has to
//! be understood (`crit`) make a token unreadable; nothing is taken for absent that is there.

use backstop_llm::wire::parse_json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::Refused;
use super::settings::{TokenAlgorithm, TokenIssuer};

/// The longest token, in bytes.
pub(super) const LONGEST: usize = 16 << 10;
/// The longest name that a claim gives, in bytes.
const LONGEST_NAME: usize = 256;
/// The last second of the year 9999.
const LATEST: i64 = 253_402_300_799;

/// A token that was taken apart. Nothing in it is known to be true.
pub(super) struct Token<'a> {
    /// What its signature is about.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    /// What it says its algorithm is; `None` for one that is not known here.
    pub(super) algorithm: Option<TokenAlgorithm>,
    pub(super) key: Option<String>,
    claims: Map<String, Value>,
}

/// What a token says whose signature and claims are right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) agent: Option<backstop_hooks::AgentId>,
    pub(super) user: Option<String>,
    /// The second of the Unix epoch at which it ends.
    pub(super) ends_at: i64,
}

/// Returns whether a text has the form of a token. Says nothing about what is in it.
pub(super) fn is_one(text: &[u8]) -> bool {
    let is_part = |part: &[u8]| part.iter().all(|byte| is_letter(*byte));
    let mut parts = text.split(|byte| *byte == b'.');
    // No text begins otherwise that is an object of JSON without space in front.
    let front = parts.next().is_some_and(|front| front.starts_with(b"e") && is_part(front));
    front && parts.clone().count() == 2 && parts.all(is_part)
}

const fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

/// Returns whether some token in `text` fits, whether or not it is valid.
pub(super) fn any_in(text: &[u8], fits: impl Fn(&Map<String, Value>) -> bool) -> bool {
    let words = text.split(|byte| !is_letter(*byte) && *byte != b'.');
    let parts = words.filter(|word| word.contains(&b'.')).flat_map(|word| word.split(|byte| *byte == b'.'));
    parts.filter_map(claims_of).any(|claims| fits(&claims))
}

fn claims_of(part: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()? {
        Value::Object(claims) => Some(claims),
        _ => None,
    }
}

impl<'a> Token<'a> {
    pub(super) fn read(token: &'a [u8]) -> Result<Self, Refused> {
        if token.len() > LONGEST {
            return Err(Refused::TooLong);
        }
        let last = token.iter().rposition(|byte| *byte == b'.').ok_or(Refused::Form)?;
        let (signed, signature) = token.split_at_checked(last).ok_or(Refused::Form)?;
        let first = signed.iter().position(|byte| *byte == b'.').ok_or(Refused::Form)?;
        let (head, claims) = signed.split_at_checked(first).ok_or(Refused::Form)?;
        let decoded = |part: &[u8]| URL_SAFE_NO_PAD.decode(part).map_err(|_| Refused::Form);
        let head = object(&decoded(head)?)?;
        let claims = object(&decoded(claims.get(1..).unwrap_or_default())?)?;
        let signature = decoded(signature.get(1..).unwrap_or_default())?;
        if head.contains_key("crit") {
            return Err(Refused::Critical);
        }
        let text = |name: &str| match head.get(name) {
            None => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(Refused::Form),
        };
        if !text("typ")?.is_none_or(is_token_type) || head.contains_key("enc") || head.contains_key("cty") {
            return Err(Refused::Kind);
        }
        let algorithm = TokenAlgorithm::named(text("alg")?.ok_or(Refused::Form)?);
        let key = text("kid")?.map(str::to_owned);
        Ok(Self { signed, signature, algorithm, key, claims })
    }

    /// Who it says issued it.
    pub(super) fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }

    /// What it says of this; `None` if nothing. Nothing of it is known to be true before the signature is checked.
    pub(super) fn claim(&self, name: &str) -> Option<&Value> {
        self.claims.get(name)
    }

    /// Checks what it says, and returns what follows from it. Only for a token whose signature is right.
    pub(super) fn said(&self, issuer: &TokenIssuer, now: i64) -> Result<Said, Refused> {
        if self.issuer() != Some(&issuer.issuer) {
            return Err(Refused::Issuer);
        }
        self.check_audience(issuer)?;
        let leeway = i64::try_from(issuer.leeway.as_secs()).unwrap_or(i64::MAX);
        let ends_at = self.second("exp")?.ok_or(Refused::NoEnd)?.saturating_add(leeway);
        if now >= ends_at {
            return Err(Refused::Expired);
        }
        for from in ["nbf", "iat"] {
            if self.second(from)?.is_some_and(|from| now.saturating_add(leeway) < from) {
                return Err(Refused::Early);
            }
        }
        for (name, value) in &issuer.required {
            let holds = match self.claims.get(name) {
                Some(Value::Array(values)) => values.contains(value),
                Some(given) => given == value,
                None => false,
            };
            if !holds {
                return Err(Refused::Required);
            }
        }
        let agent = match &issuer.agent_claim {
            None => None,
            Some(claim) => Some(issuer.agents.get(self.name(claim)?).ok_or(Refused::Agent)?.clone()),
        };
        let user = issuer.user_claim.as_ref().map(|claim| self.name(claim).map(str::to_owned)).transpose()?;
        Ok(Said { agent, user, ends_at })
    }

    /// OpenID Connect Core, 3.1.3.7: who asked for a token for several audiences is part of whom it is for.
    fn check_audience(&self, issuer: &TokenIssuer) -> Result<(), Refused> {
        let audiences = audiences(&self.claims).ok_or(Refused::Audience)?;
        if !audiences.iter().any(|audience| issuer.audiences.iter().any(|known| known == audience)) {
            return Err(Refused::Audience);
        }
        let party = match self.claims.get("azp") {
            None => None,
            Some(party) => Some(party.as_str().ok_or(Refused::Form)?),
        };
        let lists = |list: &[String]| party.is_some_and(|party| list.iter().any(|known| known == party));
        let is_known = match (issuer.authorized_parties.as_slice(), audiences.as_slice()) {
            ([], [_]) => true,
            ([], _) => lists(&issuer.audiences),
            (listed, _) => lists(listed),
        };
        if is_known { Ok(()) } else { Err(Refused::Party) }
    }

    /// A time (RFC 7519, 2: a number of seconds that may have a fraction), as whole seconds.
    pub(super) fn second(&self, claim: &str) -> Result<Option<i64>, Refused> {
        let Some(value) = self.claims.get(claim) else { return Ok(None) };
        let Value::Number(number) = value else { return Err(Refused::Form) };
        let text = number.to_string();
        // Of `1.5e17` what stands before the point is not the whole part.
        if text.contains(['e', 'E']) {
            return Err(Refused::Form);
        }
        let whole = text.split_once('.').map_or(text.as_str(), |(whole, _)| whole);
        let second = whole.parse().ok().filter(|second| (0..=LATEST).contains(second));
        second.map(Some).ok_or(Refused::Form)
    }

    /// A name that a claim gives.
    pub(super) fn name(&self, claim: &str) -> Result<&str, Refused> {
        let name = self.claims.get(claim).and_then(Value::as_str).ok_or(Refused::NoName)?;
        let is_name = (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
        if is_name { Ok(name) } else { Err(Refused::NoName) }
    }
}

/// Whom a token is for; `None` if it does not say so as it has to.
pub(super) fn audiences(claims: &Map<String, Value>) -> Option<Vec<&str>> {
    match claims.get("aud")? {
        Value::String(audience) => Some(vec![audience]),
        Value::Array(audiences) => audiences.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn object(text: &[u8]) -> Result<Map<String, Value>, Refused> {
    match parse_json(text) {
        Ok(Value::Object(object)) => Ok(object),
        _ => Err(Refused::Form),
    }
}

/// Whether this is what a token calls itself that says who somebody is: tokens that say something else (such as that somebody has
/// logged out) have types of their own (RFC 8725, 3.11; RFC 9068, 2.1).
fn is_token_type(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

#[cfg(test)]
mod tests;
