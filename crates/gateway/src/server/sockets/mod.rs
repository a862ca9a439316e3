//! WebSockets: turns of OpenAI Responses, Realtime and Gemini Live, one after the other on one connection.
//!
//! A client that asks for a WebSocket at `/v1/responses`, `/v1/realtime` or for Gemini Live is authenticated like any request; then one is opened
//! at the provider, with the operator's key if there is one, and the two are tied together here. Each `response.create` is
//! the body of a `POST /v1/responses` that streams, and is shown to an [exchange](crate::exchange) of its own; each event
//! of the provider is one of the stream that answers it. So what judges, redacts, counts and writes receipts is what does
//! so over HTTP, and it knows nothing of sockets.
//!
//! ```text
//! handshake  who may open one, and how both sides agree
//! inbound    messages of a client that are not whole yet
//! message    what clients say, by a closed list, and what they are told
//! dialect    what is spoken: Responses, or another wire as one that those who judge know
//! realtime   OpenAI Realtime, as Responses
//! live       Gemini Live, as a stream of Gemini
//! outlet     what an exchange lets out, as messages
//! relay      the two sockets between turns
//! meanwhile  what comes while a request is on its way
//! ending     how connections end
//! turn       one request and its answer
//! steer      input for an answer that is under way
//! ```
//!
//! - *Nothing passes that no turn carries.* Messages that are in no list are answered with an error; what a provider says
//!   outside of an answer does not leave, or is judged as one; bytes that are no text end the connection.
//! - *One answer at a time.* Requests that come meanwhile wait, as many as a list of them allows. What a provider says has
//!   to belong to the answer that was asked for, by its place and by its name.
//! - *A refusal ends a turn, and the connection only where the provider is in the middle of an answer*: that one has to be
//!   cut off. The wire's own error event goes before the close, whose code says why.
//! - *Everything is bounded, and says so*: the size of a message, how many there are, how long a connection is idle and how
//!   long it lasts, how long a provider is silent.
//! - *A turn has the settings of its connection*; once others hold, the connection ends between turns.
//!
//! Limits: extensions (compression) and subprotocols are not agreed on; a connection stays at the
//! provider where it was opened, so a model that goes elsewhere is asked for over HTTP.

mod dialect;
mod ending;
mod handshake;
mod inbound;
mod live;
mod meanwhile;
mod message;
mod outlet;
mod realtime;
mod relay;
mod steer;
mod turn;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header, request};
use hyper::upgrade;
use tokio::sync::watch;
use uuid::Uuid;

use super::Shared;
use super::answer::AnswerBody;
use super::ending::Ending as EndingWord;
use super::request::ProxyRequest;
use crate::auth::{AuthError, Caller};
use crate::cloud::{Envelope, LivePath, live_path};
use crate::endpoint::{Endpoint, Operation, normal};
use crate::error::Failure;
use crate::inspect::SESSION_HEADERS;
use crate::operations::{Permission, is_itself, without_prefix};
use crate::upstream::Provider;

use dialect::Dialect;
use handshake::{Opening, is_of_handshake};
use live::Live;
use realtime::Talk;
use relay::Relay;

pub(super) use handshake::{Offer, is_asked_for};

/// Headers of a body, which a handshake has none of: what is said later is not to be read by them.
const OF_BODY: [header::HeaderName; 3] =
    [header::CONTENT_ENCODING, header::CONTENT_LENGTH, header::CONTENT_TYPE];

/// Longer names are no models.
const MAX_MODEL_BYTES: usize = 128;

/// What a connection becomes after its last answer over HTTP.
#[derive(Clone, Default)]
pub(super) struct Guests(Arc<Mutex<Option<Guest>>>);

/// A WebSocket that was opened.
pub(super) struct Guest {
    client: upgrade::OnUpgrade,
    upstream: upgrade::Upgraded,
    dialect: Dialect,
    session: Session,
    changes: watch::Receiver<Arc<Shared>>,
}

/// The name of a session whose requests continue each other without saying so.
#[derive(Clone)]
pub(super) struct SocketSession(pub(super) String);

/// What holds for all turns of a connection.
struct Session {
    shared: Arc<Shared>,
    /// The handshake, as the head of each request that is made on it.
    head: request::Parts,
    caller: Caller,
    endpoint: Endpoint,
    provider: Arc<Provider>,
    /// The envelope of a cloud in which the client speaks.
    envelope: Option<Envelope>,
}

impl Session {
    /// What ends it before its time.
    fn ending(&self) -> EndingWord {
        self.shared.ending.with(self.caller.token.as_ref())
    }
}

