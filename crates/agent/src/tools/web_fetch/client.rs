//! The HTTP client, and the rule about where it connects to.
//!
//! The rule is enforced where names become addresses: the client's resolver answers only addresses that may be
//! connected to, and the connection is made to exactly these. A name that changes its address between the check and
//! the connection therefore gains nothing. Proxies of the environment are not used, for they would resolve names
//! themselves.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use backstop_address::is_public;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Url};

use super::FetchError;

const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("backstop/", env!("CARGO_PKG_VERSION"));

/// The clients of a session, built when first used.
#[derive(Debug, Default)]
pub(in crate::tools) struct WebClient {
    public: OnceLock<Client>,
    any: OnceLock<Client>,
}

impl WebClient {
    /// The client that connects to public addresses only, or to any.
    pub(super) fn get(&self, reach: Reach) -> Result<&Client, FetchError> {
        let slot = match reach {
            Reach::Public => &self.public,
            Reach::Any => &self.any,
        };
        match slot.get() {
            Some(client) => Ok(client),
            None => {
                let client = build(reach)?;
                Ok(slot.get_or_init(|| client))
            }
        }
    }
}

/// How far a client reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    Any,
}

impl Reach {
    /// Refuses a URL whose host is written as an address out of reach; such a host is never resolved.
    pub(super) fn check_literal(self, url: &Url) -> Result<(), FetchError> {
        let host = url.host_str().unwrap_or_default();
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        match literal {
            Ok(address) if !self.covers(address) => Err(Refused { host: host.to_owned(), address }.into()),
            _ => Ok(()),
        }
    }

    fn covers(self, address: IpAddr) -> bool {
        self == Self::Any || is_public(address)
    }
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

fn build(reach: Reach) -> Result<Client, FetchError> {
    // Whoever in this process comes first decides; all of Backstop installs the same provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder()
        .user_agent(AGENT)
        .no_proxy()
        .redirect(Policy::none())
        .referer(false)
        .connect_timeout(CONNECT_PATIENCE)
        .dns_resolver(Resolver(reach))
        .build()
        .map_err(FetchError::Http)
}

#[derive(Debug)]
struct Resolver(Reach);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let reach = self.0;
        Box::pin(async move {
            let host = name.as_str();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host, 0)).await?.collect();
            // One bad address among good ones is a trick, not a mistake.
            if let Some(bad) = found.iter().find(|found| !reach.covers(found.ip())) {
                return Err(Refused { host: host.to_owned(), address: bad.ip() }.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// What went wrong in a request, seen through the layers that report it.
pub(super) fn explain(error: reqwest::Error) -> FetchError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return refused.clone().into();
        }
        cause = error.source();
    }
    FetchError::Http(error.without_url())
}
