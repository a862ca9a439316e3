//! The shape of events: what the import of a plugin promises of them.
//!
//! Names and most values are the same in both dialects. Where they differ is what a conversation is made of: in
//! OpenClaw's a result of a tool is a message of its own (`toolResult`), a picture has its data beside its type, and thinking
//! is called so. What only the contract of this system has of a message (its id, its run, what a provider said) travels in its
//! `backstop`, so that a message that comes back as it was given is the same one.
//!
//! An event is encoded once for each version of its value, field by field, and parsed where it is read.

mod fields;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use backstop_hooks::{CallContext, Point, PointId};
use backstop_script::{Argument, JsonText, LazyEvent};
use serde_json::{Map, Value, json};

use super::Dialect;

/// Fields that hold lists of messages.
const LISTS: [&str; 3] = ["messages", "historyMessages", "compactedMessages"];
/// Fields that hold one message.
const MESSAGES: [&str; 3] = ["message", "lastAssistant", "currentUserMessage"];
/// The field that holds what a tool gave.
const RESULT: &str = "result";
/// Where a message keeps what only this system knows of it.
const OURS: &str = "backstop";
/// What a handler's context has of the event.
const BESIDE: [&str; 4] = ["toolName", "toolCallId", "toolKind", "toolInputKind"];
/// How many sets of names are remembered; an event beyond them makes its own.
const MOST_NAMES: usize = 1_024;

/// The arguments of a handler: the event, its context, and a signal.
pub(super) fn arguments<P: Point>(
    dialect: Dialect,
    event: &P::Event,
    call: &CallContext,
) -> Result<Vec<Argument>, String> {
    let (event, context) = shown(dialect, P::INFO.id, object(event)?, object(call)?);
    Ok(vec![lazy(&event)?, lazy(&context)?, Argument::Signal])
}

/// An event and its context, as a plugin of this dialect is shown them.
fn shown(
    dialect: Dialect,
    point: PointId,
    mut event: Map<String, Value>,
    mut context: Map<String, Value>,
) -> (Map<String, Value>, Map<String, Value>) {
    if dialect == Dialect::OpenClaw {
        fields::event(point, &mut event, &context);
        fields::context(&mut context, &event);
        for (name, value) in &mut event {
            if MESSAGES.contains(&name.as_str()) {
                // A message of ours with several results is several; a hook is shown the first as it is asked about one.
                let first = theirs(value.take()).into_iter().next();
                *value = first.unwrap_or_default();
            } else if LISTS.contains(&name.as_str()) {
                *value = their_list(value.take());
            } else if name == RESULT && value.is_object() {
                *value = their_result(value.take());
            }
        }
    }
    for name in BESIDE {
        if let Some(value) = event.get(name) {
            context.insert(name.to_owned(), value.clone());
        }
    }
    (event, context)
}

fn object<T: serde::Serialize>(value: &T) -> Result<Map<String, Value>, String> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err("the event has no JSON form".to_owned()),
    }
}

fn lazy(fields: &Map<String, Value>) -> Result<Argument, String> {
    let texts = fields.values().map(JsonText::of).collect::<Result<Vec<_>, _>>();
    let texts = texts.map_err(|error| error.to_string())?;
    let event = LazyEvent::new(names(fields), texts).ok_or("the event has no JSON form")?;
    Ok(Argument::Lazy(event))
}

/// The names of an object, shared by all that have the same: a runtime finds the code for them by this list.
fn names(fields: &Map<String, Value>) -> Arc<[Arc<str>]> {
    type Known = Mutex<HashMap<String, Arc<[Arc<str>]>>>;
    static KNOWN: LazyLock<Known> = LazyLock::new(Known::default);
    let key = fields.keys().map(String::as_str).collect::<Vec<_>>().join("\n");
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(names) = known.get(&key) {
        return Arc::clone(names);
    }
    let names: Arc<[Arc<str>]> = fields.keys().map(|name| Arc::from(name.as_str())).collect();
    if known.len() < MOST_NAMES {
        known.insert(key, Arc::clone(&names));
    }
    names
}

