//! What goes over the pipes: one JSON-RPC 2.0 message a line.
//!
//! A line that is not exactly a message of the protocol is an error of the program, never passed over: what it was meant to say
//! is not known.

use std::borrow::Cow;

use backstop_hooks::{Json, PointId, Unambiguous};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::fault::Fault;
use crate::external::{PROTOCOL, shown};

/// A message of the program.
#[derive(Debug)]
pub(super) enum Incoming {
    /// The answer to a request.
    Answer { id: u64, answer: Result<Value, String> },
    /// A line for the log.
    Log { level: Level, message: String },
    /// A question of the program's, where it may ask.
    Question { id: Value, method: String, params: Value },
}

/// How grave a line of a log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default, deserialize_with = "present")]
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "present")]
    params: Option<Value>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Value>,
    error: Option<RpcError>,
}

/// `null` is a value that is there. An object that has a key twice is none.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Unambiguous::deserialize(deserializer).map(|value| Some(value.0))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RpcError {
    #[serde(rename = "code")]
    _code: i64,
    message: String,
    #[serde(default, rename = "data")]
    _data: Option<Value>,
}

#[derive(Deserialize)]
struct LogLine {
    level: Level,
    message: String,
}

/// Reads one line of a program that may ask, or may not.
pub(super) fn read(line: &[u8], may_ask: bool) -> Result<Incoming, Fault> {
    let message: Message<'_> = serde_json::from_slice(line).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => Fault::NoMessage,
        _ => Fault::NotJson { column: error.column() },
    })?;
    if message.jsonrpc != "2.0" {
        return Err(Fault::NoMessage);
    }
    match (message.id, message.method, message.result, message.error) {
        (Some(id), None, Some(result), None) => Ok(Incoming::Answer { id: number(&id)?, answer: Ok(result) }),
        (Some(id), None, None, Some(error)) => {
            Ok(Incoming::Answer { id: number(&id)?, answer: Err(shown(&error.message, 500)) })
        }
        (None, Some(method), None, None) if method == "log" => {
            let line: LogLine = message
                .params
                .and_then(|params| serde_json::from_value(params).ok())
                .ok_or(Fault::NoMessage)?;
            Ok(Incoming::Log { level: line.level, message: line.message })
        }
        (Some(id), Some(method), None, None) if may_ask => Ok(Incoming::Question {
            id,
            method: method.into_owned(),
            params: message.params.unwrap_or_default(),
        }),
        (_, Some(method), None, None) => Err(Fault::UnknownMethod(shown(&method, 60))),
        _ => Err(Fault::NoMessage),
    }
}

/// The id of an answer: a number that we gave.
fn number(id: &Value) -> Result<u64, Fault> {
    id.as_u64().ok_or(Fault::UnknownId)
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Messages of ours are plain data; all of them have a JSON form.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// `initialize`.
pub(super) fn initialize(id: u64, plugin: &str, config: &Json) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocol": PROTOCOL,
        "host": { "name": "backstop", "version": env!("CARGO_PKG_VERSION") },
        "plugin": { "id": plugin, "config": config.to_value() },
        "points": PointId::ALL.iter().map(|point| json!({ "name": point.name(), "version": 1 })).collect::<Vec<_>>(),
    }}))
}

/// A request of this method.
pub(crate) fn request(id: u64, method: &str, params: &impl Serialize) -> Vec<u8> {
    line(&Request { jsonrpc: "2.0", id, method, params })
}

/// A notification of this method.
pub(crate) fn notification(method: &str, params: &Value) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
}

/// What a program is told on its question: the result, or what is wrong as the error's `message` and `data`.
pub(crate) fn reply(id: &Value, answer: Result<Value, (String, Value)>) -> Vec<u8> {
    match answer {
        Ok(result) => line(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
        Err((message, data)) => line(
            &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32000, "message": message, "data": data } }),
        ),
    }
}

#[derive(Serialize)]
struct Request<'a, P> {
    jsonrpc: &'a str,
    id: u64,
    method: &'a str,
    params: P,
}

#[derive(Serialize)]
struct EventParams<'a> {
    hook: &'a str,
    point: PointId,
    event: &'a Value,
}

#[derive(Serialize)]
struct ToolParams<'a> {
    name: &'a str,
    arguments: &'a Value,
}

/// What is asked for, without its number.
pub(super) enum Call<'a> {
    /// One event at one hook.
    Event { hook: &'a str, point: PointId, event: &'a Value },
    /// One call of a tool.
    Tool { name: &'a str, arguments: &'a Value },
}

impl Call<'_> {
    pub(super) fn line(&self, id: u64) -> Vec<u8> {
        match *self {
            Self::Event { hook, point, event } => line(&Request {
                jsonrpc: "2.0",
                id,
                method: "event",
                params: EventParams { hook, point, event },
            }),
            Self::Tool { name, arguments } => {
                line(&Request { jsonrpc: "2.0", id, method: "tool", params: ToolParams { name, arguments } })
            }
        }
    }
}

/// `$/cancel`: nobody waits for the answer any more.
pub(super) fn cancel(id: u64) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "method": "$/cancel", "params": { "id": id } }))
}

/// A text as a line by itself.
pub(crate) fn text(text: &str) -> Vec<u8> {
    line(&text)
}

/// `shutdown`: the program is to end.
pub(super) fn shutdown(id: u64) -> Vec<u8> {
    line(&json!({ "jsonrpc": "2.0", "id": id, "method": "shutdown" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_exactly_a_message_is_a_fault() {
        for text in [
            "",
            "hello",
            "[]",
            "{}",
            "null",
            r#"{"id": 1, "result": null}"#,
            r#"{"jsonrpc": "1.0", "id": 1, "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 1}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": null, "error": {"code": 1, "message": "x"}}"#,
            r#"{"jsonrpc": "2.0", "id": "1", "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "x"}}"#,
            r#"{"jsonrpc": "2.0", "id": -1, "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "id": 2, "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"block": true, "block": false}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {"params": [{"a": {"b": 1, "\u0062": 2}}]}}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": null, "more": 1}"#,
            r#"{"jsonrpc": "2.0", "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "method": "log", "params": {}}"#,
            r#"{"jsonrpc": "2.0", "method": "log", "params": {"level": "loud", "message": "x"}}"#,
            r#"{"jsonrpc": "2.0", "method": "event"}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "result": {}} {}"#,
        ] {
            assert!(read(text.as_bytes(), false).is_err(), "{text}");
        }
        for text in [
            r#"{"jsonrpc": "2.0", "id": 1, "result": null}"#,
            r#"{"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "x", "data": 3}}"#,
            r#" {"jsonrpc": "2.0", "method": "log", "params": {"level": "info", "message": "x", "more": 1}} "#,
        ] {
            assert!(read(text.as_bytes(), false).is_ok(), "{text}");
        }
    }
}
