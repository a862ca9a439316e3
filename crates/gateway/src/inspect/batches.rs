//! Batches of Anthropic Messages: many requests in one body, and their answers as the lines of one document.
//!
//! Each request of a batch is judged like one that is sent alone, and each answer like one that comes alone: what was
//! rewritten is put in its place, and everything else stays. A request that is refused refuses its batch, since a provider takes
//! it as a whole or not at all. What can't be read as a whole is refused, a batch as well as a document of answers. Each answer
//! is a conversation of its own, named by its batch and its id, and is told of in the span of its request
//! ([`batched`](super::batched)).
//!
//! The ids of a batch are shown as words, and what the provider says of a batch is judged like any [state](super::held).
//!
//! Limits: a document of answers is held until all of it was judged, so it is bounded like an answer is.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_engine::aside;
use backstop_llm::wire::{parse_line, parse_request};
use backstop_llm::{Api, RequestTarget};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use serde_json::{Map, Value};

use super::batched::{Counted, withdraw};
use super::exchange::InspectedExchange;
use super::form::{Answers, Form, Kind};
use super::heads::unjudgeable;
use super::held::{HeldAnswer, HeldState, Line};
use super::lines::{Written, alone, has_only, lines, unusable};
use super::{ActiveHooks, Shared};
use crate::endpoint::{normal, unescaped};
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Reply, Requested, Step, Watch};
use crate::operations::{Batch, Permission, batch};

/// What a line says of a request that was not answered.
const UNANSWERED: [&str; 2] = ["canceled", "expired"];

/// The longest id of a request.
const LONGEST_ID: usize = 64;

/// The most bytes of the state of a batch.
const STATE_BYTES: usize = 256 << 10;

/// A request about a batch and its answer, inspected by hooks: its creation, its state or the document of its answers.
#[derive(Debug)]
pub(super) struct BatchExchange {
    what: Batch,
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    /// What each request and each answer of it goes like.
    sample: InspectedExchange,
    provider: String,
    /// What has come of the document of answers.
    came: BytesMut,
    /// The state of a batch, or an error.
    state: HeldState,
    /// Whether a document of answers comes.
    is_document: bool,
    /// The batch whose answers these are.
    batch: String,
    /// The requests that were let through, by their ids, until the provider took them.
    counted: Vec<(String, Arc<Counted>)>,
    /// Whether the provider may have been asked.
    is_judged: bool,
}

impl BatchExchange {
    /// What judges this request; `None` if it is about no batch.
    pub(super) fn of(shared: &Arc<Shared>, active_hooks: ActiveHooks, call: &Call<'_>) -> Option<Self> {
        let path = normal(call.path).ok().filter(|_| call.permission == Permission::Read)?;
        let what = batch(call.method, &path)?;
        let form = Form { api: Api::AnthropicMessages, kind: Kind::Ask(RequestTarget::default()) };
        let sample = InspectedExchange::new(Arc::clone(shared), active_hooks, form, call);
        let (sample, batch) = match what {
            Batch::Requests => (sample, String::new()),
            Batch::Answers => (sample.of_no_session(), batch_of(call.path)),
        };
        Some(Self {
            what,
            shared: Arc::clone(shared),
            active_hooks,
            sample,
            provider: String::new(),
            came: BytesMut::new(),
            state: HeldState::new(active_hooks, STATE_BYTES),
            is_document: false,
            batch,
            counted: Vec::new(),
            is_judged: false,
        })
    }

    /// Judges the requests of a batch one after the other.
    async fn requests(&mut self, body: &Body<'_>) -> Result<Requested, Requested> {
        let mut asked = parse_request(body.bytes).map_err(|error| self.sample.unreadable(&error))?;
        let (mut is_rewritten, mut ids) = (false, Vec::new());
        for (id, params) in requests_of(&mut asked).map_err(|why| self.sample.unreadable(&why))? {
            ids.push(id.clone());
            let bytes = Bytes::from(params.to_string());
            let mut one = self.sample.like(Kind::Ask(RequestTarget::default()));
            match one.request(&Body { bytes: &bytes, provider: body.provider }).await {
                Requested::Unchanged => {}
                Requested::Replaced(new) => {
                    *params = serde_json::from_slice(&new).map_err(|error| self.sample.unreadable(&error))?;
                    is_rewritten = true;
                }
                Requested::Reply(reply) => return Err(Requested::Reply(reply)),
            }
            self.counted.extend(one.counted().map(|counted| (id, Arc::new(counted))));
        }
        if let Some(refused) = self.noted(&ids, body.provider).await {
            return Err(refused);
        }
        Ok(if is_rewritten { Requested::Replaced(asked.to_string().into()) } else { Requested::Unchanged })
    }

