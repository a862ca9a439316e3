//! Answers on HTTP: as lines, in one piece, or in Bedrock's frames.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use backstop_gateway::inspect::{HookSettings, Hooks};
use backstop_gateway::{Credential, Family, Gateway, Settings};
use backstop_llm::{Api, ProviderError, ProviderErrorKind};
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response, Version};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::cuts::{self, Pieces};
use super::lanes::Transport;
use crate::clouds::frames;
use crate::inspect::adversarial::corpus::{Adverse, Written};
use crate::inspect::adversarial::{denying, fault};
use crate::inspect::support::{ask, path, settings_of};
use crate::support::{Answer, Script, Upstream, chunk, post, secret, start, talk};
use crate::tls::Authority;

/// How many answers one gateway is sent.
const ANSWERS_OF_ONE: usize = 16;

/// The next answer: its type, and how it comes.
type Next = Arc<Mutex<(&'static str, Pieces)>>;

/// A provider that answers everything with what is next.
enum Source {
    Plain(Upstream),
    Encrypted { address: SocketAddr, authority: Box<Authority>, serving: JoinHandle<()> },
}

impl Source {
    async fn plain(next: &Next) -> Self {
        let next = Arc::clone(next);
        let script = move |_| {
            let (kind, pieces) = next.lock().unwrap().clone();
            let head =
                format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n");
            let mut script = Script::whole(head);
            // In one write: chunks are what is read in pieces.
            let body = pieces.iter().flat_map(|piece| chunk(piece));
            script.pieces.push(body.chain(b"0\r\n\r\n".iter().copied()).collect());
            script
        };
        Self::Plain(Upstream::start(script).await)
    }

    async fn encrypted(next: &Next) -> Self {
        let authority = Box::new(Authority::new("one"));
        let acceptor = authority.server("127.0.0.1", &["h2"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let next = Arc::clone(next);
        let serving = tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(serve(acceptor.clone(), socket, Arc::clone(&next)));
            }
        });
        Self::Encrypted { address, authority, serving }
    }

    fn settings(&self, transport: Transport, api: Api) -> Settings {
        let mut settings = match self {
            Self::Plain(upstream) => settings_of(&upstream.url()),
            Self::Encrypted { address, .. } => settings_of(&format!("https://{address}")),
        };
        let family = match api {
            Api::AnthropicMessages | Api::BedrockConverse => Family::Anthropic,
            Api::OpenAiChat | Api::OpenAiResponses => Family::OpenAi,
            Api::Gemini => Family::Gemini,
        };
        let provider = settings.providers.get_mut(family.as_str()).unwrap();
        // Who speaks another envelope than a provider brings no key for it.
        provider.credential = Credential::Key(secret("a-key"));
        provider.cloud = transport.cloud(api);
        if let Self::Encrypted { authority, .. } = self {
            provider.trust = authority.trusted();
        }
        settings
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        if let Self::Encrypted { serving, .. } = self {
            serving.abort();
        }
    }
}

async fn serve(acceptor: TlsAcceptor, socket: tokio::net::TcpStream, next: Next) {
    socket.set_nodelay(true).unwrap();
    let Ok(stream) = acceptor.accept(socket).await else { return };
    let service = service_fn(move |request: Request<Incoming>| {
        assert_eq!(request.version(), Version::HTTP_2);
        let (kind, pieces) = next.lock().unwrap().clone();
        let frames = pieces.into_iter().map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::from(piece))));
        let body = StreamBody::new(stream::iter(frames));
        async move { Response::builder().header("content-type", kind).body(body) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
}

/// Whether a provider sends frames, and whether its client is told in them.
fn framed(transport: Transport, answer: &Adverse) -> (bool, bool) {
    if answer.form != Written::Events {
        return (false, false);
    }
    let is_converse = answer.api == Api::BedrockConverse;
    let comes = is_converse || matches!(transport, Transport::Bedrock | Transport::Unframed);
    (comes, is_converse || matches!(transport, Transport::Bedrock | Transport::Framed))
}

/// Where a client asks.
fn target(transport: Transport, answer: &Adverse) -> String {
    let below = "/v1/projects/theirs/locations/theirs/publishers";
    let streams = answer.form != Written::Whole;
    let (verb, raw) = if streams {
        ("streamGenerateContent", "streamRawPredict")
    } else {
        ("generateContent", "rawPredict")
    };
    match (transport, answer.api) {
        (Transport::Bedrock | Transport::Framed, Api::AnthropicMessages) => {
            format!("/model/m/invoke{}", if streams { "-with-response-stream" } else { "" })
        }
        (Transport::Azure, api) => path(api, streams).replacen("/v1/", "/openai/v1/", 1),
        (Transport::Vertex, Api::AnthropicMessages) => format!("{below}/anthropic/models/m:{raw}"),
        (_, Api::Gemini) => {
            let base = if transport == Transport::Vertex { below } else { "/v1beta" };
            let maker = if transport == Transport::Vertex { "/google" } else { "" };
            let form = if answer.form == Written::Events { "?alt=sse" } else { "" };
            format!("{base}{maker}/models/m:{verb}{form}")
        }
        (_, api) => path(api, streams),
    }
}

