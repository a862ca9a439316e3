//! What a file holds, when it is fetched: the answers of a batch are judged line by line, and any other text as what a tool
//! brought in.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use backstop_engine::aside;
use backstop_llm::wire::parse_line;
use bytes::{Bytes, BytesMut};
use http::{StatusCode, header};
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::unknown::Judges;
use super::{Source, is_id};
use crate::exchange::{Answered, Body, Exchange, Outgoing, Requested, Step, Watch};
use crate::inspect::batched::withdraw;
use crate::inspect::exchange::InspectedExchange;
use crate::inspect::form::Answers;
use crate::inspect::heads::unjudgeable;
use crate::inspect::held::{HeldAnswer, HeldState, Line};
use crate::inspect::lines::{Written, alone, has_only, lines, unusable};
use crate::inspect::{ActiveHooks, Shared, UnjudgedMedia, reply};

/// Why a file does not pass that is no text.
const NO_TEXT: &str = "it is no text, so that nobody can judge it\nhint: `gateway.hooks.unjudged_media: pass` lets it pass unread";

/// Fields of a line with an answer. One that begins with any but the first is one.
const FIELDS: [&str; 4] = ["id", "custom_id", "response", "error"];

/// The download of a file and its inspection.
#[derive(Debug)]
pub(super) struct ContentExchange {
    shared: Arc<Shared>,
    active_hooks: ActiveHooks,
    sample: InspectedExchange,
    provider: String,
    file: String,
    /// Where it is from, if that is known.
    source: Option<Source>,
    kind: Kind,
    came: BytesMut,
    /// What comes in its place, if that is an error.
    error: HeldState,
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It has not come as a whole.
    Unknown,
    /// The answers of a batch.
    Answers,
    /// Something else.
    Other,
    /// An error in its place.
    Error,
}

impl ContentExchange {
    pub(super) fn new(
        shared: Arc<Shared>,
        active_hooks: ActiveHooks,
        sample: InspectedExchange,
        file: String,
    ) -> Self {
        let (provider, came) = (String::new(), BytesMut::new());
        let error = HeldState::new(active_hooks, shared.settings.answer_bytes);
        Self { shared, active_hooks, sample, provider, file, source: None, kind: Kind::Unknown, came, error }
    }

    /// Whether what comes is held until it was judged.
    fn holds(&self) -> bool {
        self.active_hooks.gates_answers()
    }

    fn unusable(&self, why: &str, out: &mut Outgoing) -> Step {
        let _ = out.replace(unusable(self.sample.family(), why));
        Step::End
    }

