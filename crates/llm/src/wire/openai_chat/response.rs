//! Whole answers, and what streams share with them.

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{ASSISTANT_KNOWN, decode_assistant, encode_assistant};
use super::functions::{FUNCTION_CALL, is_function_call};
use crate::error::WireError;
use crate::model::{ModelResponse, StopReason};
use crate::wire::call_ids::CallIds;
use crate::wire::json::Object;
use crate::wire::meta::wrap;

pub(super) const BODY_KNOWN: &[&str] = &["id", "object", "created", "model", "choices", "usage"];

pub(crate) fn decode_response(body: &Value) -> Result<ModelResponse, WireError> {
    let body = Object::of("answer", body)?;
    let choice = match body.required_array("choices")? {
        [only] => Object::of("choice", only)?,
        [] => return Err(body.error("choices", "is empty")),
        _ => return Err(WireError::SeveralChoices),
    };
    let message = choice.required_object("message")?;
    let id = body.string("id")?.unwrap_or_default();
    let index = choice.u64("index")?.unwrap_or(0);
    let content = decode_assistant(message, &mut CallIds::of_answer(id, index))?;
    // Annotations quote the text by position and are of no use in a later request.
    let meta = wrap(API, message.rest(&[ASSISTANT_KNOWN, &["annotations"]].concat()));
    let mut extra = body.rest(BODY_KNOWN);
    extra.retain(|_, value| !value.is_null());
    Ok(ModelResponse {
        id: id.to_owned(),
        model: body.string("model")?.unwrap_or_default().to_owned(),
        message: Message { meta, ..Message::new(Role::Assistant, content) },
        stop: decode_stop(choice.required_string("finish_reason")?),
        usage: body.object("usage")?.map(decode_usage).transpose()?.unwrap_or_default(),
        extra: extra_json(extra),
    })
}

pub(super) fn extra_json(fields: Map<String, Value>) -> Json {
    if fields.is_empty() { Json::default() } else { Json::new(fields.into()) }
}

/// The wire counts cached tokens into the prompt; the model of a usage does not.
pub(super) fn decode_usage(usage: Object<'_>) -> Result<TokenUsage, WireError> {
    let prompt = usage.u64("prompt_tokens")?.unwrap_or_default();
    let details = usage.object("prompt_tokens_details")?;
    let detail = |field: &str| -> Result<u64, WireError> {
        Ok(details.map(|details| details.u64(field)).transpose()?.flatten().unwrap_or_default())
    };
    let (cache_read, cache_write) = (detail("cached_tokens")?, detail("cache_write_tokens")?);
    Ok(TokenUsage {
        input: prompt.saturating_sub(cache_read).saturating_sub(cache_write),
        output: usage.u64("completion_tokens")?.unwrap_or_default(),
        cache_read,
        cache_write,
    })
}

pub(super) fn encode_usage(usage: &TokenUsage) -> Value {
    let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    json!({
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt.saturating_add(usage.output),
        "prompt_tokens_details": {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write},
    })
}

pub(super) fn decode_stop(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::EndTurn,
        "tool_calls" | FUNCTION_CALL => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

pub(super) fn encode_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::StopSequence | StopReason::PauseTurn => "stop",
        StopReason::ToolUse => "tool_calls",
        StopReason::MaxTokens => "length",
        StopReason::Refusal => "content_filter",
        StopReason::Other(reason) => reason,
    }
}

/// Why an answer stopped; one that waits for a function says so in the words of its form.
fn encode_finish(response: &ModelResponse) -> &str {
    let waits = response.stop == StopReason::ToolUse;
    let calls_function = response.message.content.iter().any(is_function_call);
    if waits && calls_function { FUNCTION_CALL } else { encode_stop(&response.stop) }
}

pub(crate) fn encode_response(response: &ModelResponse) -> Value {
    let mut body = json!({
        "id": response.id,
        "object": "chat.completion",
        "created": 0,
        "model": response.model,
        "choices": [{
            "index": 0,
            "message": encode_assistant(&response.message, true),
            "logprobs": null,
            "finish_reason": encode_finish(response),
        }],
        "usage": encode_usage(&response.usage),
    });
    if let (Value::Object(body), Some(extra)) = (&mut body, response.extra.as_object()) {
        body.extend(extra.clone());
    }
    body
}