    /// Shows hooks the ids of requests; `None` if they may pass.
    async fn noted(&mut self, ids: &[String], provider: &str) -> Option<Requested> {
        if !self.active_hooks.request || ids.is_empty() {
            return None;
        }
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        self.sample.noted_words(&ids, provider).await
    }

    /// Nothing comes of the requests that were let through.
    fn withdraw(&mut self) {
        let counted = self.counted.drain(..).map(|(_, counted)| counted).collect();
        withdraw(&self.shared, counted);
    }

    /// Judges a document of answers; answers what leaves of it.
    async fn lines(&mut self, document: &[u8]) -> Result<Bytes, String> {
        let mut written = Written::default();
        for line in lines(document)? {
            let new = match line.said {
                "" => None,
                said => self.line(said).await.map_err(|why| format!("line {} {why}", line.number))?,
            };
            written.push(line, new.as_ref());
        }
        Ok(written.finish())
    }

    /// Judges one line; answers what stands in its place, if that is another.
    async fn line(&mut self, line: &str) -> Result<Option<Value>, String> {
        let said = aside(line.len(), || parse_line(line.as_bytes()));
        let mut said = said.map_err(|error| error.to_string())?;
        let (id, result) = match &mut said {
            Value::Object(fields) if has_only(fields, &["custom_id", "result"]) => {
                (id_of(fields), fields.get_mut("result"))
            }
            _ => (None, None),
        };
        let Some((id, Value::Object(result))) = id.zip(result) else {
            return Err("is no answer of a batch".to_owned());
        };
        let counted = self.shared.batched.find(&self.batch, &id);
        let kind = result.get("type").and_then(Value::as_str).unwrap_or_default();
        let is_unanswered = UNANSWERED.contains(&kind) && has_only(result, &["type"]);
        let mut judge = Line::of(&self.shared, self.active_hooks, &self.sample, &self.batch, &self.provider);
        if let Some(judge) = &mut judge {
            judge.ids(&[Some(&id.as_str().into())]).await?;
        }
        if is_unanswered || (kind == "errored" && is_error(result)) {
            withdraw(&self.shared, counted.into_iter().collect());
            let error = result.get_mut("error").filter(|_| !is_unanswered);
            let Some((error, judge)) = error.zip(judge.as_mut()) else { return Ok(None) };
            let Some(new) = judge.error(error).await? else { return Ok(None) };
            *error = new;
            return Ok(Some(said));
        }
        let message = match kind {
            "succeeded" if has_only(result, &["type", "message"]) => result.get("message"),
            _ => None,
        };
        let Some(message) = message else { return Err("has no message and no error".to_owned()) };
        let came = Bytes::from(message.to_string());
        let (status, left) = self.message(came.clone(), &id, counted.as_deref()).await;
        if status.is_success() && left == came {
            return Ok(None);
        }
        let left: Value = serde_json::from_slice(&left).map_err(|_| "can't be judged".to_owned())?;
        let (kind, field) = if status.is_success() { ("succeeded", "message") } else { ("errored", "error") };
        *result = Map::from_iter([("type".to_owned(), kind.into()), (field.to_owned(), left)]);
        Ok(Some(said))
    }

    /// Judges a message as if it had come alone; answers the status and the body that leave.
    async fn message(&mut self, message: Bytes, id: &str, counted: Option<&Counted>) -> (StatusCode, Bytes) {
        let span = counted.and_then(|counted| counted.call.trace);
        let response = format!("{}/{id}", self.batch);
        let one = self.sample.fetching(Answers::Wire(Api::AnthropicMessages), response).in_span(span);
        alone(one, &self.provider, message).await
    }

    /// Whether what comes is held until it was judged.
    fn holds(&self) -> bool {
        self.what == Batch::Answers && self.active_hooks.gates_answers()
    }

    fn unusable(&self, why: &str) -> Reply {
        unusable(self.sample.family(), why)
    }
}

