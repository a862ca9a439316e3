//! Providers, as the gateway asks them.
//!
//! Each provider has a pool of connections of its own, by the client of the house (`backstop-http-client`): an HTTP/1.1
//! connection is driven by the task of the client whose request it carries, and whatever pieces of an answer arrived
//! together are passed on together. When the client goes, the connection goes with it, so a disconnect cancels the
//! provider's work at once.
//!
//! Laws: a request is sent again only if none of it reached the provider, or if the provider answered 429 or 5xx and
//! nothing was passed on; redirects are never followed, since they would carry the key elsewhere; every wait has
//! a limit; no error shows a key or an address with one.

mod body;
mod tokens;
mod upload;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Secret;
use backstop_http_client::tls::{Tls, Trust};
use backstop_http_client::{
    self as client, ConnectError, Connector, Origin, Pool, Proxies, ResponseBody, Route,
};
use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};
use http::header::{self, HeaderName};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, response};
use hyper::upgrade::Upgraded;
use thiserror::Error;
use tokio::time::{Instant, timeout, timeout_at};

use crate::cloud::sigv4::Signer;
use crate::cloud::{self, LivePath, Plain, Unspoken, Wrapped};
use crate::credentials::{Lessor, Source, Unleased};
use crate::endpoint::{Endpoint, Family, Operation};
use crate::error::StartError;
use crate::head::{AZURE_KEY, Credentials};
use crate::settings::{self, Cloud, Credential, Timeouts};

pub(crate) use body::{BodyError, RequestBody, Silence};
pub(crate) use tokens::ask_for_token;
pub(crate) use upload::{ClientBody, Pace};

/// The body of a provider's answer. It holds the connection that brings it.
pub(crate) type UpstreamBody = ResponseBody<RequestBody>;

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum SendError {
    #[error("{}{}", .0, hint(.0))]
    Connect(ConnectError),
    #[error("the connection broke before an answer came")]
    Broken(#[source] hyper::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
}

/// What to do about it, where an operator can.
fn hint(error: &ConnectError) -> &'static str {
    match error {
        ConnectError::Tcp(_) | ConnectError::Closed => {
            "\nhint: does it run, and is `providers.<name>.base_url` right?"
        }
        ConnectError::UnknownAuthority => {
            "\nhint: if its authority is a private one, name that in `providers.<name>.ca_file`"
        }
        ConnectError::Timeout(_) | ConnectError::Refused(_) | ConnectError::Tls(_) => "",
    }
}

impl SendError {
    /// Whether the provider surely saw nothing of the request.
    pub(crate) fn is_unsent(&self) -> bool {
        matches!(self, Self::Connect(_))
    }

    /// The request's own body failed, not the provider.
    pub(crate) fn body_error(&self) -> Option<&BodyError> {
        client::cause(self)
    }
}

impl From<client::SendError> for SendError {
    fn from(error: client::SendError) -> Self {
        match error {
            client::SendError::Connect(error) => Self::Connect(error),
            client::SendError::Broken(error) => Self::Broken(error),
        }
    }
}

/// A provider that can be asked.
pub(crate) struct Provider {
    pub(crate) name: Arc<str>,
    pub(crate) family: Family,
    pub(crate) cloud: Option<Cloud>,
    pub(crate) idle_timeout: Duration,
    first_byte: Duration,
    keys: Keys,
    models: Option<GlobSet>,
    /// The path of its address, without a slash at the end.
    base: String,
    pool: Arc<Pool<RequestBody>>,
}

/// How what is sent for the client's credentials is had.
enum Keys {
    /// It is there, or nobody needs it.
    There(Credentials),
    /// It is had when it is needed.
    Renewed(Lessor),
    /// It should be there and is not, for this reason.
    Missing(String),
}

/// What is sent for the client's credentials, now.
#[derive(Clone, Debug)]
pub(crate) struct Paying {
    pub(crate) credentials: Credentials,
    /// Which lease it is, where it is one.
    lease: Option<u64>,
}

/// The provider can't be asked; the text names what should hold its key, or where it should have come from.
#[derive(Debug, Error)]
pub(crate) enum NoKey {
    #[error("{0}")]
    Missing(String),
    #[error("its credentials can't be had: {}", .0.reason)]
    Unleased(Unleased),
}

/// How long the answer that says why a signature was refused is waited for, where its head does not.
const PATIENCE_FOR_REASON: Duration = Duration::from_secs(1);

/// Whether Amazon refuses a request for the keys that signed it, by the name of the error. A namespace and `#` may stand before
/// it, a `:` and more behind it.
fn is_about_keys(error: &str) -> bool {
    const NAMES: [&str; 3] = ["ExpiredToken", "UnrecognizedClient", "InvalidSignature"];
    let name = error.rsplit_once('#').map_or(error, |(_, name)| name);
    NAMES.iter().any(|known| name.starts_with(known))
}

