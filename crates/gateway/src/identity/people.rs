//! Signing in at an issuer: the authorization code flow of OpenID Connect (Core, 3.1), with PKCE (RFC 7636), by one issuer whom the
//! operator named.
//!
//! Laws:
//!
//! - *Nobody is let in by default.* A person has to have a value that [`PersonIssuer::roles`] lists, in a claim of a token that the issuer signed for
//!   this console.
//! - *Who somebody is, the issuer vouches for*: `sub`, or `email` where it says that it is verified. A name is one issuer's.
//! - *A code goes to that issuer alone.* Where it is exchanged follows from the discovery document of the issuer, and a browser that comes back from
//!   another one (RFC 9207) has brought nothing.
//! - *Nothing of the issuer is kept*: of its answer the ID token is read, and nothing else; it is gone when this returns. Nothing of it is logged.
//!
//! Limits: an issuer is asked when somebody signs in, and not again. Whom it locks out later stays until the session ends.

use std::sync::Arc;

use backstop_hooks::Secret;
use backstop_http_client::Request;
use backstop_llm::wire::parse_json;
use backstop_store::Scope;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::sync::watch;
use tokio::time::Instant;
use url::{Host, Url, form_urlencoded};

use super::endpoints::Endpoints;
use super::settings::{PersonClaim, PersonIssuer, TokenIssuer};
use super::source::Source;
use super::token::Token;
use super::{Refused, authentic};
use crate::access::{TokenLife, Vouched};
use crate::error::StartError;
use crate::settings::Settings;

/// The longest code that is exchanged, in bytes.
const LONGEST_CODE: usize = 4 << 10;
/// The longest word for an error that is repeated.
const LONGEST_WORD: usize = 64;

/// How many seconds ago somebody signed in there who has to do it anew, also by a clock that is fast.
const RECENT: u64 = 120;

/// An issuer at which people sign in.
#[derive(Debug)]
pub(crate) struct Login {
    settings: PersonIssuer,
    /// Host and port of where people open the console.
    authority: String,
    source: Arc<Source>,
    ended: watch::Sender<bool>,
}

/// What a browser takes to the issuer.
pub(crate) struct Asked<'a> {
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    /// The digest of the verifier, which is shown where the code is exchanged.
    pub(crate) challenge: &'a str,
}

/// Who signed in.
#[derive(Debug)]
pub(crate) struct Known {
    /// What the person is called.
    pub(crate) user: String,
    pub(crate) vouched: Vouched,
    pub(crate) scopes: Vec<Scope>,
    /// How long a session lasts at most.
    pub(crate) life: TokenLife,
}

/// Why it is not known who somebody is, or why they are not let in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    #[error("the identity provider can't be asked: {0}")]
    Down(String),
    #[error("the identity provider does not take the code: it answers {status}{}", said(.word))]
    Code { status: u16, word: Option<String> },
    #[error("the identity provider answers what is no JSON object with an `id_token`")]
    Answer,
    #[error("the ID token {0}")]
    Token(Refused),
    #[error("the ID token is not about this sign-in (`nonce`)")]
    Nonce,
    #[error("the identity provider does not say that the address is the person's (`email_verified`)")]
    Unverified,
    #[error("the ID token does not say that the person signed in just now (`auth_time`)")]
    Stale,
    #[error("the person has no role here")]
    NoRole { user: String },
}

fn said(word: &Option<String>) -> String {
    word.as_ref().map(|word| format!(" `{word}`")).unwrap_or_default()
}

impl From<Refused> for Unknown {
    fn from(refused: Refused) -> Self {
        Self::Token(refused)
    }
}