#[async_trait]
impl Exchange for BatchExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        body.provider.clone_into(&mut self.provider);
        match self.what {
            Batch::Requests => {
                let said = self.requests(body).await.unwrap_or_else(|refused| refused);
                if matches!(said, Requested::Reply(_)) {
                    self.withdraw();
                }
                self.is_judged = true;
                said
            }
            Batch::Answers => Requested::Unchanged,
        }
    }

    fn unanswered(&mut self) {
        self.withdraw();
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        if let Some(why) = self.active_hooks.decides().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(self.unusable(why));
        }
        if self.what == Batch::Requests && !answered.status.is_success() {
            self.withdraw();
        }
        answered.provider.clone_into(&mut self.provider);
        self.is_document = self.what == Batch::Answers && answered.status.is_success();
        if self.is_document {
            return Watch::Look { keep_alive: None };
        }
        let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, "batch", answered);
        self.state.begin(judge, answered.status)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        if !self.is_document {
            return self.state.push(chunk, self.sample.family(), out);
        }
        let limit = self.shared.settings.answer_bytes;
        // What is too long is not kept, but the byte that says so.
        let room = limit.saturating_add(1).saturating_sub(self.came.len());
        self.came.extend_from_slice(chunk.get(..room).unwrap_or(&chunk));
        if !self.holds() {
            out.push(chunk);
            return Step::Continue;
        }
        if self.came.len() <= limit {
            return Step::Continue;
        }
        let why = format!("more than {limit} bytes of it would have to be held to judge it");
        let _ = out.replace(self.unusable(&why));
        Step::End
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        if self.is_document {
            return Step::Decide;
        }
        let (state, step) = self.state.finish(|_| true, self.sample.family(), out);
        // Its id connects the requests with their answers.
        if let Some(batch) = state.as_ref().and_then(|state| state.get("id")?.as_str()) {
            self.shared.batched.keep(batch, std::mem::take(&mut self.counted));
        }
        step
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        if !self.is_document {
            return self.state.decide(out).await;
        }
        let document = self.came.split().freeze();
        match self.lines(&document).await {
            // Where nobody judges it has left, and was read for what it cost.
            _ if !self.holds() => {}
            Ok(judged) => out.push(judged),
            // Nothing of it has left.
            Err(why) => {
                let _ = out.replace(self.unusable(&why));
            }
        }
        Step::End
    }
}

/// Requests that were judged when their client went away were never sent.
impl Drop for BatchExchange {
    fn drop(&mut self) {
        if !self.is_judged {
            self.withdraw();
        }
    }
}

/// The batch in `/v1/messages/batches/<id>/results`.
fn batch_of(path: &str) -> String {
    let id = path.trim_end_matches('/').rsplit('/').nth(1);
    id.and_then(|id| unescaped(id).ok()).unwrap_or_default()
}

/// The id of a request, of the form that the wire gives it.
fn id_of(fields: &Map<String, Value>) -> Option<String> {
    let id = fields.get("custom_id")?.as_str()?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    ((1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(is_plain)).then(|| id.to_owned())
}

/// Whether what failed says so as the wire does: `{"type": "error", "error": {"type": .., "message": ..}}`.
fn is_error(result: &Map<String, Value>) -> bool {
    let Some(Value::Object(error)) = result.get("error").filter(|_| has_only(result, &["type", "error"]))
    else {
        return false;
    };
    let Some(Value::Object(told)) = error.get("error") else { return false };
    let is_id = |id: &Value| id.is_null() || id.is_string();
    has_only(error, &["type", "error", "request_id"])
        && error.get("type").and_then(Value::as_str) == Some("error")
        && error.get("request_id").is_none_or(is_id)
        && has_only(told, &["type", "message"])
        && ["type", "message"].iter().all(|key| told.get(*key).is_some_and(Value::is_string))
}

/// The requests in a batch: their ids, each once, and their bodies.
fn requests_of(batch: &mut Value) -> Result<Vec<(String, &mut Value)>, &'static str> {
    let requests = match batch {
        Value::Object(fields) if has_only(fields, &["requests"]) => fields.get_mut("requests"),
        _ => None,
    };
    let Some(Value::Array(requests)) = requests else { return Err("it is no list of requests") };
    let requests = requests.iter_mut().map(|request| match request {
        Value::Object(fields) if has_only(fields, &["custom_id", "params"]) => {
            id_of(fields).zip(fields.get_mut("params"))
        }
        _ => None,
    });
    let requests: Option<Vec<(String, &mut Value)>> = requests.collect();
    let requests = requests.ok_or(
        "one of its requests has other fields than `params` and a `custom_id` of at most 64 letters, digits, `_` and `-`",
    )?;
    let mut ids = HashSet::new();
    if requests.iter().all(|(id, _)| ids.insert(id.as_str())) {
        Ok(requests)
    } else {
        Err("two of its requests have one `custom_id`")
    }
}