/// The name that Amazon gives an error in the head of an answer (`x-amzn-errortype`).
pub(crate) fn error_in(headers: &HeaderMap) -> Option<String> {
    headers.get("x-amzn-errortype")?.to_str().ok().map(str::to_owned)
}

/// The name that Amazon gives an error in the answer itself (`__type` or `code`, as its protocols of JSON have it).
fn error_of(body: &[u8]) -> Option<String> {
    let said: serde_json::Value = serde_json::from_slice(body).ok()?;
    let name = said.get("__type").or_else(|| said.get("code"))?.as_str()?;
    Some(name.to_owned())
}

fn is_of_signature(paying: &Paying, status: StatusCode) -> bool {
    matches!(paying.credentials, Credentials::Signed(_)) && status == StatusCode::FORBIDDEN
}

impl Provider {
    /// The provider of this name. `system` is TLS with those whom the system trusts, which providers share.
    pub(crate) fn new(
        name: &str,
        settings: &settings::Provider,
        timeouts: &Timeouts,
        proxies: &Proxies,
        system: &Tls,
    ) -> Result<Self, StartError> {
        let invalid = |problem: &str| StartError::provider(name, problem);
        let address: Uri =
            settings.base_url.trim().parse().map_err(|_| invalid("its address is not a URL"))?;
        if address.query().is_some() || settings.base_url.contains('@') {
            return Err(invalid("its address holds a query or credentials"));
        }
        let origin = Origin::of(&address).ok_or_else(|| invalid("its address is not http or https"))?;
        let trusted = tls_of(&settings.trust).map_err(|problem| invalid(&problem))?;
        let route = Route::Proxied(proxies.clone());
        let connector =
            Connector::new(origin, settings.connect_timeout, trusted.as_ref().unwrap_or(system), &route)
                .map_err(|problem| invalid(&problem.to_string()))?;
        let keys = match &settings.credential {
            Credential::Client => Keys::There(Credentials::Client),
            Credential::Key(key) => Keys::There(own(settings, key).ok_or_else(|| {
                invalid("its key can't be sent in a header\nhint: is there a line end in it?")
            })?),
            Credential::Aws(keys) => {
                let Some(Cloud::Bedrock { region }) = &settings.cloud else {
                    return Err(invalid("it signs requests, and is not in Bedrock"));
                };
                let signer = Signer::for_bedrock(keys.clone(), region.clone());
                Keys::There(Credentials::Signed(Arc::new(signer)))
            }
            Credential::Renewed(renewed) => {
                let source = Source::of(renewed, settings.cloud.as_ref(), proxies);
                let source = source.ok_or_else(|| invalid("its credentials are for another cloud"))?;
                Keys::Renewed(Lessor::new(source, renewed.patience))
            }
            Credential::Missing(reason) => Keys::Missing(reason.clone()),
        };
        let models = (!settings.models.is_empty()).then(|| globs(&settings.models)).transpose().map_err(
            |pattern| StartError::Pattern { pattern, place: format!("the models of provider `{name}`") },
        )?;
        Ok(Self {
            name: name.into(),
            family: settings.family,
            cloud: settings.cloud.clone(),
            idle_timeout: settings.idle_timeout,
            first_byte: timeouts.first_byte,
            keys,
            models,
            base: address.path().trim_end_matches('/').to_owned(),
            pool: Arc::new(Pool::new(connector)),
        })
    }

    /// What is sent for the client's credentials. Waits until it is there.
    pub(crate) async fn paying(&self) -> Result<Paying, NoKey> {
        self.paying_after(None).await
    }

    /// The same for a request with which `refused` was sent before, and was not taken.
    pub(crate) async fn paying_after(&self, refused: Option<&Paying>) -> Result<Paying, NoKey> {
        match &self.keys {
            Keys::There(credentials) => Ok(Paying { credentials: credentials.clone(), lease: None }),
            Keys::Renewed(lessor) => {
                let refused = refused.and_then(|paying| paying.lease);
                let lease = lessor.lease(refused).await.map_err(NoKey::Unleased)?;
                Ok(Paying { credentials: lease.credentials, lease: Some(lease.number) })
            }
            Keys::Missing(reason) => Err(NoKey::Missing(reason.clone())),
        }
    }

    /// Takes note that it did not take `paying`, with this status and this error. Whether there may be other credentials to
    /// try. Of a signature most refusals (403) are about what was asked for: any client can have as many as it likes.
    pub(crate) fn refused(&self, paying: &Paying, status: StatusCode, error: Option<&str>) -> bool {
        let is_refusal = status == StatusCode::UNAUTHORIZED
            || (is_of_signature(paying, status) && error.is_some_and(is_about_keys));
        match (&self.keys, paying.lease) {
            (Keys::Renewed(lessor), Some(number)) if is_refusal => lessor.refused(number),
            _ => false,
        }
    }

