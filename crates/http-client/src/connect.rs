//! Connections to an origin: resolution, egress policy, TCP, proxies, TLS.

use std::future::Ready;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::CertificateError;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::origin::{Origin, is_localhost, name_of};
use crate::proxies::{Proxies, Proxy};
use crate::tls::{Encryption, H2, Tls};
use crate::{BoxError, root};

/// An egress policy: decides which addresses may be connected to.
pub trait Egress: std::fmt::Debug + Send + Sync {
    /// Judges all addresses of a host at once. The connection is made to one of these and to no other.
    ///
    /// # Errors
    ///
    /// The reason why no connection is made. [`ConnectError::Refused`] holds it, and [`cause`](crate::cause) finds it.
    fn judge(&self, host: &str, addresses: &[IpAddr]) -> Result<(), BoxError>;
}

/// How an origin is reached.
#[derive(Clone, Debug)]
pub enum Route {
    /// Directly, whatever its address.
    Direct,
    /// Directly, if the policy accepts all of its addresses.
    Judged(Arc<dyn Egress>),
    /// Through the proxy that is configured for it, otherwise directly.
    Proxied(Proxies),
}

/// What reads and writes bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Sync + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Stream for T {}

/// A connection, and what is spoken on it.
pub(crate) struct Connected {
    pub(crate) stream: Box<dyn Stream>,
    pub(crate) http2: bool,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// It took too long.
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    /// [`Egress`] refused its addresses.
    #[error("no connection to where it is: {0}")]
    Refused(#[source] BoxError),
    /// The host has no address, or nobody takes a connection there, or the proxy makes none.
    #[error("no connection: {}", root(.0.as_ref()))]
    Tcp(#[source] BoxError),
    /// The other side closed it before anything was sent.
    #[error("no connection: closed by the other side")]
    Closed,
    /// The server's certificate is signed by nobody who is trusted.
    #[error("no encrypted connection: its certificate is signed by nobody who is trusted here")]
    UnknownAuthority,
    /// The handshake failed.
    #[error("no encrypted connection: {0}")]
    Tls(#[source] io::Error),
}

/// Why no connections to an origin can be made at all.
#[derive(Debug, Error)]
pub enum SetupError {
    /// TLS can't be set up.
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// No certificate can name its host.
    #[error("its host name is malformed")]
    Name,
    /// The environment names a proxy of another kind.
    #[error("only `http://` and `https://` proxies are supported, and the environment names another for it")]
    Proxy,
}

/// Makes connections to one origin.
pub struct Connector {
    origin: Origin,
    timeout: Duration,
    /// TLS with the origin.
    tls: Option<Encrypted>,
    egress: Option<Arc<dyn Egress>>,
    proxy: Option<Relay>,
}

struct Encrypted {
    by: Encryption,
    name: ServerName<'static>,
}

/// A proxy, and how it is reached.
struct Relay {
    uri: Uri,
    authorization: Option<HeaderValue>,
    tls: Option<Encrypted>,
}

impl Connector {
    /// Returns a connector for `origin` without connecting. `timeout` limits each connection attempt as a whole: resolution,
    /// proxy and TLS included.
    ///
    /// # Errors
    ///
    /// [`SetupError`] if TLS, the host name or the proxy makes every connection impossible.
    pub fn new(origin: Origin, timeout: Duration, tls: &Tls, route: &Route) -> Result<Self, SetupError> {
        let (egress, proxy) = match route {
            Route::Direct => (None, None),
            Route::Judged(egress) => (Some(Arc::clone(egress)), None),
            Route::Proxied(proxies) => (None, proxies.proxy(&origin)?),
        };
        let proxy = proxy.map(|proxy| Relay::new(proxy, tls)).transpose()?;
        let tls = origin.is_encrypted().then(|| Encrypted::new(origin.name(), tls)).transpose()?;
        Ok(Self { origin, timeout, tls, egress, proxy })
    }

    /// Returns the origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Whether requests name the whole address, as they do for a proxy without a tunnel.
    pub(crate) fn names_origin(&self) -> Option<&Uri> {
        (self.proxy.is_some() && self.tls.is_none()).then_some(self.origin.uri())
    }

    /// What a proxy without a tunnel wants to know.
    pub(crate) fn proxy_authorization(&self) -> Option<&HeaderValue> {
        self.names_origin()?;
        self.proxy.as_ref()?.authorization.as_ref()
    }

    /// A connection on which the server has chosen what is spoken.
    pub(crate) async fn connect(&self) -> Result<Connected, ConnectError> {
        self.within(|by| &by.any).await
    }

    /// A connection on which HTTP/1.1 is spoken.
    pub(crate) async fn connect_http1(&self) -> Result<Box<dyn Stream>, ConnectError> {
        self.within(|by| &by.http1).await.map(|connected| connected.stream)
    }

    async fn within(&self, offer: fn(&Encryption) -> &TlsConnector) -> Result<Connected, ConnectError> {
        let connected = tokio::time::timeout(self.timeout, self.connected(offer)).await;
        connected.unwrap_or(Err(ConnectError::Timeout(self.timeout)))
    }

    async fn connected(&self, offer: fn(&Encryption) -> &TlsConnector) -> Result<Connected, ConnectError> {
        let stream = match &self.proxy {
            None => Box::new(tcp(self.origin.uri(), self.egress.as_deref()).await?),
            Some(proxy) => self.through(proxy).await?,
        };
        match &self.tls {
            None => Ok(Connected { stream, http2: false }),
            Some(tls) => tls.encrypt(stream, offer).await,
        }
    }

    /// A connection through a proxy: a tunnel, if what follows is encrypted.
    async fn through(&self, proxy: &Relay) -> Result<Box<dyn Stream>, ConnectError> {
        let mut stream: Box<dyn Stream> = Box::new(tcp(&proxy.uri, None).await?);
        if let Some(tls) = &proxy.tls {
            stream = tls.encrypt(stream, |by| &by.http1).await?.stream;
        }
        if self.tls.is_none() {
            return Ok(stream);
        }
        let mut tunnel = Tunnel::new(proxy.uri.clone(), There(Some(stream)));
        if let Some(authorization) = &proxy.authorization {
            tunnel = tunnel.with_auth(authorization.clone());
        }
        let tunnel = tunnel.call(self.origin.uri().clone()).await;
        tunnel.map(TokioIo::into_inner).map_err(|error| ConnectError::Tcp(error.into()))
    }
}

impl Relay {
    fn new(proxy: Proxy, tls: &Tls) -> Result<Self, SetupError> {
        let Proxy { uri, authorization } = proxy;
        let is_encrypted = uri.scheme_str() == Some("https");
        let tls = is_encrypted.then(|| Encrypted::new(name_of(&uri), tls)).transpose()?;
        Ok(Self { uri, authorization, tls })
    }
}

impl Encrypted {
    fn new(name: &str, tls: &Tls) -> Result<Self, SetupError> {
        let name = ServerName::try_from(name.to_owned()).map_err(|_| SetupError::Name)?;
        Ok(Self { by: tls.encryption()?, name })
    }

    async fn encrypt(
        &self,
        stream: Box<dyn Stream>,
        offer: fn(&Encryption) -> &TlsConnector,
    ) -> Result<Connected, ConnectError> {
        let stream = offer(&self.by).connect(self.name.clone(), stream).await.map_err(unencrypted)?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
        Ok(Connected { stream: Box::new(stream), http2 })
    }
}

fn unencrypted(error: io::Error) -> ConnectError {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
            ConnectError::UnknownAuthority
        }
        _ => ConnectError::Tls(error),
    }
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connector").field("origin", &self.origin).finish_non_exhaustive()
    }
}