// ---- From ours to theirs ------------------------------------------------------------------------------------------

fn their_list(list: Value) -> Value {
    match list {
        Value::Array(messages) => Value::Array(messages.into_iter().flat_map(theirs).collect()),
        other => other,
    }
}

/// A message as the other system has it; one with several results is as many messages.
fn theirs(message: Value) -> Vec<Value> {
    let Value::Object(mut message) = message else { return vec![message] };
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(Value::Array(parts)) = message.remove("content") else { return vec![Value::Object(message)] };
    message.remove("role");
    let own = |at: usize, of: usize| {
        let mut own = message.clone();
        if of > 1 {
            own.insert("part".to_owned(), json!([at, of]));
        }
        Value::Object(own)
    };
    let results = parts.iter().all(|part| part.get("type").and_then(Value::as_str) == Some("toolResult"));
    if role == "tool" && results && !parts.is_empty() {
        let of = parts.len();
        return parts
            .into_iter()
            .enumerate()
            .map(|(at, part)| their_tool_message(part, own(at, of)))
            .collect();
    }
    let content = parts.into_iter().map(their_part).collect();
    let mut told = Map::new();
    told.insert("role".to_owned(), Value::String(role));
    told.insert("content".to_owned(), Value::Array(content));
    told.insert(OURS.to_owned(), own(0, 1));
    vec![Value::Object(told)]
}

fn their_tool_message(part: Value, own: Value) -> Value {
    let Value::Object(mut result) = their_result(part) else { return own };
    result.remove("type");
    let mut told = Map::new();
    told.insert("role".to_owned(), Value::from("toolResult"));
    told.extend(result);
    told.insert(OURS.to_owned(), own);
    Value::Object(told)
}

/// The result of a tool: its content has parts, too.
fn their_result(result: Value) -> Value {
    let Value::Object(mut result) = result else { return result };
    if let Some(Value::Array(parts)) = result.remove("content") {
        let content = parts.into_iter().map(their_part).collect();
        result.insert("content".to_owned(), Value::Array(content));
    }
    Value::Object(result)
}

fn their_part(part: Value) -> Value {
    let Value::Object(mut part) = part else { return part };
    match part.get("type").and_then(Value::as_str) {
        Some("thinking") => {
            let text = part.remove("text").unwrap_or_default();
            part.insert("thinking".to_owned(), text);
        }
        Some("image") => {
            if let Some(Value::Object(mut source)) = part.remove("source") {
                for name in ["data", "url"] {
                    if let Some(value) = source.remove(name) {
                        part.insert(name.to_owned(), value);
                    }
                }
            }
        }
        Some("unknown") => return part.remove("raw").unwrap_or_default(),
        _ => {}
    }
    Value::Object(part)
}

// ---- From theirs to ours ------------------------------------------------------------------------------------------

/// What a hook of the other system answered, as an outcome of ours is written.
pub(super) fn our_answer(
    mut answer: Map<String, Value>,
    event: &Map<String, Value>,
) -> Result<Map<String, Value>, String> {
    for (name, value) in &mut answer {
        if LISTS.contains(&name.as_str()) {
            *value = our_list(value.take())?;
        } else if MESSAGES.contains(&name.as_str()) && value.is_object() {
            // A text is what a message is at `message.before`; anywhere else the outcome refuses it.
            let mut whole = our_list(Value::Array(vec![value.take()]))?;
            *value = whole.as_array_mut().and_then(Vec::pop).unwrap_or_default();
        } else if name == RESULT && value.is_object() {
            *value = our_result(value.take(), event.get(RESULT))?;
        }
    }
    // There, what a handler answers is laid over the parameters that it was given; a key can't be taken away.
    if let (Some(Value::Object(given)), Some(Value::Object(params))) =
        (event.get("params"), answer.get_mut("params"))
    {
        let mut whole = given.clone();
        whole.extend(std::mem::take(params));
        *params = whole;
    }
    Ok(answer)
}

