//! Servers on loopback that answer what they are told to, and authorities that vouch for them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_http_client::tls::{self, Trust};
use backstop_http_client::{Client, Error, Request, Response, Route, Settings};
use bytes::Bytes;
use http::{HeaderMap, Method};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use url::Url;

/// What a server says to one request.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// These bytes; the connection stays.
    Keep(String),
    /// These bytes, and the connection ends.
    Close(String),
    /// These bytes, and nothing more for a long time.
    Stall(String),
}

/// An answer with this body.
pub(crate) fn ok(body: &str) -> Answer {
    Answer::Keep(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// A server that gives its answers one after the other, and closes connections when it has none left.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    heads: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> Arc<Self> {
        Self::behind(None, answers).await
    }

    /// The same with TLS, once for each acceptor: a second one is for what comes after a tunnel was made.
    pub(crate) async fn behind(
        tls: Option<(TlsAcceptor, Option<TlsAcceptor>)>,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            address: listener.local_addr().unwrap(),
            answers: Arc::new(Mutex::new(answers.into_iter().collect())),
            heads: Arc::default(),
            connections: Arc::default(),
        });
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let (server, tls) = (Arc::clone(&serving), tls.clone());
                tokio::spawn(async move {
                    let Some((outer, inner)) = tls else { return server.serve(socket).await };
                    let Ok(mut socket) = outer.accept(socket).await else { return };
                    let Some(inner) = inner else { return server.serve(socket).await };
                    let head = read_head(&mut socket).await.unwrap();
                    server.heads.lock().unwrap().push(head);
                    socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
                    if let Ok(socket) = inner.accept(socket).await {
                        server.serve(socket).await;
                    }
                });
            }
        });
        server
    }

    async fn serve(&self, mut socket: impl AsyncRead + AsyncWrite + Unpin) {
        while let Some(head) = read_head(&mut socket).await {
            self.heads.lock().unwrap().push(head);
            let answer = self.answers.lock().unwrap().pop_front();
            let (text, then) = match &answer {
                None => return,
                Some(Answer::Keep(text)) => (text, true),
                Some(Answer::Close(text)) => (text, false),
                Some(Answer::Stall(text)) => {
                    socket.write_all(text.as_bytes()).await.unwrap();
                    return std::future::pending().await;
                }
            };
            socket.write_all(text.as_bytes()).await.unwrap();
            if !then {
                return;
            }
        }
    }

    pub(crate) fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}{path}", self.address)).unwrap()
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

/// A head, and its body.
async fn read_head(socket: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    Some(head)
}

/// Signs certificates.
pub(crate) struct Authority {
    pem: String,
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

    pub(crate) fn trusted(&self) -> Trust {
        Trust::only(self.pem.as_bytes()).unwrap()
    }

    /// What a server of that name shows, and which protocols it speaks.
    pub(crate) fn server(&self, name: &str, protocols: &[&str]) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let mut config = ServerConfig::builder_with_provider(tls::provider())
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

pub(crate) fn client(trust: Trust, route: Route) -> Client {
    Client::new(Settings { trust, route, connect_timeout: Duration::from_secs(20), timeout: None })
}

pub(crate) fn get(url: &Url) -> Request<'_> {
    Request { method: Method::GET, url, headers: HeaderMap::new(), body: Bytes::new() }
}

/// The text at an address.
pub(crate) async fn text(client: &Client, url: &Url) -> Result<String, Error> {
    let answer: Response = client.send(get(url)).await?;
    Ok(String::from_utf8(answer.whole(1 << 20).await?).unwrap())
}