    /// The same of an answer, of which the beginning is read where its head does not say what is wrong.
    pub(crate) async fn refuses(&self, paying: &Paying, answer: &mut Response<UpstreamBody>) -> bool {
        let mut error = error_in(answer.headers());
        if error.is_none() && is_of_signature(paying, answer.status()) {
            let first = timeout(PATIENCE_FOR_REASON, answer.body_mut().first()).await;
            error = first.ok().flatten().and_then(|first| error_of(&first));
        }
        self.refused(paying, answer.status(), error.as_deref())
    }

    /// Whether it is asked with the operator's key, or would be.
    pub(crate) fn has_own_key(&self) -> bool {
        !matches!(self.keys, Keys::There(Credentials::Client))
    }

    /// Whether it may be asked for this model. A request without a model is not one for a listed model.
    pub(crate) fn offers(&self, model: Option<&str>) -> bool {
        self.models.as_ref().is_none_or(|models| model.is_some_and(|model| models.is_match(model)))
    }

    /// Whether the models it may be asked for are listed.
    pub(crate) fn lists_models(&self) -> bool {
        self.models.is_some()
    }

    /// The value of `host` for it.
    pub(crate) fn host(&self) -> &HeaderValue {
        self.pool.origin().host()
    }

    /// A request in the envelope of this provider. Its address may hold a version or another path of its own, as client
    /// libraries have it; then the client's version gives way.
    pub(crate) fn wrap(&self, asked: &Plain<'_>) -> Result<Wrapped, Unspoken> {
        let unchanged = |target| Wrapped { target, body: None, headers: Vec::new() };
        match &self.cloud {
            None if asked.endpoint.operation == Operation::Live => {
                let (front, last) = self.base.rsplit_once('/').unwrap_or_default();
                asked.live(if is_version(last) { front } else { &self.base }, LivePath::Maker)
            }
            None => {
                let target = self.plain_target(asked.endpoint, asked.target).ok_or(Unspoken::Path)?;
                if asked.spoken.is_some() { asked.at_maker(&target) } else { Ok(unchanged(target)) }
            }
            Some(Cloud::Azure { .. }) if asked.spoken.is_some() => Err(Unspoken::Operation),
            Some(Cloud::Azure { api_version }) => {
                cloud::azure::target(&self.base, api_version.as_deref(), asked.target, asked.model)
                    .map(unchanged)
            }
            Some(Cloud::Bedrock { .. }) => asked.at_bedrock(&self.base),
            Some(Cloud::Vertex { project, region }) => asked.at_vertex(&self.base, project, region),
        }
    }

    /// What stands in front of the name of a model in a session of Gemini Live.
    pub(crate) fn live_models(&self) -> String {
        match &self.cloud {
            Some(Cloud::Vertex { project, region }) => {
                format!("projects/{project}/locations/{region}/publishers/google/models/")
            }
            _ => "models/".to_owned(),
        }
    }

    fn plain_target(&self, endpoint: Endpoint, target: &PathAndQuery) -> Option<PathAndQuery> {
        let whole = target.as_str();
        let versioned = strip_version(whole);
        let base = self.base.as_str();
        if base.is_empty() {
            // Clients whose base URL had no version.
            let is_plain = versioned.is_none() && !cloud::azure::is_its(target.path());
            let bare = is_plain && endpoint.operation != Operation::Other;
            return if bare { format!("/v1{whole}").parse().ok() } else { Some(target.clone()) };
        }
        let is_complete = base.rsplit('/').next().is_some_and(is_version) || self.family == Family::OpenAi;
        let rest = versioned.filter(|_| is_complete).unwrap_or(whole);
        format!("{base}{rest}").parse().ok()
    }

    /// Asks to go on with another protocol, and waits for the head of the answer. Where the provider agreed, the connection is
    /// there, too.
    pub(crate) async fn open(
        &self,
        request: Request<RequestBody>,
        patience: Duration,
    ) -> Result<(response::Parts, Option<Upgraded>), SendError> {
        let opened = timeout(patience, self.pool.open(request)).await;
        Ok(opened.map_err(|_| SendError::Silent(patience))??)
    }

    /// Sends a request and waits for the head of its answer. `request` has a path as its address; the rest is put in
    /// here. The provider has its time from the last piece of the body on.
    pub(crate) async fn send(
        &self,
        request: Request<RequestBody>,
    ) -> Result<Response<UpstreamBody>, SendError> {
        let progress = request.body().progress();
        let mut sending = pin!(Arc::clone(&self.pool).send(request));
        let mut end = Instant::now() + self.first_byte;
        loop {
            if let Ok(sent) = timeout_at(end, &mut sending).await {
                return Ok(sent?);
            }
            match progress.as_ref().map(|progress| progress.end(self.first_byte)) {
                Some(later) if later > end => end = later,
                Some(_) | None => return Err(SendError::Silent(self.first_byte)),
            }
        }
    }
}

