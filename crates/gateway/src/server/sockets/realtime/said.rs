//! What clients say on a WebSocket of OpenAI Realtime, by a closed list, and what a provider is told in its place.
//!
//! A session and the items of a conversation are kept here until an answer is asked for. Then they are one request, as OpenAI
//! Responses has it: that is what those who judge see, and what a provider is told is made of what they leave of it.

use backstop_llm::wire::{parse_json, parse_request};
use serde_json::{Map, Value, json};

use super::ASIDE;
use crate::error::Failure;
use crate::server::sockets::message::is_id;

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
const MAX_NAME_CHARS: usize = 64;

/// What a client said.
#[derive(Debug)]
pub(in crate::server::sockets) enum Utterance {
    /// The session is to be another.
    Configure { model: Option<String>, fields: Map<String, Value> },
    /// There is more of the conversation.
    Item { id: Option<String>, fields: Map<String, Value> },
    /// There is less of it.
    Delete { id: String },
    /// An answer is asked for.
    Create { event: Option<String>, fields: Map<String, Value> },
    /// The answer under way is to end.
    Cancel,
}

fn refused(why: impl Into<String>) -> Failure {
    Failure::Message(why.into())
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
            let name: String = kind.chars().take(MAX_NAME_CHARS).collect();
            return Err(refused(format!(
                "a message of the type {name:?} does not pass here\nhint: `session.update`, `conversation.item.create`, `conversation.item.delete`, `response.create` and `response.cancel` do, with text and without sound"
            )));
        }
    };
    match message.keys().next() {
        None => Ok(said),
        Some(field) => {
            let name: String = field.chars().take(MAX_NAME_CHARS).collect();
            Err(refused(format!("`{kind}` has no field {name:?} here")))
        }
    }
}

/// The settings of a session, or of one answer.
fn configuration(fields: Map<String, Value>, is_answer: bool) -> Result<Map<String, Value>, Failure> {
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
                let name: String = key.chars().take(MAX_NAME_CHARS).collect();
                let whose = if is_answer { "response" } else { "session" };
                return Err(refused(format!("`{whose}` has no field {name:?} here")));
            }
        }
    }
    Ok(kept)
}

/// An item as an input of Responses, and its name.
fn item(mut fields: Map<String, Value>) -> Result<(Option<String>, Map<String, Value>), Failure> {
    let id = fields.remove("id").filter(|id| !id.is_null());
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return Err(refused("`item.id` is no name of at most 64 letters, digits, `_` and `-`"));
    }
    fields.remove("object");
    fields.remove("status");
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "message" => {
            let role = fields.get("role").and_then(Value::as_str);
            let parts = fields.get("content").and_then(Value::as_array).map(Vec::as_slice);
            let fits = |part: &Value| match part.get("type").and_then(Value::as_str) {
                Some("input_text" | "input_image") => role != Some("assistant"),
                Some("output_text") => role == Some("assistant"),
                _ => false,
            };
            if !matches!(role, Some("user" | "system" | "assistant"))
                || !parts.is_some_and(|parts| parts.iter().all(fits))
            {
                return Err(refused(
                    "of a message, texts and pictures of the user and texts of others pass here",
                ));
            }
        }
        "function_call" | "function_call_output" | "mcp_approval_response" => {}
        _ => {
            let name: String = kind.chars().take(MAX_NAME_CHARS).collect();
            return Err(refused(format!("an item of the type {name:?} does not pass here")));
        }
    }
    Ok((id.and_then(|id| id.as_str().map(str::to_owned)), fields))
}

/// What a request for an answer has besides its body.
#[derive(Clone, Debug)]
pub(in crate::server::sockets) struct Envelope {
    /// The name that the client gave it.
    event: Option<String>,
    /// As much as the model has to say.
    is_endless: bool,
}

impl Envelope {
    pub(super) fn new(event: Option<String>, is_endless: bool) -> Self {
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
        let mut create = json!({"type": "response.create", "response": response});
        if let (Some(create), Some(event)) = (create.as_object_mut(), &self.event) {
            create.insert("event_id".to_owned(), event.as_str().into());
        }
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
        "function_call_output" => {
            if let Some(output) = item.get_mut("output").filter(|output| !output.is_string()) {
                *output = output.to_string().into();
            }
        }
        "function_call" | "mcp_approval_response" => {}
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
