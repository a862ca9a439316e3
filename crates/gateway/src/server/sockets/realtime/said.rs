//! What clients say on a WebSocket of OpenAI Realtime, by a closed list, and what a provider is told in its place.
//!
//! A session and the items of a conversation are kept here until an answer is asked for. Then they are one request, as OpenAI
//! Responses has it: that is what those who judge see, and what a provider is told is made of what they leave of it.

use backstop_llm::wire::{parse_json, parse_request};
use serde_json::{Map, Value, json};

use super::{ASIDE, named};
use crate::error::Failure;
use crate::server::sockets::message::{is_id, shown};

/// A field that something may have, and what it has to be.
type Field = (&'static str, fn(&Value) -> bool);

/// What a session or a request for an answer sets, and the request of Responses has under the same name.
const CONFIGURED: [&str; 8] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "prompt",
    "reasoning",
    "tool_choice",
    "tools",
];
/// What stands besides in a request of Responses, and means nothing here.
const OF_REQUEST: [&str; 4] = ["model", "conversation", "stream", "input"];

const MESSAGE: [Field; 3] =
    [("type", Value::is_string), ("role", Value::is_string), ("content", Value::is_array)];
const TEXT: [Field; 2] = [("type", Value::is_string), ("text", Value::is_string)];
const PICTURE: [Field; 3] = [("type", Value::is_string), ("image_url", Value::is_string), ("detail", is_id)];
const CALL: [Field; 4] = [
    ("type", Value::is_string),
    ("call_id", Value::is_string),
    ("name", Value::is_string),
    ("arguments", Value::is_string),
];
/// What a call came to is a text here: what is written as one after it was judged would be another than what was judged.
const OUTPUT: [Field; 3] =
    [("type", Value::is_string), ("call_id", Value::is_string), ("output", Value::is_string)];
const APPROVAL: [Field; 4] = [
    ("type", Value::is_string),
    ("approval_request_id", Value::is_string),
    ("approve", Value::is_boolean),
    ("reason", Value::is_string),
];

/// What a client said. Fields are the text of a JSON object: they may wait for long, and parsed they would take many times the
/// bytes that count them.
#[derive(Debug)]
pub(in crate::server::sockets) enum Utterance {
    /// The session is to be another.
    Configure { model: Option<String>, fields: String },
    /// There is more of the conversation. Its name is among the fields, too.
    Item { id: String, fields: String },
    /// There is less of it.
    Delete { id: String },
    /// An answer is asked for.
    Create { event: Option<String>, fields: String },
    /// The answer under way is to end.
    Cancel,
}

impl Utterance {
    /// The bytes of what is kept of it.
    pub(in crate::server::sockets) fn len(&self) -> usize {
        match self {
            Self::Configure { fields, .. } | Self::Item { fields, .. } | Self::Create { fields, .. } => {
                fields.len()
            }
            Self::Delete { id } => id.len(),
            Self::Cancel => 0,
        }
    }
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::Message(why.into())
}

/// Refuses fields that are in no list, and those that are not what the list says.
fn only(whose: &str, fields: &Map<String, Value>, known: &[Field]) -> Result<(), Failure> {
    for (key, value) in fields {
        match known.iter().find(|(name, _)| name == key) {
            Some((_, fits)) if fits(value) => {}
            Some((name, _)) => {
                return Err(refused(format!("`{name}` of {whose} is of a kind that does not pass here")));
            }
            None => return Err(refused(format!("{whose} has no field {} here", shown(key)))),
        }
    }
    Ok(())
}

