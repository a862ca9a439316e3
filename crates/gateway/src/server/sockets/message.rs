//! What is said on a WebSocket: by clients of OpenAI Responses, by a closed list, and to all.

use backstop_llm::sse::SseEvent;
use backstop_llm::wire::{parse_json, parse_request};
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::live::{self, Saying};
use super::realtime::{Envelope, Utterance};
use super::steer::Steer;
use crate::endpoint::Family;
use crate::error::Failure;
use crate::error_body;

const CREATE: &str = "response.create";
const STEER: &str = "response.steer";
const PROCESSED: &str = "response.processed";
/// Longer names of messages are cut where the client is told of them.
const MAX_NAME_CHARS: usize = 64;
/// Longer values are no names of streams and answers.
const MAX_ID_BYTES: usize = 64;

/// A name that somebody gave something, as an error repeats it: the beginning of it.
pub(super) fn shown(name: &str) -> String {
    format!("{:?}", name.chars().take(MAX_NAME_CHARS).collect::<String>())
}

/// What a client said.
#[derive(Debug)]
pub(super) enum Said {
    /// It asks a model.
    Create(Create),
    /// It has more input for an answer that is under way.
    Steer(Steer),
    /// It has read an answer: the message that says so, made of the answer's name alone.
    Processed(String),
    /// It goes on with a session of Realtime.
    Talk(Utterance),
    /// It goes on with a session of Gemini Live.
    Live(Saying),
}

impl Said {
    /// Whether it is sound, or what is about it, which is no request.
    pub(super) fn is_sound(&self) -> bool {
        matches!(self, Self::Talk(Utterance::Pass(_)) | Self::Live(Saying::Media(_)))
    }
}

/// A request as a message: the body of one over HTTP, and what a message has besides.
#[derive(Clone, Debug)]
pub(super) struct Create {
    pub(super) body: Bytes,
    form: Form,
}

/// What makes messages of a body again.
#[derive(Clone, Debug)]
enum Form {
    /// One, with the fields that no request over HTTP has.
    Responses(Map<String, Value>),
    /// One for each item, and one that asks.
    Realtime(Box<Envelope>),
    /// The setup, what was said, and what asks.
    Live(live::Envelope),
}

/// Reads what a client said. Text that two readers could understand in two ways is refused.
pub(super) fn read(text: &str) -> Result<Said, Failure> {
    let value = parse_request(text.as_bytes())
        .map_err(|error| Failure::Message(format!("the message can't be read: {error}")))?;
    let Value::Object(mut fields) = value else {
        return Err(Failure::Message("the message is no JSON object".to_owned()));
    };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind.as_str() {
        CREATE => {
            // Those who judge see a request that streams, so nothing else may stand there unseen.
            if fields.get("stream").is_some_and(|stream| !stream.is_boolean()) {
                return Err(Failure::Message("`stream` is neither true nor false".to_owned()));
            }
            let envelope = envelope(&mut fields);
            fields.insert("stream".to_owned(), Value::Bool(true));
            Ok(Said::Create(Create {
                body: Value::Object(fields).to_string().into(),
                form: Form::Responses(envelope),
            }))
        }
        STEER => Ok(Said::Steer(Steer::read(fields, text.len()))),
        PROCESSED if fields.len() == 2 && fields.get("response_id").is_some_and(is_id) => {
            let said = json!({ "type": PROCESSED, "response_id": fields.remove("response_id") });
            Ok(Said::Processed(said.to_string()))
        }
        _ => {
            let name: String = kind.chars().take(MAX_NAME_CHARS).collect();
            Err(Failure::Message(format!(
                "a message of the type {name:?} does not pass here\nhint: what may be said is `{CREATE}`"
            )))
        }
    }
}

/// Whether a value is a name as providers give them, in which nobody can say anything.
pub(super) fn is_id(value: &Value) -> bool {
    let fits = |id: &str| {
        (1..=MAX_ID_BYTES).contains(&id.len())
            && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
    };
    value.as_str().is_some_and(fits)
}

