//! Whole answers, and what streams share with them.

use std::collections::BTreeMap;

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::is_refusal;
use super::error::decode_error;
use super::item::{Reader, Writer, decode_item, encode_items, waits_for_tools};
use crate::error::WireError;
use crate::model::{ModelResponse, StopReason};
use crate::wire::json::Object;

/// Fields that the model of an answer has a place for. `output_text` is a copy of the output that some
/// servers add.
const KNOWN: &[&str] =
    &["id", "object", "model", "output", "output_text", "status", "incomplete_details", "usage", "error"];

/// States of an answer that is not there yet, or never will be.
const UNFINISHED: [&str; 3] = ["queued", "in_progress", "cancelled"];

pub(crate) fn decode_response(body: &Value) -> Result<ModelResponse, WireError> {
    let body = Object::of("answer", body)?;
    refuse_failed(body)?;
    let id = body.string("id")?.unwrap_or_default();
    let mut parts = Vec::new();
    for (place, item) in body.required_array("output")?.iter().enumerate() {
        parts.extend(decode_item(item, Reader::Answer { response: id, place })?);
    }
    decode_body(body, parts)
}

/// An answer that failed is no answer, whatever its status line said.
pub(super) fn refuse_failed(body: Object<'_>) -> Result<(), WireError> {
    match (body.string("status")?, body.get("error")) {
        (Some("failed"), error) => Err(decode_error(0, error.unwrap_or(&Value::Null)).into()),
        (_, Some(error)) => Err(decode_error(0, error).into()),
        _ => Ok(()),
    }
}

/// The answer that `body` is the frame of and `content` the output.
pub(super) fn decode_body(body: Object<'_>, content: Vec<Part>) -> Result<ModelResponse, WireError> {
    let message = Message::new(Role::Assistant, content);
    refuse_other_text(body, &message)?;
    let mut extra = body.rest(KNOWN);
    extra.retain(|key, value| !value.is_null() && usual(key) != Some(value.clone()));
    let usage = match body.object("usage")? {
        Some(usage) => decode_usage(usage, &mut extra)?,
        None => TokenUsage::default(),
    };
    Ok(ModelResponse {
        id: body.string("id")?.unwrap_or_default().to_owned(),
        model: body.string("model")?.unwrap_or_default().to_owned(),
        stop: decode_stop(body, &message.content)?,
        message,
        usage,
        extra: if extra.is_empty() { Json::default() } else { Json::new(extra.into()) },
    })
}

/// A copy of the text is nothing that could be judged apart.
fn refuse_other_text(body: Object<'_>, message: &Message) -> Result<(), WireError> {
    let texts = message.content.iter().filter_map(|part| match part {
        Part::Text { text, meta } if !is_refusal(meta.as_ref()) => Some(text.as_str()),
        _ => None,
    });
    match body.string("output_text")? {
        Some(copy) if copy != texts.collect::<String>() => {
            Err(body.error("output_text", "is not the text of the output"))
        }
        _ => Ok(()),
    }
}

fn decode_stop(body: Object<'_>, parts: &[Part]) -> Result<StopReason, WireError> {
    Ok(match body.string("status")? {
        Some("incomplete") => {
            let details = body.object("incomplete_details")?;
            match details.map(|details| details.string("reason")).transpose()?.flatten() {
                Some("max_output_tokens") => StopReason::MaxTokens,
                Some("content_filter") => StopReason::Refusal,
                reason => StopReason::Other(reason.unwrap_or("incomplete").to_owned()),
            }
        }
        None | Some("completed") if waits_for_tools(parts) => StopReason::ToolUse,
        None | Some("completed") => StopReason::EndTurn,
        Some(unfinished) => StopReason::Other(unfinished.to_owned()),
    })
}

/// Status and reason of an answer that stopped so.
pub(super) fn encode_stop(stop: &StopReason) -> (&str, Option<&str>) {
    match stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::PauseTurn => {
            ("completed", None)
        }
        StopReason::MaxTokens => ("incomplete", Some("max_output_tokens")),
        StopReason::Refusal => ("incomplete", Some("content_filter")),
        StopReason::Other(name) if UNFINISHED.contains(&name.as_str()) => (name, None),
        StopReason::Other(name) => ("incomplete", Some(name)),
    }
}