/// What a client asks.
fn asked(transport: Transport, answer: &Adverse) -> String {
    let mut body = ask(answer.api, answer.form != Written::Whole, "hi");
    let fields = body.as_object_mut().unwrap();
    if answer.api == Api::AnthropicMessages {
        let version = match transport {
            Transport::Bedrock | Transport::Framed => Some("bedrock-2023-05-31"),
            Transport::Vertex => Some("vertex-2023-10-16"),
            _ => None,
        };
        if let Some(version) = version {
            fields.remove("model");
            fields.insert("anthropic_version".to_owned(), version.into());
            if transport != Transport::Vertex {
                fields.remove("stream");
            }
        }
    }
    body.to_string()
}

/// The answer as its provider sends it: type, bytes, and structural boundaries.
fn sent(transport: Transport, answer: &Adverse) -> (&'static str, Vec<u8>, Vec<usize>) {
    if framed(transport, answer).0 {
        let frames = frames::of_lines(answer.api, &answer.bytes);
        let edges = frames::edges(&frames);
        return ("application/vnd.amazon.eventstream", frames.concat(), edges);
    }
    let kind = if answer.form == Written::Events { "text/event-stream" } else { "application/json" };
    (kind, answer.bytes.clone(), cuts::of_lines(&answer.bytes))
}

/// An answer in frames as one in events, so that it is read like any other. What are no frames stays as it is.
pub(crate) fn unframed(answer: &Adverse, got: Answer) -> Answer {
    let body = frames::bytes(&got);
    let is_whole = got.body().1;
    let head = got.head().replace("transfer-encoding: chunked", "x-was: chunked");
    let mut bytes = format!("{head}\r\n\r\n").into_bytes();
    let (frames, rest) = frames::parse(&body);
    for (headers, payload) in frames {
        let named = |name: &str| headers.get(name).map(String::as_str);
        match (named(":message-type"), answer.api) {
            (Some("event"), Api::AnthropicMessages) => {
                let event = frames::event_of_chunk(&payload);
                let kind = serde_json::from_slice::<serde_json::Value>(&event).unwrap()["type"].clone();
                bytes.extend_from_slice(format!("event: {}\ndata: ", kind.as_str().unwrap()).as_bytes());
                bytes.extend_from_slice(&event);
            }
            (Some("event"), _) => {
                bytes.extend_from_slice(
                    format!("event: {}\ndata: ", named(":event-type").unwrap()).as_bytes(),
                );
                bytes.extend_from_slice(&payload);
            }
            (Some("exception"), api) => {
                let said = String::from_utf8(payload).unwrap();
                let error = ProviderError::new(ProviderErrorKind::Server, 502, None, &said);
                bytes.extend_from_slice(api.encode_stream_error(&error).encode().trim_ascii_end());
            }
            other => panic!("{}: {other:?}", answer.name),
        }
        bytes.extend_from_slice(b"\n\n");
    }
    assert!(rest.is_empty(), "{}: what follows is no frame: {rest:?}", answer.name);
    Answer { bytes, broken: got.broken || !is_whole }
}

struct Asking {
    next: Next,
    gateway: Gateway,
    transport: Transport,
}

impl Asking {
    /// What is wrong with an answer that came in these pieces.
    async fn fault(&self, answer: &Adverse, kind: &'static str, pieces: &Pieces) -> Option<String> {
        *self.next.lock().unwrap() = (kind, pieces.clone());
        let request = post(&target(self.transport, answer), &asked(self.transport, answer));
        let got = talk(&self.gateway, request).await;
        let is_in_frames = got.head().contains("vnd.amazon.eventstream");
        let wants_frames = framed(self.transport, answer).1;
        let got = if is_in_frames { unframed(answer, got) } else { got };
        let fault = if got.broken {
            Some("it was cut off")
        } else if got.status() == 200 && is_in_frames != wants_frames {
            Some("it has another envelope")
        } else {
            fault(answer, &got)
        };
        let length = pieces.iter().map(Vec::len).sum::<usize>();
        let in_pieces = format!("{} in {} of {length}", answer.name, pieces.len());
        fault.map(|fault| format!("{in_pieces}: {fault}: {}", got.text()))
    }
}

/// What is wrong with what clients got of these answers.
pub(super) async fn faults(transport: Transport, api: Api, answers: &[(Adverse, bool)]) -> Vec<String> {
    let next = Next::default();
    let source = match transport {
        Transport::Http2 => Source::encrypted(&next).await,
        _ => Source::plain(&next).await,
    };
    let (mut faults, mut asking) = (Vec::new(), None);
    for (number, (answer, is_plain)) in answers.iter().enumerate() {
        // One that has heard nothing of answers before, now and then.
        if number % ANSWERS_OF_ONE == 0 {
            let hooks = HookSettings { refusals: 0, ..HookSettings::default() };
            let hooks = Hooks::new(denying().engine, hooks).unwrap();
            let gateway = start(source.settings(transport, api), hooks).await.unwrap();
            asking = Some(Asking { next: Arc::clone(&next), gateway, transport });
        }
        let Some(asking) = &asking else { continue };
        let before = asking.gateway.requests();
        let (kind, bytes, edges) = sent(transport, answer);
        let mut ways = cuts::of_any(number, &bytes, &edges);
        if *is_plain {
            ways.extend(cuts::of_plain(&bytes, &edges));
        }
        for pieces in &ways {
            faults.extend(asking.fault(answer, kind, pieces).await);
        }
        assert_eq!(asking.gateway.requests() - before, ways.len() as u64);
    }
    faults
}