/// Takes out of a message what no request over HTTP has.
fn envelope(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let fits = |key: &str, value: &Value| match key {
        "type" => true,
        // Whether the model answers at all, or only reads.
        "generate" => value.is_boolean(),
        "stream_id" => is_id(value),
        _ => false,
    };
    let (envelope, body) = std::mem::take(fields).into_iter().partition(|(key, value)| fits(key, value));
    *fields = body;
    envelope
}

impl Create {
    /// A request that a session of Realtime makes.
    pub(super) fn of_session(body: Bytes, envelope: Envelope) -> Self {
        Self { body, form: Form::Realtime(Box::new(envelope)) }
    }

    /// A request that a session of Gemini Live makes.
    pub(super) fn of_live(body: Bytes, envelope: live::Envelope) -> Self {
        Self { body, form: Form::Live(envelope) }
    }

    /// Whether nothing is asked: the provider speaks by itself, or is only to hear of its session.
    pub(super) fn is_unasked(&self) -> bool {
        match &self.form {
            Form::Responses(_) => false,
            Form::Realtime(envelope) => !envelope.asks(),
            Form::Live(envelope) => envelope.is_unasked(),
        }
    }

    /// The messages by which the model goes on after its calls were refused; `None` if that can't be said.
    /// `setup` is the session as the provider knows it.
    pub(super) fn again(&self, body: &[u8], setup: Option<&Value>) -> Option<Vec<Utf8Bytes>> {
        match &self.form {
            Form::Live(envelope) => envelope.again(body, setup?).map(texts),
            Form::Realtime(envelope) => envelope.again(body).map(texts),
            Form::Responses(_) => self.with(body),
        }
    }

    /// Whether its answer belongs to a conversation that the provider keeps.
    pub(super) fn has_conversation(&self) -> bool {
        let body = parse_json(&self.body).unwrap_or_default();
        body.get("conversation").is_some_and(|conversation| !conversation.is_null())
    }

    /// The request that follows the answer to this one with more input, and its message.
    pub(super) fn following(&self, answer: &str, input: Vec<Value>) -> Option<(Self, Utf8Bytes)> {
        let Ok(Value::Object(mut body)) = parse_json(&self.body) else { return None };
        body.insert("previous_response_id".to_owned(), answer.into());
        body.insert("input".to_owned(), input.into());
        let body = Value::Object(body).to_string().into();
        let create = Self { body, form: self.form.clone() };
        let message = create.with(&create.body)?.pop()?;
        Some((create, message))
    }

    /// The messages with another body; `None` if that is none.
    pub(super) fn with(&self, body: &[u8]) -> Option<Vec<Utf8Bytes>> {
        let envelope = match &self.form {
            Form::Responses(envelope) => envelope,
            Form::Realtime(envelope) => return envelope.with(body).map(texts),
            Form::Live(envelope) => return envelope.with(body).map(texts),
        };
        let Ok(Value::Object(mut fields)) = parse_json(body) else { return None };
        // An answer always streams here.
        fields.remove("stream");
        let mut message = envelope.clone();
        message.extend(fields);
        Some(vec![Value::Object(message).to_string().into()])
    }
}

fn texts(messages: Vec<String>) -> Vec<Utf8Bytes> {
    messages.into_iter().map(Utf8Bytes::from).collect()
}

/// What a provider's message is, as far as the connection has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The provider failed; nothing of the answer follows.
    Error,
    /// An answer begins.
    Created,
    /// The answer is whole.
    Last,
    /// Another event of an answer.
    Event,
    /// It belongs to no answer, or can't be read.
    Other,
}

impl Kind {
    /// What `text` is.
    pub(super) fn of(text: &str) -> Self {
        #[derive(Deserialize)]
        struct Named<'a> {
            #[serde(rename = "type", borrow)]
            kind: std::borrow::Cow<'a, str>,
        }
        let Ok(Named { kind }) = serde_json::from_str(text) else { return Self::Other };
        match &*kind {
            "error" => Self::Error,
            "response.created" => Self::Created,
            "response.completed" | "response.incomplete" | "response.failed" => Self::Last,
            kind if kind.starts_with("response.") => Self::Event,
            _ => Self::Other,
        }
    }

    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Error | Self::Last)
    }
}

/// What binds the messages of one answer together.
#[derive(Debug, Default)]
pub(super) struct Thread {
    /// The answer has begun, under this name.
    begun: Option<Option<String>>,
    /// An error came in the middle of it, or about something else, so that nobody knows what else will.
    broken: bool,
}

