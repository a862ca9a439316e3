//! Calls of a provider over HTTP.
//!
//! Laws: a request is sent again only while nothing of an answer was passed on and only if the provider
//! surely did not (or asks to) do the work again; a redirect is never followed, since it would carry the key to
//! wherever it points; no error names the key; every wait and every size has a limit. The proxies of the environment
//! count, but a loopback address is never asked through one. TLS is set up at the first call, so that commands that
//! ask no model do not pay for it.

mod call;
mod failure;
mod settings;

use std::fmt;
use std::sync::Arc;

use backstop_http_client::{Client, Proxies, Route, Settings};
use futures_util::stream;
use http::HeaderMap;
use url::Url;

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
    http: Client,
}

impl ProviderClient {
    /// A client for the provider. Does not connect.
    ///
    /// # Errors
    /// If the address, a header or a certificate is malformed.
    pub fn new(settings: ProviderSettings) -> Result<Self, InvalidProvider> {
        let base = settings.base()?;
        let headers = settings.header_map()?;
        let http = Client::new(Settings {
            trust: settings.trust()?,
            route: Route::Proxied(Proxies::of_process()),
            connect_timeout: settings.timeouts.connect,
            // Each wait of a call has a limit of its own.
            timeout: None,
        });
        Ok(Self(Arc::new(Inner { settings, base, headers, http })))
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
