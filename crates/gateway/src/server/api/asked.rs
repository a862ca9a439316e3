//! One request of the API: its body and query, read whole and within bounds, and what is replied.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::misreads_whole_number;
use bytes::{Bytes, BytesMut};
use http::request::Parts;
use http::{HeaderMap, StatusCode, header};
use hyper::body::{Body as _, Incoming};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use url::form_urlencoded;

use super::super::Shared;
use super::super::operators::Problem;
use super::decisions::Made;
use super::{Caller, LONGEST_WAIT, MOST_BYTES, PIECE};

/// What is asked.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) shared: Arc<Shared>,
    pub(super) caller: Caller,
    /// The parts of the path that the route leaves open, in their order.
    pub(super) path: Vec<String>,
    pub(super) query: String,
    pub(super) has_json: bool,
    pub(super) body: Bytes,
    /// The last event that whoever asks knows of a stream.
    pub(super) last_event: Option<String>,
}

impl Asked {
    /// Returns the first part of the path that the route leaves open.
    pub(super) fn name(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Returns the hooks of now.
    pub(super) fn engine(&self) -> Result<&Engine, Problem> {
        self.shared.interceptor.engine().ok_or(Problem::no_route())
    }

    /// Reads the body as a `T`.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let wrong = |error: serde_json::Error| Problem::body(without_values(&error.to_string()));
        if self.body.is_empty() {
            return serde_json::from_value(Value::Object(Map::new())).map_err(wrong);
        }
        if !self.has_json {
            return Err(Problem::media());
        }
        serde_json::from_slice(&self.body).map_err(wrong)
    }

    /// Refuses a body with a whole number that some readers take for another one.
    pub(super) fn check_numbers(&self) -> Result<(), Problem> {
        if misreads_whole_number(&self.body) {
            let told = "it has a whole number that 64 bits don't hold, which some readers take for another one: send it as a text";
            return Err(Problem::body(told.to_owned()));
        }
        Ok(())
    }

    /// Reads the query as a `T`. No name stands twice in it.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let mut pairs = Map::new();
        for (name, value) in form_urlencoded::parse(self.query.as_bytes()) {
            if pairs.insert(name.into_owned(), Value::String(value.into_owned())).is_some() {
                return Err(Problem::query("a name stands in it twice".to_owned()));
            }
        }
        let wrong = |error: serde_json::Error| Problem::query(without_values(&error.to_string()));
        serde_json::from_value(Value::Object(pairs)).map_err(wrong)
    }
}

/// What an error of a reader says, without what it quotes of the request: that may be what hooks take out of texts. What was expected
/// is said by names of our own.
pub(super) fn without_values(error: &str) -> String {
    if error.starts_with("missing field `") {
        return error.to_owned();
    }
    let (complaint, expected) = error.rsplit_once(", expected").unwrap_or((error, ""));
    let complaint = complaint.split(['"', '`']).next().unwrap_or_default().trim_end();
    match expected {
        "" => complaint.to_owned(),
        expected => format!("{complaint}, expected{expected}"),
    }
}

/// What is replied.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// This.
    Is {
        status: StatusCode,
        location: Option<String>,
        /// `null` for nothing.
        body: Value,
    },
    /// What was decided about a tool call, as it is when whoever asked is told.
    Made(Arc<Made>),
}

/// A response in its own type.
#[derive(Debug)]
pub(super) enum Answer<T> {
    /// This.
    Is { status: StatusCode, location: Option<String>, body: T },
    /// What was decided about a tool call.
    Made(Arc<Made>),
}

impl<T> From<T> for Answer<T> {
    fn from(body: T) -> Self {
        Self::Is { status: StatusCode::OK, location: None, body }
    }
}

impl<T: Serialize> Answer<T> {
    pub(super) fn reply(self) -> Result<Reply, Problem> {
        Ok(match self {
            Self::Is { status, location, body } => {
                let body = serde_json::to_value(&body).map_err(|_| Problem::failed())?;
                Reply::Is { status, location, body }
            }
            Self::Made(made) => Reply::Made(made),
        })
    }
}

