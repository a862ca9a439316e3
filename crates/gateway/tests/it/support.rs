//! A provider and a client that speak in raw bytes.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_gateway::{
    Credential, Family, Gateway, Interceptor, Provider, Settings, StartError, Transparent, Trust,
};
use backstop_hooks::Secret;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

pub(crate) const TOKEN: &str = "0123456789abcdef";
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// What a provider does with one request.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) pieces: Vec<Vec<u8>>,
    pub(crate) gap: Duration,
    pub(crate) end: End,
}

/// What a provider does after its last piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Waits for the next request.
    KeepOpen,
    Close,
    Reset,
    /// Neither sends nor closes.
    Hang,
}

impl Script {
    pub(crate) fn whole(answer: impl Into<Vec<u8>>) -> Self {
        Self { pieces: vec![answer.into()], gap: Duration::ZERO, end: End::KeepOpen }
    }

    pub(crate) fn json(status: &str, body: &str) -> Self {
        let size = body.len();
        let head =
            format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n");
        Self::whole(head + body)
    }

    /// A chunked stream of events, one chunk each, which ends properly.
    pub(crate) fn events(events: &[&str]) -> Self {
        let mut pieces = vec![EVENTS_HEAD.as_bytes().to_vec()];
        pieces.extend(events.iter().map(|event| chunk(event.as_bytes())));
        pieces.push(b"0\r\n\r\n".to_vec());
        Self { pieces, gap: Duration::ZERO, end: End::KeepOpen }
    }

    pub(crate) fn paced(mut self, gap: Duration) -> Self {
        self.gap = gap;
        self
    }

