//! A provider that speaks on WebSockets, and a client.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_gateway::{Gateway, Settings, WebSockets};
use backstop_hooks::conversation::{Part, ToolCall};
use backstop_hooks::points::BeforeLlmCall;
use backstop_llm::{Api, ModelRequest, ModelResponse, StopReason};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt as _, StreamExt as _};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::inspect::support::{House, settings_of};
use crate::support::{TOKEN, connect, until, within};

/// What a provider does about one message: the bytes of frames after a while, others after another while, and whether its
/// connection breaks then, or has nothing but pings on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Play {
    pub(super) bytes: Vec<u8>,
    pub(super) rest: Vec<u8>,
    pub(super) breaks: bool,
    pub(super) pings: bool,
    pub(super) after: Duration,
    pub(super) pause: Duration,
}

impl Play {
    /// Each event as one frame.
    pub(super) fn events(events: &[String]) -> Self {
        Self::cut(events, usize::MAX)
    }

    /// Each event in fragments of so many bytes, with a ping between them.
    pub(super) fn cut(events: &[String], size: usize) -> Self {
        let bytes = events.iter().flat_map(|event| fragments(event.as_bytes(), size)).collect();
        Self { bytes, ..Self::default() }
    }

    /// As [`cut`](Self::cut), of messages that are bytes.
    pub(super) fn cut_bytes(events: &[String], size: usize) -> Self {
        let bytes = events.iter().flat_map(|event| fragments_of(BINARY, event.as_bytes(), size)).collect();
        Self { bytes, ..Self::default() }
    }

    /// The same of messages that may not be UTF-8.
    pub(super) fn bytes(messages: &[Vec<u8>], size: usize) -> Self {
        Self {
            bytes: messages.iter().flat_map(|message| fragments(message, size)).collect(),
            ..Self::default()
        }
    }

    pub(super) fn then_breaks(self) -> Self {
        Self { breaks: true, ..self }
    }

    pub(super) fn then_pings(self) -> Self {
        Self { pings: true, ..self }
    }

    pub(super) fn after(self, millis: u64) -> Self {
        Self { after: Duration::from_millis(millis), ..self }
    }

    pub(super) fn then(self, millis: u64, events: &[String]) -> Self {
        Self { pause: Duration::from_millis(millis), rest: Self::events(events).bytes, ..self }
    }
}

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const PING: u8 = 9;

/// A frame without a mask, as servers send it.
fn frame(opcode: u8, is_last: bool, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![if is_last { 0x80 | opcode } else { opcode }];
    match payload.len() {
        len @ 0..126 => frame.push(u8::try_from(len).unwrap()),
        len @ 126..=0xffff => {
            frame.push(126);
            frame.extend_from_slice(&u16::try_from(len).unwrap().to_be_bytes());
        }
        len => {
            frame.push(127);
            frame.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

pub(super) fn binary(payload: &[u8]) -> Vec<u8> {
    frame(BINARY, true, payload)
}

fn fragments(text: &[u8], size: usize) -> Vec<u8> {
    fragments_of(TEXT, text, size)
}

fn fragments_of(opcode: u8, text: &[u8], size: usize) -> Vec<u8> {
    if text.len() <= size {
        return frame(opcode, true, text);
    }
    in_fragments(opcode, &text.chunks(size).collect::<Vec<_>>())
}

/// A text in these fragments, with a ping between them.
pub(super) fn fragmented(parts: &[&[u8]]) -> Vec<u8> {
    in_fragments(TEXT, parts)
}

fn in_fragments(opcode: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        bytes.extend(frame(if index == 0 { opcode } else { 0 }, index + 1 == parts.len(), part));
        if index + 1 < parts.len() {
            bytes.extend(frame(PING, true, b"still here"));
        }
    }
    bytes
}

fn accept(head: &str) -> String {
    let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
    let hashed = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, hashed.as_bytes()))
}

/// A scripted provider.
pub(super) struct Provider {
    pub(super) address: SocketAddr,
    pub(super) heads: Arc<Mutex<Vec<String>>>,
    pub(super) heard: Arc<Mutex<Vec<String>>>,
    /// Connections that ended on the other side.
    pub(super) left: Arc<Mutex<usize>>,
    serving: JoinHandle<()>,
}