    /// Judges a file that is none of answers.
    async fn other(&mut self, file: Bytes, out: &mut Outgoing) -> Step {
        let (call, facts) = self.sample.of_file(&self.file, &self.provider);
        let (shared, active_hooks) = (Arc::clone(&self.shared), self.active_hooks);
        let settings = &shared.settings;
        let judges =
            Judges { engine: &shared.engine, active_hooks, text: settings.text, call: &call, facts: &facts };
        let media = settings.unjudged_media;
        match str::from_utf8(&file) {
            _ if !judges.are_any() || file.is_empty() => out.push(file),
            Ok(text) => match judges.judge(&self.file, text).await {
                Ok(left) if left.as_str() == text => out.push(file),
                Ok(left) => out.push(Bytes::copy_from_slice(left.as_str().as_bytes())),
                Err(blocked) => {
                    // Nothing of it has left.
                    let _ = out.replace(reply::error(self.sample.family(), &reply::error_of(&blocked)));
                }
            },
            Err(_) if media == UnjudgedMedia::Pass => out.push(file),
            Err(_) => return self.unusable(NO_TEXT, out),
        }
        Step::End
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
        let none = || "is no answer of a batch".to_owned();
        let fields = said.as_object_mut().filter(|fields| has_only(fields, &FIELDS)).ok_or_else(none)?;
        let is_word = |value: Option<&Value>| value.is_none_or(is_word);
        let id = fields.get("custom_id").and_then(Value::as_str).filter(|id| is_id(id)).map(str::to_owned);
        let id = id.filter(|_| is_word(fields.get("id"))).ok_or_else(none)?;
        let batch = self.source.as_ref().map(|source| source.batch.as_str());
        let counted = batch.and_then(|batch| self.shared.batched.find(batch, &id));
        let about = batch.unwrap_or(&self.file);
        let mut judge = Line::of(&self.shared, self.active_hooks, &self.sample, about, &self.provider);
        if let Some(judge) = &mut judge {
            let request = fields.get("response").and_then(|response| response.get("request_id"));
            judge.ids(&[fields.get("custom_id"), fields.get("id"), request]).await?;
        }
        if is_error(fields) {
            withdraw(&self.shared, counted.into_iter().collect());
            let Some(judge) = &mut judge else { return Ok(None) };
            let place =
                if fields.get("error").is_some_and(Value::is_object) { "/error" } else { "/response/body" };
            let Some(error) = said.pointer_mut(place) else { return Ok(None) };
            let Some(new) = judge.error(error).await? else { return Ok(None) };
            *error = new;
            return Ok(Some(said));
        }
        if !fields.get("error").is_none_or(Value::is_null) {
            return Err("has no answer and no error".to_owned());
        }
        let response = fields.get_mut("response").and_then(Value::as_object_mut);
        let response = response.filter(|response| {
            has_only(response, &["status_code", "request_id", "body"])
                && is_word(response.get("request_id"))
                && response.get("status_code").is_none_or(Value::is_u64)
        });
        let Some(response) = response else { return Err("has no answer and no error".to_owned()) };
        let body = response.get("body").filter(|body| body.is_object()).ok_or_else(none)?;
        let answers = match &self.source {
            Some(source) => Answers::to(&source.url),
            None => Answers::of(body),
        };
        let answers = answers.ok_or("answers what is judged in no batch")?;
        let came = Bytes::from(body.to_string());
        let span = counted.as_deref().and_then(|counted| counted.call.trace);
        let named = format!("{}/{id}", batch.unwrap_or(&self.file));
        let one = self.sample.fetching(answers, named).in_span(span);
        let (status, left) = alone(one, &self.provider, came.clone()).await;
        if status.is_success() && left == came {
            return Ok(None);
        }
        let left: Value = serde_json::from_slice(&left).map_err(|_| "can't be judged".to_owned())?;
        response.insert("body".to_owned(), left);
        if !status.is_success() {
            response.insert("status_code".to_owned(), status.as_u16().into());
        }
        Ok(Some(said))
    }

    /// What a file is that nobody knows, told by all of its lines.
    fn look(&self) -> Kind {
        let came = String::from_utf8_lossy(&self.came);
        let mut lines = came.split(ends_a_line).map(|line| line.trim_matches(is_blank));
        let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
        if is_answer(first, true) || lines.any(|line| is_answer(line, false)) {
            Kind::Answers
        } else {
            Kind::Other
        }
    }
}

/// Whether some reader ends a line there.
fn ends_a_line(letter: char) -> bool {
    matches!(
        letter,
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}

/// Whether a letter is shown by nobody: the mark in front of a text is, too.
fn is_blank(letter: char) -> bool {
    letter.is_whitespace() || letter == '\u{feff}'
}

/// Whether somebody may take a line for an answer of a batch. A key that stands there twice makes it one, too, and so does what
/// only some readers can read: any object `at_first`, and behind that one in which a field of an answer may stand.
fn is_answer(line: &str, at_first: bool) -> bool {
    if !line.starts_with('{') {
        return false;
    }
    match serde_json::from_str::<Named>(line) {
        Ok(Named(is_named)) => is_named,
        Err(_) => at_first || line.contains("\\u") || of_answers().any(|field| line.contains(field)),
    }
}

/// The fields of which one makes a line an answer.
fn of_answers() -> impl Iterator<Item = &'static str> {
    FIELDS.into_iter().skip(1)
}

/// Whether an object has a field of an answer. What stands in its fields is passed over: of a file that is none of ours it may
/// be anything, and as much as there is.
struct Named(bool);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Names)
    }
}

struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = Named;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Named, A::Error> {
        let mut named = false;
        while let Some(name) = fields.next_key::<String>()? {
            named |= of_answers().any(|field| field == name);
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(Named(named))
    }
}

#[async_trait]
impl Exchange for ContentExchange {
    async fn request(&mut self, body: &Body<'_>) -> Requested {
        body.provider.clone_into(&mut self.provider);
        Requested::Unchanged
    }