/// Reads what a client said. Text that two readers could understand in two ways is refused.
pub(super) fn hear(text: &str) -> Result<Utterance, Failure> {
    let value = parse_request(text.as_bytes())
        .map_err(|error| refused(format!("the message can't be read: {error}")))?;
    let Value::Object(mut message) = value else { return Err(refused("the message is no JSON object")) };
    let kind = message.remove("type").and_then(|kind| kind.as_str().map(str::to_owned)).unwrap_or_default();
    let event = message.remove("event_id").filter(|id| !id.is_null());
    if event.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(refused("`event_id` is no name of at most 64 letters, digits, `_` and `-`"));
    }
    let event = event.and_then(|id| id.as_str().map(str::to_owned));
    // Errors about what is named so are told nobody.
    if event.as_ref().is_some_and(|id| id.starts_with(ASIDE)) {
        return Err(refused(format!("`event_id` begins with `{ASIDE}`, as names of the proxy do")));
    }
    let mut object = |field: &str| match message.remove(field) {
        Some(Value::Object(fields)) => Ok(fields),
        None if field == "response" => Ok(Map::new()),
        _ => Err(refused(format!("`{field}` is no object"))),
    };
    let said = match kind.as_str() {
        "session.update" => {
            let mut fields = object("session")?;
            if fields.remove("type").is_none_or(|kind| kind != "realtime") {
                return Err(refused("`session.type` is not `realtime`"));
            }
            let model = fields.remove("model").and_then(|model| model.as_str().map(str::to_owned));
            Utterance::Configure { model, fields: configuration(fields, false)? }
        }
        "conversation.item.create" => {
            let (id, fields) = item(object("item")?)?;
            // What is judged comes behind what was judged.
            if message.remove("previous_item_id").is_some_and(|id| !id.is_null()) {
                return Err(refused("items come in their order: leave `previous_item_id` out"));
            }
            Utterance::Item { id, fields }
        }
        "conversation.item.delete" => {
            let id = message.remove("item_id").filter(is_id);
            let id = id.and_then(|id| id.as_str().map(str::to_owned));
            Utterance::Delete { id: id.ok_or_else(|| refused("`item_id` is no name"))? }
        }
        "response.create" => Utterance::Create { event, fields: configuration(object("response")?, true)? },
        "response.cancel" => {
            message.remove("response_id");
            Utterance::Cancel
        }
        _ => {
            return Err(refused(format!(
                "a message of the type {} does not pass here\nhint: `session.update`, `conversation.item.create`, `conversation.item.delete`, `response.create` and `response.cancel` do, with text and without sound",
                shown(&kind)
            )));
        }
    };
    match message.keys().next() {
        None => Ok(said),
        Some(field) => Err(refused(format!("`{kind}` has no field {} here", shown(field)))),
    }
}

/// The settings of a session, or of one answer.
fn configuration(fields: Map<String, Value>, is_answer: bool) -> Result<String, Failure> {
    let mut kept = Map::new();
    for (key, value) in fields {
        match key.as_str() {
            _ if value.is_null() => {}
            "output_modalities" if value == json!(["text"]) => {}
            "output_modalities" => {
                return Err(refused(
                    "sound does not pass here, since nobody could judge it\nhint: `\"output_modalities\": [\"text\"]`",
                ));
            }
            // How sound would be is of no concern to text.
            "audio" => {}
            "conversation" if is_answer && value == "auto" => {}
            "metadata" if !is_answer => return Err(refused("`session` has no field \"metadata\" here")),
            "max_output_tokens" if value != "inf" && !value.is_u64() => {
                return Err(refused("`max_output_tokens` is neither a number nor \"inf\""));
            }
            key if CONFIGURED.contains(&key) => {
                kept.insert(key.to_owned(), value);
            }
            key => {
                let whose = if is_answer { "response" } else { "session" };
                return Err(refused(format!("`{whose}` has no field {} here", shown(key))));
            }
        }
    }
    Ok(Value::Object(kept).to_string())
}

/// An item as an input of Responses, and its name.
fn item(mut fields: Map<String, Value>) -> Result<(String, String), Failure> {
    fields.retain(|_, value| !value.is_null());
    let id = match fields.remove("id") {
        Some(id) => id.as_str().filter(|_| is_id(&id)).map(str::to_owned),
        None => Some(named("item")),
    };
    let id = id.ok_or_else(|| refused("`item.id` is no name of at most 64 letters, digits, `_` and `-`"))?;
    fields.remove("object");
    fields.remove("status");
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let known: &[Field] = match kind.as_str() {
        "message" => &MESSAGE,
        "function_call" => &CALL,
        "function_call_output" => &OUTPUT,
        "mcp_approval_response" => &APPROVAL,
        _ => return Err(refused(format!("an item of the type {} does not pass here", shown(&kind)))),
    };
    only(&format!("an item of the type `{kind}`"), &fields, known)?;
    if kind == "message" {
        parts(&fields)?;
    }
    fields.insert("id".to_owned(), id.as_str().into());
    Ok((id, Value::Object(fields).to_string()))
}