/// Resolves, judges and connects: in this order, and each once.
async fn tcp(to: &Uri, egress: Option<&dyn Egress>) -> Result<TcpStream, ConnectError> {
    let host = name_of(to);
    let found = look_up(host).await.map_err(|error| ConnectError::Tcp(error.into()))?;
    if let Some(egress) = egress {
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        egress.judge(host, &addresses).map_err(ConnectError::Refused)?;
    }
    let mut tcp = HttpConnector::new_with_resolver(Found(found));
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(Duration::from_secs(60)));
    let stream = tcp.call(to.clone()).await.map_err(|error| ConnectError::Tcp(error.into()))?;
    Ok(TokioIo::into_inner(stream))
}

/// Resolves a host. The port is always 0, for which the connector takes that of the address. `localhost` is answered here, so
/// that neither a name server nor the hosts file can redirect it.
async fn look_up(host: &str) -> io::Result<Vec<SocketAddr>> {
    if is_localhost(host) {
        return Ok(vec![(Ipv4Addr::LOCALHOST, 0).into(), (Ipv6Addr::LOCALHOST, 0).into()]);
    }
    Ok(lookup_host((host, 0)).await?.collect())
}

/// What was found: the resolver of one connection.
#[derive(Clone, Debug)]
struct Found(Vec<SocketAddr>);

impl Service<Name> for Found {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Name) -> Self::Future {
        std::future::ready(Ok(self.0.clone().into_iter()))
    }
}

/// A connection that stands, for whoever wants to make one.
struct There(Option<Box<dyn Stream>>);

impl Service<Uri> for There {
    type Response = TokioIo<Box<dyn Stream>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let stream = self.0.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        std::future::ready(stream.map(TokioIo::new))
    }
}
