//! The scripted model on a loopback port.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Secret;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::cloud::Enveloped;
use super::format::Script;
use super::play::{End, Framing, Playback, Player, error_playback};
use super::report::{RecordedRequest, ScriptReport};
use crate::answer::{BodyForm, FRAMES};
use crate::error::{ProviderError, ProviderErrorKind};
use crate::tokens::estimate_tokens;
use crate::wire::{Api, DecodedRequest, RequestTarget};

const MAX_CONNECTIONS: usize = 256;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
const MODEL_NAME: &str = "scripted-model";

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// How the server behaves.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The port on 127.0.0.1; 0 for any free one.
    pub port: u16,
    /// The key that requests must bring, as `x-api-key`, `x-goog-api-key`, bearer token or `?key=`. Any
    /// request is taken if it is missing.
    pub required_key: Option<Secret>,
    /// The largest request body in bytes.
    pub max_body_bytes: usize,
}

impl Default for ServerOptions {
    /// Any free port, no key, 32 MiB.
    fn default() -> Self {
        Self { port: 0, required_key: None, max_body_bytes: 32 * 1024 * 1024 }
    }
}

/// A running server. It listens on 127.0.0.1 only, and stops when it is dropped.
///
/// It answers `POST /v1/messages`, `POST /v1/messages/count_tokens`, `POST /v1/chat/completions`,
/// `POST /v1/responses`, `POST /v1/responses/input_tokens`, `GET /v1/models`, and on the Gemini wire `POST` to
/// `generateContent`, `streamGenerateContent` (events or one array) and `countTokens` of any model, and
/// `GET /v1beta/models`; at Azure, `POST` to `chat/completions` of any deployment; of Bedrock, `POST` to `converse`, `converse-stream` (frames), `count-tokens`,
/// `invoke` and `invoke-with-response-stream` (frames) of any model, the last two in the wire of Messages; of Vertex AI, `POST` to `rawPredict` and
/// `streamRawPredict` of any model of Anthropic's, and to what Gemini's own API has of any of Google's.
pub struct ScriptedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<()>,
    accepting: JoinHandle<()>,
}

struct Shared {
    player: Player,
    options: ServerOptions,
}

impl ScriptedServer {
    /// Starts to play `script`.
    ///
    /// # Errors
    /// If the port cannot be listened on.
    pub async fn start(script: Script, options: ServerOptions) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared { player: Player::new(script), options });
        let (stop, stopped) = watch::channel(());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared), stopped));
        Ok(Self { address, shared, stop, accepting })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as the base URL of a provider.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far, oldest first. The last 256 are kept.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.player.requests()
    }

    /// What happened so far.
    pub fn report(&self) -> ScriptReport {
        self.shared.player.report()
    }

    /// Stops listening, lets running answers end (for a second), and says what happened.
    pub async fn shut_down(self) -> ScriptReport {
        drop(self.stop);
        // The task ends by itself; it cannot panic and nobody aborts it.
        let _ = self.accepting.await;
        self.shared.player.report()
    }
}

impl fmt::Debug for ScriptedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedServer").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<()>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let slot = Arc::clone(&slots).acquire_owned();
        let (slot, socket) = tokio::select! {
            _ = stopped.changed() => break,
            Some(_) = connections.join_next() => continue,
            accepted = async { (slot.await, listener.accept().await) } => accepted,
        };
        match socket {
            Ok((socket, _)) => {
                let connection = serve(socket, Arc::clone(&shared), stopped.clone());
                connections.spawn(async move {
                    connection.await;
                    drop(slot);
                });
            }
            // No file descriptors left, or the peer is gone already: waiting a little is all there is to do.
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn serve(socket: TcpStream, shared: Arc<Shared>, mut stopped: watch::Receiver<()>) {
    // Without it events of a stream wait for each other; where it cannot be set they do.
    let _ = socket.set_nodelay(true);
    let service = service_fn(|request| handle(Arc::clone(&shared), request));
    // Amazon's SDK for Node begins with HTTP/2.
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    tokio::select! {
        // A broken connection concerns the client only, which notices by itself.
        _ = connection.as_mut() => {}
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(STOP_TIMEOUT, connection).await;
        }
    }
}

/// What a request asks of this server.
struct Route {
    api: Api,
    asked: Asked,
    target: RequestTarget,
    /// What the envelope of a cloud says, where there is one.
    enveloped: Option<Enveloped>,
}

impl Route {
    fn framing(&self) -> Framing {
        match &self.enveloped {
            Some(enveloped) if enveloped.is_framed => Framing::Bedrock,
            Some(_) | None => Framing::Wire(self.target.framing),
        }
    }
}

enum Asked {
    Answer,
    TokenCount,
    Models,
    Nothing,
}

