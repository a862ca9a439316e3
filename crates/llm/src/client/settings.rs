//! How a provider is reached.

use std::time::Duration;

use backstop_hooks::Secret;
use backstop_http_client::tls::Trust;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use thiserror::Error;
use url::Url;

use crate::wire::Api;

/// How a provider is reached.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// The name in the configuration.
    pub name: String,
    /// The wire that it speaks.
    pub api: Api,
    /// Where it is: `https://api.anthropic.com`, `http://127.0.0.1:11434/v1`. A missing version segment is
    /// added.
    pub base_url: String,
    /// The key, for providers that want one.
    pub api_key: Option<ApiKey>,
    /// Whose certificates are trusted in place of the system's, for an encrypted address.
    pub authorities: Option<Authorities>,
    /// Headers to send besides; they win over those that Backstop sets. The values may be secret.
    pub headers: Vec<(String, Secret)>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// When and how often to ask again.
    pub retry: RetryPolicy,
    /// The largest answer in bytes.
    pub max_response_bytes: u64,
}

/// A key, and where it is from, so that an error can name the place in place of the key.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// The key.
    pub value: Secret,
    /// The environment variable (or other place) that held it.
    pub source: String,
}

/// Authorities whose certificates make a provider trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorities {
    /// Their certificates, as PEM.
    pub pem: Vec<u8>,
    /// The file that held them, so that an error can name it.
    pub source: String,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection stands.
    pub connect: Duration,
    /// From the request to the beginning of the answer. An answer in one piece begins when it is ready.
    pub first_byte: Duration,
    /// Between two pieces of the answer.
    pub idle: Duration,
    /// For the call as a whole, retries included.
    pub total: Duration,
}

impl Default for Timeouts {
    /// 10 s, 5 min, 2 min, 30 min.
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(120),
            total: Duration::from_secs(1_800),
        }
    }
}

/// When and how often to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How often at most, besides the first time.
    pub max_retries: u32,
    /// The wait before the first retry; it doubles with each, and a random half of it is taken off.
    pub base_delay: Duration,
    /// The longest wait of our own.
    pub max_delay: Duration,
    /// The longest wait that the provider may ask for. If it asks for more, the call fails at once.
    pub max_retry_after: Duration,
}

impl Default for RetryPolicy {
    /// Three retries, from half a second to 8 s; up to a minute if the provider asks.
    fn default() -> Self {
        Self {
            max_retries: 3,
            base_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(8),
            max_retry_after: Duration::from_secs(60),
        }
    }
}

/// The settings of a provider make no sense.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidProvider {
    /// The address is none.
    #[error("provider `{name}`: `{base_url}` is not an http or https address")]
    BaseUrl {
        /// The provider.
        name: String,
        /// The address.
        base_url: String,
    },
    /// The address holds a user name, a password or a query, which would be shown in errors.
    #[error(
        "provider `{name}`: the address holds credentials or a query\nhint: give the key by an environment variable or a header"
    )]
    Credentials {
        /// The provider.
        name: String,
    },
    /// A header has an impossible name or value.
    #[error("provider `{name}`: header `{header}` has a name or value that HTTP does not allow")]
    Header {
        /// The provider.
        name: String,
        /// The header's name.
        header: String,
    },
    /// The key has characters that no header can carry.
    #[error(
        "provider `{name}`: the key in `{key_source}` holds characters that HTTP does not allow\nhint: look for a line break"
    )]
    Key {
        /// The provider.
        name: String,
        /// Where the key is from.
        key_source: String,
    },
    /// The file that should hold certificates does not.
    #[error(
        "provider `{name}`: `{file}` holds no certificates\nhint: it must be a PEM file with `BEGIN CERTIFICATE`"
    )]
    Authorities {
        /// The provider.
        name: String,
        /// The file.
        file: String,
    },
}

impl ApiKey {
    /// A key that was found in `source`.
    pub fn new(value: impl Into<String>, source: impl Into<String>) -> Self {
        Self { value: Secret::new(value.into()), source: source.into() }
    }
}

