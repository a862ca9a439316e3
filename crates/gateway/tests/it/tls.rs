//! Providers behind TLS, with certificates of an authority that the test makes.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backstop_gateway::{Credential, Family, Gateway, Provider, Proxies, Settings, Trust};
use bytes::Bytes;
use http::{Request, Response, Version, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::support::*;

/// Signs certificates.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()
    }

    /// A certificate of that name, and its key.
    pub(crate) fn signed(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// A certificate of that name that ended with the year 2000, and its key.
    pub(crate) fn ended(&self, name: &str) -> (Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    pub(crate) fn trusted(&self) -> Trust {
        Trust::Only { pem: self.pem.clone().into_bytes(), source: "authority.pem".to_owned() }
    }

    /// What a server of that name shows, and which protocols it speaks.
    pub(crate) fn server(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let (certificate, key) = self.signed(name);
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
            )
            .unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// A provider that speaks TLS.
struct Encrypted {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

/// What a provider saw of a request.
#[derive(Clone, Debug)]
struct Seen {
    version: Version,
    authority: String,
    key: String,
}

impl Encrypted {
    async fn start(acceptor: TlsAcceptor) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::new(AtomicUsize::new(0)));
        let (noted, counted) = (Arc::clone(&seen), Arc::clone(&connections));
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(acceptor.clone(), socket, Arc::clone(&noted)));
            }
        });
        Self { address, seen, connections, serving }
    }

    fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Encrypted {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(acceptor: TlsAcceptor, socket: TcpStream, seen: Arc<Mutex<Vec<Seen>>>) {
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        let host = request.headers().get(header::HOST).map(|host| host.to_str().unwrap().to_owned());
        let authority = request.uri().authority().map(ToString::to_string);
        let key = request.headers().get(header::AUTHORIZATION).map(|key| key.to_str().unwrap().to_owned());
        seen.lock().unwrap().push(Seen {
            version: request.version(),
            authority: authority.or(host).unwrap(),
            key: key.unwrap_or_default(),
        });
        async { Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{\"ok\":true}")))) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

fn settings_for(url: &str, trust: Trust) -> Settings {
    let mut settings = Settings::new(secret(TOKEN));
    let provider = Provider { trust, ..provider(Family::OpenAi, url, Credential::Key(secret("sk-ours"))) };
    settings.providers.insert("private".to_owned(), provider);
    settings.defaults.insert(Family::OpenAi, vec!["private".to_owned()]);
    settings
}

async fn ask(gateway: &Gateway) -> Answer {
    talk(gateway, post("/v1/chat/completions", "{}")).await
}

#[tokio::test]
async fn the_protocol_is_the_best_that_the_provider_speaks() {
    let authority = Authority::new("one");
    for (protocols, version) in [
        (&["h2", "http/1.1"][..], Version::HTTP_2),
        (&["http/1.1"], Version::HTTP_11),
        (&[], Version::HTTP_11),
    ] {
        let upstream = Encrypted::start(authority.server("127.0.0.1", protocols)).await;
        let gateway = gateway(settings_for(&upstream.url(), authority.trusted())).await;
        for _ in 0..3 {
            let answer = ask(&gateway).await;
            assert_eq!((answer.status(), answer.body().0.as_str()), (200, "{\"ok\":true}"), "{protocols:?}");
        }
        let seen = upstream.seen();
        assert_eq!(seen.len(), 3, "{protocols:?}");
        for seen in seen {
            assert_eq!(seen.version, version, "{protocols:?}");
            assert_eq!(seen.authority, upstream.address.to_string(), "{protocols:?}");
            assert_eq!(seen.key, "Bearer sk-ours", "{protocols:?}");
        }
        assert_eq!(upstream.connections.load(Ordering::SeqCst), 1, "{protocols:?}");
    }
}

