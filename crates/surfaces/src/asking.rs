//! Asking a service: one request, a bounded answer, and an error that holds no address.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop_address::is_public;
use backstop_http_client::tls::Trust;
use backstop_http_client::{BoxError, Client, Error, Proxies, Request, Route, Settings, Socket};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::Value;
use url::Url;

use crate::surface::SurfaceError;

/// The longest time to a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// The longest that a service may want to be left alone; one that wants more is asked again then.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(3_600);

/// Where requests may go.
#[derive(Clone, Debug)]
pub enum Egress {
    /// To servers on the public internet and to no others, without a proxy.
    Public,
    /// Wherever the operator's address leads, through the proxy that the environment names for it.
    Any(Proxies),
}

impl Egress {
    fn route(self) -> Route {
        match self {
            Self::Public => Route::Judged(Arc::new(PublicOnly)),
            Self::Any(proxies) => Route::Proxied(proxies),
        }
    }
}

#[derive(Debug)]
struct PublicOnly;

impl backstop_http_client::Egress for PublicOnly {
    fn judge(&self, _host: &str, addresses: &[IpAddr]) -> Result<(), BoxError> {
        match addresses.iter().all(|address| is_public(*address)) {
            true => Ok(()),
            false => Err("it is not on the public internet, and `allow_private` is not set".into()),
        }
    }
}

/// What a service answered.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// How long it wants to be left alone.
    pub(crate) after: Option<Duration>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// Returns the body as JSON.
    pub(crate) fn json(&self) -> Option<Value> {
        serde_json::from_slice(&self.body).ok()
    }

    /// Returns why a service did not take a request, by its status alone.
    pub(crate) fn refusal(&self) -> SurfaceError {
        let why = format!("the service answered {}", self.status.as_u16());
        match self.status {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT => {
                SurfaceError::Later { why, after: self.after }
            }
            status if status.is_server_error() => SurfaceError::Later { why, after: self.after },
            StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
                SurfaceError::content(why)
            }
            status if status.is_redirection() => {
                SurfaceError::never(format!("{why}, a redirect, which is not followed"))
            }
            _ => SurfaceError::never(why),
        }
    }
}

/// A client for one service.
#[derive(Debug)]
pub(crate) struct Asker {
    client: Client,
    most: usize,
}

impl Asker {
    /// Returns a client whose requests take at most `timeout`, and whose answers have at most `most` bytes.
    pub(crate) fn new(egress: Egress, timeout: Duration, most: usize) -> Self {
        Self::trusting(Trust::System, egress, timeout, most)
    }

    /// Returns such a client that believes these authorities.
    pub(crate) fn trusting(trust: Trust, egress: Egress, timeout: Duration, most: usize) -> Self {
        let settings = Settings {
            trust,
            route: egress.route(),
            connect_timeout: CONNECT.min(timeout),
            timeout: Some(timeout),
        };
        Self { client: Client::new(settings), most }
    }

    /// Sends JSON.
    pub(crate) async fn post(
        &self,
        url: &Url,
        headers: impl IntoIterator<Item = (HeaderName, HeaderValue)>,
        body: Vec<u8>,
    ) -> Result<Answer, SurfaceError> {
        let mut all = HeaderMap::new();
        all.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        all.extend(headers);
        self.send(url, all, body).await
    }

    /// Sends a body whose headers say what it is.
    pub(crate) async fn send(
        &self,
        url: &Url,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Answer, SurfaceError> {
        headers.insert(header::USER_AGENT, HeaderValue::from_static("backstop"));
        let request = Request { method: Method::POST, url, headers, body: Bytes::from(body) };
        let response = self.client.send(request).await.map_err(|error| failed(&error))?;
        let status = response.status();
        let after = response.headers().get(header::RETRY_AFTER).and_then(|after| after.to_str().ok());
        let after = after.and_then(|after| after.trim().parse().ok()).map(bounded);
        let body = response.whole(self.most).await.map_err(|error| failed(&error))?;
        Ok(Answer { status, after, body })
    }
}

impl Asker {
    /// Asks to go on with another protocol. Returns the headers of the answer, and the connection.
    pub(crate) async fn open(
        &self,
        url: &Url,
        mut headers: HeaderMap,
    ) -> Result<(HeaderMap, Socket), SurfaceError> {
        headers.insert(header::USER_AGENT, HeaderValue::from_static("backstop"));
        let request = Request { method: Method::GET, url, headers, body: Bytes::new() };
        match self.client.open(request).await.map_err(|error| failed(&error))? {
            (head, Some(socket)) => Ok((head.headers, socket)),
            (head, None) => {
                let status = head.status.as_u16();
                Err(SurfaceError::later(format!("the service opens no connection, and answered {status}")))
            }
        }
    }
}

/// Returns how long a service is left alone that asks for so many seconds.
pub(crate) fn bounded(seconds: u64) -> Duration {
    Duration::from_secs(seconds).min(LONGEST_WAIT)
}

/// The client's errors hold no address.
fn failed(error: &Error) -> SurfaceError {
    match error {
        Error::Address(_) | Error::Setup(_) => SurfaceError::never(error.to_string()),
        error => SurfaceError::later(error.to_string()),
    }
}

/// Returns the header by which a service knows us; the value is kept out of logs.
pub(crate) fn bearer(token: &str) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some((header::AUTHORIZATION, value))
}