impl ProviderSettings {
    /// Settings with defaults and no key; answers may have 64 MiB.
    pub fn new(name: impl Into<String>, api: Api, base_url: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            api,
            base_url: base_url.into(),
            api_key: None,
            authorities: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            retry: RetryPolicy::default(),
            max_response_bytes: 64 * 1024 * 1024,
        }
    }

    /// The address up to what depends on the request.
    pub(super) fn base(&self) -> Result<Url, InvalidProvider> {
        let invalid =
            || InvalidProvider::BaseUrl { name: self.name.clone(), base_url: self.base_url.clone() };
        let parsed = Url::parse(self.base_url.trim());
        let may_be_secret =
            |url: &Url| !url.username().is_empty() || url.password().is_some() || url.query().is_some();
        if parsed.as_ref().is_ok_and(may_be_secret) {
            return Err(InvalidProvider::Credentials { name: self.name.clone() });
        }
        let mut url = parsed.map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            return Err(invalid());
        }
        let base = url.path().trim_end_matches('/').to_owned();
        let is_version = |segment: &str| {
            segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        let is_complete = match self.api {
            Api::AnthropicMessages => base.rsplit('/').next().is_some_and(is_version),
            // Addresses of these wires hold the version by custom; whoever wrote another path meant it.
            Api::OpenAiChat | Api::OpenAiResponses => !base.is_empty(),
            // Project and location may follow the version.
            Api::Gemini => base.split('/').any(is_version),
            // Its addresses have no version.
            Api::BedrockConverse => true,
        };
        let version = if is_complete { "" } else { self.api.version_path() };
        url.set_path(&format!("{base}{version}"));
        Ok(url)
    }

    /// Where a request for `model` goes, below an address that [`Self::base`] gave.
    pub(super) fn endpoint(&self, base: &Url, model: &str, stream: bool) -> Url {
        let mut url = base.clone();
        let below = self.api.path_below_version(model, stream);
        let (path, query) = below.split_once('?').map_or((below.as_str(), None), |(p, q)| (p, Some(q)));
        url.set_path(&format!("{}{path}", base.path().trim_end_matches('/')));
        url.set_query(query);
        url
    }

    /// By whose certificates the provider is known.
    pub(super) fn trust(&self) -> Result<Trust, InvalidProvider> {
        let Some(Authorities { pem, source }) = &self.authorities else { return Ok(Trust::System) };
        Trust::only(pem)
            .map_err(|_| InvalidProvider::Authorities { name: self.name.clone(), file: source.clone() })
    }

    pub(super) fn header_map(&self) -> Result<HeaderMap, InvalidProvider> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let agent = HeaderValue::from_static(concat!("backstop/", env!("CARGO_PKG_VERSION")));
        headers.insert(header::USER_AGENT, agent);
        if self.api == Api::AnthropicMessages {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.api_key {
            let (name, value) = match self.api {
                Api::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.value.expose().clone()),
                Api::OpenAiChat | Api::OpenAiResponses | Api::BedrockConverse => {
                    (header::AUTHORIZATION, format!("Bearer {}", key.value.expose()))
                }
                Api::Gemini => (HeaderName::from_static("x-goog-api-key"), key.value.expose().clone()),
            };
            let value = secret_value(&value).ok_or_else(|| InvalidProvider::Key {
                name: self.name.clone(),
                key_source: key.source.clone(),
            })?;
            headers.insert(name, value);
        }
        for (name, value) in &self.headers {
            let parsed = HeaderName::from_bytes(name.as_bytes()).ok().zip(secret_value(value.expose()));
            let (key, value) = parsed
                .ok_or_else(|| InvalidProvider::Header { name: self.name.clone(), header: name.clone() })?;
            headers.insert(key, value);
        }
        Ok(headers)
    }
}

fn secret_value(value: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(api: Api, base_url: &str) -> Result<String, InvalidProvider> {
        let settings = ProviderSettings::new("p", api, base_url);
        settings.base().map(|base| settings.endpoint(&base, "m", true).into())
    }

    #[test]
    fn endpoint_takes_base_urls_with_and_without_version() {
        let anthropic = |base| endpoint(Api::AnthropicMessages, base).unwrap();
        assert_eq!(anthropic("https://api.example.com"), "https://api.example.com/v1/messages");
        assert_eq!(anthropic("https://api.example.com/v1/"), "https://api.example.com/v1/messages");
        assert_eq!(anthropic("https://example.com/a/x"), "https://example.com/a/x/v1/messages");
        let openai = |base| endpoint(Api::OpenAiChat, base).unwrap();
        assert_eq!(openai("http://127.0.0.1:1234"), "http://127.0.0.1:1234/v1/chat/completions");
        assert_eq!(openai("https://example.com/v1"), "https://example.com/v1/chat/completions");
        let responses = |base| endpoint(Api::OpenAiResponses, base).unwrap();
        assert_eq!(responses("http://127.0.0.1:1234"), "http://127.0.0.1:1234/v1/responses");
        assert_eq!(responses("https://example.com/openai"), "https://example.com/openai/responses");
        assert_eq!(
            openai("https://example.com/v1beta/openai/"),
            "https://example.com/v1beta/openai/chat/completions"
        );
        let gemini = |base| endpoint(Api::Gemini, base).unwrap();
        let method = "models/m:streamGenerateContent?alt=sse";
        assert_eq!(gemini("https://example.com"), format!("https://example.com/v1beta/{method}"));
        assert_eq!(gemini("https://example.com/v1/"), format!("https://example.com/v1/{method}"));
        assert_eq!(gemini("https://example.com/x"), format!("https://example.com/x/v1beta/{method}"));
        assert_eq!(
            gemini("https://example.com/v1/projects/p/locations/l/publishers/google"),
            format!("https://example.com/v1/projects/p/locations/l/publishers/google/{method}")
        );
    }

    #[test]
    fn impossible_addresses_are_refused() {
        for base_url in ["", "api.example.com", "ftp://example.com", "unix:/tmp/x"] {
            assert!(
                matches!(endpoint(Api::OpenAiChat, base_url), Err(InvalidProvider::BaseUrl { .. })),
                "{base_url}"
            );
        }
        for base_url in ["https://me:hunter2@example.com", "https://example.com/v1?key=hunter2"] {
            let error = endpoint(Api::OpenAiChat, base_url).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn settings_never_show_secrets() {
        let mut settings = ProviderSettings::new("p", Api::AnthropicMessages, "https://example.com");
        settings.api_key = Some(ApiKey::new("hunter2", "P_KEY"));
        settings.headers = vec![("x-team".into(), Secret::new("hunter3".to_owned()))];
        let shown = format!("{settings:?} {:?}", settings.header_map().unwrap());
        assert!(!shown.contains("hunter"), "{shown}");
        settings.api_key = Some(ApiKey::new("hunter2\n", "P_KEY"));
        let error = settings.header_map().unwrap_err().to_string();
        assert!(error.contains("`P_KEY`") && !error.contains("hunter"), "{error}");
    }
}
