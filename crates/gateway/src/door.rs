//! The door: who may come in, and whose request it is.
//!
//! Laws:
//!
//! - *Nobody comes in without a token*, from this machine or from elsewhere. The token is in the path
//!   (`/t/<token>/...`, for clients whose credential headers hold their own provider key), in the header
//!   `x-backstop-token`, or where clients put their key: `authorization: Bearer`, `x-api-key`,
//!   `x-goog-api-key`, `api-key`, `?key=`. A token in the path or in its own header decides alone.
//! - *Identity is said, never guessed.* An agent with a token of its own is known by it. Whoever holds the
//!   process's token may say which other agent it is: `/a/<agent>/...` or the header `x-backstop-agent`. Nobody
//!   can claim the name of an agent with a token without that token.
//! - *Tokens stay here.* Wherever a token of Backstop stands in a request, it is not passed on.
//! - *What echoes does not come in.* The answer to `TRACE` is the request as the provider saw it, with its key, and
//!   `CONNECT` asks for a tunnel.
//! - A gateway on a loopback address answers only to the names of this machine (and to those configured), so
//!   that a page in a browser can't reach it under a name of its own.
//!
//! All tokens are compared, each in constant time.

use std::net::IpAddr;

use backstop_hooks::{AgentId, Secret};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, header, request};
use memchr::memmem;
use subtle::{Choice, ConstantTimeEq as _};

use crate::cloud::bedrock;
use crate::endpoint::{Endpoint, Family, unescaped};
use crate::settings::Settings;

/// The header for a token, for clients whose credential headers hold their provider's key.
pub(crate) const TOKEN_HEADER: &str = "x-backstop-token";
/// The header that says which agent it is.
pub(crate) const AGENT_HEADER: &str = "x-backstop-agent";

/// How the names of all headers begin that are only for us.
const OWN_HEADERS: &str = "x-backstop-";
const API_KEY: &str = "x-api-key";
const GOOGLE_KEY: &str = "x-goog-api-key";
const AZURE_KEY: &str = "api-key";
const LONGEST_NAME: usize = 128;

/// Who may come in.
pub(crate) struct Door {
    token: Secret,
    agents: Vec<(AgentId, Secret)>,
    /// The names that a request may be for; `None` where any will do.
    hosts: Vec<String>,
    /// Nobody comes in under another name.
    is_local: bool,
}

/// A request that came in.
#[derive(Clone, Debug)]
pub(crate) struct Entered {
    pub(crate) agent: Option<AgentId>,
    /// The provider that the path names.
    pub(crate) provider: Option<String>,
    /// Path and query, as the provider is to see them.
    pub(crate) target: PathAndQuery,
}

/// Why a request does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
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
    #[error(
        "this token may not speak for that agent\nhint: an agent in `gateway.agents` is known by its own token alone"
    )]
    Agent,
    #[error("the path is malformed")]
    Path,
    #[error("this method is not passed on")]
    Method,
}

enum Holder<'a> {
    Process,
    Agent(&'a AgentId),
}

#[derive(Default)]
struct Prefixes<'a> {
    token: Option<&'a str>,
    agent: Option<&'a str>,
    provider: Option<&'a str>,
}

impl Door {
    pub(crate) fn new(settings: &Settings) -> Self {
        let is_local = settings.listen.ip().is_loopback();
        let hosts = settings.hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let agents = settings.agents.iter().map(|(agent, token)| (agent.clone(), token.clone())).collect();
        Self { token: settings.token.clone(), agents, hosts, is_local }
    }

    /// Lets a request in, or says why not.
    pub(crate) fn enter(&self, request: &request::Parts) -> Result<Entered, Refused> {
        if !self.knows_host(request) {
            return Err(Refused::Host);
        }
        if [Method::TRACE, Method::CONNECT].contains(&request.method) {
            return Err(Refused::Method);
        }
        let whole = request.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        let (prefixes, rest) = Prefixes::split(whole)?;
        let holder = self.holder(&prefixes, request).ok_or(Refused::Token)?;
        let agent = self.agent(&holder, prefixes.agent, &request.headers)?;
        let target = if rest.len() == whole.len() {
            request.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
        } else {
            rest.parse().map_err(|_| Refused::Path)?
        };
        let target = match target.query().and_then(|query| self.holder_in(query)) {
            Some(_) => without_key(&target).ok_or(Refused::Path)?,
            None => target,
        };
        let target = self.without_token(target)?;
        Ok(Entered { agent, provider: prefixes.provider.map(str::to_owned), target })
    }

