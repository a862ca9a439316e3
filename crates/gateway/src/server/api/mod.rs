//! The HTTP API, below `/-/v1`: decisions of the hooks for any program, and what people see and answer.
//!
//! One [table](table::routes) says what there is: method, path, scope, request and response. The router and the OpenAPI document
//! are made from it, so that they can't differ.
//!
//! Laws:
//!
//! - *Every route is authenticated*, also the document: by an access token with [scopes](backstop_store::Scope), or by the
//!   operators' token, which only reads. Tokens of agents for the proxy, the process's token, cookies and tokens in addresses open
//!   nothing here.
//! - *Nobody who is judged answers.* A token that may judge belongs to an agent and may do nothing else; one that may answer
//!   belongs to a person ([`AccessToken`](backstop_store::AccessToken)). Neither codes nor commands that answer are in any response.
//! - *What was judged is what runs.* A tool call passes all of its gates, and a human where they ask; the response holds the arguments to
//!   run, whose digest is that of the receipt. Whoever stops waiting loses nothing, and whoever ends the session cancels the question.
//! - *Whose it is, the token says.* Sessions of one agent are none of another's, however they are named.
//! - *Everything is bounded*: bodies, requests at once, streams, decisions that are kept, and how long they are.
//!
//! Limits: decisions, those who are called back for them, and idempotency keys are in memory and end with the process. Errors are problem details (RFC 9457).

mod answers;
mod approvals;
mod asked;
mod callbacks;
mod callers;
mod configuration;
mod decisions;
mod document;
mod events;
mod filter;
mod grants;
mod idempotency;
mod judge;
mod records;
mod stream;
mod table;
mod tokens;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::AgentId;
use backstop_store::{Answerer, People, Scope};
use backstop_surfaces::Callback;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::sync::Semaphore;

use self::asked::{Asked, Reply, read_body};
pub(super) use self::asked::{read_bounded, read_within};
use self::callbacks::Callbacks;
use self::callers::Judged;
use self::decisions::Decisions;
use self::idempotency::Idempotency;
use self::stream::Streams;
use self::table::{Handle, Handling, Sought, Table};
use super::Shared;
use super::answer::AnswerBody;
use super::operators::{Denied, Problem, told};
use crate::access::Holder;

/// Where the API begins.
const PREFIX: &str = "/-/v1/";
/// The most bytes of a request's body.
const MOST_BYTES: usize = 4 << 20;
/// How many requests there may be at once by which agents are judged, those that wait for an answer among them, and how many others.
const MOST_REQUESTS: usize = 1_024;
/// How many bytes of bodies there may be at once.
const MOST_BODIES: usize = 64 << 20;
/// How much a permit for bytes stands for.
const PIECE: usize = 16 << 10;

/// Returns the OpenAPI document (3.1) of the API, as it is served at `/-/v1/openapi.json`.
pub fn openapi() -> Value {
    document::document(TABLE.routes())
}

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

/// What all requests of the API share, for as long as the gateway runs.
#[derive(Debug)]
pub(super) struct Api {
    decisions: Decisions,
    callbacks: Arc<Callbacks>,
    idempotency: Idempotency,
    /// Places of requests by which agents are judged, and of all others.
    judged: Arc<Semaphore>,
    requests: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    /// Configurations are checked one after the other.
    pub(super) checking: Arc<Semaphore>,
    streams: Streams,
    /// What was judged, by those for whom.
    counted: Judged,
}

impl Default for Api {
    fn default() -> Self {
        Self {
            decisions: Decisions::default(),
            callbacks: Arc::default(),
            idempotency: Idempotency::default(),
            judged: Arc::new(Semaphore::new(MOST_REQUESTS)),
            requests: Arc::new(Semaphore::new(MOST_REQUESTS)),
            bodies: Arc::new(Semaphore::new(MOST_BODIES / PIECE)),
            checking: Arc::new(Semaphore::new(1)),
            streams: Streams::default(),
            counted: Judged::default(),
        }
    }
}

impl Api {
    /// Goes on with the hooks in force, for those who listen to events.
    pub(super) fn go_on_with(&self, engine: Option<&Engine>) {
        self.streams.hub.go_on_with(engine);
    }

    /// Calls these servers from now on, also for decisions that wait already.
    pub(super) fn calls(&self, callbacks: &BTreeMap<String, Arc<Callback>>) {
        self.callbacks.set(callbacks);
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Whoever holds an access token with scopes.
    Holder(Arc<Holder>),
    /// An operator, who only reads.
    Operator,
}

impl Caller {
    fn may(&self, scope: Option<Scope>) -> bool {
        match (self, scope) {
            (_, None) => true,
            (Self::Holder(holder), Some(scope)) => holder.scopes.contains(&scope),
            (Self::Operator, Some(scope)) => scope == Scope::Read,
        }
    }

    /// Returns who it is, for the record.
    fn name(&self) -> String {
        match self {
            Self::Holder(holder) => {
                let who = holder.user.as_deref().or(holder.agent.as_ref().map(AgentId::as_str));
                format!("{}, by the API (token {})", who.unwrap_or("somebody"), holder.id)
            }
            Self::Operator => "an operator, by the API".to_owned(),
        }
    }

