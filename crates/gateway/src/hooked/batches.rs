//! Batches of Anthropic Messages: many requests in one body, and their answers as the lines of one document.
//!
//! Each request of a batch is judged like one that is sent alone, and each answer like one that comes alone: what was
//! rewritten is put in its place, and everything else stays. A request that is refused refuses its batch, since a provider takes
//! it as a whole or not at all. What can't be read as a whole is refused, a batch as well as a document of answers.
//!
//! Limits: a document of answers is held until all of it was judged, so it is bounded like an answer is; the provider's words about
//! a request that it did not answer pass as they are.

use std::sync::Arc;

use async_trait::async_trait;
use backstop_llm::wire::{parse_json, parse_request};
use backstop_llm::{Api, ProviderError, ProviderErrorKind, RequestTarget};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Map, Value};

use super::form::{Form, Kind};
use super::heads::unjudgeable;
use super::traffic::Traffic;
use super::{Shared, Standing, reply};
use crate::endpoint::normal;
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Reply, Requested, Step, Watch};
use crate::operations::{Batch, Permission, batch};

/// What a line says of a request that was not answered.
const UNANSWERED: [&str; 3] = ["errored", "canceled", "expired"];

/// A batch, or the answers to one, on their way past the hooks.
#[derive(Debug)]
pub(super) struct BatchTraffic {
    what: Batch,
    shared: Arc<Shared>,
    standing: Standing,
    /// What each request and each answer of it goes like.
    sample: Traffic,
    provider: String,
    answers: BytesMut,
}

impl BatchTraffic {
    /// What judges this request; `None` if it is about no batch.
    pub(super) fn of(shared: &Arc<Shared>, standing: Standing, call: &Call<'_>) -> Option<Self> {
        let path = normal(call.path).ok().filter(|_| call.permission == Permission::Read)?;
        let what = batch(call.method, &path)?;
        let form = Form { api: Api::AnthropicMessages, kind: Kind::Ask(RequestTarget::default()) };
        let sample = Traffic::new(Arc::clone(shared), standing, form, call);
        let (shared, provider, answers) = (Arc::clone(shared), String::new(), BytesMut::new());
        Some(Self { what, shared, standing, sample, provider, answers })
    }

    /// Judges the requests of a batch one after the other.
    async fn requests(&mut self, body: &Body<'_>) -> Result<Requested, Requested> {
        let mut asked = parse_request(body.bytes).map_err(|error| self.sample.unreadable(&error))?;
        let mut is_rewritten = false;
        for params in params_of(&mut asked).map_err(|why| self.sample.unreadable(&why))? {
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
        }
        Ok(if is_rewritten { Requested::Replaced(asked.to_string().into()) } else { Requested::Unchanged })
    }