fn our_list(list: Value) -> Result<Value, String> {
    let Value::Array(list) = list else { return Err("messages are a list".to_owned()) };
    let mut messages: Vec<Value> = Vec::with_capacity(list.len());
    for message in list {
        let (message, part) = ours(message)?;
        // The parts of one message of ours that came back one after the other are that message again.
        let joins = part.is_some_and(|at| at > 0)
            && messages
                .last()
                .is_some_and(|last| last.get("id") == message.get("id") && message.get("id").is_some());
        match messages.last_mut().filter(|_| joins) {
            Some(last) => {
                let more = message.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
                if let Some(content) = last.get_mut("content").and_then(Value::as_array_mut) {
                    content.extend(more);
                }
            }
            None => messages.push(message),
        }
    }
    Ok(Value::Array(messages))
}

/// A message as ours is written, and which of several parts of one it is.
fn ours(message: Value) -> Result<(Value, Option<u64>), String> {
    let Value::Object(mut message) = message else { return Err("a message is an object".to_owned()) };
    let mut own = match message.remove(OURS) {
        Some(Value::Object(own)) => own,
        _ => Map::new(),
    };
    let part = own.remove("part").and_then(|part| part.get(0).and_then(Value::as_u64));
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = match message.remove("content") {
        Some(Value::String(text)) => vec![json!({ "type": "text", "text": text })],
        Some(Value::Array(parts)) => parts.into_iter().map(our_part).collect::<Result<_, _>>()?,
        _ => return Err("a message has `content`".to_owned()),
    };
    let (role, content) = match role.as_str() {
        "toolResult" => {
            let mut result = Map::new();
            result.insert("type".to_owned(), Value::from("toolResult"));
            for name in ["toolCallId", "toolName", "isError", "details", "meta"] {
                if let Some(value) = message.remove(name) {
                    result.insert(name.to_owned(), value);
                }
            }
            result.entry("isError").or_insert(Value::Bool(false));
            result.insert("content".to_owned(), Value::Array(content));
            ("tool".to_owned(), vec![Value::Object(result)])
        }
        _ => (role, content),
    };
    let mut told = Map::new();
    told.insert("role".to_owned(), Value::String(role));
    told.insert("content".to_owned(), Value::Array(content));
    told.extend(own);
    Ok((Value::Object(told), part))
}

fn our_part(part: Value) -> Result<Value, String> {
    let Value::Object(mut part) = part else { return Err("a part of a message is an object".to_owned()) };
    match part.get("type").and_then(Value::as_str) {
        Some("text" | "toolCall") => {}
        Some("thinking") => {
            let text = part.remove("thinking").or_else(|| part.remove("text")).unwrap_or_default();
            if let Some(signature) = part.remove("thinkingSignature") {
                part.insert("meta".to_owned(), json!({ "signature": signature }));
            }
            part.insert("text".to_owned(), text);
        }
        Some("image") => {
            let source = match (part.remove("data"), part.remove("url")) {
                (Some(data), _) => json!({ "data": data }),
                (None, Some(url)) => json!({ "url": url }),
                (None, None) => return Err("an image has `data`".to_owned()),
            };
            part.insert("source".to_owned(), source);
        }
        // What no wire here knows stays what it was.
        _ => return Ok(json!({ "type": "unknown", "raw": part })),
    }
    Ok(Value::Object(part))
}

/// A result as ours is written. What it leaves out of whose result it is stays as it was.
fn our_result(result: Value, given: Option<&Value>) -> Result<Value, String> {
    let Value::Object(mut result) = result else { return Err("a result is an object".to_owned()) };
    match result.remove("content") {
        Some(Value::Array(parts)) => {
            let content = parts.into_iter().map(our_part).collect::<Result<_, _>>()?;
            result.insert("content".to_owned(), Value::Array(content));
        }
        _ => return Err("a result has `content`".to_owned()),
    }
    for name in ["toolCallId", "toolName", "isError"] {
        if let (None, Some(value)) = (result.get(name), given.and_then(|given| given.get(name))) {
            result.insert(name.to_owned(), value.clone());
        }
    }
    Ok(Value::Object(result))
}

