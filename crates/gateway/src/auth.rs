//! Authentication: which requests the gateway accepts, and which agent each one belongs to.
//!
//! Laws:
//!
//! - *No request is accepted without a token*, from this machine or from elsewhere. The token is in the path
//!   (`/t/<token>/...`, for clients whose credential headers hold their own provider key), in the header
//!   `x-backstop-token`, or where clients put their key: `authorization: Bearer`, `x-api-key`,
//!   `x-goog-api-key`, `api-key`, `?key=`. A token in the path or in its own header decides alone.
//! - *Identity is stated, never guessed.* An agent with a token of its own is identified by it, be it configured or [kept in the
//!   store](crate::access). A caller with the
//!   process's token may state which other agent it is: `/a/<agent>/...` or the header `x-backstop-agent`. Nobody
//!   can claim the name of an agent that has a token without presenting that token.
//! - *Others may vouch.* A signed token of a [configured issuer](crate::identity) says which agent or user its caller is, at the same
//!   places. Whoever comes by one can't be anybody else.
//! - *Tokens are never forwarded.* A token of Backstop, or one that an issuer made for it, is removed from a request wherever it occurs in it.
//! - *Methods that echo or tunnel are refused.* The answer to `TRACE` is the request as the provider saw it, with its
//!   key, and `CONNECT` asks for a tunnel.
//! - *What is for operators is asked for alone.* Below `/-/` ([`is_for_operators`]) nothing is passed on, and no prefix may stand
//!   in front of it: tokens would end up in addresses that people keep.
//! - A gateway on a loopback address answers only to the names of this machine (and to those configured), so
//!   that a page in a browser can't reach it under a name of its own (DNS rebinding).
//!
//! Every token is compared, each in constant time, so that the time taken does not depend on which one matches.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use backstop_hooks::{AgentId, Secret};
use backstop_store::holds_access_token;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, header, request};
use memchr::memmem;
use subtle::{Choice, ConstantTimeEq as _};

use crate::access::{AccessTokens, Held, TokenLife};
use crate::cloud::bedrock;
use crate::endpoint::{Endpoint, Family, unescaped, unescaped_by_anyone};
use crate::headers::OWN;
use crate::identity::{Issuers, Refused, Verified};
use crate::settings::Settings;

/// The header that carries a token, for clients whose credential headers hold their provider's key.
pub(crate) const TOKEN_HEADER: &str = "x-backstop-token";
/// The header that names the agent.
pub(crate) const AGENT_HEADER: &str = "x-backstop-agent";

const API_KEY: &str = "x-api-key";
const GOOGLE_KEY: &str = "x-goog-api-key";
const AZURE_KEY: &str = "api-key";
const LONGEST_NAME: usize = 128;
/// How many `key=` of an address may be tokens.
const MOST_KEYS: usize = 4;

/// Authenticates requests by token, host and method.
pub(crate) struct Authenticator {
    token: Secret,
    agents: Vec<(AgentId, Secret)>,
    /// Agents that are known by name, each of which has tokens.
    known: BTreeSet<AgentId>,
    /// The tokens of agents that are kept in the store.
    access: Arc<AccessTokens>,
    /// Who vouches for callers by signed tokens.
    issuers: Issuers,
    /// The token of operators, which opens nothing here and leaves no more than the others.
    operator_token: Option<Secret>,
    /// The configured host names, in lower case, that are accepted besides those of this machine.
    hosts: Vec<String>,
    /// Whether the gateway listens on a loopback address: then requests for other host names are refused.
    is_local: bool,
    /// Whether operators are answered on a loopback address.
    is_local_for_operators: bool,
}

/// The authenticated caller of a request, and what it asks for once the gateway's own prefixes and tokens are removed.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// The agent that the token or the caller names; `None` for the process's token without a name.
    pub(crate) agent: Option<AgentId>,
    /// The user that the token names. Nobody else can say which one it is.
    pub(crate) user: Option<Arc<str>>,
    /// Whether its token says who it is, and not the caller itself.
    pub(crate) is_proved: bool,
    /// The provider that the path prefix `/p/<provider>` names.
    pub(crate) provider: Option<String>,
    /// Path and query as the provider will receive them.
    pub(crate) target: PathAndQuery,
    /// The life of the token, if it is one that can end.
    pub(crate) token: Option<TokenLife>,
}