    /// Returns who answers, as a person of the configuration where it is one.
    fn answerer(&self, people: &Arc<People>) -> Answerer {
        match self {
            Self::Holder(holder) => holder.answerer(people, self.name()),
            Self::Operator => self.name().into(),
        }
    }

    /// Returns what sets it apart from all others.
    fn key(&self) -> &str {
        match self {
            Self::Holder(holder) => holder.id.as_str(),
            Self::Operator => "",
        }
    }
}

/// Returns whether a path is one of the API.
pub(super) fn is_below(path: &str) -> bool {
    path.starts_with(PREFIX)
}

/// Answers a request whose path [is one of the API](is_below), and whose host is known.
pub(super) async fn answer(shared: &Arc<Shared>, head: Parts, body: Incoming) -> Response<AnswerBody> {
    let answered = answered(shared, head, body).await;
    answered.unwrap_or_else(|problem| problem.response())
}

async fn answered(
    shared: &Arc<Shared>,
    head: Parts,
    body: Incoming,
) -> Result<Response<AnswerBody>, Problem> {
    // Whoever has no token learns nothing of what there is.
    let caller = caller(shared, &head)?;
    let path = head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    let (route, path) = match TABLE.find(&head.method, path) {
        Sought::Found(route, path) => (route, path),
        Sought::OtherMethods(methods) => return Err(Problem::other_method(&methods)),
        Sought::Nothing => return Err(Problem::no_route()),
    };
    if !caller.may(route.scope) {
        return Err(Problem::scope(route.scope.map_or("", Scope::as_str)));
    }
    let api = &shared.api;
    // Agents that are judged take no place from people who answer.
    let places = if route.scope == Some(Scope::Judge) { &api.judged } else { &api.requests };
    let _place = Arc::clone(places).try_acquire_owned().map_err(|_| Problem::api_busy())?;
    let (body, _bytes) = read_body(&head, body, &api.bodies, shared.timeouts.body).await?;
    let life = match &caller {
        Caller::Holder(holder) => Some(holder.life.clone()),
        Caller::Operator => None,
    };
    let asked = Asked {
        shared: Arc::clone(shared),
        caller,
        path,
        query: head.uri.query().unwrap_or_default().to_owned(),
        has_json: asked::has_json(&head.headers),
        body,
        last_event: asked::last_event(&head.headers),
    };
    let ended = async {
        match life {
            Some(life) => life.over().await,
            None => std::future::pending().await,
        }
    };
    // Whoever's token ends meanwhile is told nothing more.
    tokio::select! {
        // Looked at first: a token may have ended while the body came.
        biased;
        () = ended => Err(Problem::denied(Denied::Token)),
        done = async {
            match &route.handle {
                Handle::Once(handle) => told_now(once(handle, &head, asked).await?).await,
                Handle::Stream(handle) => handle(asked).await,
            }
        } => done,
    }
}

/// Does what is asked, once for each idempotency key.
async fn once(handle: &'static Handling, head: &Parts, asked: Asked) -> Result<Reply, Problem> {
    let api = Arc::clone(&asked.shared.api);
    let Some(key) = idempotency::key(&head.headers)?.filter(|_| head.method != Method::GET) else {
        return handle(asked).await;
    };
    let (method, address) = (head.method.clone(), head.uri.to_string());
    // In a task of its own: whoever lost the connection asks once more and is told what came of it.
    let doing = tokio::spawn(async move {
        let request = (method.as_str(), address, &asked.body[..]);
        api.idempotency.once(asked.caller.key(), &key, request, || handle(asked.clone())).await
    });
    doing.await.unwrap_or_else(|_| Err(Problem::failed()))
}

fn caller(shared: &Shared, head: &Parts) -> Result<Caller, Problem> {
    let given = super::operators::bearer_of(&head.headers).ok_or(Problem::api_token())?;
    if let Some(holder) = shared.access_tokens.api_holder(given) {
        return Ok(Caller::Holder(Arc::new(holder)));
    }
    if shared.access_tokens.may_be_one(given) {
        // Whoever is told that its token is wrong does not ask again.
        return Err(Problem::tokens());
    }
    // The same problem, whoever is an operator here, and whether anybody is.
    shared.access.check(&head.headers).map(|()| Caller::Operator).map_err(|_| Problem::api_token())
}

/// Makes a response of a reply. INVARIANT (a permit is used where it is read): that a call may run is read here, on the connection of whoever is told: what
/// nobody waits for any more is told to whoever asks next.
async fn told_now(reply: Reply) -> Result<Response<AnswerBody>, Problem> {
    let (status, location, body) = match reply {
        Reply::Is { status, location, body } => (status, location, body),
        Reply::Made(made) => {
            let decision = made.read(None).await?.decided(None);
            (StatusCode::OK, None, serde_json::to_value(decision).map_err(|_| Problem::failed())?)
        }
    };
    Ok(response(status, location, &body))
}

fn response(status: StatusCode, location: Option<String>, body: &Value) -> Response<AnswerBody> {
    let mut response = match body {
        Value::Null => {
            let mut empty = Response::new(AnswerBody::whole(bytes::Bytes::new()));
            *empty.status_mut() = StatusCode::NO_CONTENT;
            empty
        }
        body => told(status, "application/json", body.to_string()),
    };
    if let Some(location) = location.and_then(|location| HeaderValue::try_from(location).ok()) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// The longest that a request may wait for a decision.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