    /// Judges a document of answers; answers what leaves of it.
    async fn lines(&mut self, document: &[u8]) -> Result<Bytes, String> {
        let text = str::from_utf8(document).map_err(|_| "it is not UTF-8".to_owned())?;
        let mut judged = BytesMut::new();
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let said = line.trim_ascii();
            let new = if said.is_empty() { Ok(None) } else { self.line(said).await };
            match new.map_err(|why| format!("line {number} {why}"))? {
                None => judged.extend_from_slice(line.as_bytes()),
                Some(new) => {
                    judged.extend_from_slice(new.to_string().as_bytes());
                    judged.extend_from_slice(b"\n");
                }
            }
        }
        Ok(judged.freeze())
    }

    /// Judges one line; answers what stands in its place, if that is another.
    async fn line(&mut self, line: &str) -> Result<Option<Value>, String> {
        let mut said = parse_json(line.as_bytes()).map_err(|error| error.to_string())?;
        let result = match &mut said {
            Value::Object(fields) if has_only(fields, &["custom_id", "result"]) => fields.get_mut("result"),
            _ => None,
        };
        let Some(Value::Object(result)) = result else { return Err("is no answer of a batch".to_owned()) };
        let kind = result.get("type").and_then(Value::as_str).unwrap_or_default();
        if UNANSWERED.contains(&kind) && has_only(result, &["type", "error"]) {
            return Ok(None);
        }
        let message = match kind {
            "succeeded" if has_only(result, &["type", "message"]) => result.get("message"),
            _ => None,
        };
        let Some(message) = message else { return Err("has no message and no error".to_owned()) };
        let came = Bytes::from(message.to_string());
        let (status, left) = self.message(came.clone()).await;
        if status.is_success() && left == came {
            return Ok(None);
        }
        let left: Value = serde_json::from_slice(&left).map_err(|_| "can't be judged".to_owned())?;
        let (kind, field) = if status.is_success() { ("succeeded", "message") } else { ("errored", "error") };
        *result = Map::from_iter([("type".to_owned(), kind.into()), (field.to_owned(), left)]);
        Ok(Some(said))
    }

    /// Judges a message as if it had come alone; answers the status and the body that leave.
    async fn message(&mut self, message: Bytes) -> (StatusCode, Bytes) {
        let mut one = self.sample.like(Kind::Fetch { response: String::new() });
        let (nothing, provider) = (Bytes::new(), self.provider.as_str());
        // Nothing is asked, so nothing is refused.
        let _ = one.request(&Body { bytes: &nothing, provider }).await;
        let json = (header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers = HeaderMap::from_iter([json]);
        match one.response(&Answered { provider, status: StatusCode::OK, headers: &headers }) {
            Watch::Opaque => return (StatusCode::OK, message),
            Watch::Refuse(reply) => return (reply.status, reply.body),
            Watch::Look { .. } => {}
        }
        let mut out = Outgoing::new(Response::new(()).into_parts().0);
        let mut step = one.chunk(message, &mut out);
        while step == Step::Decide {
            step = one.decide(&mut out).await;
        }
        if step == Step::Continue {
            step = one.finish(&mut out);
        }
        while step == Step::Decide {
            step = one.decide(&mut out).await;
        }
        let status = out.head_mut().map_or(StatusCode::OK, |head| head.status);
        (status, out.take_data().freeze())
    }

    fn unusable(&self, why: &str) -> Reply {
        let status = StatusCode::BAD_GATEWAY.as_u16();
        let message = format!("backstop: the provider's answer can't be used: {why}");
        reply::error(
            self.sample.family(),
            &ProviderError::new(ProviderErrorKind::Server, status, None, &message),
        )
    }
}

#[async_trait]
impl Exchange for BatchTraffic {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        body.provider.clone_into(&mut self.provider);
        match self.what {
            Batch::Requests => self.requests(body).await.unwrap_or_else(|refused| refused),
            Batch::Answers => Requested::Unchanged,
        }
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        if let Some(why) = self.standing.decides().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(self.unusable(why));
        }
        match self.what {
            Batch::Answers if self.standing.gates_answers() && answered.status.is_success() => {
                answered.provider.clone_into(&mut self.provider);
                Watch::Look { keep_alive: None }
            }
            Batch::Answers | Batch::Requests => Watch::Opaque,
        }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.answers.extend_from_slice(&chunk);
        let limit = self.shared.settings.answer_bytes;
        if self.answers.len() <= limit {
            return Step::Continue;
        }
        let why = format!("more than {limit} bytes of it would have to be held to judge it");
        let _ = out.replace(self.unusable(&why));
        Step::End
    }

    fn finish(&mut self, _: &mut Outgoing) -> Step {
        Step::Decide
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        let document = self.answers.split().freeze();
        match self.lines(&document).await {
            Ok(judged) => out.push(judged),
            // Nothing of it has left.
            Err(why) => {
                let _ = out.replace(self.unusable(&why));
            }
        }
        Step::End
    }
}

/// The bodies of the requests in a batch.
fn params_of(batch: &mut Value) -> Result<Vec<&mut Value>, &'static str> {
    let requests = match batch {
        Value::Object(fields) if has_only(fields, &["requests"]) => fields.get_mut("requests"),
        _ => None,
    };
    let Some(Value::Array(requests)) = requests else { return Err("it is no list of requests") };
    let params = requests.iter_mut().map(|request| match request {
        Value::Object(fields) if has_only(fields, &["custom_id", "params"]) => fields.get_mut("params"),
        _ => None,
    });
    let params: Option<Vec<&mut Value>> = params.collect();
    params.ok_or("one of its requests has other fields than `custom_id` and `params`")
}

fn has_only(fields: &Map<String, Value>, known: &[&str]) -> bool {
    fields.keys().all(|key| known.contains(&key.as_str()))
}
