//! Whole answers, and what streams share with them.

use std::borrow::Cow;

use backstop_hooks::Json;
use backstop_hooks::conversation::{Message, Part, Role, TokenUsage};
use serde_json::{Map, Value, json};

use super::content::{Calls, Place, decode_parts, encode_parts};
use super::error::decode_error;
use super::names::{canonical, list};
use crate::error::{WireError, out_of_order};
use crate::model::{ModelResponse, StopReason};
use crate::wire::call_ids::CallIds;
use crate::wire::json::Object;

pub(super) const BODY_KNOWN: &[&str] = &["candidates", "usageMetadata", "modelVersion", "responseId"];

/// Fields of a candidate that are read, or that say the answer a second time.
const CANDIDATE_KNOWN: &[&str] = &["content", "finishReason", "index", "logprobsResult"];

pub(crate) fn decode_response(value: &Value) -> Result<ModelResponse, WireError> {
    let mut responses = decode_candidates(value)?;
    match (responses.pop(), responses.is_empty()) {
        (Some(only), true) => Ok(only),
        _ => Err(WireError::SeveralChoices),
    }
}

/// Reads an answer with any number of candidates: one answer for each. Of several, each has what all of them
/// share (id, model, counts) and what it says itself, and nothing else of the body: there may be a lot of it.
pub(crate) fn decode_candidates(value: &Value) -> Result<Vec<ModelResponse>, WireError> {
    let body = canonical("answer", value)?;
    let body = Object::of("answer", &body)?;
    if body.get("error").is_some() {
        return Err(decode_error(0, value).into());
    }
    let mut extra = body.rest(BODY_KNOWN);
    let usage = usage(body, &mut extra)?.unwrap_or_default();
    let decode = |candidate, extra| decode_candidate(body, candidate, usage, extra);
    match in_order(body)? {
        [] if blocked(&extra) => Ok(vec![decode(None, extra)?]),
        [] => Err(body.error("candidates", "is missing")),
        [only] => Ok(vec![decode(Some((0, only)), extra)?]),
        several => (0..).zip(several).map(|candidate| decode(Some(candidate), Map::new())).collect(),
    }
}

/// The candidates of a whole answer. Readers go by their place or by their index, so both must say the same; an
/// index that is left out is 0, or the place where no candidate has one.
fn in_order(body: Object<'_>) -> Result<&[Value], WireError> {
    let candidates = list("answer", "candidates", body.get("candidates"))?;
    let index = |candidate| Object::of("candidate", candidate)?.u64("index");
    let indexes = candidates.iter().map(index).collect::<Result<Vec<_>, _>>()?;
    let is_numbered = indexes.iter().any(Option::is_some);
    let is_place = |(place, index): (u64, &Option<u64>)| index.unwrap_or(0) == place;
    if is_numbered && !(0..).zip(&indexes).all(is_place) {
        return Err(out_of_order("the indexes of the candidates are not in order"));
    }
    Ok(candidates)
}

fn decode_candidate(
    body: Object<'_>,
    candidate: Option<(u64, &Value)>,
    usage: TokenUsage,
    mut extra: Map<String, Value>,
) -> Result<ModelResponse, WireError> {
    let id = body.string("responseId")?.unwrap_or_default().to_owned();
    let (mut content, mut reason) = (Vec::new(), None);
    let named = candidate.map(|(_, candidate)| canonical("candidate", candidate)).transpose()?;
    if let (Some((index, _)), Some(candidate)) = (candidate, &named) {
        let candidate = Object::of("candidate", candidate)?;
        content = match candidate.get("content") {
            Some(content) => decode_content(content, CallIds::of_answer(&id, index))?,
            None => Vec::new(),
        };
        reason = finish_reason(candidate)?;
        if reason.is_none() {
            return Err(candidate.error("finishReason", "is missing"));
        }
        candidate_extra(candidate, &mut extra);
    }
    let stop = stop(reason.as_deref(), &content, &mut extra);
    Ok(ModelResponse {
        id,
        model: body.string("modelVersion")?.unwrap_or_default().to_owned(),
        message: Message::new(Role::Assistant, content),
        stop,
        usage,
        extra: extra_json(extra),
    })
}

fn decode_content(value: &Value, mut ids: CallIds) -> Result<Vec<Part>, WireError> {
    let content = canonical("content", value)?;
    let parts = decode_parts(Object::of("content", &content)?, Place::Answer, &mut ids)?;
    Ok(parts.into_iter().filter(|part| !says_nothing(part)).collect())
}