impl Provider {
    /// Answers message number `n`, counted from 0 over all connections, with `play(n)`.
    pub(super) async fn start(play: impl Fn(usize) -> Play + Send + Sync + 'static) -> Self {
        Self::greeting(&[], move |n, _| play(n)).await
    }

    /// As [`start`](Self::start), by what was said, and with something to say from the start.
    pub(super) async fn greeting(
        greeting: &[String],
        play: impl Fn(usize, &str) -> Play + Send + Sync + 'static,
    ) -> Self {
        let greeting = Play::events(greeting).bytes;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heads, heard, left) = (Arc::default(), Arc::default(), Arc::default());
        let play = Arc::new(play);
        let shared = (Arc::clone(&heads), Arc::clone(&heard), Arc::clone(&left));
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (heads, heard, left) = shared.clone();
                tokio::spawn(serve(socket, greeting.clone(), Arc::clone(&play), heads, heard, left));
            }
        });
        Self { address, heads, heard, left, serving }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(super) fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    pub(super) fn left(&self) -> usize {
        *self.left.lock().unwrap()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(
    mut socket: TcpStream,
    greeting: Vec<u8>,
    play: Arc<impl Fn(usize, &str) -> Play>,
    heads: Arc<Mutex<Vec<String>>>,
    heard: Arc<Mutex<Vec<String>>>,
    left: Arc<Mutex<usize>>,
) {
    socket.set_nodelay(true).unwrap();
    let head = until(&mut socket, "\r\n\r\n").await;
    let agreed = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: {}\r\n\r\n",
        accept(&head)
    );
    heads.lock().unwrap().push(head);
    socket.write_all(agreed.as_bytes()).await.unwrap();
    socket.write_all(&greeting).await.unwrap();
    let mut socket = WebSocketStream::from_raw_socket(socket, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Text(text) = message else { continue };
        let number = {
            let mut heard = heard.lock().unwrap();
            heard.push(text.to_string());
            heard.len() - 1
        };
        let Play { bytes, rest, breaks, pings, after, pause } = play(number, &text);
        tokio::time::sleep(after).await;
        let mut sent = socket.get_mut().write_all(&bytes).await;
        if sent.is_ok() && !rest.is_empty() {
            tokio::time::sleep(pause).await;
            sent = socket.get_mut().write_all(&rest).await;
        }
        if sent.is_err() || breaks {
            break;
        }
        while pings && socket.get_mut().write_all(&frame(PING, true, b"still here")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    *left.lock().unwrap() += 1;
}

/// A connection of a client.
pub(super) struct Client(WebSocketStream<TcpStream>);

/// How a connection ended: the code of its close, and why.
pub(super) type Goodbye = (u16, String);

impl Client {
    /// Opens a WebSocket; the answer if it is none.
    pub(super) async fn try_open(gateway: &Gateway, path: &str, headers: &str) -> Result<Self, String> {
        Self::try_open_by(TOKEN, gateway, path, headers).await
    }

    /// The same with a token.
    pub(super) async fn try_open_by(
        token: &str,
        gateway: &Gateway,
        path: &str,
        headers: &str,
    ) -> Result<Self, String> {
        let mut socket = connect(gateway).await;
        let asked = format!(
            "GET /t/{token}{path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n{headers}\r\n"
        );
        socket.write_all(asked.as_bytes()).await.unwrap();
        // Byte for byte: messages may follow at once.
        let mut answer = String::new();
        while !answer.ends_with("\r\n\r\n") {
            answer.push(char::from(within(socket.read_u8()).await.unwrap()));
        }
        if !answer.starts_with("HTTP/1.1 101 ") {
            return Err(answer);
        }
        assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{answer}");
        assert!(!answer.contains("extensions"), "{answer}");
        Ok(Self(WebSocketStream::from_raw_socket(socket, Role::Client, None).await))
    }

    pub(super) async fn open(gateway: &Gateway) -> Self {
        Self::try_open(gateway, "/v1/responses", "").await.unwrap_or_else(|answer| panic!("{answer}"))
    }

    pub(super) async fn send(&mut self, message: Message) {
        within(self.0.send(message)).await.unwrap();
    }

    /// Sends bytes below the WebSocket.
    pub(super) async fn send_raw(&mut self, bytes: &[u8]) {
        within(self.0.get_mut().write_all(bytes)).await.unwrap();
    }

    pub(super) async fn ask(&mut self, text: &str) {
        self.send(Message::text(asked(text))).await;
    }

    pub(super) async fn tell(&mut self, message: Value) {
        self.send(Message::text(message.to_string())).await;
    }

    pub(super) async fn told(&mut self) -> Value {
        serde_json::from_str(&self.next().await.unwrap()).unwrap()
    }

    /// The next text, or how the connection ended.
    pub(super) async fn next(&mut self) -> Result<String, Goodbye> {
        loop {
            match within(self.0.next()).await {
                Some(Ok(Message::Text(text))) => return Ok(text.to_string()),
                Some(Ok(Message::Binary(bytes))) => return Ok(String::from_utf8(bytes.to_vec()).unwrap()),
                Some(Ok(Message::Close(Some(close)))) => {
                    return Err((close.code.into(), close.reason.to_string()));
                }
                Some(Ok(Message::Close(None)) | Err(_)) | None => return Err((0, String::new())),
                Some(Ok(_)) => {}
            }
        }
    }

    /// What is told next of input for an answer.
    pub(super) async fn steered(&mut self) -> String {
        loop {
            let message = self.next().await.unwrap();
            if kind(&message).starts_with("response.steer.") {
                return message;
            }
        }
    }

    /// The messages of one answer, to its last.
    pub(super) async fn answer(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        loop {
            let message = self.next().await.unwrap_or_else(|end| panic!("{end:?} after {messages:?}"));
            let is_last = is_last(&message);
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// What came until an answer or the connection ended.
    pub(super) async fn answer_or_rest(&mut self) -> Vec<String> {
        let mut messages = Vec::new();
        while let Ok(message) = self.next().await {
            let is_last = is_last(&message);
            messages.push(message);
            if is_last {
                break;
            }
        }
        messages
    }

    /// What came until the connection ended, and how it did.
    pub(super) async fn rest(&mut self) -> (Vec<String>, Goodbye) {
        let mut messages = Vec::new();
        loop {
            match self.next().await {
                Ok(message) => messages.push(message),
                Err(goodbye) => return (messages, goodbye),
            }
        }
    }
}

fn is_last(message: &str) -> bool {
    let last = ["error", "response.completed", "response.incomplete", "response.failed", "response.done"];
    last.contains(&&*kind(message))
}

pub(super) fn kind(message: &str) -> String {
    let message: Value = serde_json::from_str(message).unwrap();
    message["type"].as_str().unwrap_or_default().to_owned()
}

/// A request of one message.
pub(super) fn asked(text: &str) -> String {
    json!({"type": "response.create", "model": "m", "input": text}).to_string()
}

/// The events of an answer that says something and calls a tool.
pub(super) fn answer(text: &str, call: Option<(&str, Value)>) -> Vec<String> {
    let mut parts = vec![Part::text(text)];
    let stop = if call.is_some() { StopReason::ToolUse } else { StopReason::EndTurn };
    if let Some((name, arguments)) = call {
        let call: ToolCall =
            serde_json::from_value(json!({"id": "call_1", "name": name, "arguments": arguments})).unwrap();
        parts.push(Part::ToolCall(call));
    }
    let response = ModelResponse::new("resp_1".to_owned(), "m".to_owned(), parts, stop);
    let mut encoder = Api::OpenAiResponses.stream_encoder(&ModelRequest::default());
    let events = response.to_events(8).into_iter().flat_map(|event| encoder.push(&event));
    events.map(|event| event.data).collect()
}

/// Hooks that withhold `shell`, take secrets out, and look at requests.
pub(super) fn house() -> House {
    let house = House::new();
    house.withhold("shell");
    house.redact();
    house.judge::<BeforeLlmCall>("looks", |_| None);
    house
}

/// Hooks that only look, and the runs that they were told of.
pub(super) fn runs() -> (House, Arc<Mutex<BTreeSet<String>>>) {
    let (house, runs) = (House::new(), Arc::<Mutex<BTreeSet<String>>>::default());
    let seen = Arc::clone(&runs);
    house.judge::<BeforeLlmCall>("looks", move |event| {
        seen.lock().unwrap().insert(event.run_id.to_string());
        None
    });
    (house, runs)
}

/// Settings under which WebSockets are opened.
pub(super) fn open_settings(url: &str) -> Settings {
    Settings { websockets: Some(WebSockets::default()), ..settings_of(url) }
}