#[tokio::test]
async fn requests_at_once_share_an_http2_connection() {
    let authority = Authority::new("one");
    let upstream = Encrypted::start(authority.server("127.0.0.1", &["h2"])).await;
    let gateway = Arc::new(gateway(settings_for(&upstream.url(), authority.trusted())).await);
    assert_eq!(ask(&gateway).await.status(), 200);
    let mut answers = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let gateway = Arc::clone(&gateway);
        answers.spawn(async move { ask(&gateway).await.status() });
    }
    assert!(within(answers.join_all()).await.iter().all(|status| *status == 200));
    assert_eq!((upstream.seen().len(), upstream.connections.load(Ordering::SeqCst)), (17, 1));
}

#[tokio::test]
async fn who_is_not_trusted_learns_nothing() {
    let (authority, other) = (Authority::new("one"), Authority::new("other"));
    let upstream = Encrypted::start(authority.server("127.0.0.1", &["h2"])).await;
    for trust in [other.trusted(), Trust::System] {
        let gateway = gateway(settings_for(&upstream.url(), trust)).await;
        let answer = ask(&gateway).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
        let said = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(said.contains("signed by nobody who is trusted here"), "{said}");
        assert!(said.contains("hint: ") && said.contains("`providers.<name>.ca_file`"), "{said}");
    }
    let elsewhere = Encrypted::start(authority.server("elsewhere.example", &["h2"])).await;
    let gateway = gateway(settings_for(&elsewhere.url(), authority.trusted())).await;
    let answer = ask(&gateway).await;
    assert_eq!(answer.status(), 502);
    // The authority is known; naming it would not help.
    assert!(!answer.text().contains("ca_file"), "{}", answer.text());
    assert!(upstream.seen().is_empty() && elsewhere.seen().is_empty());
}

#[tokio::test]
async fn a_file_without_certificates_is_no_authority() {
    for pem in ["", "not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let trust = Trust::Only { pem: pem.as_bytes().to_vec(), source: "/etc/authority.pem".to_owned() };
        let settings = settings_for("https://127.0.0.1:1", trust);
        let error = start(settings, backstop_gateway::Transparent).await.unwrap_err().to_string();
        assert!(error.contains("`private`") && error.contains("`/etc/authority.pem`"), "{error}");
        assert!(error.contains("hint: "), "{error}");
    }
}

/// A proxy that makes tunnels to one address, whatever it is asked for. Answers the heads it has read.
async fn tunnels(to: SocketAddr) -> (SocketAddr, Arc<Mutex<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let heads = Arc::<Mutex<String>>::default();
    let noted = Arc::clone(&heads);
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut head = Vec::new();
            while find(&head, b"\r\n\r\n").is_none() {
                head.push(socket.read_u8().await.unwrap());
            }
            noted.lock().unwrap().push_str(&String::from_utf8(head).unwrap());
            socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            tokio::spawn(async move {
                let mut upstream = TcpStream::connect(to).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut socket, &mut upstream).await;
            });
        }
    });
    (address, heads)
}

#[tokio::test]
async fn a_tunnel_through_a_proxy_leads_to_the_provider_itself() {
    let authority = Authority::new("one");
    let upstream = Encrypted::start(authority.server("provider.invalid", &["h2", "http/1.1"])).await;
    let (proxy, heads) = tunnels(upstream.address).await;
    let mut settings = settings_for("https://provider.invalid", authority.trusted());
    settings.proxies = Proxies { https: Some(format!("http://me:word@{proxy}")), ..Proxies::default() };
    let gateway = gateway(settings).await;
    assert_eq!(ask(&gateway).await.status(), 200);
    let seen = upstream.seen();
    assert_eq!((seen[0].version, seen[0].authority.as_str()), (Version::HTTP_2, "provider.invalid"));
    let heads = heads.lock().unwrap().clone();
    assert!(heads.starts_with("CONNECT provider.invalid:443 HTTP/1.1\r\n"), "{heads}");
    assert!(heads.to_ascii_lowercase().contains("proxy-authorization: basic "), "{heads}");
    assert!(!heads.contains("sk-ours") && !heads.contains(TOKEN), "{heads}");
}