/// An empty text without a signature; streams end with one, so that their last piece has content.
fn says_nothing(part: &Part) -> bool {
    match part {
        Part::Text { text, meta } => text.is_empty() && meta.is_none(),
        _ => false,
    }
}

/// Why a candidate ended, if it did. Clients may ask for numbers in place of names (`enum-encoding=int`); those that
/// the provider's products do not share have no name here.
pub(super) fn finish_reason(candidate: Object<'_>) -> Result<Option<Cow<'_, str>>, WireError> {
    const SHARED: [&str; 6] = ["", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER"];
    let reason = match candidate.get("finishReason").and_then(Value::as_u64) {
        None => candidate.string("finishReason")?.map(Cow::Borrowed),
        Some(number) => {
            let name = usize::try_from(number).ok().and_then(|number| SHARED.get(number));
            Some(name.map_or_else(|| Cow::Owned(number.to_string()), |name| Cow::Borrowed(*name)))
        }
    };
    Ok(reason.filter(|reason| !reason.is_empty()))
}

/// The candidates of an event with their indexes, of which one that is left out is 0.
pub(crate) fn candidates_of(event: &Value) -> Result<Vec<(u64, &Value)>, WireError> {
    let candidates = list("stream event", "candidates", event.get("candidates"))?.iter();
    let indexed = candidates
        .map(|candidate| Ok((Object::of("candidate", candidate)?.u64("index")?.unwrap_or(0), candidate)));
    indexed.collect()
}

/// Whether the provider refused the prompt, so that there is no candidate.
pub(super) fn blocked(extra: &Map<String, Value>) -> bool {
    extra
        .get("promptFeedback")
        .and_then(|feedback| feedback.get("blockReason"))
        .is_some_and(|reason| !reason.is_null())
}

/// Keeps what else a candidate says, under the wire's own names.
pub(super) fn candidate_extra(candidate: Object<'_>, extra: &mut Map<String, Value>) {
    let mut fields = candidate.rest(CANDIDATE_KNOWN);
    fields.retain(|_, value| !value.is_null());
    if let Some(grounding) = fields.get_mut("groundingMetadata") {
        let supports = grounding.get_mut("groundingSupports").and_then(Value::as_array_mut);
        for support in supports.into_iter().flatten() {
            if let Some(Value::Object(segment)) = support.get_mut("segment") {
                segment.remove("text");
            }
        }
    }
    if !fields.is_empty() {
        merge_candidate(fields, extra);
    }
}

/// What a stream says later replaces what it said before, but for citations, which add up.
fn merge_candidate(fields: Map<String, Value>, extra: &mut Map<String, Value>) {
    let candidates = extra.entry("candidates").or_insert_with(|| json!([{}]));
    let Some(Value::Object(known)) = candidates.get_mut(0) else { return };
    for (key, value) in fields {
        match (known.get_mut(&key), value) {
            (Some(Value::Object(so_far)), Value::Object(more)) if key == "citationMetadata" => {
                for (key, value) in more {
                    match (so_far.get_mut(&key), value) {
                        (Some(Value::Array(so_far)), Value::Array(more)) => so_far.extend(more),
                        (_, value) => {
                            so_far.insert(key, value);
                        }
                    }
                }
            }
            (_, value) => {
                known.insert(key, value);
            }
        }
    }
}

/// Why the model stopped. The wire's own name is kept where the reason's name does not tell it.
pub(super) fn stop(reason: Option<&str>, content: &[Part], extra: &mut Map<String, Value>) -> StopReason {
    let Some(reason) = reason else { return StopReason::Refusal };
    let calls = content.iter().any(|part| matches!(part, Part::ToolCall(_)));
    let stop = decode_stop(reason, calls);
    if encode_stop(&stop) != reason {
        merge_candidate(Map::from_iter([("finishReason".to_owned(), reason.into())]), extra);
    }
    stop
}

fn decode_stop(reason: &str, calls: bool) -> StopReason {
    match reason {
        "STOP" if calls => StopReason::ToolUse,
        "STOP" => StopReason::EndTurn,
        "MAX_TOKENS" => StopReason::MaxTokens,
        "SAFETY"
        | "RECITATION"
        | "BLOCKLIST"
        | "PROHIBITED_CONTENT"
        | "SPII"
        | "MODEL_ARMOR"
        | "IMAGE_SAFETY"
        | "IMAGE_PROHIBITED_CONTENT"
        | "IMAGE_RECITATION" => StopReason::Refusal,
        other => StopReason::Other(other.to_owned()),
    }
}

fn encode_stop(stop: &StopReason) -> &str {
    match stop {
        StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence | StopReason::PauseTurn => {
            "STOP"
        }
        StopReason::MaxTokens => "MAX_TOKENS",
        StopReason::Refusal => "SAFETY",
        StopReason::Other(reason) => reason,
    }
}

/// Counts. The wire counts cached tokens into the prompt and reasoning apart from the answer; the model of a
/// usage does it the other way round.
pub(super) fn usage(
    body: Object<'_>,
    extra: &mut Map<String, Value>,
) -> Result<Option<TokenUsage>, WireError> {
    let Some(usage) = body.get("usageMetadata") else { return Ok(None) };
    let usage = canonical("usage", usage)?;
    let usage = Object::of("usage", &usage)?;
    let count = |field: &str| Ok::<u64, WireError>(usage.u64(field)?.unwrap_or_default());
    let cache_read = count("cachedContentTokenCount")?;
    let counts = TokenUsage {
        input: count("promptTokenCount")?
            .saturating_sub(cache_read)
            .saturating_add(count("toolUsePromptTokenCount")?),
        output: count("candidatesTokenCount")?.saturating_add(count("thoughtsTokenCount")?),
        cache_read,
        cache_write: 0,
    };
    let known = ["promptTokenCount", "candidatesTokenCount", "cachedContentTokenCount", "totalTokenCount"];
    let mut rest = usage.rest(&known);
    rest.retain(|_, value| !value.is_null());
    extra.remove("usageMetadata");
    if !rest.is_empty() {
        extra.insert("usageMetadata".to_owned(), rest.into());
    }
    Ok(Some(counts))
}

pub(super) fn encode_usage(usage: &TokenUsage, extra: &Json) -> Value {
    let rest = extra.get("usageMetadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let count = |field: &str| rest.get(field).and_then(Value::as_u64).unwrap_or_default();
    let input = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    let mut object = Map::from_iter([
        ("promptTokenCount".to_owned(), Value::from(input.saturating_sub(count("toolUsePromptTokenCount")))),
        (
            "candidatesTokenCount".to_owned(),
            Value::from(usage.output.saturating_sub(count("thoughtsTokenCount"))),
        ),
        ("totalTokenCount".to_owned(), Value::from(usage.total())),
    ]);
    if usage.cache_read > 0 {
        object.insert("cachedContentTokenCount".to_owned(), usage.cache_read.into());
    }
    object.extend(rest);
    object.into()
}

pub(super) fn extra_json(mut fields: Map<String, Value>) -> Json {
    fields.retain(|_, value| !value.is_null());
    if fields.is_empty() { Json::default() } else { Json::new(fields.into()) }
}

pub(crate) fn encode_response(response: &ModelResponse) -> Value {
    let parts = encode_parts(&response.message.content, Place::Answer, &Calls::default());
    last_piece(response, parts)
}

/// An answer's body with `parts`, its end and all that was said about it.
pub(super) fn last_piece(response: &ModelResponse, parts: Vec<Value>) -> Value {
    let mut extra = response.extra.as_object().cloned().unwrap_or_default();
    let kept = match extra.remove("candidates") {
        Some(Value::Array(kept)) => kept.into_iter().next(),
        _ => None,
    };
    extra.remove("usageMetadata");
    let mut body = Map::new();
    // A prompt that was refused has no candidate.
    let refused = response.stop == StopReason::Refusal && blocked(&extra);
    if !(refused && response.message.content.is_empty()) {
        let candidate = encode_candidate(response, parts, kept);
        body.insert("candidates".to_owned(), json!([candidate]));
    }
    body.insert("usageMetadata".to_owned(), encode_usage(&response.usage, &response.extra));
    body.insert("modelVersion".to_owned(), response.model.as_str().into());
    body.insert("responseId".to_owned(), response.id.as_str().into());
    body.extend(extra);
    body.into()
}

fn encode_candidate(response: &ModelResponse, parts: Vec<Value>, kept: Option<Value>) -> Value {
    let mut candidate = match kept {
        Some(Value::Object(kept)) => kept,
        _ => Map::new(),
    };
    let calls = response.message.tool_calls().next().is_some();
    let own = candidate.get("finishReason").and_then(Value::as_str);
    let is_own = own.is_some_and(|own| decode_stop(own, calls) == response.stop);
    if !is_own {
        candidate.insert("finishReason".to_owned(), encode_stop(&response.stop).into());
    }
    candidate.insert("content".to_owned(), json!({"parts": parts, "role": "model"}));
    candidate.insert("index".to_owned(), 0.into());
    candidate.into()
}