impl Login {
    /// That of these settings. What was known before under the same settings stays, and so do those who signed in.
    ///
    /// # Errors
    /// If nobody could be sent there and back.
    pub(crate) fn of(
        settings: &Settings,
        before: Option<&Arc<Self>>,
    ) -> Result<Option<Arc<Self>>, StartError> {
        let Some(asked) = &settings.sign_in else { return Ok(None) };
        let wrong = |problem| StartError::SignIn { issuer: asked.issuer.clone(), problem };
        let authority = authority(&asked.origin, &settings.hosts).map_err(wrong)?;
        if asked.client_id.is_empty() {
            return Err(wrong("has no `client_id`"));
        }
        if asked.roles.values().all(Vec::is_empty) {
            return Err(wrong("lets nobody in: `roles` is empty"));
        }
        if asked.roles.values().flatten().any(|scope| *scope == Scope::Judge) {
            return Err(wrong("has a role that is no person's"));
        }
        let issuer =
            TokenIssuer { trust: asked.trust.clone(), ..TokenIssuer::new(&asked.issuer, &asked.client_id) };
        let known = before.filter(|before| {
            before.settings == *asked
                && before.authority == authority
                && before.source.is_of(&issuer, &settings.proxies)
        });
        if let Some(known) = known {
            return Ok(Some(Arc::clone(known)));
        }
        let source = Source::follow_for_people(issuer, settings.proxies.clone()).map_err(wrong)?;
        let (settings, ended) = (asked.clone(), watch::Sender::new(false));
        Ok(Some(Arc::new(Self { settings, authority, source, ended })))
    }

    pub(crate) fn is_same(&self, other: Option<&Arc<Self>>) -> bool {
        other.is_some_and(|other| std::ptr::eq(self, Arc::as_ptr(other)))
    }

    /// Ends the sessions of those who signed in there.
    pub(crate) fn end(&self) {
        self.ended.send_replace(true);
    }

    /// Its name.
    pub(crate) fn issuer(&self) -> &str {
        &self.settings.issuer
    }

    /// Where people open the console.
    pub(crate) fn origin(&self) -> &str {
        &self.settings.origin
    }

    /// The host of its name, for people.
    pub(crate) fn host(&self) -> String {
        let url = Url::parse(&self.settings.issuer).ok();
        let host = url.as_ref().and_then(Url::host_str);
        host.map_or_else(|| self.settings.issuer.clone(), str::to_owned)
    }

    /// What a sign-in is bound to: what was begun under other settings ends under these nowhere.
    pub(crate) fn bound_to(&self) -> String {
        let PersonIssuer { issuer, client_id, origin, .. } = &self.settings;
        format!("{issuer}\n{client_id}\n{origin}")
    }

    /// Returns whether somebody asked by this host opens the console where people sign in.
    pub(crate) fn is_at(&self, host: &str) -> bool {
        host.eq_ignore_ascii_case(&self.authority)
    }

    /// Where people are sent back to.
    fn redirect(&self) -> String {
        format!("{}{}", self.settings.origin.trim_end_matches('/'), PersonIssuer::DONE)
    }

    async fn endpoints(&self) -> Result<Arc<Endpoints>, Unknown> {
        self.source.seek(None).await;
        let known = self.source.endpoints();
        known.ok_or_else(|| Unknown::Down("its discovery document or its keys can't be read".to_owned()))
    }

    /// Where a browser is sent to sign in.
    pub(crate) async fn address(&self, asked: &Asked<'_>) -> Result<Url, Unknown> {
        let mut address = self.endpoints().await?.authorization.clone();
        let scopes = self.settings.scopes.iter().map(String::as_str).filter(|scope| *scope != "openid");
        let scopes = std::iter::once("openid").chain(scopes).collect::<Vec<_>>().join(" ");
        let redirect = self.redirect();
        let mut own = vec![
            ("response_type", "code"),
            ("client_id", self.settings.client_id.as_str()),
            ("redirect_uri", redirect.as_str()),
            ("scope", scopes.as_str()),
            ("state", asked.state),
            ("nonce", asked.nonce),
            ("code_challenge", asked.challenge),
            ("code_challenge_method", "S256"),
        ];
        if self.settings.sign_in_anew {
            // OpenID Connect Core, 3.1.2.1: by `max_age`, `auth_time` has to be in the token.
            own.extend([("prompt", "login"), ("max_age", "0")]);
        }
        // What stands there already is kept (RFC 6749, 3.1), but for what has to be ours.
        let is_own = |name: &str| own.iter().any(|(own, _)| *own == name);
        let kept = address.query_pairs().into_owned().filter(|(name, _)| !is_own(name));
        let kept: Vec<(String, String)> = kept.collect();
        address.query_pairs_mut().clear().extend_pairs(kept).extend_pairs(own);
        Ok(address)
    }