    fn response(&mut self, answered: &Answered<'_>) -> Watch {
        answered.provider.clone_into(&mut self.provider);
        self.source = self.shared.answer_files.find(&self.provider, &self.file);
        if let Some(why) = self.holds().then(|| unjudgeable(answered)).flatten() {
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        if !answered.status.is_success() {
            self.kind = Kind::Error;
            let judge = HeldAnswer::of(&self.shared, self.active_hooks, &self.sample, &self.file, answered);
            return self.error.begin(judge, answered.status);
        }
        let is_piece = answered.status == StatusCode::PARTIAL_CONTENT
            || answered.headers.contains_key(header::CONTENT_RANGE);
        if is_piece && self.holds() {
            let why = "a piece of a file can't be judged; fetch the whole of it";
            return Watch::Refuse(unusable(self.sample.family(), why));
        }
        match self.source {
            Some(_) => self.kind = Kind::Answers,
            None if !self.holds() => return Watch::Opaque,
            None => {}
        }
        Watch::Look { keep_alive: None }
    }

    fn chunk(&mut self, chunk: Bytes, out: &mut Outgoing) -> Step {
        if self.kind == Kind::Error {
            return self.error.push(chunk, self.sample.family(), out);
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
        self.unusable(&format!("more than {limit} bytes of it would have to be held to judge it"), out)
    }

    fn finish(&mut self, out: &mut Outgoing) -> Step {
        if self.kind == Kind::Error {
            return self.error.finish(|_| true, self.sample.family(), out).1;
        }
        if self.kind == Kind::Unknown {
            self.kind = aside(self.came.len(), || self.look());
        }
        Step::Decide
    }

    async fn decide(&mut self, out: &mut Outgoing) -> Step {
        if self.kind == Kind::Error {
            return self.error.decide(out).await;
        }
        let document = self.came.split().freeze();
        if self.kind == Kind::Other {
            return self.other(document, out).await;
        }
        match self.lines(&document).await {
            // Where nobody judges it has left, and was read for what it cost.
            _ if !self.holds() => Step::End,
            Ok(judged) => {
                out.push(judged);
                Step::End
            }
            // Nothing of it has left.
            Err(why) => self.unusable(&why, out),
        }
    }
}

fn is_word(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|id| id.is_empty() || is_id(id))
}

/// Whether a line says that a request failed, as the wire does.
fn is_error(fields: &Map<String, Value>) -> bool {
    let response = fields.get("response").filter(|response| !response.is_null());
    let error = fields.get("error").filter(|error| !error.is_null());
    match (response, error) {
        (None, Some(error)) => is_told(error),
        (Some(Value::Object(response)), None) => {
            let failed =
                response.get("status_code").and_then(Value::as_u64).is_some_and(|status| status >= 400);
            let body = response.get("body").and_then(Value::as_object);
            failed
                && has_only(response, &["status_code", "request_id", "body"])
                && response.get("request_id").is_none_or(is_word)
                && body
                    .is_some_and(|body| has_only(body, &["error"]) && body.get("error").is_some_and(is_told))
        }
        _ => false,
    }
}

/// Whether an object says what went wrong, and nothing else.
fn is_told(error: &Value) -> bool {
    let is_plain = |value: &Value| value.is_null() || value.is_string() || value.is_u64();
    error.as_object().is_some_and(|error| {
        has_only(error, &["code", "message", "type", "param", "line"]) && error.values().all(is_plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_answer_by_its_own_fields() {
        for (line, at_first, later) in [
            (r#"{"custom_id":"a"}"#, true, true),
            (r#"{"a":1,"response":[1,2]}"#, true, true),
            (r#"{"a":1,"a":2,"error":null}"#, true, true),
            (r#"{"cust\u006fm_id":1}"#, true, true),
            (r#"{"id":"a","b":{"custom_id":1,"response":{}}}"#, false, false),
            (r#"{"a":[1,"\ud800",1e999]}"#, false, false),
            (r#"{"a":1"#, true, false),
            (r#"{"a":1,"custom_id""#, true, true),
            (r#"{'a':1}"#, true, false),
            ("[1]", false, false),
            ("", false, false),
        ] {
            assert_eq!((is_answer(line, true), is_answer(line, false)), (at_first, later), "{line}");
        }
    }

    /// The most memory that the process has taken so far, in bytes.
    #[cfg(target_os = "linux")]
    fn most_memory() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_file_of_numbers_takes_no_more_memory_than_it_has_bytes() {
        const BYTES: usize = 16 << 20;
        for form in ["1,", "[],", "\"\",", "{},"] {
            let line = format!("{{\"a\":[{}1]}}", form.repeat(BYTES / form.len()));
            let before = most_memory();
            assert!(!is_answer(&line, true));
            let taken = most_memory() - before;
            assert!(taken < BYTES, "{form}: {taken}");
        }
    }
}