/// Why a request is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AuthError {
    #[error(
        "this address is not served under that name\nhint: `gateway.hosts` lists names besides those of this machine"
    )]
    Host,
    #[error(
        "a page of another site opens no WebSocket here\nhint: `gateway.hosts` lists names besides those of this machine"
    )]
    Origin,
    #[error(
        "Backstop does not know this token: give it as the API key, or as `/t/<token>` in front of the path"
    )]
    Token,
    #[error("this token has ended: it was revoked, or has expired")]
    Ended,
    #[error("the signed token of a known issuer {0}")]
    Signed(Refused),
    #[error("this token may not speak for that agent\nhint: an agent that has a token is known by it alone")]
    Agent,
    #[error("the path is malformed")]
    Path,
    #[error(
        "what is below `/-/` is for operators: it is asked for alone, without anything in front, and never passed on"
    )]
    ForOperators,
    #[error("this method is not passed on")]
    Method,
}

/// Whose token a request carries.
enum Holder {
    Process,
    /// Who it is, by a token that ends or by one that does not.
    Known {
        agent: Option<AgentId>,
        user: Option<Arc<str>>,
        life: Option<TokenLife>,
    },
}

/// The gateway's own path prefixes: `/t/<token>`, `/a/<agent>`, `/p/<provider>`.
#[derive(Default)]
struct Prefixes<'a> {
    token: Option<&'a str>,
    agent: Option<&'a str>,
    provider: Option<&'a str>,
}

impl Authenticator {
    pub(crate) fn new(settings: &Settings) -> Self {
        let is_local = settings.listen.ip().is_loopback();
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let agents = settings.agents.iter().map(|(agent, token)| (agent.clone(), token.clone())).collect();
        let known = settings.quotas.agents.keys().cloned().collect();
        let (token, operator_token) = (settings.token.clone(), settings.operator_token.clone());
        Self {
            token,
            agents,
            known,
            access: Arc::default(),
            issuers: Issuers::default(),
            operator_token,
            hosts,
            is_local,
            is_local_for_operators: settings.operators_listen.unwrap_or(settings.listen).ip().is_loopback(),
        }
    }

    /// The same, which also knows these tokens and issuers.
    pub(crate) fn knowing(self, access: Arc<AccessTokens>, issuers: Issuers) -> Self {
        Self { access, issuers, ..self }
    }

    pub(crate) fn issuers(&self) -> &Issuers {
        &self.issuers
    }

    /// Waits until it can be told whether the tokens of a request count: an issuer may have a new key. To be called before
    /// [`Self::authenticate`], which waits for nothing.
    pub(crate) async fn seek_keys(&self, request: &request::Parts) {
        if self.issuers.is_empty() || !self.knows_host(request) {
            return;
        }
        let whole = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let Ok((prefixes, _)) = Prefixes::split(whole) else { return };
        for given in given(&prefixes, request) {
            self.issuers.seek_key(&given).await;
        }
    }

    /// Authenticates a request and returns its caller.
    ///
    /// # Errors
    /// [`AuthError`] if the host, the method, the token, the claimed agent or the path is not acceptable.
    pub(crate) fn authenticate(&self, request: &request::Parts) -> Result<Caller, AuthError> {
        if !self.knows_host(request) {
            return Err(AuthError::Host);
        }
        if [Method::TRACE, Method::CONNECT].contains(&request.method) {
            return Err(AuthError::Method);
        }
        let whole = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let (prefixes, rest) = Prefixes::split(whole)?;
        if may_mean_operators(rest) {
            return Err(AuthError::ForOperators);
        }
        let holder = self.holder(&prefixes, request)?;
        let agent = self.agent(&holder, prefixes.agent, &request.headers)?;
        let target = if rest.len() == whole.len() {
            request.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
        } else {
            rest.parse().map_err(|_| AuthError::Path)?
        };
        let is_held = |query: &str| {
            keys_in(query).count() > MOST_KEYS
                || keys_in(query).any(|key| self.token_holder(&key, &mut None).is_some())
        };
        let target = match target.query().is_some_and(is_held) {
            true => without_key(&target).ok_or(AuthError::Path)?,
            false => target,
        };
        let target = self.without_token(target)?;
        let (is_proved, user, token) = match holder {
            Holder::Process => (false, None, None),
            Holder::Known { user, life, .. } => (true, user, life),
        };
        Ok(Caller { agent, user, is_proved, provider: prefixes.provider.map(str::to_owned), target, token })
    }

