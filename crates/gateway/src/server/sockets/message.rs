//! What is said on a WebSocket of OpenAI Responses: by clients, by a closed list, and to them.

use backstop_llm::sse::SseEvent;
use backstop_llm::wire::{parse_json, parse_request};
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::endpoint::Family;
use crate::error::Failure;
use crate::shape;

const CREATE: &str = "response.create";
const STEER: &str = "response.steer";
const PROCESSED: &str = "response.processed";
/// Longer names of messages are cut where the client is told of them.
const MAX_NAME_CHARS: usize = 64;

/// What a client said.
#[derive(Debug)]
pub(super) enum Said {
    /// It asks a model.
    Create(Create),
    /// It has more input for an answer that is under way.
    Steer(Map<String, Value>),
    /// It has read an answer, which it names; nothing else is in it.
    Processed,
}

/// A request as a message: the body of one over HTTP, and what a message has besides.
#[derive(Debug)]
pub(super) struct Create {
    pub(super) body: Bytes,
    envelope: Map<String, Value>,
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
            let envelope = envelope(&mut fields);
            fields.insert("stream".to_owned(), Value::Bool(true));
            Ok(Said::Create(Create { body: Value::Object(fields).to_string().into(), envelope }))
        }
        STEER => {
            fields.remove("type");
            Ok(Said::Steer(fields))
        }
        PROCESSED if fields.len() == 2 && fields.get("response_id").is_some_and(Value::is_string) => {
            Ok(Said::Processed)
        }
        _ => {
            let name: String = kind.chars().take(MAX_NAME_CHARS).collect();
            Err(Failure::Message(format!(
                "a message of the type {name:?} does not pass here\nhint: what may be said is `{CREATE}`"
            )))
        }
    }
}

/// Takes out of a message what no request over HTTP has.
fn envelope(fields: &mut Map<String, Value>) -> Map<String, Value> {
    let fits = |key: &str, value: &Value| match key {
        "type" => true,
        // Whether the model answers at all, or only reads.
        "generate" => value.is_boolean(),
        "stream_id" => value.is_string(),
        _ => false,
    };
    let (envelope, body) = std::mem::take(fields).into_iter().partition(|(key, value)| fits(key, value));
    *fields = body;
    envelope
}

impl Create {
    /// The message with another body; `None` if that is none.
    pub(super) fn with(&self, body: &[u8]) -> Option<String> {
        let Ok(Value::Object(mut fields)) = parse_json(body) else { return None };
        // An answer always streams here.
        fields.remove("stream");
        let mut message = self.envelope.clone();
        message.extend(fields);
        Some(Value::Object(message).to_string())
    }
}

/// What a provider's message is, as far as the connection has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The provider failed; nothing of the answer follows.
    Error,
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
            "response.completed" | "response.incomplete" | "response.failed" => Self::Last,
            kind if kind.starts_with("response.") => Self::Event,
            _ => Self::Other,
        }
    }

    pub(super) fn is_last(self) -> bool {
        matches!(self, Self::Error | Self::Last)
    }
}

/// The status of an error with which a provider answers, if the message says nothing else.
pub(super) fn refusal(text: &str) -> Option<StatusCode> {
    const STATUS: [&str; 2] = ["status", "status_code"];
    const KNOWN: [&str; 6] = ["type", "error", "code", "message", "param", "sequence_number"];
    const OF_ERROR: [&str; 4] = ["type", "code", "message", "param"];
    let Ok(Value::Object(fields)) = parse_json(text.as_bytes()) else { return None };
    let plain = |value: &Value| !value.is_object() && !value.is_array();
    let is_error = |value: &Value| match value {
        Value::Object(error) => error.iter().all(|(key, value)| OF_ERROR.contains(&&**key) && plain(value)),
        _ => false,
    };
    let fits = |(key, value): (&String, &Value)| match key.as_str() {
        "error" => is_error(value),
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
    told(error.status, shape::body(Family::OpenAi, &error))
}

/// The error event for an error answer of HTTP.
pub(super) fn refused(status: StatusCode, body: &[u8]) -> String {
    told(status.as_u16(), serde_json::from_slice(body).unwrap_or_default())
}

fn told(status: u16, mut body: Value) -> String {
    let error = body.get_mut("error").map(Value::take).unwrap_or_default();
    json!({ "type": "error", "status": status, "error": error }).to_string()
}

/// What is said to input for an answer that is under way.
pub(super) fn unsteered(input: Map<String, Value>) -> String {
    json!({
        "type": "response.steer.failed",
        "sequence_number": 0,
        "steer": input,
        "error": {
            "type": "invalid_request_error",
            "code": "steering_not_supported",
            "message": "backstop: input for an answer that is under way does not pass here; send it with the next `response.create`",
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
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
        assert_eq!(other, r#"{"type":"response.create","generate":false,"model":"m","input":"ho"}"#);
        // What has another shape than it should is for those who judge.
        let create = created(r#"{"type":"response.create","generate":{"tools":[]},"stream":false}"#);
        assert_eq!(create.body, r#"{"generate":{"tools":[]},"stream":true}"#);
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
            r#"{"type":"response.create"} {}"#,
        ] {
            assert!(matches!(read(text), Err(Failure::Message(_))), "{text}");
        }
        assert!(matches!(read(r#"{"type":"response.processed","response_id":"r"}"#), Ok(Said::Processed)));
        assert!(matches!(read(r#"{"type":"response.steer","input":"x"}"#), Ok(Said::Steer(_))));
    }

    #[test]
    fn an_error_is_one_that_says_nothing_else() {
        let status = |text: &str| refusal(text).map(|status| status.as_u16());
        assert_eq!(status(r#"{"type":"error","status":429,"error":{"code":"x","message":"y"}}"#), Some(429));
        assert_eq!(status(r#"{"type":"error","status":200,"error":{}}"#), Some(400));
        for other in [
            r#"{"type":"response.created"}"#,
            r#"{"type":"error","output":[{"type":"function_call"}]}"#,
            r#"{"type":"error","error":{"message":{"x":1}}}"#,
            r#"{"type":"error","type":"error"}"#,
            "error",
        ] {
            assert_eq!(status(other), None, "{other}");
        }
    }
}