impl Guests {
    /// What the connection is from now on, if it is no longer HTTP.
    pub(super) fn take(&self) -> Option<Guest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn put(&self, guest: Guest) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(guest);
    }
}

impl Guest {
    /// Carries turns until either side goes, or the gateway stops.
    pub(super) async fn stay(self, stopped: watch::Receiver<()>) {
        let Self { client, upstream, dialect, session, changes } = self;
        let Some(settings) = session.shared.websockets else { return };
        // Who has gone by now wanted nothing.
        let Ok(client) = client.await else { return };
        let relay = Relay::new(client, upstream, dialect, session, settings).await;
        Box::pin(relay.run(stopped, changes)).await;
    }
}

impl fmt::Debug for Guests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guests").finish_non_exhaustive()
    }
}

/// Opens a WebSocket, or says why not.
pub(super) async fn open(
    changes: watch::Receiver<Arc<Shared>>,
    guests: &Guests,
    head: request::Parts,
) -> Result<Response<AnswerBody>, Failure> {
    let shared = Arc::clone(&changes.borrow());
    let caller = shared.auth.authenticate(&head)?;
    if shared.websockets.is_none() {
        return Err(Failure::Socket);
    }
    let endpoint = Endpoint::of(caller.target.path(), &head.headers)?;
    let asked = Asked::of(endpoint, &caller, &head.headers)?;
    if !shared.auth.knows_origin(&head.headers) {
        return Err(AuthError::Origin.into());
    }
    let opening = Opening::of(&head)?;
    // Opening one is a request, and so is each of its turns.
    let _admitted = shared.admit(&caller)?;
    let mut request = Request::from_parts(head, ());
    let client = upgrade::on(&mut request);
    let head = as_request(request.into_parts().0);
    let ending = shared.ending.with(caller.token.as_ref());
    let (upstream, provider) = tokio::select! {
        opened = ask(&shared, &head, &caller, endpoint, &asked) => opened?,
        ended = ending.heard() => return Err(ended.failure()),
    };
    let dialect = asked.dialect(&shared, &provider);
    let head = asked.named(head);
    let envelope = asked.envelope();
    let (caller, endpoint) = asked.turns(caller, endpoint);
    let session = Session { shared, head, caller, endpoint, provider, envelope };
    guests.put(Guest { client, upstream, dialect, session, changes });
    let mut response = Response::new(AnswerBody::whole(bytes::Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    opening.agree(response.headers_mut());
    Ok(response)
}

/// What a WebSocket is asked for.
enum Asked {
    Responses,
    Realtime {
        /// The model that the session is with.
        model: String,
    },
    /// Its messages name the model.
    Live {
        /// The client asks in the words of Vertex AI.
        is_vertex: bool,
    },
}

impl Asked {
    fn of(endpoint: Endpoint, caller: &Caller, headers: &HeaderMap) -> Result<Self, Failure> {
        // Behind another address nobody would know what is spoken.
        if !is_itself(headers, caller.target.query()) {
            return Err(Failure::closed(&Method::GET, caller.target.path()));
        }
        if endpoint.operation == Operation::Responses {
            return Ok(Self::Responses);
        }
        if endpoint.operation == Operation::Live {
            return Self::live(&caller.target);
        }
        let path = normal(caller.target.path()).unwrap_or_default();
        if without_prefix(path.trim_matches('/')) != "realtime" {
            return Err(Failure::Socket);
        }
        let is_realtime = |word: &[u8]| word.eq_ignore_ascii_case(b"realtime");
        let is_beta = |value: &HeaderValue| value.as_bytes().windows(8).any(is_realtime);
        if headers.get_all("openai-beta").iter().any(is_beta) {
            return Err(Failure::Handshake(
                "the beta of Realtime is not spoken here: leave `openai-beta` out",
            ));
        }
        // A call that was begun elsewhere, and a session that is no conversation, are asked for by other words.
        let model = caller.target.query().and_then(|query| query.strip_prefix("model="));
        let is_name = |model: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
            (1..=MAX_MODEL_BYTES).contains(&model.len()) && model.bytes().all(fits)
        };
        let model = model
            .filter(is_name)
            .ok_or(Failure::Handshake("Realtime is opened with `?model=` and nothing else"))?;
        Ok(Self::Realtime { model: model.to_owned() })
    }

    /// Gemini Live, at the one address that a server has for it.
    fn live(target: &PathAndQuery) -> Result<Self, Failure> {
        let is_vertex = match live_path(target.path()) {
            Some(LivePath::Maker) => false,
            Some(LivePath::Vertex) => true,
            None => return Err(Failure::Socket),
        };
        // A token may hold a setup of its own, of which nobody here would know.
        let is_key = |pair: &str| pair.split_once('=').is_some_and(|(name, _)| name == "key");
        if target.query().is_some_and(|query| !query.split('&').all(is_key)) {
            return Err(Failure::Handshake("Gemini Live is opened with `?key=` or without a query"));
        }
        Ok(Self::Live { is_vertex })
    }

    fn model(&self) -> Option<&str> {
        match self {
            Self::Responses | Self::Live { .. } => None,
            Self::Realtime { model } => Some(model),
        }
    }

    /// The envelope of a cloud in which the client speaks.
    fn envelope(&self) -> Option<Envelope> {
        matches!(self, Self::Live { is_vertex: true }).then_some(Envelope::Vertex)
    }

    fn dialect(&self, shared: &Shared, provider: &Provider) -> Dialect {
        match self {
            Self::Responses => Dialect::Responses,
            Self::Live { .. } => {
                let (media, most) = (shared.interceptor.passes_media(), shared.limits.body_bytes);
                Dialect::Live(Box::new(Live::new(provider.live_models(), media, &shared.load, most)))
            }
            Self::Realtime { model } => {
                let (media, most) = (shared.interceptor.passes_media(), shared.limits.body_bytes);
                Dialect::Realtime(Box::new(Talk::new(model.clone(), media, &shared.load, most)))
            }
        }
    }

    /// The head of all requests of the connection. Those of Gemini Live continue each other without saying so, and are one
    /// conversation if no header says which.
    fn named(&self, mut head: request::Parts) -> request::Parts {
        if !matches!(self, Self::Live { .. }) {
            return head;
        }
        let is_named = SESSION_HEADERS.iter().any(|name| head.headers.contains_key(*name));
        let name = format!("live-{}", Uuid::new_v4().simple());
        let [header, ..] = SESSION_HEADERS;
        if let (false, Ok(name)) = (is_named, HeaderValue::from_str(&name)) {
            head.headers.insert(header, name);
        }
        head.extensions.insert(SocketSession(name));
        head
    }

    /// As what the requests are judged that are made on the connection.
    fn turns(&self, caller: Caller, endpoint: Endpoint) -> (Caller, Endpoint) {
        match self {
            Self::Responses => (caller, endpoint),
            // Its setup says at which address.
            Self::Live { .. } => {
                (caller, Endpoint { operation: Operation::StreamGenerateContent, ..endpoint })
            }
            Self::Realtime { .. } => {
                let target = PathAndQuery::from_static("/v1/responses");
                (Caller { target, ..caller }, Endpoint { operation: Operation::Responses, ..endpoint })
            }
        }
    }
}

/// The head that requests have which are made on the connection.
fn as_request(mut head: request::Parts) -> request::Parts {
    head.method = Method::POST;
    head.extensions.clear();
    let handshake: Vec<_> = head.headers.keys().filter(|name| is_of_handshake(name)).cloned().collect();
    for name in handshake.iter().chain(&OF_BODY) {
        head.headers.remove(name);
    }
    head
}

/// Asks the providers until one opens a WebSocket.
async fn ask(
    shared: &Arc<Shared>,
    head: &request::Parts,
    caller: &Caller,
    endpoint: Endpoint,
    asked: &Asked,
) -> Result<(upgrade::Upgraded, Arc<Provider>), Failure> {
    let model = asked.model();
    let named = caller.provider.as_deref();
    let providers = shared.routes.find(named, endpoint, asked.envelope(), model)?;
    let mut proxied = ProxyRequest::quiet(shared, head, caller.clone(), endpoint);
    if let Some(envelope) = asked.envelope() {
        proxied.speak(envelope);
    }
    let is_closed = matches!(asked, Asked::Responses) && proxied.permission() == Permission::Closed;
    if is_closed && providers.iter().any(|provider| provider.has_own_key()) {
        return Err(Failure::closed(&head.method, caller.target.path()));
    }
    let mut failure = Failure::NoProvider(endpoint.family);
    let mut is_unpaid = false;
    for provider in providers {
        // What the operator could not pay for, no client is made to.
        if is_unpaid && !provider.has_own_key() {
            continue;
        }
        if model.is_some() && !provider.offers(model) {
            failure = Failure::ModelNotOffered;
            continue;
        }
        match proxied.open(provider).await {
            Ok(socket) => return Ok((socket, Arc::clone(provider))),
            Err(refused) => {
                is_unpaid |= matches!(refused, Failure::NoKey { .. });
                failure = refused;
            }
        }
    }
    Err(failure)
}
