//! Whole answers, and what streams share with them.

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::{Direction, decode_answer_block, encode_parts};
use super::{object, only};
use crate::error::WireError;
use crate::model::{ModelResponse, StopReason};
use crate::wire::json::{Object, malformed};

/// The reason of an answer that the provider's filter ended.
const FILTERED: &str = "content_filtered";

const USAGE_KNOWN: [&str; 5] =
    ["inputTokens", "outputTokens", "totalTokens", "cacheReadInputTokens", "cacheWriteInputTokens"];

pub(crate) fn decode_response(body: &Value) -> Result<ModelResponse, WireError> {
    let body = object("answer", body)?;
    let output = body.get("output").ok_or_else(|| body.error("output", "is missing"))?;
    let ("message", message) = only("output", output)? else {
        return Err(body.error("output", "is no message"));
    };
    let message = object("message", message)?;
    check_role(message)?;
    let content = message.required_array("content")?.iter().map(decode_answer_block);
    let mut usage = TokenUsage::default();
    let mut extra = body.rest(&["output", "stopReason", "usage"]);
    if let Some(said) = body.object("usage")? {
        update_usage(said, &mut usage, &mut extra)?;
    }
    Ok(ModelResponse {
        id: String::new(),
        model: String::new(),
        message: Message::new(Role::Assistant, content.collect::<Result<_, _>>()?),
        stop: stop_reason(body.required_string("stopReason")?),
        usage,
        extra: extra_json(extra),
    })
}

/// What an answer says besides, without what says nothing.
pub(super) fn extra_json(mut fields: Map<String, Value>) -> Json {
    let no_time = json!({"latencyMs": 0});
    let says_nothing = |key: &str, value: &Value| value.is_null() || (key == "metrics" && *value == no_time);
    fields.retain(|key, value| !says_nothing(key, value));
    if fields.is_empty() { Json::default() } else { Json::new(fields.into()) }
}

/// An answer is the assistant's.
pub(super) fn check_role(message: Object<'_>) -> Result<(), WireError> {
    match message.string("role")? {
        None | Some("assistant") => Ok(()),
        Some(_) => Err(malformed("answer", "role", "is not that of an answer")),
    }
}

pub(super) fn stop_reason(name: &str) -> StopReason {
    if name == FILTERED { StopReason::Refusal } else { name.into() }
}

pub(super) fn stop_name(stop: &StopReason) -> &str {
    if *stop == StopReason::Refusal { FILTERED } else { stop.as_str() }
}

/// Takes the counts, and keeps what else is said about them.
pub(super) fn update_usage(
    said: Object<'_>,
    usage: &mut TokenUsage,
    extra: &mut Map<String, Value>,
) -> Result<(), WireError> {
    let counts = [
        ("inputTokens", &mut usage.input),
        ("outputTokens", &mut usage.output),
        ("cacheReadInputTokens", &mut usage.cache_read),
        ("cacheWriteInputTokens", &mut usage.cache_write),
    ];
    for (field, count) in counts {
        if let Some(value) = said.u64(field)? {
            *count = value;
        }
    }
    let rest = said.rest(&USAGE_KNOWN);
    if !rest.is_empty() {
        extra.insert("usage".to_owned(), rest.into());
    }
    Ok(())
}

pub(super) fn encode_usage(usage: &TokenUsage, extra: &Json) -> Value {
    let mut told = Map::from_iter([
        ("inputTokens".to_owned(), Value::from(usage.input)),
        ("outputTokens".to_owned(), usage.output.into()),
        ("totalTokens".to_owned(), usage.total().into()),
    ]);
    let cached = [("cacheReadInputTokens", usage.cache_read), ("cacheWriteInputTokens", usage.cache_write)];
    told.extend(
        cached
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count.into())),
    );
    if let Some(Value::Object(rest)) = extra.get("usage") {
        told.extend(rest.clone());
    }
    told.into()
}

/// What an answer says besides, with the metrics that every answer has.
pub(super) fn encode_rest(extra: &Json) -> Map<String, Value> {
    let mut rest = extra.as_object().cloned().unwrap_or_default();
    rest.shift_remove("usage");
    rest.entry("metrics").or_insert_with(|| json!({"latencyMs": 0}));
    rest
}

pub(crate) fn encode_response(response: &ModelResponse) -> Value {
    let content = encode_parts(&response.message.content, Direction::ToClient);
    let mut body = Map::from_iter([
        ("output".to_owned(), json!({"message": {"role": "assistant", "content": content}})),
        ("stopReason".to_owned(), stop_name(&response.stop).into()),
        ("usage".to_owned(), encode_usage(&response.usage, &response.extra)),
    ]);
    body.extend(encode_rest(&response.extra));
    body.into()
}