    /// Returns whether a browser that was sent back may come from this issuer: `said` is what it says of it (RFC 9207, 2.4).
    pub(crate) fn is_from(&self, said: Option<&str>) -> bool {
        match said {
            Some(said) => said == self.settings.issuer,
            None => !self.source.endpoints().is_some_and(|endpoints| endpoints.says_issuer),
        }
    }

    /// Exchanges a code, and returns who signed in.
    pub(crate) async fn finish(&self, code: &str, verifier: &Secret, nonce: &str) -> Result<Known, Unknown> {
        let token = self.exchange(code, verifier).await?;
        let given = token.expose().as_bytes();
        // The key is sought before anything else is looked at: only what the issuer itself answered comes here.
        let key = Token::read(given)?.key;
        self.source.seek(key.as_deref()).await;
        self.known(given, nonce, Timestamp::now())
    }

    async fn exchange(&self, code: &str, verifier: &Secret) -> Result<Secret, Unknown> {
        if code.is_empty() || code.len() > LONGEST_CODE {
            return Err(Unknown::Code { status: StatusCode::BAD_REQUEST.as_u16(), word: None });
        }
        let endpoints = self.endpoints().await?;
        let (headers, body) = self.exchanging(code, verifier, &endpoints)?;
        let request = Request { method: Method::POST, url: &endpoints.token, headers, body };
        let (status, answer) = self.source.ask(request).await.map_err(Unknown::Down)?;
        let answer = parse_json(&answer);
        if status != StatusCode::OK {
            let word = answer.ok().and_then(|answer| word(answer.get("error")?.as_str()?));
            return Err(Unknown::Code { status: status.as_u16(), word });
        }
        match answer {
            Ok(Value::Object(mut answer)) => match answer.remove("id_token") {
                Some(Value::String(token)) => Ok(Secret::new(token)),
                _ => Err(Unknown::Answer),
            },
            _ => Err(Unknown::Answer),
        }
    }