impl Reply {
    /// Returns how many bytes are kept where it is.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Is { body, .. } => body.to_string().len(),
            Self::Made(made) => made.bytes(),
        }
    }
}

/// Nothing: no query, or no body.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Empty {}

/// Nothing to be said: it is done.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Done;

/// A number of a query, such as `20`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Number(u64);

impl JsonSchema for Number {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "format": "uint64", "minimum": 0, "maximum": u64::MAX })
    }
}

impl TryFrom<String> for Number {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        text.parse().map(Self).map_err(|_| "a number was expected")
    }
}

impl Number {
    pub(super) fn get(self) -> u64 {
        self.0
    }
}

/// How long a request waits for what has not happened yet.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Waits {
    /// How many seconds the request waits for the decision, at most 60; 0 where absent.
    #[serde(default)]
    #[schemars(range(max = 60))]
    wait: Option<Number>,
}

impl Waits {
    pub(super) fn time(&self) -> Duration {
        self.wait.map_or(Duration::ZERO, |wait| Duration::from_secs(wait.get()).min(LONGEST_WAIT))
    }
}

/// Which part of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// The most entries, from 1 to 1000; 100 where absent.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000))]
    pub(super) limit: Option<Number>,
}

/// The most entries of a list.
pub(super) fn limit(limit: Option<Number>) -> Result<usize, Problem> {
    let number = limit.map_or(100, Number::get);
    match usize::try_from(number) {
        Ok(number @ 1..=1_000) => Ok(number),
        _ => Err(Problem::query("`limit` is a number from 1 to 1000".to_owned())),
    }
}

/// Returns the last event of a stream that is known. An empty one is none, as browsers send it at first.
pub(super) fn last_event(headers: &HeaderMap) -> Option<String> {
    let last = headers.get("last-event-id")?.to_str().ok()?;
    (!last.is_empty()).then(|| last.to_owned())
}

/// Returns whether the body is said to be JSON.
pub(super) fn has_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// Reads a body, and holds room for it.
pub(super) async fn read_body(
    head: &Parts,
    body: Incoming,
    room: &Arc<Semaphore>,
    patience: Duration,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    if body.is_end_stream() {
        return Ok((Bytes::new(), None));
    }
    let said = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let most: usize = said.unwrap_or(MOST_BYTES);
    if most > MOST_BYTES {
        return Err(Problem::too_large(MOST_BYTES));
    }
    let pieces = u32::try_from(most.div_ceil(PIECE).max(1)).unwrap_or(u32::MAX);
    let permit = Arc::clone(room).try_acquire_many_owned(pieces).map_err(|_| Problem::api_busy())?;
    Ok((read_within(body, most, MOST_BYTES, patience).await?, Some(permit)))
}

/// Reads a body of at most `most` bytes.
pub(in crate::server) async fn read_bounded(
    head: &Parts,
    body: Incoming,
    most: usize,
    patience: Duration,
) -> Result<Bytes, Problem> {
    let said = head.headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    if said.is_some_and(|said: usize| said > most) {
        return Err(Problem::too_large(most));
    }
    read_within(body, most, most, patience).await
}

/// Reads a body of at most `most` bytes; `told` is what may be sent, for whoever sends more.
pub(in crate::server) async fn read_within(
    mut body: Incoming,
    most: usize,
    told: usize,
    patience: Duration,
) -> Result<Bytes, Problem> {
    let mut whole = BytesMut::new();
    let reading = async {
        while let Some(frame) = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let Ok(data) = frame.map_err(|_| Problem::broken())?.into_data() else { continue };
            if whole.len().saturating_add(data.len()) > most {
                return Err(Problem::too_large(told));
            }
            whole.extend_from_slice(&data);
        }
        Ok(())
    };
    timeout(patience, reading).await.map_err(|_| Problem::slow())??;
    Ok(whole.freeze())
}
