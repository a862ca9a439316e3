//! What a request says outside of the conversation: in fields of its own.
//!
//! A model reads more than messages: expected answers, descriptions in a schema, the values of a stored prompt; and a
//! provider keeps what it is given as metadata. Hooks at `before_llm_call` are shown each such field as a message of the
//! system with one part that nobody knows, `{"field": value}`. What they make of the value is put in its place; a field
//! whose message they take out goes.
//!
//! *Closed.* Which fields hold no text is told by the [table](backstop_llm::wire::request_fields) of the wire, and only as long
//! as what they hold are names and numbers.

use std::collections::HashMap;

use backstop_hooks::MessageId;
use backstop_hooks::conversation::{Message, Part, Role};
use backstop_llm::wire::{TypeClass, request_fields};
use backstop_llm::{Api, ModelRequest};
use serde_json::{Map, Value};

/// What ids of messages begin with that are fields.
const PREFIX: &str = "backstop:field:";
/// A longer string is no name.
const LONGEST_NAME: usize = 64;
/// How deep names stand: deeper values are schemas, or what somebody made.
const DEEPEST_NAME: usize = 2;

/// The fields of a request that hold texts, as messages.
pub(super) fn shown(api: Api, request: &ModelRequest) -> Vec<Message> {
    let fields = request.extra.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| has_text(api, name, value))
        .map(|(name, value)| message(name, value))
        .collect()
}

fn message(name: &str, value: &Value) -> Message {
    let raw = Value::from(Map::from_iter([(name.to_owned(), value.clone())]));
    let part = Part::Unknown { raw: raw.into() };
    Message { id: Some(MessageId::new(format!("{PREFIX}{name}"))), ..Message::new(Role::System, vec![part]) }
}

/// Takes the fields out of what hooks made of the messages, and puts them into the request.
pub(super) fn take(shown: &[Message], messages: &mut Vec<Message>, request: &mut ModelRequest) {
    if shown.is_empty() {
        return;
    }
    let mut left: HashMap<String, Message> = HashMap::new();
    messages.retain(|message| match &message.id {
        Some(id) if id.as_str().starts_with(PREFIX) => {
            left.insert(id.as_str().to_owned(), message.clone());
            false
        }
        _ => true,
    });
    let mut fields = request.extra.as_object().cloned().unwrap_or_default();
    let mut is_changed = false;
    for old in shown {
        let Some(id) = old.id.as_ref().map(MessageId::as_str) else { continue };
        let name = id.strip_prefix(PREFIX).unwrap_or(id);
        let new = left.get(id);
        if new == Some(old) {
            continue;
        }
        is_changed = true;
        match new.and_then(|new| value_of(name, new)) {
            Some(value) => fields.insert(name.to_owned(), value),
            None => fields.shift_remove(name),
        };
    }
    if is_changed {
        request.extra = Value::from(fields).into();
    }
}

/// What a hook left of a field.
fn value_of(name: &str, message: &Message) -> Option<Value> {
    match message.content.as_slice() {
        [Part::Unknown { raw }] => raw.get(name).cloned(),
        _ => None,
    }
}

fn has_text(api: Api, name: &str, value: &Value) -> bool {
    match request_fields(api).class(name) {
        Some(TypeClass::Inert) => !holds_names(value, DEEPEST_NAME),
        // What it offers is told as a tool, with all that is in it.
        Some(TypeClass::Ran) => false,
        _ => holds_strings(value),
    }
}

fn holds_strings(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => items.iter().any(holds_strings),
        Value::Object(fields) => fields.values().any(holds_strings),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a value holds numbers and names, and those not deep inside.
fn holds_names(value: &Value, depth: usize) -> bool {
    match value {
        Value::String(text) => text.len() <= LONGEST_NAME && text.bytes().all(|byte| byte.is_ascii_graphic()),
        Value::Array(items) => depth > 0 && items.iter().all(|item| holds_names(item, depth - 1)),
        Value::Object(fields) => {
            depth > 0
                && fields
                    .iter()
                    .all(|(name, field)| name.len() <= LONGEST_NAME && holds_names(field, depth - 1))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names(api: Api, extra: Value) -> Vec<String> {
        let request = ModelRequest { extra: extra.into(), ..ModelRequest::default() };
        let ids = shown(api, &request).into_iter().filter_map(|message| message.id);
        ids.filter_map(|id| id.as_str().strip_prefix(PREFIX).map(str::to_owned)).collect()
    }

    #[test]
    fn fields_with_texts_are_shown_and_names_are_not() {
        for (api, extra, expected) in [
            (
                Api::OpenAiChat,
                json!({"n": 2, "user": "u-1", "store": true, "reasoning_effort": "low"}),
                vec![],
            ),
            (Api::OpenAiChat, json!({"prediction": {"type": "content", "content": "x"}}), vec!["prediction"]),
            (Api::OpenAiChat, json!({"metadata": {"k": "v"}, "stop": null}), vec!["metadata"]),
            (Api::OpenAiChat, json!({"user": "two words"}), vec!["user"]),
            (Api::OpenAiChat, json!({"response_format": {"type": "json_object"}}), vec![]),
            (
                Api::OpenAiChat,
                json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}}),
                vec!["response_format"],
            ),
            (Api::OpenAiChat, json!({"future": {"x": ["y"]}, "flag": true}), vec!["future"]),
            (
                Api::AnthropicMessages,
                json!({"metadata": {"user_id": "u"}, "thinking": {"type": "enabled", "budget_tokens": 9}}),
                vec![],
            ),
            (
                Api::OpenAiResponses,
                json!({"text": {"format": {"type": "text"}, "verbosity": "low"}, "include": ["a.b"]}),
                vec![],
            ),
            (Api::OpenAiResponses, json!({"prompt": {"id": "p", "variables": {"x": "y"}}}), vec!["prompt"]),
            (Api::Gemini, json!({"labels": {"team": "x"}, "generationConfig": {"topP": 1}}), vec!["labels"]),
        ] {
            assert_eq!(names(api, extra.clone()), expected, "{api} {extra}");
        }
    }

    #[test]
    fn what_hooks_make_of_a_field_is_put_in_its_place() {
        let request = || ModelRequest {
            extra: json!({"a": "x y", "n": 1, "b": {"c": "z"}, "d": ["e"]}).into(),
            ..ModelRequest::new("m", vec![Message::user("hi")])
        };
        let fields = shown(Api::OpenAiChat, &request());
        assert_eq!(fields.len(), 3);
        let mut same = request();
        let mut messages = [same.messages.clone(), fields.clone()].concat();
        take(&fields, &mut messages, &mut same);
        assert_eq!((same, messages.len()), (request(), 1));
        let mut other = request();
        let mut messages =
            [vec![message("b", &json!("new"))], other.messages.clone(), fields[2..].to_vec()].concat();
        take(&fields, &mut messages, &mut other);
        assert_eq!(other.extra.to_value(), json!({"n": 1, "b": "new", "d": ["e"]}));
        assert_eq!(messages, other.messages);
    }
}