const OUTPUT_DETAILS: &str = "output_tokens_details";

fn no_output_details() -> Value {
    json!({"reasoning_tokens": 0})
}

/// The wire counts cached tokens into the input; the model of a usage does not. How many tokens were
/// reasoning stays in `extra`.
fn decode_usage(usage: Object<'_>, extra: &mut Map<String, Value>) -> Result<TokenUsage, WireError> {
    let input = usage.u64("input_tokens")?.unwrap_or_default();
    let details = usage.object("input_tokens_details")?;
    let detail = |field: &str| -> Result<u64, WireError> {
        Ok(details.map(|details| details.u64(field)).transpose()?.flatten().unwrap_or_default())
    };
    let (cache_read, cache_write) = (detail("cached_tokens")?, detail("cache_write_tokens")?);
    let mut rest = usage.rest(&["input_tokens", "input_tokens_details", "output_tokens", "total_tokens"]);
    rest.retain(|key, value| !value.is_null() && (key != OUTPUT_DETAILS || *value != no_output_details()));
    if !rest.is_empty() {
        extra.insert("usage".to_owned(), rest.into());
    }
    Ok(TokenUsage {
        input: input.saturating_sub(cache_read).saturating_sub(cache_write),
        output: usage.u64("output_tokens")?.unwrap_or_default(),
        cache_read,
        cache_write,
    })
}

fn encode_usage(usage: &TokenUsage, extra: &Json) -> Value {
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let mut object = json!({
        "input_tokens": input,
        "input_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
        "output_tokens": usage.output,
        (OUTPUT_DETAILS): no_output_details(),
        "total_tokens": input.saturating_add(usage.output),
    });
    if let (Value::Object(object), Some(Value::Object(rest))) = (&mut object, extra.get("usage")) {
        object.extend(rest.clone());
    }
    object
}

/// What clients expect of an answer that says nothing else about its request.
fn usual(field: &str) -> Option<Value> {
    match field {
        "created_at" => Some(0.into()),
        "metadata" => Some(json!({})),
        "parallel_tool_calls" => Some(true.into()),
        "tool_choice" => Some("auto".into()),
        "tools" => Some(json!([])),
        _ => None,
    }
}

pub(crate) fn encode_response(response: &ModelResponse) -> Value {
    let writer = Writer::Client { response: &response.id };
    encode_body(response, encode_items(&response.message.content, writer, &mut BTreeMap::new()))
}

/// The whole answer with `output`.
pub(super) fn encode_body(response: &ModelResponse, output: Vec<Value>) -> Value {
    let (status, reason) = encode_stop(&response.stop);
    let mut body = encode_frame(&response.id, &response.model, status);
    body.insert("output".to_owned(), output.into());
    body.insert("usage".to_owned(), encode_usage(&response.usage, &response.extra));
    if let Some(reason) = reason {
        body.insert("incomplete_details".to_owned(), json!({"reason": reason}));
    }
    let extra = response.extra.as_object().into_iter().flatten();
    body.extend(extra.filter(|(key, _)| *key != "usage").map(|(key, value)| (key.clone(), value.clone())));
    body.into()
}

/// An answer of which nothing is known but who gives it.
pub(crate) fn encode_frame(id: &str, model: &str, status: &str) -> Map<String, Value> {
    let mut frame = Map::from_iter([
        ("id".to_owned(), Value::from(id)),
        ("object".to_owned(), "response".into()),
        ("status".to_owned(), status.into()),
        ("model".to_owned(), model.into()),
        ("output".to_owned(), json!([])),
    ]);
    for field in ["created_at", "metadata", "parallel_tool_calls", "tool_choice", "tools"] {
        frame.insert(field.to_owned(), usual(field).unwrap_or_default());
    }
    for field in ["error", "incomplete_details", "instructions", "temperature", "top_p", "usage"] {
        frame.insert(field.to_owned(), Value::Null);
    }
    frame
}