#[cfg(test)]
mod tests {
    use backstop_hooks::conversation::Message;
    use serde_json::json;

    use super::*;

    fn conversation() -> Value {
        json!([
            { "role": "system", "content": [{ "type": "text", "text": "be brief" }] },
            { "role": "user", "content": [{ "type": "text", "text": "list" }], "id": "m1", "runId": "r" },
            { "role": "assistant", "id": "m2", "meta": { "stopReason": "tool_use" }, "content": [
                { "type": "thinking", "text": "hm", "meta": { "signature": "c2ln" } },
                { "type": "text", "text": "I will." },
                { "type": "toolCall", "id": "c1", "name": "exec", "arguments": { "command": "ls" } },
                { "type": "unknown", "raw": { "type": "citation", "text": "q" } },
            ]},
            { "role": "tool", "id": "m3", "content": [
                { "type": "toolResult", "toolCallId": "c1", "toolName": "exec", "isError": false, "details": { "n": 1 },
                  "content": [
                      { "type": "text", "text": "a" },
                      { "type": "image", "mimeType": "image/png", "source": { "data": "aGk=" } },
                      { "type": "image", "mimeType": "image/png", "source": { "url": "https://example.org/p" } },
                  ]},
                { "type": "toolResult", "toolCallId": "c2", "isError": true, "content": [] },
            ]},
            { "role": "tool", "id": "m4", "content": [
                { "type": "toolResult", "toolCallId": "c3", "isError": false, "content": [] },
            ]},
        ])
    }

    #[test]
    fn what_comes_back_as_it_was_given_is_the_same() {
        let ours = conversation();
        assert!(serde_json::from_value::<Vec<Message>>(ours.clone()).is_ok(), "the samples are messages");
        let theirs = their_list(ours.clone());
        assert_eq!(our_list(theirs).unwrap(), ours);
    }

    #[test]
    fn messages_have_the_shape_that_the_import_promises() {
        let Value::Array(theirs) = their_list(conversation()) else { panic!("no list") };
        let roles: Vec<_> = theirs.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "toolResult", "toolResult", "toolResult"]);
        assert_eq!(theirs[2]["content"][0]["thinking"], "hm");
        assert_eq!(theirs[2]["content"][3], json!({ "type": "citation", "text": "q" }));
        assert_eq!(theirs[3]["toolCallId"], "c1");
        assert_eq!(theirs[3]["details"], json!({ "n": 1 }));
        assert_eq!(
            theirs[3]["content"][1],
            json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" })
        );
    }

    #[test]
    fn messages_that_a_plugin_made_are_messages() {
        let made = json!([
            { "role": "user", "content": "plain text", "timestamp": 1 },
            { "role": "toolResult", "toolCallId": "c1", "toolName": "exec", "content": [{ "type": "text", "text": "x" }] },
        ]);
        let ours = our_list(made).unwrap();
        let read: Vec<Message> = serde_json::from_value(ours).unwrap();
        assert_eq!(read.len(), 2);
        for bad in
            [json!("x"), json!([1]), json!([{ "role": "user" }]), json!([{ "role": "user", "content": [1] }])]
        {
            assert!(our_list(bad).is_err());
        }
    }

    #[test]
    fn parameters_are_laid_over_those_that_were_given() {
        let event = json!({ "params": { "a": 1, "b": 2 } });
        let answer = json!({ "params": { "b": 3, "c": 4 } });
        let (Value::Object(event), Value::Object(answer)) = (event, answer) else { panic!("no objects") };
        let whole = our_answer(answer, &event).unwrap();
        assert_eq!(whole["params"], json!({ "a": 1, "b": 3, "c": 4 }));
    }
}
