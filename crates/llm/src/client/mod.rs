//! Calls of a provider over HTTP.
//!
//! Laws: a request is sent again only while nothing of an answer was passed on and only if the provider
//! surely did not (or asks to) do the work again; a redirect is never followed, since it would carry the key to
//! wherever it points; no error names the key; every wait and every size has a limit. The HTTP client (TLS,
//! proxies of the environment, root certificates) is set up at the first call, so that commands that ask no
//! model do not pay for it. A loopback address is never asked through a proxy.

mod call;
mod failure;
mod settings;

use std::fmt;
use std::sync::{Arc, OnceLock};

use futures_util::stream;
use http::HeaderMap;
use reqwest::{Certificate, Url};

use crate::error::ModelError;
use crate::model::{Model, ModelRequest, ModelResponse, ModelStream, StatsCell};
use crate::wire::Api;

pub use settings::{ApiKey, Authorities, InvalidProvider, ProviderSettings, RetryPolicy, Timeouts};

/// A provider that can be asked. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct ProviderClient(Arc<Inner>);

struct Inner {
    settings: ProviderSettings,
    base: Url,
    headers: HeaderMap,
    certificates: Option<Vec<Certificate>>,
    http: OnceLock<reqwest::Client>,
}

impl ProviderClient {
    /// A client for the provider. Does not connect.
    ///
    /// # Errors
    /// If the address, a header or a certificate is malformed.
    pub fn new(settings: ProviderSettings) -> Result<Self, InvalidProvider> {
        let base = settings.base()?;
        let headers = settings.header_map()?;
        let certificates = settings.certificates()?;
        Ok(Self(Arc::new(Inner { settings, base, headers, certificates, http: OnceLock::new() })))
    }

    /// What the client was made from.
    pub fn settings(&self) -> &ProviderSettings {
        &self.0.settings
    }

    /// Asks for the answer in one piece.
    ///
    /// # Errors
    /// Whatever the call fails with.
    pub async fn complete(&self, request: ModelRequest) -> Result<ModelResponse, ModelError> {
        self.call(&request, false).complete().await
    }

    fn call(&self, request: &ModelRequest, stream: bool) -> ModelStream {
        let stats = StatsCell::default();
        let call = call::Call::new(Arc::clone(&self.0), request, stream, stats.clone());
        let events = stream::unfold(Some(call), async |call| {
            let mut call = call?;
            match call.next().await {
                Ok(Some(event)) => Some((Ok(event), Some(call))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        ModelStream::new(events, stats)
    }
}

impl Model for ProviderClient {
    fn provider(&self) -> &str {
        &self.0.settings.name
    }

    fn api(&self) -> Api {
        self.0.settings.api
    }

    fn stream(&self, request: ModelRequest) -> ModelStream {
        self.call(&request, true)
    }
}

impl fmt::Debug for ProviderClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderClient").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Inner {
    /// The HTTP client, set up at the first call.
    fn http(&self) -> Result<&reqwest::Client, ModelError> {
        if let Some(client) = self.http.get() {
            return Ok(client);
        }
        let client =
            self.build().map_err(|error| ModelError::Setup { reason: failure::root_cause(&error) })?;
        Ok(self.http.get_or_init(|| client))
    }

    fn build(&self) -> Result<reqwest::Client, reqwest::Error> {
        static TLS: std::sync::Once = std::sync::Once::new();
        TLS.call_once(|| {
            // A program that embeds Backstop may have chosen its own provider; then that one serves.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("backstop/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(self.settings.timeouts.connect)
            .tcp_nodelay(true);
        if is_loopback(&self.base) {
            builder = builder.no_proxy();
        }
        if self.base.scheme() == "http" {
            // Nothing here speaks TLS: the system's certificates need not be read.
            builder = builder.tls_certs_only(std::iter::empty());
        } else if let Some(certificates) = &self.certificates {
            builder = builder.tls_certs_only(certificates.iter().cloned());
        }
        builder.build()
    }
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
