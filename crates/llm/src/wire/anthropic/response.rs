//! Whole answers, and what streams share with them.

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::{Direction, decode_answer_block, encode_parts};
use crate::error::WireError;
use crate::model::ModelResponse;
use crate::wire::json::Object;

const USAGE_KNOWN: &[&str] =
    &["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];

pub(crate) fn decode_response(body: &Value) -> Result<ModelResponse, WireError> {
    let body = Object::of("answer", body)?;
    let content =
        body.required_array("content")?.iter().map(decode_answer_block).collect::<Result<_, _>>()?;
    let mut usage = TokenUsage::default();
    let mut extra = body.rest(&["id", "type", "role", "model", "content", "stop_reason", "usage"]);
    if let Some(object) = body.object("usage")? {
        update_usage(object, &mut usage, &mut extra)?;
    }
    Ok(ModelResponse {
        id: body.string("id")?.unwrap_or_default().to_owned(),
        model: body.string("model")?.unwrap_or_default().to_owned(),
        message: Message::new(Role::Assistant, content),
        stop: body.required_string("stop_reason")?.into(),
        usage,
        extra: extra_json(extra),
    })
}

/// `extra` without the fields that say nothing.
pub(super) fn extra_json(mut fields: Map<String, Value>) -> Json {
    fields.retain(|_, value| !value.is_null());
    if fields.is_empty() { Json::default() } else { Json::new(fields.into()) }
}

/// Takes the counts that are there; those that are not keep their value, since a stream tells them twice.
pub(super) fn update_usage(
    object: Object<'_>,
    usage: &mut TokenUsage,
    extra: &mut Map<String, Value>,
) -> Result<(), WireError> {
    let counts = [
        ("input_tokens", &mut usage.input),
        ("output_tokens", &mut usage.output),
        ("cache_read_input_tokens", &mut usage.cache_read),
        ("cache_creation_input_tokens", &mut usage.cache_write),
    ];
    for (field, count) in counts {
        if let Some(value) = object.u64(field)? {
            *count = value;
        }
    }
    let rest = object.rest(USAGE_KNOWN);
    if !rest.is_empty() {
        let known = extra.entry("usage").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(known) = known {
            known.extend(rest);
        }
    }
    Ok(())
}

pub(super) fn encode_usage(usage: &TokenUsage, extra: &Json) -> Value {
    let mut object = Map::from_iter([
        ("input_tokens".to_owned(), Value::from(usage.input)),
        ("cache_creation_input_tokens".to_owned(), Value::from(usage.cache_write)),
        ("cache_read_input_tokens".to_owned(), Value::from(usage.cache_read)),
        ("output_tokens".to_owned(), Value::from(usage.output)),
    ]);
    if let Some(Value::Object(rest)) = extra.get("usage") {
        object.extend(rest.clone());
    }
    object.into()
}

pub(crate) fn encode_response(response: &ModelResponse) -> Value {
    let mut body = json!({
        "id": response.id,
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": encode_parts(&response.message.content, Direction::ToClient),
        "stop_reason": response.stop.as_str(),
        "stop_sequence": null,
        "usage": encode_usage(&response.usage, &response.extra),
    });
    if let (Value::Object(body), Some(extra)) = (&mut body, response.extra.as_object()) {
        body.extend(
            extra.iter().filter(|(key, _)| *key != "usage").map(|(key, value)| (key.clone(), value.clone())),
        );
    }
    body
}