    /// The target without the pairs of its query in which a token of ours stands; one in the path is refused.
    fn without_token(&self, target: PathAndQuery) -> Result<PathAndQuery, Refused> {
        let holds = |text: &str| unescaped(text).map_or(true, |text| self.is_in(text.as_bytes()));
        let path = target.path();
        if self.is_in(path.as_bytes()) || unescaped(path).is_ok_and(|path| self.is_in(path.as_bytes())) {
            return Err(Refused::Path);
        }
        let Some(query) = target.query().filter(|query| query.split('&').any(holds)) else {
            return Ok(target);
        };
        let kept: Vec<_> = query.split('&').filter(|pair| !holds(pair)).collect();
        let text = if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) };
        text.parse().map_err(|_| Refused::Path)
    }

    /// Whether a header holds a token of ours, anywhere in it (`referer` and `cookie` may), or is only for us.
    pub(crate) fn keeps(&self, name: &header::HeaderName, value: &HeaderValue) -> bool {
        name.as_str().starts_with(OWN_HEADERS) || self.is_in(value.as_bytes())
    }

    /// Whether a token of ours stands somewhere in a text. Who asks came in with one, so no time is kept secret from them.
    fn is_in(&self, text: &[u8]) -> bool {
        let tokens = self.agents.iter().map(|(_, token)| token).chain([&self.token]);
        tokens.map(|token| token.expose().as_bytes()).any(|token| memmem::find(text, token).is_some())
    }

    /// Whose token it is. All are compared, whichever fits.
    fn open(&self, given: &[u8]) -> Option<Holder<'_>> {
        let fits = |token: &Secret| -> Choice { token.expose().as_bytes().ct_eq(given) };
        let mut holder = bool::from(fits(&self.token)).then_some(Holder::Process);
        for (agent, token) in &self.agents {
            if bool::from(fits(token)) {
                holder = Some(Holder::Agent(agent));
            }
        }
        holder
    }

    fn holder(&self, prefixes: &Prefixes<'_>, request: &request::Parts) -> Option<Holder<'_>> {
        let headers = &request.headers;
        if let Some(token) = prefixes.token {
            return self.open(token.as_bytes());
        }
        if let Some(token) = headers.get(TOKEN_HEADER) {
            return self.open(token.as_bytes());
        }
        let given = [
            headers.get(header::AUTHORIZATION).and_then(bearer),
            headers.get(API_KEY).map(HeaderValue::as_bytes),
            headers.get(GOOGLE_KEY).map(HeaderValue::as_bytes),
            headers.get(AZURE_KEY).map(HeaderValue::as_bytes),
        ];
        let in_headers = given.into_iter().flatten().find_map(|token| self.open(token));
        in_headers.or_else(|| self.holder_in(request.uri.query()?))
    }

    fn agent(
        &self,
        holder: &Holder<'_>,
        prefix: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Option<AgentId>, Refused> {
        let header = headers.get(AGENT_HEADER).map(|name| name.to_str().map_err(|_| Refused::Agent));
        let header = header.transpose()?;
        let claimed = match (prefix, header) {
            (Some(prefix), Some(header)) if prefix != header => return Err(Refused::Agent),
            (prefix, header) => prefix.or(header),
        };
        match (holder, claimed) {
            (Holder::Agent(agent), None) => Ok(Some((*agent).clone())),
            (Holder::Agent(agent), Some(claimed)) if agent.as_str() == claimed => Ok(Some((*agent).clone())),
            (Holder::Agent(_), Some(_)) => Err(Refused::Agent),
            (Holder::Process, None) => Ok(None),
            (Holder::Process, Some(claimed)) => {
                let has_token = self.agents.iter().any(|(agent, _)| agent.as_str() == claimed);
                let is_name = !claimed.is_empty()
                    && claimed.len() <= LONGEST_NAME
                    && claimed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:@".contains(&byte));
                if is_name && !has_token { Ok(Some(AgentId::new(claimed))) } else { Err(Refused::Agent) }
            }
        }
    }

    fn knows_host(&self, request: &request::Parts) -> bool {
        if !self.is_local {
            return true;
        }
        let authority = request.uri.authority().map(http::uri::Authority::as_str).or_else(|| {
            let host = request.headers.get(header::HOST)?;
            host.to_str().ok()
        });
        authority.is_some_and(|authority| self.knows_name(authority))
    }

    /// Whether who opens a WebSocket is no page of another site: browsers ask nobody before they send such a request, and
    /// say in `origin` for whom they do.
    pub(crate) fn knows_origin(&self, headers: &HeaderMap) -> bool {
        headers.get_all(header::ORIGIN).iter().all(|origin| {
            let authority = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            authority.is_some_and(|(_, authority)| {
                if self.is_local {
                    return self.knows_name(authority);
                }
                // Served to other machines under whatever name: the page has to come from the one that is asked.
                let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
                host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) || self.lists(authority)
            })
        })
    }

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

    fn holder_in(&self, query: &str) -> Option<Holder<'_>> {
        let keys = query.split('&').filter(|pair| is_key(pair)).filter_map(|pair| pair.split_once('='));
        keys.filter_map(|(_, key)| unescaped(key).ok()).find_map(|key| self.open(key.as_bytes()))
    }
}