    /// Returns the target without the query pairs that contain one of the gateway's tokens. A token in the path is an error.
    fn without_token(&self, target: PathAndQuery) -> Result<PathAndQuery, AuthError> {
        let holds = |text: &str| unescaped(text).map_or(true, |text| self.is_in(text.as_bytes()));
        let path = target.path();
        if self.is_in(path.as_bytes()) || self.is_in(&unescaped_by_anyone(path)) {
            return Err(AuthError::Path);
        }
        let Some(query) = target.query().filter(|query| query.split('&').any(holds)) else {
            return Ok(target);
        };
        let kept: Vec<_> = query.split('&').filter(|pair| !holds(pair)).collect();
        let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
        text.parse().map_err(|_| AuthError::Path)
    }

    /// Returns whether a header must not be forwarded: it is meant for the gateway only, or one of the gateway's tokens occurs
    /// anywhere in its value (as it may in `referer` and `cookie`).
    pub(crate) fn must_strip(&self, name: &header::HeaderName, value: &HeaderValue) -> bool {
        name.as_str().starts_with(OWN) || self.is_in(value.as_bytes())
    }

    /// Returns whether one of the gateway's tokens occurs in `text`, or anything that has the form of an access token. Not constant time: the caller has already presented a token.
    fn is_in(&self, text: &[u8]) -> bool {
        let others = self.operator_token.iter().chain([&self.token]);
        let mut tokens = self.agents.iter().map(|(_, token)| token).chain(others);
        let holds = |token: &Secret| memmem::find(text, token.expose().as_bytes()).is_some();
        tokens.any(holds) || holds_access_token(text) || self.issuers.holds_own(text)
    }

    /// Returns who holds the given token, or `None` if it is unknown. Compares all tokens even after a match. `refused` is why a
    /// signed token does not count.
    fn token_holder(&self, given: &[u8], refused: &mut Option<Refused>) -> Option<Holder> {
        let fits = |token: &Secret| -> Choice { token.expose().as_bytes().ct_eq(given) };
        let known = |agent, life| Holder::Known { agent: Some(agent), user: None, life };
        let mut holder = bool::from(fits(&self.token)).then_some(Holder::Process);
        for (agent, token) in &self.agents {
            if bool::from(fits(token)) {
                holder = Some(known(agent.clone(), None));
            }
        }
        let access = self.access.holder(given).map(|Held { agent, user, life }| Holder::Known {
            agent: Some(agent),
            user,
            life: Some(life),
        });
        holder.or(access).or_else(|| match self.issuers.verify(given)? {
            Ok(Verified { agent, user, life }) => {
                Some(Holder::Known { agent, user: user.map(Arc::from), life: Some(life) })
            }
            Err(why) => {
                *refused = refused.or(Some(why));
                None
            }
        })
    }

    /// Finds the request's token and returns who holds it. A token in the path or in its own header decides alone.
    fn holder(&self, prefixes: &Prefixes<'_>, request: &request::Parts) -> Result<Holder, AuthError> {
        let mut refused = None;
        let holder = given(prefixes, request).find_map(|given| self.token_holder(&given, &mut refused));
        holder.ok_or(refused.map_or(AuthError::Token, AuthError::Signed))
    }

