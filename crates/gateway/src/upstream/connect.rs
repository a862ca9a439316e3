//! Connections to a provider's origin: TCP, the proxies of the environment, TLS.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt as _;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tower_service::Service as _;

use crate::settings::{Proxies, Trust};

/// Scheme, host and port of a provider.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) uri: Uri,
    pub(super) host: HeaderValue,
    encrypted: bool,
}

impl Origin {
    pub(super) fn of(address: &Uri) -> Option<Self> {
        let encrypted = match address.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let authority = address.authority().filter(|authority| !authority.host().is_empty())?;
        let host = HeaderValue::from_str(authority.as_str()).ok()?;
        let scheme = if encrypted { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(authority.clone()).path_and_query("/").build();
        Some(Self { uri: uri.ok()?, host, encrypted })
    }

    fn name(&self) -> &str {
        self.uri.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    fn is_loopback(&self) -> bool {
        let name = self.name();
        name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    }
}

/// What reads and writes bytes.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, and what is spoken on it.
pub(super) struct Connected {
    pub(super) stream: Box<dyn Stream>,
    pub(super) http2: bool,
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("no connection within {0:?}")]
    Timeout(Duration),
    #[error("no connection: {0}\nhint: does it run, and is `providers.<name>.base_url` right?")]
    Tcp(String),
    #[error(
        "no encrypted connection: its certificate is signed by nobody who is trusted here\nhint: if its authority is a private one, name that in `providers.<name>.ca_file`"
    )]
    UnknownAuthority,
    #[error("no encrypted connection: {0}")]
    Tls(io::Error),
}

/// Why connections to the provider can't be made at all.
#[derive(Debug, Error)]
pub(super) enum Unconnectable {
    #[error("TLS can't be set up: {0}")]
    Tls(#[from] rustls::Error),
    #[error("its host name is malformed")]
    Name,
    #[error(
        "`{file}` holds no certificates: {problem}\nhint: it must be a PEM file with `BEGIN CERTIFICATE`"
    )]
    Authorities { file: String, problem: String },
    #[error("only `http://` proxies are supported, and the environment names another for it")]
    Proxy,
}

/// Makes connections to one origin.
pub(super) struct Connector {
    origin: Origin,
    timeout: Duration,
    tcp: HttpConnector,
    tls: Option<Encryption>,
    proxy: Option<Proxy>,
}

struct Encryption {
    /// Offers HTTP/2, too.
    any: TlsConnector,
    http1: TlsConnector,
    name: ServerName<'static>,
}

struct Proxy {
    uri: Uri,
    authorization: Option<HeaderValue>,
}

impl Connector {
    pub(super) fn new(
        origin: Origin,
        timeout: Duration,
        trust: &Trust,
        proxies: &Proxies,
    ) -> Result<Self, Unconnectable> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(Duration::from_secs(60)));
        let tls = origin.encrypted.then(|| tls(&origin, trust)).transpose()?;
        let proxy = if origin.is_loopback() { None } else { proxy(&origin, proxies)? };
        Ok(Self { origin, timeout, tcp, tls, proxy })
    }

    /// Whether requests name the whole address, as they do for a proxy without a tunnel.
    pub(super) fn names_origin(&self) -> Option<&Uri> {
        (self.proxy.is_some() && self.tls.is_none()).then_some(&self.origin.uri)
    }

    /// What a proxy without a tunnel wants to know.
    pub(super) fn proxy_authorization(&self) -> Option<&HeaderValue> {
        self.names_origin()?;
        self.proxy.as_ref()?.authorization.as_ref()
    }

    pub(super) fn origin(&self) -> &Uri {
        &self.origin.uri
    }

    pub(super) async fn connect(&self) -> Result<Connected, ConnectError> {
        tokio::time::timeout(self.timeout, self.connected())
            .await
            .unwrap_or(Err(ConnectError::Timeout(self.timeout)))
    }

    async fn connected(&self) -> Result<Connected, ConnectError> {
        let tcp = self.tcp().await?;
        let Some(tls) = &self.tls else {
            return Ok(Connected { stream: Box::new(tcp), http2: false });
        };
        let stream = tls.any.connect(tls.name.clone(), tcp).await.map_err(unencrypted)?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        Ok(Connected { stream: Box::new(stream), http2 })
    }

    /// A connection on which HTTP/1.1 is spoken.
    pub(super) async fn connect_http1(&self) -> Result<Box<dyn Stream>, ConnectError> {
        let connected = async {
            let tcp = self.tcp().await?;
            let Some(tls) = &self.tls else { return Ok(Box::new(tcp) as Box<dyn Stream>) };
            let stream = tls.http1.connect(tls.name.clone(), tcp).await.map_err(unencrypted)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        };
        let connected = tokio::time::timeout(self.timeout, connected).await;
        connected.unwrap_or(Err(ConnectError::Timeout(self.timeout)))
    }

    async fn tcp(&self) -> Result<TcpStream, ConnectError> {
        let mut tcp = self.tcp.clone();
        let failed = |error: &dyn std::error::Error| ConnectError::Tcp(root(error));
        let stream = match &self.proxy {
            Some(proxy) if self.tls.is_some() => {
                let mut tunnel = Tunnel::new(proxy.uri.clone(), tcp);
                if let Some(authorization) = &proxy.authorization {
                    tunnel = tunnel.with_auth(authorization.clone());
                }
                tunnel.call(self.origin.uri.clone()).await.map_err(|error| failed(&error))?
            }
            Some(proxy) => tcp.call(proxy.uri.clone()).await.map_err(|error| failed(&error))?,
            None => tcp.call(self.origin.uri.clone()).await.map_err(|error| failed(&error))?,
        };
        Ok(TokioIo::into_inner(stream))
    }
}

/// The innermost cause, which says what happened; the outer ones only repeat that something did.
fn root(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
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

fn tls(origin: &Origin, trust: &Trust) -> Result<Encryption, Unconnectable> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match trust {
        Trust::System => config.with_platform_verifier()?,
        Trust::Only { pem, source } => config.with_root_certificates(authorities(pem, source)?),
    };
    let mut any = config.with_no_client_auth();
    let mut http1 = any.clone();
    http1.alpn_protocols = vec![b"http/1.1".to_vec()];
    any.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(origin.name().to_owned()).map_err(|_| Unconnectable::Name)?;
    let connector = |config| TlsConnector::from(Arc::new(config));
    Ok(Encryption { any: connector(any), http1: connector(http1), name })
}

fn authorities(pem: &[u8], source: &str) -> Result<RootCertStore, Unconnectable> {
    let unusable = |problem: String| Unconnectable::Authorities { file: source.to_owned(), problem };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(unusable("there is none in it".to_owned())) } else { Ok(roots) }
}

fn proxy(origin: &Origin, proxies: &Proxies) -> Result<Option<Proxy>, Unconnectable> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let matcher = Matcher::builder()
        .http(text(&proxies.http))
        .https(text(&proxies.https))
        .all(text(&proxies.all))
        .no(text(&proxies.no))
        .build();
    let Some(found) = matcher.intercept(&origin.uri) else { return Ok(None) };
    if found.uri().scheme_str() != Some("http") {
        return Err(Unconnectable::Proxy);
    }
    Ok(Some(Proxy { uri: found.uri().clone(), authorization: found.basic_auth().cloned() }))
}
