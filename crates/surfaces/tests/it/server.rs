//! A server that answers as a script says, and remembers what it was asked.

use std::sync::{Arc, Mutex};

use backstop_http_client::tls::{Trust, provider};
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio_rustls::TlsAcceptor;
use url::Url;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) path: String,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn method(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }
}

/// An answer; `None` never comes.
pub(crate) type Reply = Option<(u16, &'static str, Vec<u8>)>;

pub(crate) fn ok(body: Value) -> Reply {
    Some((200, "", body.to_string().into_bytes()))
}

pub(crate) struct Server {
    pub(crate) url: Url,
    asked: Arc<Mutex<Vec<Asked>>>,
    task: AbortHandle,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let (asked, answer) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(answer));
        let known = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (known, answer) = (Arc::clone(&known), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &known, answer.as_ref()).await });
            }
        });
        Self { url, asked, task: task.abort_handle() }
    }

    /// The same with TLS, as `localhost`; returns its certificate, too.
    pub(crate) async fn start_tls(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> (Self, Trust) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let config =
            ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions().unwrap();
        let own = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let config =
            config.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], own).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port()).parse().unwrap();
        let (asked, answer) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::new(answer));
        let known = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (known, answer, acceptor) = (Arc::clone(&known), Arc::clone(&answer), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    serve(stream, &known, answer.as_ref()).await;
                });
            }
        });
        let trust = Trust::only(certificate.pem().as_bytes()).unwrap();
        (Self { url, asked, task: task.abort_handle() }, trust)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests of one method, by the last part of their path.
    pub(crate) fn of(&self, method: &str) -> Vec<Value> {
        self.asked().iter().filter(|asked| asked.method() == method).map(Asked::json).collect()
    }

    /// Waits until there are so many of one method.
    pub(crate) async fn until(&self, method: &str, most: usize) -> Vec<Value> {
        crate::stage::until(|| {
            let of = self.of(method);
            (of.len() >= most).then_some(of)
        })
        .await
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    known: &Mutex<Vec<Asked>>,
    answer: &(impl Fn(&Asked) -> Reply + ?Sized),
) {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let length = text
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < head + length {
        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let path = text.split(' ').nth(1).unwrap().to_owned();
    let asked = Asked { path, head: text, body: bytes[head..].to_vec() };
    known.lock().unwrap().push(asked.clone());
    let Some((status, headers, body)) = answer(&asked) else {
        std::future::pending::<()>().await;
        return;
    };
    let head = format!(
        "HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n{headers}\r\n",
        body.len()
    );
    let _ = stream.write_all(&[head.into_bytes(), body].concat()).await;
    let _ = stream.shutdown().await;
}

pub(crate) fn nothing() -> Value {
    json!({})
}