    /// What is sent to exchange a code (RFC 6749, 4.1.3; RFC 7636, 4.5).
    fn exchanging(
        &self,
        code: &str,
        verifier: &Secret,
        endpoints: &Endpoints,
    ) -> Result<(HeaderMap, Bytes), Unknown> {
        let PersonIssuer { client_id, client_secret, .. } = &self.settings;
        let redirect = self.redirect();
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs([
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect.as_str()),
            ("code_verifier", verifier.expose().as_str()),
        ]);
        let mut headers = HeaderMap::new();
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(header::CONTENT_TYPE, kind);
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        match client_secret {
            Some(secret) if endpoints.takes_basic => {
                headers.insert(header::AUTHORIZATION, basic(client_id, secret)?);
            }
            Some(secret) => {
                form.append_pair("client_id", client_id).append_pair("client_secret", secret.expose());
            }
            None => {
                form.append_pair("client_id", client_id);
            }
        }
        Ok((headers, Bytes::from(form.finish())))
    }

    /// Checks an ID token (OpenID Connect Core, 3.1.3.7), and returns whom it is about.
    fn known(&self, given: &[u8], nonce: &str, now: Timestamp) -> Result<Known, Unknown> {
        let token = Token::read(given)?;
        authentic(&token, &self.source, now.as_second())?;
        token.second("iat")?.ok_or(Refused::Required)?;
        if token.claim("azp").is_some_and(|party| party.as_str() != Some(self.settings.client_id.as_str())) {
            return Err(Refused::Party.into());
        }
        let said = token.claim("nonce").and_then(Value::as_str).unwrap_or_default();
        if nonce.is_empty() || !bool::from(said.as_bytes().ct_eq(nonce.as_bytes())) {
            return Err(Unknown::Nonce);
        }
        let is_recent = |at: i64| at.abs_diff(now.as_second()) <= RECENT;
        if self.settings.sign_in_anew && !token.second("auth_time")?.is_some_and(is_recent) {
            return Err(Unknown::Stale);
        }
        let subject = plain(token.name("sub")?)?.to_owned();
        let is_verified = token.claim("email_verified") == Some(&Value::Bool(true));
        let user = match self.settings.user_claim {
            PersonClaim::Subject => subject.clone(),
            PersonClaim::Email if !is_verified => return Err(Unknown::Unverified),
            PersonClaim::Email => plain(token.name("email")?)?.to_owned(),
        };
        if self.settings.role_claim == "email" && !is_verified {
            return Err(Unknown::Unverified);
        }
        let scopes = self.scopes(token.claim(&self.settings.role_claim))?;
        if scopes.is_empty() {
            return Err(Unknown::NoRole { user });
        }
        let (end, begun) = (now.checked_add(self.settings.longest).unwrap_or(now), Instant::now());
        let last = begun.checked_add(self.settings.longest).unwrap_or(begun);
        let life = TokenLife::told_until(self.ended.subscribe(), end, last);
        let vouched = Vouched { issuer: self.settings.issuer.clone(), subject };
        Ok(Known { user, vouched, scopes, life })
    }

    /// What somebody may do who has this in the claim of roles.
    fn scopes(&self, said: Option<&Value>) -> Result<Vec<Scope>, Refused> {
        let values: Vec<&str> = match said {
            None => Vec::new(),
            Some(Value::String(value)) => vec![value],
            Some(Value::Array(values)) => {
                values.iter().map(Value::as_str).collect::<Option<_>>().ok_or(Refused::Form)?
            }
            Some(_) => return Err(Refused::Form),
        };
        let mut scopes = Vec::new();
        for scope in values.iter().filter_map(|value| self.settings.roles.get(*value)).flatten() {
            if !scopes.contains(scope) {
                scopes.push(*scope);
            }
        }
        Ok(scopes)
    }
}

/// Host and port of where people open the console, if they can be sent back there.
fn authority(origin: &str, hosts: &[String]) -> Result<String, &'static str> {
    let url = Url::parse(origin).map_err(|_| "has an `origin` that is no address")?;
    let is_plain = url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    if url.scheme() != "https" || !is_plain {
        return Err("has an `origin` that is no `https` address without a path");
    }
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => true,
    };
    if is_here {
        return Err(
            "has an `origin` by a name of this machine alone, of which browsers show cookies to every port",
        );
    }
    let host = url.host_str().unwrap_or_default();
    if !hosts.iter().any(|known| known.eq_ignore_ascii_case(host)) {
        return Err("has an `origin` that `gateway.hosts` does not list");
    }
    Ok(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// How a client is known by HTTP authentication (RFC 6749, 2.3.1).
fn basic(id: &str, secret: &Secret) -> Result<HeaderValue, Unknown> {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret.expose())));
    let mut value = HeaderValue::from_str(&format!("Basic {pair}"))
        .map_err(|_| Unknown::Down("the client's secret can't be sent".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The word for an error (RFC 6749, 5.2), if it is one.
pub(crate) fn word(said: &str) -> Option<String> {
    let is_word = (1..=LONGEST_WORD).contains(&said.len())
        && said.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    is_word.then(|| said.to_owned())
}

/// INVARIANT (nobody writes the record of others): what a person is called has no blanks, and nothing that is not seen.
fn plain(name: &str) -> Result<&str, Refused> {
    if name.bytes().all(|byte| byte.is_ascii_graphic()) { Ok(name) } else { Err(Refused::NoName) }
}