impl Thread {
    /// Whether a message belongs to the answer, as far as it has come.
    pub(super) fn takes(&mut self, kind: Kind, text: &str) -> bool {
        match (kind, &self.begun) {
            (Kind::Created, None) => {
                self.begun = Some(id_of(text));
                true
            }
            (Kind::Last, Some(id)) => *id == id_of(text),
            (Kind::Event, begun) => begun.is_some(),
            (Kind::Created, Some(_)) | (Kind::Last, None) => false,
            (Kind::Error, begun) => {
                self.broken = begun.is_some();
                true
            }
            (Kind::Other, _) => true,
        }
    }

    /// The name of the answer, once it has begun.
    pub(super) fn id(&self) -> Option<&str> {
        self.begun.as_ref()?.as_deref()
    }

    /// An error came that is not said to stand in place of the answer.
    pub(super) fn break_off(&mut self) {
        self.broken = true;
    }

    /// Whether more may come after an error.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// The name of the answer that an event has in it.
fn id_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Event {
        response: Named,
    }
    #[derive(Deserialize)]
    struct Named {
        id: String,
    }
    serde_json::from_str::<Event>(text).ok().map(|event| event.response.id)
}

/// The status of an error with which a provider answers, if the message says nothing else.
pub(super) fn refusal(text: &str) -> Option<StatusCode> {
    const STATUS: [&str; 2] = ["status", "status_code"];
    const KNOWN: [&str; 6] = ["type", "error", "code", "message", "param", "sequence_number"];
    let Ok(Value::Object(fields)) = parse_json(text.as_bytes()) else { return None };
    let plain = |value: &Value| !value.is_object() && !value.is_array();
    // Providers say there which plan and limits somebody has, and when they may ask again.
    let is_flat = |value: &Value| value.as_object().is_some_and(|fields| fields.values().all(plain));
    let fits = |(key, value): (&String, &Value)| match key.as_str() {
        "error" | "headers" => is_flat(value),
        key => plain(value) && (KNOWN.contains(&key) || STATUS.contains(&key)),
    };
    if fields.get("type")?.as_str()? != "error" || !fields.iter().all(fits) {
        return None;
    }
    let status = STATUS.iter().find_map(|key| fields.get(*key)?.as_u64());
    let status = status.and_then(|status| StatusCode::from_u16(u16::try_from(status).ok()?).ok());
    let failed = status.filter(|status| status.is_client_error() || status.is_server_error());
    Some(failed.unwrap_or(StatusCode::BAD_REQUEST))
}

/// A provider's message as an event of a stream.
pub(super) fn event(text: &str) -> Bytes {
    SseEvent::new(None, text).encode()
}

/// The error event that tells of a failure.
pub(super) fn failed(failure: &Failure) -> String {
    let error = failure.to_provider_error();
    told(error.status, error_body::body(Family::OpenAi, &error))
}

/// The error event for an error answer of HTTP.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> String {
    told(status.as_u16(), serde_json::from_slice(body).unwrap_or_default())
}

fn told(status: u16, mut body: Value) -> String {
    let error = body.get_mut("error").map(Value::take).unwrap_or_default();
    json!({ "type": "error", "status": status, "error": error }).to_string()
}

#[cfg(test)]
mod tests {
    use super::super::steer::Unsteered;
    use super::*;