fn own(provider: &settings::Provider, key: &Secret) -> Option<Credentials> {
    let (name, value) = match provider.family {
        _ if matches!(provider.cloud, Some(Cloud::Azure { .. })) => (AZURE_KEY, key.expose().clone()),
        _ if provider.cloud.is_some() => (header::AUTHORIZATION, format!("Bearer {}", key.expose())),
        Family::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().clone()),
        Family::OpenAi => (header::AUTHORIZATION, format!("Bearer {}", key.expose())),
        Family::Gemini => (HeaderName::from_static("x-goog-api-key"), key.expose().clone()),
    };
    let mut value = HeaderValue::from_str(&value).ok()?;
    value.set_sensitive(true);
    Some(Credentials::Own(name, value))
}

/// TLS with authorities of its own, if it has them.
fn tls_of(trust: &settings::Trust) -> Result<Option<Tls>, String> {
    let settings::Trust::Only { pem, source } = trust else { return Ok(None) };
    let trust = Trust::only(pem).map_err(|problem| {
        format!("`{source}` holds no certificates: {problem}\nhint: it must be a PEM file with `BEGIN CERTIFICATE`")
    })?;
    Ok(Some(Tls::new(trust)))
}

/// The set of these patterns, or the one that is none.
pub(crate) fn globs(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|_| pattern.clone())?);
    }
    set.build().map_err(|_| patterns.join("`, `"))
}

/// One of these patterns, alone.
pub(crate) fn glob(pattern: &str) -> Option<GlobMatcher> {
    Glob::new(pattern).ok().map(|glob| glob.compile_matcher())
}

/// Whether a segment of a path is a version, for which a provider's own may stand in.
pub(crate) fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `/v1/x` without its version, slash and all.
pub(crate) fn strip_version(target: &str) -> Option<&str> {
    let rest = target.strip_prefix('/')?;
    let end = rest.find(['/', '?'])?;
    let (first, rest) = rest.split_at_checked(end)?;
    (is_version(first) && rest.starts_with('/')).then_some(rest)
}

impl std::fmt::Debug for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Provider").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(family: Family, base_url: &str, path: &str) -> String {
        let settings = settings::Provider {
            family,
            base_url: base_url.to_owned(),
            credential: Credential::Client,
            cloud: None,
            trust: settings::Trust::System,
            models: Vec::new(),
            connect_timeout: Duration::from_secs(1),
            idle_timeout: Duration::from_secs(1),
        };
        let (timeouts, system) = (Timeouts::default(), Tls::new(Trust::System));
        let provider = Provider::new("p", &settings, &timeouts, &Proxies::default(), &system).unwrap();
        let target: PathAndQuery = path.parse().unwrap();
        let headers = HeaderMap::new();
        let endpoint = Endpoint::of(target.path(), &headers).unwrap();
        let asked =
            Plain { endpoint, target: &target, body: b"", headers: &headers, model: None, spoken: None };
        provider.wrap(&asked).unwrap().target.to_string()
    }

    #[test]
    fn addresses_with_and_without_version_mean_the_same() {
        for (base, path, expected) in [
            ("http://h", "/v1/chat/completions?a=b", "/v1/chat/completions?a=b"),
            ("http://h/", "/chat/completions", "/v1/chat/completions"),
            ("http://h/v1", "/v1/chat/completions", "/v1/chat/completions"),
            ("http://h/v1/", "/chat/completions", "/v1/chat/completions"),
            ("http://h/v1beta/openai/", "/v1/chat/completions", "/v1beta/openai/chat/completions"),
            ("http://h/v1", "/v1/unknown/v2?x", "/v1/unknown/v2?x"),
            ("http://h", "/anything", "/anything"),
            ("http://h", "/openai/deployments/d/embeddings?x", "/openai/deployments/d/embeddings?x"),
        ] {
            assert_eq!(target(Family::OpenAi, base, path), expected, "{base} {path}");
        }
        assert_eq!(target(Family::Anthropic, "http://h/a/x", "/v1/messages"), "/a/x/v1/messages");
        assert_eq!(target(Family::Anthropic, "http://h/a/v1", "/v1/messages"), "/a/v1/messages");
        let gemini = "/v1beta/models/g:generateContent?alt=sse";
        assert_eq!(target(Family::Gemini, "http://h", gemini), gemini);
        assert_eq!(target(Family::Gemini, "http://h/v1beta", gemini), gemini);
    }
}
