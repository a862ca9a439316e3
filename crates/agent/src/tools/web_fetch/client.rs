//! The HTTP client, and the rule about where it connects to.
//!
//! The rule is enforced where names become addresses: the addresses of a host are judged when they were looked up, and
//! the connection is made to exactly these. A name that changes its address between the check and the connection
//! therefore gains nothing. A host that is written as an address is judged in the same place. Proxies of the environment
//! are not used, for they would look names up themselves.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use backstop_address::is_public;
use backstop_http_client::tls::Trust;
use backstop_http_client::{BoxError, Client, Egress, Error, Route, Settings, cause};

use super::FetchError;

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);

/// The clients of a session.
#[derive(Debug)]
pub(in crate::tools) struct WebClient {
    public: Client,
    any: Client,
}

impl Default for WebClient {
    fn default() -> Self {
        Self { public: client(Route::Judged(Arc::new(PublicOnly))), any: client(Route::Direct) }
    }
}

impl WebClient {
    /// The client that connects to public addresses only, or to any.
    pub(super) fn get(&self, reach: Reach) -> &Client {
        match reach {
            Reach::Public => &self.public,
            Reach::Any => &self.any,
        }
    }
}

fn client(route: Route) -> Client {
    Client::new(Settings { trust: Trust::System, route, connect_timeout: CONNECT_PATIENCE, timeout: None })
}

/// How far a client reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    Any,
}

/// A host has an address that is out of reach.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{host}` is at {address}")]
pub(super) struct Refused {
    host: String,
    address: IpAddr,
}

impl From<Refused> for FetchError {
    fn from(refused: Refused) -> Self {
        Self::Private { host: refused.host, address: refused.address }
    }
}

/// Lets through what is on the public internet.
#[derive(Debug)]
struct PublicOnly;

impl Egress for PublicOnly {
    fn judge(&self, host: &str, addresses: &[IpAddr]) -> Result<(), BoxError> {
        // One bad address among good ones is a trick, not a mistake.
        match addresses.iter().find(|address| !is_public(**address)) {
            None => Ok(()),
            Some(bad) => Err(Refused { host: host.to_owned(), address: *bad }.into()),
        }
    }
}

/// What went wrong in a request, seen through the layers that report it.
pub(super) fn explain(error: Error) -> FetchError {
    match cause::<Refused>(&error) {
        Some(refused) => refused.clone().into(),
        None => FetchError::Http(error),
    }
}
