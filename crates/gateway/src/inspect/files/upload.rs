//! A file that is stored: with the purpose of a batch, each of its lines is a request.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use backstop_hooks::AgentId;
use backstop_llm::live::is_name;
use backstop_llm::wire::parse_request;
use bytes::Bytes;
use http::HeaderMap;
use serde_json::Value;

use super::states::{ONE_STATE_BYTES, is_file};
use super::{Judged, Requests, is_id, key};
use crate::exchange::{Answered, Body, Call, Exchange, Outgoing, Requested, Step, Watch};
use crate::inspect::batched::withdraw;
use crate::inspect::exchange::InspectedExchange;
use crate::inspect::form::parts_of;
use crate::inspect::heads::unjudgeable;
use crate::inspect::held::{HeldAnswer, HeldState};
use crate::inspect::lines::{Written, has_only, lines, unusable};
use crate::inspect::{ActiveHooks, Shared};
use crate::multipart::Form;
use crate::readable::NOTED;

/// What a file is stored for whose lines are requests.
const BATCH: &str = "batch";
/// More requests than a batch has.
const MOST_REQUESTS: usize = 50_000;

/// The upload of a file and its inspection.
#[derive(Debug)]
pub(super) struct UploadExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    sample: InspectedExchange,
    agent: Option<AgentId>,
    /// The type of the body.
    kinds: HeaderMap,
    /// What was judged of it, until the provider took it.
    judged: Option<Judging>,
    /// Whether the provider may have been asked.
    is_judged: bool,
    provider: String,
    /// What the file is called.
    name: Option<String>,
    state: HeldState,
}

/// Requests that are judged.
#[derive(Debug, Default)]
struct Judging {
    url: String,
    requests: Requests,
    /// The ids of all of them.
    ids: BTreeSet<String>,
}

/// Why a file is refused.
enum Refused {
    /// It can't be judged.
    Unreadable(String),
    /// A request in it is refused.
    Request(Requested),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Unreadable(why)
    }
}

impl From<&str> for Refused {
    fn from(why: &str) -> Self {
        Self::Unreadable(why.to_owned())
    }
}

impl UploadExchange {
    /// What judges a file that is stored in parts; `None` if it is stored otherwise, which is for no batch.
    pub(super) fn of(
        shared: Arc<Shared>,
        active_hooks: ActiveHooks,
        sample: InspectedExchange,
        call: &Call<'_>,
    ) -> Option<Self> {
        parts_of(call.headers).map(|kinds| Self {
            shared,
            active_hooks,
            sample,
            agent: call.agent.cloned(),
            kinds,
            judged: None,
            is_judged: false,
            provider: String::new(),
            name: None,
            state: HeldState::new(active_hooks, ONE_STATE_BYTES),
        })
    }

    /// Judges the file, if it is for a batch; answers the body that leaves in place of what came.
    async fn judge(&mut self, body: &Body<'_>) -> Result<Option<Bytes>, Refused> {
        let form = Form::read(&self.kinds, body.bytes.clone()).map_err(|error| error.to_string())?;
        let mut file = None;
        let mut is_batch = false;
        for (position, part) in form.parts().iter().enumerate() {
            match (part.file.is_some() || part.name == "file", form.text(part)) {
                (true, _) if file.is_none() => {
                    self.name.clone_from(&part.file);
                    file = Some((position, form.bytes(part)));
                }
                (true, _) => return Err("it has more than one file".into()),
                (false, Some(word)) if is_name(word) => is_batch |= part.name == "purpose" && word == BATCH,
                (false, _) => return Err("one of its parts is a text, and no file".into()),
            }
        }
        let Some((position, content)) = file.filter(|_| is_batch) else { return Ok(None) };
        match self.lines(&content, body.provider).await? {
            None => Ok(None),
            Some(new) => form
                .with(&[(position, new)])
                .map(Some)
                .ok_or_else(|| "a hook wrote what can't stand in it".into()),
        }
    }

    /// Judges the requests in a file; answers the file with those that were rewritten.
    async fn lines(&mut self, file: &[u8], provider: &str) -> Result<Option<Bytes>, Refused> {
        let (mut written, mut is_rewritten, mut ids) = (Written::default(), false, BTreeSet::new());
        self.judged = Some(Judging::default());
        for line in lines(file)? {
            if line.said.is_empty() {
                written.push(line, None);
                continue;
            }
            let in_line = |why: String| Refused::Unreadable(format!("line {} {why}", line.number));
            let (id, mut said) = request_of(line.said).map_err(in_line)?;
            if !ids.insert(id.clone()) || ids.len() > MOST_REQUESTS {
                return Err(in_line("has the `custom_id` of another, or is one of too many".to_owned()));
            }
            let new = match self.request(&id, &said, provider).await {
                Ok(new) => new,
                Err(Refused::Unreadable(why)) => return Err(in_line(why)),
                Err(refused) => return Err(refused),
            };
            is_rewritten |= new.is_some();
            match new {
                None => written.push(line, None),
                Some(new) => {
                    if let Some(body) = said.get_mut("body") {
                        *body = new;
                    }
                    written.push(line, Some(&said));
                }
            }
        }
        if ids.is_empty() {
            return Err("it has no request".into());
        }
        self.judged.get_or_insert_default().ids = ids;
        Ok(is_rewritten.then(|| written.finish()))
    }