fn route(request: &Request<Incoming>) -> Route {
    let path = request.uri().path();
    if let (&Method::POST, Some(enveloped)) = (request.method(), Enveloped::of(path)) {
        let asked = if enveloped.is_count { Asked::TokenCount } else { Asked::Answer };
        let (api, target) = (Api::AnthropicMessages, RequestTarget::default());
        return Route { api, asked, target, enveloped: Some(enveloped) };
    }
    let address = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let address = match at_azure(path) {
        Some(plain) => plain,
        None => address,
    };
    // On the Gemini wire, counting is a method of a model like answering.
    let (asked, address) = match path {
        path if path.ends_with(":countTokens") => {
            (Asked::TokenCount, address.replacen(":countTokens", ":generateContent", 1))
        }
        path if path.ends_with("/count-tokens") => {
            (Asked::TokenCount, address.replacen("/count-tokens", "/converse", 1))
        }
        _ => (Asked::Answer, address),
    };
    let found = Api::ALL.into_iter().find_map(|api| Some((api, api.request_target(&address)?)));
    let (api, asked, target) = match (request.method(), path, found) {
        (&Method::POST, _, Some((api, target))) => (api, asked, target),
        (&Method::POST, "/v1/messages/count_tokens", None) => {
            (Api::AnthropicMessages, Asked::TokenCount, RequestTarget::default())
        }
        (&Method::POST, "/v1/responses/input_tokens", None) => {
            (Api::OpenAiResponses, Asked::TokenCount, RequestTarget::default())
        }
        (&Method::GET, "/v1/models" | "/v1beta/models", _) => {
            (likely_api(request), Asked::Models, RequestTarget::default())
        }
        _ => (likely_api(request), Asked::Nothing, RequestTarget::default()),
    };
    Route { api, asked, target, enveloped: None }
}

/// The address at OpenAI of what a client asks at Azure, of a deployment or of the service.
fn at_azure(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/openai/")?;
    let rest = match rest.strip_prefix("deployments/") {
        Some(rest) => rest.split_once('/')?.1,
        None => rest.strip_prefix("v1/").unwrap_or(rest),
    };
    Some(format!("/v1/{rest}"))
}

/// The wire of the client, as far as an address without a meaning tells.
fn likely_api(request: &Request<Incoming>) -> Api {
    let (path, headers) = (request.uri().path(), request.headers());
    if path.starts_with("/model/") {
        Api::BedrockConverse
    } else if path.starts_with("/v1/messages") || headers.contains_key("anthropic-version") {
        Api::AnthropicMessages
    } else if path.starts_with("/v1/responses") {
        Api::OpenAiResponses
    } else if path.starts_with("/v1beta") || headers.contains_key("x-goog-api-key") {
        Api::Gemini
    } else {
        Api::OpenAiChat
    }
}

/// Answers one request. The error closes the connection without an answer.
async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> io::Result<Response<Body>> {
    let route = route(&request);
    let answered = match route.asked {
        _ if !shared.admits(request.headers(), route.target.key.as_ref()) => {
            Err(refuse(ProviderErrorKind::Auth, "invalid key"))
        }
        Asked::Answer => shared.generate(&route, request).await,
        Asked::TokenCount => shared.count_tokens(&route, request).await,
        Asked::Models => Ok(json_playback(&models(route.api))),
        Asked::Nothing => Err(refuse(ProviderErrorKind::NotFound, "no such address")),
    };
    let errors = route.framing().errors(route.api);
    let playback = answered.unwrap_or_else(|error| error_playback(errors, &error));
    sleep(playback.delay).await;
    respond(playback)
}

fn refuse(kind: ProviderErrorKind, message: &str) -> ProviderError {
    ProviderError::new(kind, kind.status(), None, message)
}

impl Shared {
    fn admits(&self, headers: &HeaderMap, in_address: Option<&Secret>) -> bool {
        let Some(key) = &self.options.required_key else { return true };
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let bearer = text("authorization").and_then(|value| value.strip_prefix("Bearer "));
        let in_address = in_address.map(|key| key.expose().as_str());
        let given = [text("x-api-key"), text("x-goog-api-key"), bearer, in_address];
        given.into_iter().flatten().any(|given| given == key.expose())
    }

    async fn generate(&self, route: &Route, request: Request<Incoming>) -> Result<Playback, ProviderError> {
        let mut body = self.read(request).await?;
        if let Some(enveloped) = &route.enveloped {
            enveloped.complete(&mut body);
        }
        let asked = decode(route.api, &route.target, &body)?;
        Ok(self.player.answer(route.api, &asked, route.framing()))
    }