    fn created(text: &str) -> Create {
        match read(text).unwrap() {
            Said::Create(create) => create,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_a_body_and_what_it_has_besides() {
        let create = created(r#"{"type":"response.create","generate":false,"model":"m","input":"hi"}"#);
        assert_eq!(create.body, r#"{"model":"m","input":"hi","stream":true}"#);
        let other = create.with(br#"{"model":"m","input":"ho","stream":true}"#).unwrap();
        assert_eq!(other, [r#"{"type":"response.create","generate":false,"model":"m","input":"ho"}"#]);
        // What has another shape than it should is for those who judge.
        let create = created(r#"{"type":"response.create","generate":{"tools":[]},"stream":false}"#);
        assert_eq!(create.body, r#"{"generate":{"tools":[]},"stream":true}"#);
    }

    #[test]
    fn what_is_no_name_of_a_stream_is_for_those_who_judge() {
        let long = "x".repeat(65);
        for text in ["two words", "", &long, "a/b"] {
            let create = created(&json!({"type": "response.create", "stream_id": text}).to_string());
            assert_eq!(create.body, json!({"stream_id": text, "stream": true}).to_string());
        }
        let create = created(r#"{"type":"response.create","stream_id":"s_1-A"}"#);
        assert_eq!(create.body, r#"{"stream":true}"#);
        assert_eq!(create.with(b"{}").unwrap(), [r#"{"type":"response.create","stream_id":"s_1-A"}"#]);
    }

    #[test]
    fn large_input_for_an_answer_is_not_sent_back() {
        for (len, comes_back) in [(10, true), (5_000, false)] {
            let input = "x".repeat(len);
            let text = json!({"type": "response.steer", "input": input}).to_string();
            let Ok(Said::Steer(steer)) = read(&text) else { panic!("{text}") };
            assert_eq!(steer.failed(Unsteered::Over).contains(&input), comes_back);
        }
    }

    #[test]
    fn messages_belong_to_the_answer_that_began() {
        let event = |kind: &str, id: &str| json!({"type": kind, "response": {"id": id}}).to_string();
        let takes = |thread: &mut Thread, text: &str| thread.takes(Kind::of(text), text);
        let mut thread = Thread::default();
        assert!(!takes(&mut thread, &event("response.completed", "a")), "nothing has begun");
        assert!(!takes(&mut thread, &event("response.output_text.delta", "a")), "nothing has begun");
        assert!(takes(&mut thread, &event("response.created", "a")));
        assert!(!takes(&mut thread, &event("response.created", "a")), "it began already");
        assert!(takes(&mut thread, r#"{"type":"response.output_text.delta"}"#));
        assert!(!takes(&mut thread, &event("response.completed", "b")));
        assert!(takes(&mut thread, &event("response.completed", "a")));
        assert!(!thread.is_broken());
        assert!(takes(&mut thread, r#"{"type":"error"}"#));
        assert!(thread.is_broken());
    }

    #[test]
    fn what_is_in_no_list_is_refused() {
        for text in [
            "[]",
            "{}",
            r#"{"type":"response.inject"}"#,
            r#"{"type":"Response.create"}"#,
            r#"{"type":"response.create","type":"x"}"#,
            r#"{"type":"response.create","model":"a","model":"b"}"#,
            r#"{"type":"response.processed","response_id":"r","input":"x"}"#,
            r#"{"type":"response.processed","response_id":"a text of words"}"#,
            r#"{"type":"response.processed","response_id":""}"#,
            r#"{"type":"response.create","stream":"a text"}"#,
            r#"{"type":"response.create","stream":{"tools":[]}}"#,
            r#"{"type":"response.create"} {}"#,
        ] {
            assert!(matches!(read(text), Err(Failure::Message(_))), "{text}");
        }
        assert!(matches!(read(r#"{"type":"response.processed","response_id":"r"}"#), Ok(Said::Processed(_))));
        assert!(matches!(read(r#"{"type":"response.steer","input":"x"}"#), Ok(Said::Steer(_))));
    }

    #[test]
    fn an_error_is_one_that_says_nothing_else() {
        let status = |text: &str| refusal(text).map(|status| status.as_u16());
        assert_eq!(status(r#"{"type":"error","status":429,"error":{"code":"x","message":"y"}}"#), Some(429));
        assert_eq!(status(r#"{"type":"error","status":200,"error":{}}"#), Some(400));
        let limited = r#"{"type":"error","status":429,"error":{"type":"usage_limit_reached","plan_type":"pro","resets_at":1},"headers":{"x-codex-primary-used-percent":"100"}}"#;
        assert_eq!(status(limited), Some(429));
        for other in [
            r#"{"type":"response.created"}"#,
            r#"{"type":"error","output":[{"type":"function_call"}]}"#,
            r#"{"type":"error","error":{"message":{"x":1}}}"#,
            r#"{"type":"error","headers":{"x":["y"]}}"#,
            r#"{"type":"error","type":"error"}"#,
            "error",
        ] {
            assert_eq!(status(other), None, "{other}");
        }
    }
}