impl<'a> Prefixes<'a> {
    /// The gateway's own prefixes, each at most once, and what follows them.
    fn split(whole: &'a str) -> Result<(Self, &'a str), Refused> {
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
                return Err(Refused::Path);
            }
            rest = if after.is_empty() { "/" } else { after };
        }
    }
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

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
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

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !host.is_empty() => host,
        _ => authority,
    }
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door")
            .field("hosts", &self.hosts)
            .field("is_local", &self.is_local)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn door() -> Door {
        let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
        settings.agents.insert(AgentId::new("coder"), Secret::new("coder-token".to_owned()));
        settings.hosts.push("Gate.Internal".to_owned());
        Door::new(&settings)
    }

    #[test]
    fn pages_come_from_where_they_ask() {
        let mut settings = Settings::new(Secret::new("open-sesame".to_owned()));
        settings.listen = "192.0.2.1:80".parse().unwrap();
        settings.hosts.push("Gate.Internal".to_owned());
        let door = Door::new(&settings);
        for (host, origin, is_known) in [
            ("gate.example:8080", "http://gate.example:8080", true),
            ("gate.example:8080", "http://Gate.Example:8080", true),
            ("gate.example:8080", "https://gate.internal", true),
            ("gate.example:8080", "http://evil.example:8080", false),
            ("gate.example:8080", "http://gate.example:1", false),
            ("gate.example:8080", "http://localhost:8080", false),
            ("gate.example:8080", "null", false),
        ] {
            let headers = request("/", &[("host", host), ("origin", origin)]).headers;
            assert_eq!(door.knows_origin(&headers), is_known, "{origin}");
        }
        assert!(door.knows_origin(&request("/", &[("host", "gate.example")]).headers), "no page asks");
    }

    fn request(path: &str, headers: &[(&str, &str)]) -> request::Parts {
        let mut request = http::Request::builder().uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:80");
        }
        request.body(()).unwrap().into_parts().0
    }

    fn enter(
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<(Option<String>, Option<String>, String), Refused> {
        let entered = door().enter(&request(path, headers))?;
        let agent = entered.agent.map(|agent| agent.as_str().to_owned());
        Ok((agent, entered.provider, entered.target.to_string()))
    }

    fn anonymous(target: &str) -> Result<(Option<String>, Option<String>, String), Refused> {
        Ok((None, None, target.to_owned()))
    }

    #[test]
    fn a_token_opens_in_each_of_its_places() {
        let path = "/v1/messages?beta=true";
        for header in [
            ("authorization", "Bearer open-sesame"),
            ("authorization", "bearer open-sesame"),
            ("x-api-key", "open-sesame"),
            ("x-goog-api-key", "open-sesame"),
            ("api-key", "open-sesame"),
            ("x-backstop-token", "open-sesame"),
        ] {
            assert_eq!(enter(path, &[header]), anonymous(path), "{header:?}");
        }
        assert_eq!(enter("/t/open-sesame/v1/messages?beta=true", &[]), anonymous(path));
        assert_eq!(enter("/v1/x?key=open-sesame", &[]), anonymous("/v1/x"));
        assert_eq!(enter("/v1/x?a=b&key=open-sesame&alt=sse", &[]), anonymous("/v1/x?a=b&alt=sse"));
        for query in ["key=sk&key=open-sesame", "k%65y=open-sesame", "$key=open%2Dsesame"] {
            assert_eq!(enter(&format!("/v1/x?a=b&{query}"), &[]), anonymous("/v1/x?a=b"), "{query}");
        }
        // A key of the provider in the query is the client's business.
        let target = "/t/open-sesame/v1/x?key=sk";
        assert_eq!(enter(target, &[]), anonymous("/v1/x?key=sk"));
    }

    #[test]
    fn nobody_comes_in_without_a_token() {
        for (path, headers) in [
            ("/v1/messages", vec![]),
            ("/v1/messages", vec![("authorization", "Bearer nonsense")]),
            ("/v1/messages", vec![("authorization", "open-sesame")]),
            ("/v1/messages", vec![("x-api-key", "")]),
            ("/v1/messages", vec![("x-api-key", "open-sesam")]),
            ("/t/nonsense/v1/messages", vec![("x-api-key", "open-sesame")]),
            ("/v1/messages", vec![("x-backstop-token", "nonsense"), ("x-api-key", "open-sesame")]),
        ] {
            assert_eq!(enter(path, &headers), Err(Refused::Token), "{path} {headers:?}");
        }
    }

    #[test]
    fn agents_are_told_by_token_or_claimed_with_the_process_token() {
        let agent = |name: &str| Ok((Some(name.to_owned()), None, "/v1/x".to_owned()));
        assert_eq!(enter("/v1/x", &[("x-api-key", "coder-token")]), agent("coder"));
        assert_eq!(enter("/a/coder/v1/x", &[("x-api-key", "coder-token")]), agent("coder"));
        assert_eq!(enter("/a/other/v1/x", &[("x-api-key", "coder-token")]), Err(Refused::Agent));
        assert_eq!(enter("/a/coder/v1/x", &[("x-api-key", "open-sesame")]), Err(Refused::Agent));
        assert_eq!(enter("/t/open-sesame/a/other/v1/x", &[]), agent("other"));
        assert_eq!(enter("/a/other/t/open-sesame/v1/x", &[]), agent("other"));
        let header = ("x-backstop-agent", "other");
        assert_eq!(enter("/t/open-sesame/v1/x", &[header]), agent("other"));
        assert_eq!(enter("/t/open-sesame/a/another/v1/x", &[header]), Err(Refused::Agent));
        assert_eq!(enter("/t/open-sesame/a/%20/v1/x", &[]), Err(Refused::Agent));
    }

    #[test]
    fn prefixes_leave_and_may_not_repeat() {
        let provider = Ok((None, Some("main".to_owned()), "/v1/x".to_owned()));
        assert_eq!(enter("/t/open-sesame/p/main/v1/x", &[]), provider);
        assert_eq!(enter("/p/main/v1/x", &[("x-api-key", "open-sesame")]), provider);
        assert_eq!(enter("/t/open-sesame", &[]), anonymous("/"));
        assert_eq!(enter("/t/open-sesame?x", &[]), anonymous("/?x"));
        for path in ["/t/open-sesame/t/open-sesame/v1/x", "/t//v1/x", "/t/open-sesame/p/"] {
            assert_eq!(enter(path, &[]), Err(Refused::Path), "{path}");
        }
    }

    #[test]
    fn only_names_of_this_machine_are_served() {
        let key = ("x-api-key", "open-sesame");
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:80", "127.9.9.9", "[::1]:80", "gate.internal:8"] {
            assert!(enter("/v1/x", &[key, ("host", host)]).is_ok(), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "10.0.0.1"] {
            assert_eq!(enter("/v1/x", &[key, ("host", host)]), Err(Refused::Host), "{host}");
        }
    }

    #[test]
    fn own_tokens_and_headers_are_kept_back() {
        let door = door();
        let keeps = |name: &'static str, value: &'static str| {
            door.keeps(&http::HeaderName::from_static(name), &HeaderValue::from_static(value))
        };
        assert!(keeps("x-backstop-token", "x") && keeps("x-backstop-agent", "x"));
        assert!(keeps("x-backstop-session", "x") && keeps("x-backstop-user", "x"));
        assert!(keeps("authorization", "Bearer coder-token") && keeps("x-api-key", "open-sesame"));
        assert!(!keeps("authorization", "Bearer sk-other") && !keeps("x-api-key", "sk-other"));
        assert!(!format!("{door:?}").contains("sesame"));
    }
}