    async fn count_tokens(
        &self,
        route: &Route,
        request: Request<Incoming>,
    ) -> Result<Playback, ProviderError> {
        let Route { api, target, .. } = route;
        let api = *api;
        let mut body = self.read(request).await?;
        if let Some(whole) = body.get_mut("generateContentRequest").filter(|_| api == Api::Gemini) {
            body = whole.take();
        }
        if let Some(whole) = body.pointer_mut("/input/converse").filter(|_| api == Api::BedrockConverse) {
            body = whole.take();
        }
        let tokens = estimate_tokens(&decode(api, target, &body)?.request);
        Ok(json_playback(&match api {
            Api::Gemini => json!({"totalTokens": tokens}),
            Api::BedrockConverse => json!({"inputTokens": tokens}),
            Api::OpenAiResponses => json!({"object": "response.input_tokens", "input_tokens": tokens}),
            Api::AnthropicMessages | Api::OpenAiChat => json!({"input_tokens": tokens}),
        }))
    }

    async fn read(&self, request: Request<Incoming>) -> Result<Value, ProviderError> {
        let body = Limited::new(request.into_body(), self.options.max_body_bytes).collect();
        let body = timeout(BODY_TIMEOUT, body)
            .await
            .map_err(|_| refuse(ProviderErrorKind::InvalidRequest, "the body did not come"))?
            .map_err(|error| {
                if error.is::<http_body_util::LengthLimitError>() {
                    refuse(ProviderErrorKind::RequestTooLarge, "the body is too large")
                } else {
                    refuse(ProviderErrorKind::InvalidRequest, "the body broke off")
                }
            })?;
        crate::wire::parse_json(&body.to_bytes()).map_err(|error| {
            let error = crate::wire::not_json("the body", &error);
            refuse(ProviderErrorKind::InvalidRequest, &error.to_string())
        })
    }
}

fn decode(api: Api, target: &RequestTarget, body: &Value) -> Result<DecodedRequest, ProviderError> {
    api.decode_request_at(target, body)
        .map_err(|error| refuse(ProviderErrorKind::InvalidRequest, &error.to_string()))
}

fn json_playback(body: &Value) -> Playback {
    Playback {
        status: 200,
        retry_after: None,
        form: BodyForm::Json,
        delay: Duration::ZERO,
        pieces: vec![Bytes::from(body.to_string())],
        piece_delay: Duration::ZERO,
        end: End::Closed,
    }
}

/// A list of one model. Clients of the other wires can all read the same one.
fn models(api: Api) -> Value {
    match api {
        Api::AnthropicMessages | Api::OpenAiChat | Api::OpenAiResponses | Api::BedrockConverse => json!({
            "object": "list",
            "data": [{
                "id": MODEL_NAME, "type": "model", "object": "model", "display_name": "Scripted model",
                "created": 0, "created_at": "1970-01-01T00:00:00Z", "owned_by": "backstop",
            }],
            "has_more": false, "first_id": MODEL_NAME, "last_id": MODEL_NAME,
        }),
        Api::Gemini => json!({"models": [{
            "name": format!("models/{MODEL_NAME}"), "displayName": "Scripted model", "version": "1",
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        }]}),
    }
}

fn respond(playback: Playback) -> io::Result<Response<Body>> {
    if playback.end == End::NoAnswer {
        return Err(broken());
    }
    let content_type = match playback.form {
        BodyForm::Json => "application/json",
        BodyForm::Events => "text/event-stream",
        BodyForm::Frames => FRAMES,
    };
    let mut response = Response::builder()
        .status(StatusCode::from_u16(playback.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        .header(header::CONTENT_TYPE, content_type)
        .header(header::CACHE_CONTROL, "no-store");
    if let Some(seconds) = playback.retry_after {
        response = response.header(header::RETRY_AFTER, seconds.to_string());
    }
    response.body(body(playback)).map_err(io::Error::other)
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the script breaks the connection")
}

fn body(playback: Playback) -> Body {
    match playback.pieces.as_slice() {
        [only] if playback.end == End::Closed => {
            Full::new(only.clone()).map_err(|never: Infallible| match never {}).boxed_unsync()
        }
        _ => StreamBody::new(pieces(playback)).boxed_unsync(),
    }
}

fn pieces(playback: Playback) -> impl Stream<Item = io::Result<Frame<Bytes>>> {
    let Playback { pieces, piece_delay, end, .. } = playback;
    let pieces = stream::iter(pieces).enumerate().then(move |(index, piece)| async move {
        if index > 0 && !piece_delay.is_zero() {
            sleep(piece_delay).await;
        }
        Ok(Frame::data(piece))
    });
    let breaks = (end != End::Closed).then_some(async {
        // What was written must leave before the connection breaks.
        sleep(Duration::from_millis(20)).await;
        Err(broken())
    });
    pieces.chain(stream::iter(breaks).then(|breaking| breaking))
}
