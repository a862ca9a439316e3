//! Streams of events (`text/event-stream`): questions as they come and end, the trail as it grows, and one decision for whoever is judged.
//!
//! A stream begins with `retry:`; its events have ids by which a reader that was cut off goes on (`last-event-id`), but for those of a decision,
//! which says at once how far it is. A comment is sent where nothing else is for [`COMMENT`]. A stream ends when its token ends or the
//! gateway stops.
//!
//! The law: *no reader holds anything up.* There are [`MOST`] streams, [`MOST_OF_ONE`] of a token, and one whose reader takes nothing for
//! [`STALL`], or is too far behind, ends; it begins again where it was. Those of agents that are judged are counted apart
//! ([`MOST_OF_AGENTS`], [`MOST_OF_AN_AGENT`]) and take no place from people.

mod decision;
mod questions;
mod trail;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::super::operators::Problem;
use super::Caller;
use super::asked::Asked;
use crate::access::{Holder, TokenLife};
use crate::server::answer::{AnswerBody, BrokenOff};

pub(super) use self::decision::decision;
pub(super) use self::questions::{ApprovalEvents, Hub, approvals};
pub(super) use self::trail::{AuditEvents, audit};

/// How many streams there may be, and how many of one token.
const MOST: usize = 64;
const MOST_OF_ONE: usize = 4;
/// How many streams there may be of agents that are judged, and how many of one token.
const MOST_OF_AGENTS: usize = 256;
const MOST_OF_AN_AGENT: usize = 64;
/// How often something is said where there is nothing to say.
const COMMENT: Duration = Duration::from_secs(15);
/// How long a reader may take nothing.
const STALL: Duration = Duration::from_secs(30);
/// How often it is looked for something new.
const TICK: Duration = Duration::from_millis(250);

/// The places of streams.
#[derive(Debug)]
pub(super) struct Streams {
    all: Arc<Semaphore>,
    agents: Arc<Semaphore>,
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    pub(super) hub: Arc<Hub>,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(MOST)),
            agents: Arc::new(Semaphore::new(MOST_OF_AGENTS)),
            by_token: Arc::default(),
            hub: Arc::default(),
        }
    }
}

impl Streams {
    fn take(&self, all: &Arc<Semaphore>, token: &str, most: usize) -> Result<Place, Problem> {
        let permit = Arc::clone(all).try_acquire_owned().map_err(|_| Problem::api_busy())?;
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        let count = by_token.entry(token.to_owned()).or_default();
        if *count >= most {
            return Err(Problem::streams(most));
        }
        *count = count.saturating_add(1);
        Ok(Place { by_token: Arc::clone(&self.by_token), token: token.to_owned(), _permit: permit })
    }
}

/// The place of one stream.
struct Place {
    by_token: Arc<Mutex<HashMap<String, usize>>>,
    token: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_token = self.by_token.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = by_token.get_mut(&self.token) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                by_token.remove(&self.token);
            }
        }
    }
}

/// Where events come from.
trait Source: Send + 'static {
    /// Waits for events that the reader does not know, and returns them as they are written; `None` where it is too far behind, or nothing
    /// comes any more. Nothing is lost where somebody stops waiting.
    fn next(&mut self) -> impl Future<Output = Option<String>> + Send;
}

/// Returns who may have a stream: whoever has a token that ends. That of operators tells nobody when it is another one.
fn place(asked: &Asked) -> Result<(Place, TokenLife), Problem> {
    let Caller::Holder(holder) = &asked.caller else { return Err(Problem::stream_token()) };
    let streams = &asked.shared.api.streams;
    Ok((streams.take(&streams.all, holder.id.as_str(), MOST_OF_ONE)?, holder.life.clone()))
}

/// The same, of an agent that is judged.
fn place_of_agent(asked: &Asked, holder: &Holder) -> Result<(Place, TokenLife), Problem> {
    let streams = &asked.shared.api.streams;
    Ok((streams.take(&streams.agents, holder.id.as_str(), MOST_OF_AN_AGENT)?, holder.life.clone()))
}

/// Opens a stream.
fn open(asked: &Asked, (place, life): (Place, TokenLife), source: impl Source) -> Response<AnswerBody> {
    let (pieces, told) = mpsc::channel(4);
    tokio::spawn(tell(source, pieces, life, asked.shared.operators.stopping(), place));
    let mut response = Response::new(AnswerBody::told(told));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

type Pieces = mpsc::Sender<Result<Bytes, BrokenOff>>;

async fn tell(
    mut source: impl Source,
    pieces: Pieces,
    life: TokenLife,
    mut stopping: watch::Receiver<bool>,
    _place: Place,
) {
    let telling = async {
        let mut is_heard = say(&pieces, "retry: 1500\n\n".to_owned()).await;
        while is_heard {
            is_heard = match timeout(COMMENT, source.next()).await {
                Ok(Some(events)) => say(&pieces, events).await,
                Ok(None) => false,
                Err(_) => say(&pieces, ": here\n\n".to_owned()).await,
            };
        }
    };
    tokio::select! {
        // Looked at first: whoever's token ended is told nothing more.
        biased;
        () = life.over() => {}
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        () = pieces.closed() => {}
        () = telling => {}
    }
}

/// Says something, if somebody takes it in time.
async fn say(pieces: &Pieces, text: String) -> bool {
    matches!(timeout(STALL, pieces.send(Ok(text.into()))).await, Ok(Ok(())))
}

/// An event as it is written. Its data are one line: JSON has no line breaks.
fn written(id: Option<&str>, kind: &str, data: &str) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n")
}