    /// Judges one request; answers the body that stands in the place of its own, if that is another.
    async fn request(&mut self, id: &str, said: &Value, provider: &str) -> Result<Option<Value>, Refused> {
        let url = said.get("url").and_then(Value::as_str).unwrap_or_default();
        let Some(mut one) = self.sample.at(url) else {
            return Err("asks for an operation that is judged in no batch".into());
        };
        let judging = self.judged.get_or_insert_default();
        if judging.requests.is_empty() && judging.url.is_empty() {
            url.clone_into(&mut judging.url);
        } else if judging.url != url {
            return Err("asks for another operation than the first".into());
        }
        let bytes = Bytes::from(said.get("body").unwrap_or(&Value::Null).to_string());
        let new = match one.request(&Body { bytes: &bytes, provider }).await {
            Requested::Unchanged => None,
            Requested::Replaced(new) => {
                Some(serde_json::from_slice(&new).map_err(|_| "can't be written".to_owned())?)
            }
            reply @ Requested::Reply(_) => return Err(Refused::Request(reply)),
        };
        judging.requests.extend(one.counted().map(|counted| (id.to_owned(), Arc::new(counted))));
        Ok(new)
    }

    /// Shows hooks what the body says besides the requests in it; `None` if that may pass.
    async fn noted(&mut self, body: &Body<'_>) -> Option<Requested> {
        if !self.active_hooks.request {
            return None;
        }
        let empty = Judging::default();
        let judging = self.judged.as_ref().unwrap_or(&empty);
        let ids: Vec<&str> = judging.ids.iter().map(String::as_str).collect();
        match self.sample.noted(&NOTED, Some(self.kinds.clone()), body).await {
            Requested::Unchanged if ids.is_empty() => None,
            Requested::Unchanged => self.sample.noted_words(&ids, body.provider).await,
            // What it is called is what its state repeats.
            Requested::Replaced(_) => {
                Some(self.sample.unreadable(&"a hook would change the name of the file"))
            }
            reply @ Requested::Reply(_) => Some(reply),
        }
    }

    /// Nothing comes of the requests that were let through.
    fn withdraw(&mut self) {
        let requests = self.judged.take().into_iter().flat_map(|judged| judged.requests);
        withdraw(&self.shared, requests.map(|(_, counted)| counted).collect());
    }
}

/// The id and the whole of a request, as a line has it.
fn request_of(line: &str) -> Result<(String, Value), String> {
    let said = parse_request(line.as_bytes()).map_err(|error| format!("can't be read: {error}"))?;
    let Value::Object(fields) = &said else { return Err("is no request".to_owned()) };
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let is_one = has_only(fields, &["custom_id", "method", "url", "body"])
        && text("method") == Some("POST")
        && fields.get("body").is_some_and(Value::is_object);
    match text("custom_id").filter(|id| is_one && is_id(id)) {
        Some(id) => Ok((id.to_owned(), said)),
        None => Err(
            "is no request with `custom_id` (a word of at most 128 letters), `method` POST, `url` and `body` alone"
                .to_owned(),
        ),
    }
}

#[async_trait]
impl Exchange for UploadExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        body.provider.clone_into(&mut self.provider);
        let judged = self.judge(body).await;
        let noted = if judged.is_ok() { self.noted(body).await } else { None };
        let said = match judged {
            Ok(_) if let Some(refused) = noted => refused,
            Ok(None) => Requested::Unchanged,
            Ok(Some(new)) => Requested::Replaced(new),
            Err(Refused::Unreadable(why)) => self.sample.unreadable(&why),
            Err(Refused::Request(reply)) => reply,
        };
        if matches!(said, Requested::Reply(_)) {
            self.withdraw();
        }
        self.is_judged = true;
        said
    }

    fn unanswered(&mut self) {
        self.withdraw();
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        answered.provider.clone_into(&mut self.provider);
        if let Some(why) = unjudgeable(answered) {
            self.withdraw();
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        if !answered.status.is_success() {
            self.withdraw();
        }
        let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, "file", answered);
        self.state.begin(judge, answered.status)
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        self.state.push(chunk, self.sample.family(), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        let (is_batch, name) = (self.judged.is_some(), self.name.as_deref());
        // Whose requests were judged is a file, and nothing else.
        let is_closed = |state: Option<&Value>| !is_batch || state.is_some_and(|state| is_file(state, name));
        let (state, step) = self.state.finish(is_closed, self.sample.family(), out);
        let id = state.as_ref().and_then(|state| state.get("id")?.as_str().map(str::to_owned));
        if let Some((id, judged)) = id.zip(self.judged.take()) {
            let Judging { url, requests, .. } = judged;
            let judged = Judged { url, requests: Mutex::new(requests), is_used: AtomicBool::new(false) };
            self.shared.judged_files.keep(key(&self.provider, self.agent.as_ref(), &id), judged);
        }
        step
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        self.state.decide(out).await
    }
}

/// Requests that were judged when their client went away were never sent.
impl Drop for UploadExchange {
    fn drop(&mut self) {
        if !self.is_judged {
            self.withdraw();
        }
    }
}