/// Refuses a message with parts that are neither texts nor pictures, or that its author does not have.
fn parts(message: &Map<String, Value>) -> Result<(), Failure> {
    let role = message.get("role").and_then(Value::as_str).unwrap_or_default();
    let parts = message.get("content").and_then(Value::as_array);
    let known = |part: &Map<String, Value>| -> Option<&'static [Field]> {
        match (part.get("type")?.as_str()?, role) {
            ("input_text", "user" | "system") | ("output_text", "assistant") => Some(&TEXT),
            ("input_image", "user" | "system") => Some(&PICTURE),
            _ => None,
        }
    };
    let no_text = || refused("of a message, texts and pictures of the user and texts of others pass here");
    if !matches!(role, "user" | "system" | "assistant") {
        return Err(no_text());
    }
    for part in parts.ok_or_else(no_text)? {
        let part = part.as_object().ok_or_else(no_text)?;
        only("a part of a message", part, known(part).ok_or_else(no_text)?)?;
    }
    Ok(())
}

/// What a request for an answer has besides its body.
#[derive(Clone, Debug)]
pub(in crate::server::sockets) struct Envelope {
    /// Its name. Errors about it have that with them.
    event: String,
    /// As much as the model has to say.
    is_endless: bool,
}

impl Envelope {
    pub(super) fn new(event: String, is_endless: bool) -> Self {
        Self { event, is_endless }
    }

    /// The messages that a request is for a provider; `None` if it has something that none could be made of.
    pub(in crate::server::sockets) fn with(&self, body: &[u8]) -> Option<Vec<String>> {
        let Ok(Value::Object(mut body)) = parse_json(body) else { return None };
        let input = match body.remove("input") {
            Some(Value::Array(items)) => items,
            None => Vec::new(),
            Some(_) => return None,
        };
        let mut messages = Vec::new();
        for item in input {
            let item = as_item(item)?;
            messages.push(json!({"type": "conversation.item.create", "item": item}).to_string());
        }
        let mut response = Map::from_iter([("output_modalities".to_owned(), json!(["text"]))]);
        for (key, value) in body {
            if CONFIGURED.contains(&key.as_str()) {
                response.insert(key, value);
            } else if !OF_REQUEST.contains(&key.as_str()) {
                return None;
            }
        }
        if self.is_endless {
            response.insert("max_output_tokens".to_owned(), "inf".into());
        }
        let create = json!({"type": "response.create", "event_id": self.event, "response": response});
        messages.push(create.to_string());
        Some(messages)
    }
}

/// An item as a provider of Realtime reads it.
fn as_item(item: Value) -> Option<Value> {
    let Value::Object(mut item) = item else { return None };
    let kind = item.get("type").and_then(Value::as_str).unwrap_or("message").to_owned();
    match kind.as_str() {
        "message" => {
            item.insert("type".to_owned(), "message".into());
            if item.get("role")?.as_str()? == "developer" {
                item.insert("role".to_owned(), "system".into());
            }
            let own = if item.get("role")?.as_str()? == "assistant" { "output_text" } else { "input_text" };
            if let Some(Value::String(text)) = item.get("content") {
                let content = json!([{"type": own, "text": text}]);
                item.insert("content".to_owned(), content);
            }
            for part in item.get_mut("content")?.as_array_mut()? {
                let part = part.as_object_mut()?;
                // What quotes a text stands beside it in answers only.
                part.remove("annotations");
                part.remove("logprobs");
                if !matches!(part.get("type")?.as_str()?, "input_text" | "input_image" | "output_text") {
                    return None;
                }
            }
        }
        "function_call_output" if !item.get("output")?.is_string() => return None,
        "function_call" | "function_call_output" | "mcp_approval_response" => {}
        _ => return None,
    }
    Some(item.into())
}

/// The message that ends the answer under way. What is said to it concerns nobody.
pub(super) fn cancel() -> String {
    json!({"type": "response.cancel", "event_id": format!("{ASIDE}cancel")}).to_string()
}

/// The message that takes an item away.
pub(super) fn delete(id: &str) -> String {
    json!({"type": "conversation.item.delete", "event_id": format!("{ASIDE}delete"), "item_id": id})
        .to_string()
}