    pub(crate) fn ending(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}

pub(crate) const EVENTS_HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

pub(crate) fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:X}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A scripted provider.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    pub(crate) connections: Arc<AtomicUsize>,
    /// Connections that the gateway closed while an answer was under way.
    pub(crate) cut: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Upstream {
    /// Answers request number `n`, counted from 0, with `script(n)`.
    pub(crate) async fn start(script: impl Fn(usize) -> Script + Send + Sync + 'static) -> Self {
        Self::serve(move |number, _| script(number)).await
    }

    /// Answers each request by what it says.
    pub(crate) async fn answering(script: impl Fn(&str) -> Script + Send + Sync + 'static) -> Self {
        Self::serve(move |_, request| script(request)).await
    }

    async fn serve(script: impl Fn(usize, &str) -> Script + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (connections, cut) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let script = Arc::new(script);
        let shared = (Arc::clone(&requests), Arc::clone(&connections), Arc::clone(&cut));
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                shared.1.fetch_add(1, Ordering::SeqCst);
                let (requests, cut) = (Arc::clone(&shared.0), Arc::clone(&shared.2));
                tokio::spawn(play(socket, Arc::clone(&script), requests, cut));
            }
        });
        Self { address, requests, connections, cut, serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn request(&self, number: usize) -> String {
        self.requests.lock().unwrap()[number].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    pub(crate) fn cut(&self) -> usize {
        self.cut.load(Ordering::SeqCst)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn play(
    mut socket: TcpStream,
    script: Arc<impl Fn(usize, &str) -> Script>,
    requests: Arc<Mutex<Vec<String>>>,
    cut: Arc<AtomicUsize>,
) {
    socket.set_nodelay(true).unwrap();
    let mut pending = Vec::new();
    while let Some(request) = read_message(&mut socket, &mut pending).await {
        let request = String::from_utf8_lossy(&request).into_owned();
        let number = {
            let mut requests = requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let Script { pieces, gap, end } = script(number, &request);
        for piece in pieces {
            if socket.write_all(&piece).await.is_err() {
                cut.fetch_add(1, Ordering::SeqCst);
                return;
            }
            if !gap.is_zero() {
                sleep(gap).await;
            }
        }
        match end {
            End::KeepOpen => {}
            End::Close => return,
            End::Reset => {
                sleep(Duration::from_millis(50)).await;
                socket.set_zero_linger().unwrap();
                return;
            }
            End::Hang => {
                // Until the other side gives up.
                let mut byte = [0];
                let _ = socket.read(&mut byte).await;
                cut.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// One message with its body, by length or chunks; `None` at the end.
async fn read_message(socket: &mut TcpStream, pending: &mut Vec<u8>) -> Option<Vec<u8>> {
    loop {
        if let Some(size) = message_size(pending) {
            return Some(pending.drain(..size).collect());
        }
        let mut buffer = vec![0; 16 << 10];
        let count = socket.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        pending.extend_from_slice(&buffer[..count]);
    }
}

fn message_size(bytes: &[u8]) -> Option<usize> {
    let head = find(bytes, b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if text.contains("transfer-encoding: chunked") {
        return Some(head + find(&bytes[head..], b"0\r\n\r\n")? + 5);
    }
    let length = text
        .split_once("content-length: ")
        .map_or(0, |(_, rest)| rest.split_once("\r\n").unwrap().0.parse().unwrap());
    (bytes.len() >= head + length).then_some(head + length)
}

pub(crate) fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// An address at which nobody listens.
pub(crate) fn nobody() -> String {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A provider of that family at an address.
pub(crate) fn provider(family: Family, base_url: &str, credential: Credential) -> Provider {
    Provider {
        family,
        base_url: base_url.to_owned(),
        credential,
        cloud: None,
        trust: Trust::System,
        models: Vec::new(),
        connect_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(30),
    }
}

pub(crate) fn secret(text: &str) -> Secret {
    Secret::new(text.to_owned())
}

/// Settings with one provider for all families, which gets the client's own key.
pub(crate) fn settings(upstream: &Upstream) -> Settings {
    let mut settings = Settings::new(secret(TOKEN));
    for family in Family::ALL {
        let name = family.as_str().to_owned();
        settings.providers.insert(name.clone(), provider(family, &upstream.url(), Credential::Client));
        settings.defaults.insert(family, vec![name]);
    }
    settings
}

pub(crate) async fn gateway(settings: Settings) -> Gateway {
    start(settings, Transparent).await.unwrap()
}

pub(crate) async fn start(settings: Settings, interceptor: impl Interceptor) -> Result<Gateway, StartError> {
    Gateway::start(settings, Arc::new(interceptor)).await
}

/// A request that closes its connection, with the token in its path.
pub(crate) fn post(path: &str, body: &str) -> String {
    let size = body.len();
    format!(
        "POST /t/{TOKEN}{path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {size}\r\n\r\n{body}"
    )
}

/// Sends bytes and reads until the connection closes.
pub(crate) async fn talk(gateway: &Gateway, request: impl AsRef<[u8]>) -> Answer {
    let mut socket = connect(gateway).await;
    socket.write_all(request.as_ref()).await.unwrap();
    within(rest(&mut socket)).await
}

pub(crate) async fn connect(gateway: &Gateway) -> TcpStream {
    let socket = TcpStream::connect(gateway.address()).await.unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

/// Everything until the connection closes.
pub(crate) async fn rest(socket: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let broken = socket.read_to_end(&mut bytes).await.is_err();
    Answer { bytes, broken }
}

/// Reads until `part` has come.
pub(crate) async fn until(socket: &mut TcpStream, part: &str) -> String {
    String::from_utf8_lossy(&until_bytes(socket, part).await).into_owned()
}

/// The same, of what is no text.
pub(crate) async fn until_bytes(socket: &mut TcpStream, part: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while find(&bytes, part.as_bytes()).is_none() {
        let count = within(socket.read(&mut buffer)).await.unwrap();
        assert!(count > 0, "`{part}` never came: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    timeout(PATIENCE, future).await.expect("took too long")
}

/// Waits for something to become true.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..500 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

/// Everything that came on a connection.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) bytes: Vec<u8>,
    /// The connection was reset.
    pub(crate) broken: bool,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    pub(crate) fn status(&self) -> u16 {
        let text = self.text();
        text.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {text:?}")).parse().unwrap()
    }

    pub(crate) fn head(&self) -> String {
        self.text().split("\r\n\r\n").next().unwrap().to_owned()
    }

    /// The bytes after the head, chunks and all.
    pub(crate) fn raw_body(&self) -> Vec<u8> {
        let head = find(&self.bytes, b"\r\n\r\n").unwrap() + 4;
        self.bytes[head..].to_vec()
    }

    /// The body, and whether it is whole.
    pub(crate) fn body(&self) -> (String, bool) {
        let raw = self.raw_body();
        if !self.head().to_ascii_lowercase().contains("transfer-encoding: chunked") {
            return (String::from_utf8_lossy(&raw).into_owned(), true);
        }
        let (mut body, mut rest) = (Vec::new(), raw.as_slice());
        while let Some(end) = find(rest, b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
            let data = &rest[end + 2..];
            if size == 0 {
                return (String::from_utf8_lossy(&body).into_owned(), true);
            }
            if data.len() < size + 2 {
                break;
            }
            body.extend_from_slice(&data[..size]);
            rest = &data[size + 2..];
        }
        (String::from_utf8_lossy(&body).into_owned(), false)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body().0).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}