    /// Returns the agent that the caller is, from its token and the name that it claims.
    fn agent(
        &self,
        holder: &Holder,
        prefix: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Option<AgentId>, AuthError> {
        let header = headers.get(AGENT_HEADER).map(|name| name.to_str().map_err(|_| AuthError::Agent));
        let header = header.transpose()?;
        let claimed = match (prefix, header) {
            (Some(prefix), Some(header)) if prefix != header => return Err(AuthError::Agent),
            (prefix, header) => prefix.or(header),
        };
        match (holder, claimed) {
            (Holder::Known { agent, .. }, None) => Ok(agent.clone()),
            (Holder::Known { agent: Some(agent), .. }, Some(claimed)) if agent.as_str() == claimed => {
                Ok(Some(agent.clone()))
            }
            (Holder::Known { .. }, Some(_)) => Err(AuthError::Agent),
            (Holder::Process, None) => Ok(None),
            (Holder::Process, Some(claimed)) => {
                let is_listed = self
                    .agents
                    .iter()
                    .map(|(agent, _)| agent)
                    .chain(&self.known)
                    .any(|agent| agent.as_str() == claimed);
                let has_token = is_listed || self.access.may_know(claimed) || self.issuers.vouch_for(claimed);
                let is_name = !claimed.is_empty()
                    && claimed.len() <= LONGEST_NAME
                    && claimed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte));
                if is_name && !has_token { Ok(Some(AgentId::new(claimed))) } else { Err(AuthError::Agent) }
            }
        }
    }

    /// Returns whether the request is for a host name that the gateway answers to.
    fn knows_host(&self, request: &request::Parts) -> bool {
        !self.is_local || asked_host(request).is_some_and(|authority| self.knows_name(authority))
    }

    /// Returns whether a request for operators is for a host that a page of another site can't have as its own. At any
    /// address: names are those that [`Self::knows_host`] knows at a loopback address. Beyond this machine an address in
    /// numbers will do as well, since no name has to lead to it.
    pub(crate) fn knows_operators_host(&self, request: &request::Parts) -> bool {
        asked_host(request).is_some_and(|authority| {
            let host = without_port(authority).trim_matches(['[', ']']);
            self.knows_name(authority) || !self.is_local_for_operators && host.parse::<IpAddr>().is_ok()
        })
    }

    /// Returns whether a WebSocket request may have been sent by a browser page of this origin. Browsers send such requests
    /// without a preflight and name the page's site in `origin`.
    pub(crate) fn knows_origin(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| {
            let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            authority.is_some_and(|(_, authority)| {
                if self.is_local {
                    return self.knows_name(authority);
                }
                // Other machines may reach the gateway under any name: the page's origin must match the requested host.
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) || self.lists(authority)
            })
        })
    }

    /// Returns whether the operator configured this host name.
    fn lists(&self, authority: &str) -> bool {
        self.hosts.contains(&without_port(authority).to_ascii_lowercase())
    }

    fn knows_name(&self, authority: &str) -> bool {
        let host = without_port(authority).to_ascii_lowercase();
        let is_own = host == "localhost"
            || host.ends_with(".localhost")
            || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        is_own || self.lists(authority)
    }
}

/// What a request gives as its token, in the order in which it counts. What stands in the path, or in the header for tokens, counts
/// alone.
fn given<'a>(prefixes: &Prefixes<'a>, request: &'a request::Parts) -> impl Iterator<Item = Cow<'a, [u8]>> {
    let headers = &request.headers;
    let in_path = prefixes.token.map(str::as_bytes);
    let alone = in_path.or_else(|| headers.get(TOKEN_HEADER).map(HeaderValue::as_bytes));
    let in_headers = [
        headers.get(header::AUTHORIZATION).and_then(bearer),
        headers.get(API_KEY).map(HeaderValue::as_bytes),
        headers.get(GOOGLE_KEY).map(HeaderValue::as_bytes),
        headers.get(AZURE_KEY).map(HeaderValue::as_bytes),
    ];
    let others = alone.is_none().then(|| {
        // Each may have a signature, which costs time before anybody is known. Nobody has reason to send as many.
        let in_query: Vec<_> = request.uri.query().into_iter().flat_map(keys_in).collect();
        let in_query = if in_query.len() > MOST_KEYS { Vec::new() } else { in_query };
        in_headers.into_iter().flatten().map(Cow::Borrowed).chain(in_query.into_iter().map(Cow::Owned))
    });
    alone.map(Cow::Borrowed).into_iter().chain(others.into_iter().flatten())
}

/// What a query carries as `key=`.
fn keys_in(query: &str) -> impl Iterator<Item = Vec<u8>> {
    let keys = query.split('&').filter(|pair| is_key(pair)).filter_map(|pair| pair.split_once('='));
    keys.filter_map(|(_, key)| unescaped(key).ok().map(String::into_bytes))
}

impl<'a> Prefixes<'a> {
    /// Splits the gateway's own prefixes, each at most once, from the rest of the path.
    fn split(whole: &'a str) -> Result<(Self, &'a str), AuthError> {
        let mut prefixes = Self::default();
        let mut rest = whole;
        loop {
            let (slot, after) = if let Some(after) = rest.strip_prefix("/t/") {
                (&mut prefixes.token, after)
            } else if let Some(after) = rest.strip_prefix("/a/") {
                (&mut prefixes.agent, after)
            } else if let Some(after) = rest.strip_prefix("/p/") {
                (&mut prefixes.provider, after)
            } else {
                return Ok((prefixes, rest));
            };
            let end = after.find(['/', '?']).unwrap_or(after.len());
            let (value, after) = after.split_at(end);
            if value.is_empty() || slot.replace(value).is_some() {
                return Err(AuthError::Path);
            }
            rest = if after.is_empty() { "/" } else { after };
        }
    }
}

/// The host that a request names.
pub(crate) fn asked_host(request: &request::Parts) -> Option<&str> {
    let in_address = request.uri.authority().map(http::uri::Authority::as_str);
    in_address.or_else(|| request.headers.get(header::HOST)?.to_str().ok())
}

/// Returns whether a path is for operators, and for no provider.
pub(crate) fn is_for_operators(path: &str) -> bool {
    path == "/-" || path.starts_with("/-/")
}

/// Returns whether somebody could read an address as one that is for operators: its letters escaped, its slashes doubled or the
/// wrong way round, or with dots between them.
fn may_mean_operators(target: &str) -> bool {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = unescaped(path).map_or_else(|_| path.to_owned().into(), Cow::from);
    let first = path.split(['/', '\\']).find(|segment| !matches!(*segment, "" | "."));
    first.is_some_and(|first| first.split(';').next() == Some("-"))
}

/// Whether a client expects errors as Bedrock has them.
pub(crate) fn speaks_bedrock(request: &request::Parts) -> bool {
    let rest = Prefixes::split(request.uri.path()).map_or("/", |(_, rest)| rest);
    bedrock::is_its(rest)
}

/// Whose errors a client expects that did not come in.
pub(crate) fn family_of(request: &request::Parts) -> Family {
    let rest = Prefixes::split(request.uri.path()).map_or("/", |(_, rest)| rest);
    Endpoint::of(rest, &request.headers).map_or(Family::OpenAi, |endpoint| endpoint.family)
}

pub(crate) fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked("bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(token.trim_ascii_start())
}

/// Whether a pair of a query holds a key, however that is spelt.
pub(crate) fn is_key(pair: &str) -> bool {
    let name = pair.split('=').next().unwrap_or_default();
    unescaped(name).is_ok_and(|name| name.trim_start_matches('$').eq_ignore_ascii_case("key"))
}

/// The target without `key=`.
pub(crate) fn without_key(target: &PathAndQuery) -> Option<PathAndQuery> {
    let kept: Vec<_> = target.query()?.split('&').filter(|pair| !is_key(pair)).collect();
    let path = target.path();
    let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
    text.parse().ok()
}

pub(crate) fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator")
            .field("hosts", &self.hosts)
            .field("is_local", &self.is_local)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
