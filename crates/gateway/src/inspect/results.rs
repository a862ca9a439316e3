//! The judgement of what the provider's own tools brought in.
//!
//! A result that stands in an answer goes to the person, and with the next request to the model, like that of any tool. So it
//! passes `tool.after` before it is shown. What hooks make of it is put in its place; where they want something else than a
//! result of its form, or want it withheld, the answer ends. So it does where a hook says something about a result that
//! the wire has no place for, and where it takes apart a list or an object in which something sealed stood: nobody knows then
//! to what of the new the old seal belongs.
//!
//! What the tools were called with is shown in the same way. It has been called: a hook that wants another value ends the answer.
//!
//! Limits: what a provider has sealed for itself, and pictures, are shown to redactors of answers alone, and stay as they came. They are known
//! by wire, tool and place, and by reading as nothing that people can read.

use backstop_engine::{BlockCause, Blocked, Engine};
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{ToolAfter, ToolAfterEvent};
use backstop_hooks::{CallContext, Text};
use backstop_llm::Api;
use backstop_llm::live::{FreshResult, Word};
use serde_json::Value;

/// A place in a result: fields from the outside in, [`EACH`] for all items of a list.
type Place = [&'static str];
const EACH: &str = "*";

/// Where results hold what only the provider reads, and what is a picture or a sound, by wire and tool.
const SEALED: [(Api, &str, &[&Place]); 6] = [
    (Api::AnthropicMessages, "web_search", &[&["content", EACH, "encrypted_content"]]),
    (Api::AnthropicMessages, "code_execution", &[&["content", "encrypted_stdout"]]),
    (Api::AnthropicMessages, "advisor", &[&["content", "encrypted_content"]]),
    (Api::AnthropicMessages, "citations", &[&["encrypted_index"], &[EACH, "encrypted_index"]]),
    (Api::OpenAiResponses, "image_generation", &[&["result"]]),
    (
        Api::Gemini,
        "provider_tool",
        &[&["parts", EACH, "inlineData", "data"], &["parts", EACH, "inline_data", "data"]],
    ),
];

/// The places of a result at which something sealed may stand.
fn sealed_places(api: Api, tool: &str) -> Vec<&'static Place> {
    let known = SEALED.iter().filter(|(wire, name, _)| *wire == api && *name == tool);
    known.flat_map(|(_, _, places)| places.iter().copied()).collect()
}

/// What in a result is shown to no hook of results: only its provider opens it, or it is a picture.
pub(super) fn seals(api: Api, fresh: &FreshResult) -> Vec<Word> {
    fn take(value: &Value, places: &[&'static Place], seals: &mut Vec<Word>) {
        match value {
            _ if places.is_empty() => {}
            value if is_sealed(value, places) => {
                let text = value.as_str().unwrap_or_default().to_owned();
                seals.push(Word { text, is_sealed: true });
            }
            Value::Array(items) => {
                let places = inside(places, EACH);
                items.iter().for_each(|item| take(item, &places, seals));
            }
            Value::Object(fields) => {
                fields.iter().for_each(|(name, field)| take(field, &inside(places, name), seals));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut seals = Vec::new();
    take(&fresh.value, &sealed_places(api, fresh.tool), &mut seals);
    seals
}

/// Judges one result; answers what stands in its place, if that is another.
pub(super) async fn judge(
    api: Api,
    fresh: &FreshResult,
    engine: &Engine,
    call: &CallContext,
) -> Result<Option<Value>, Blocked> {
    let new = judge_value(api, fresh.tool, &fresh.call, &fresh.value, engine, call).await?;
    match new {
        Some(_) if fresh.is_call => Err(rewrites_call(fresh.tool, "input")),
        new => Ok(new),
    }
}

/// Judges what a tool answered to the call `id`.
pub(super) async fn judge_value(
    api: Api,
    tool: &'static str,
    id: &str,
    value: &Value,
    engine: &Engine,
    call: &CallContext,
) -> Result<Option<Value>, Blocked> {
    let mut shown = value.clone();
    let sealed = sealed_places(api, tool);
    unseal(&mut shown, &sealed);
    let result = ToolResult {
        tool_call_id: id.into(),
        tool_name: Some(tool.to_owned()),
        content: vec![Part::Unknown { raw: shown.clone().into() }],
        is_error: false,
        details: None,
        meta: None,
    };
    let event = ToolAfterEvent::new(tool, id, false, result.clone());
    let decided = engine.decide::<ToolAfter>(event, call).await.into_parts();
    if let Some(blocked) = decided.blocked {
        return Err(blocked);
    }
    let content = decided.event.result.content.as_slice();
    // The wire has a place for the content alone.
    let is_only_content =
        ToolResult { content: result.content.clone(), ..decided.event.result.clone() } == result;
    match content {
        [Part::Unknown { raw }] if is_only_content => {
            if **raw == shown {
                return Ok(None);
            }
            let mut new = raw.to_value();
            if let Some(field) = rewritten_input(api, &shown, &new) {
                return Err(rewrites_call(tool, field));
            }
            match seal(&mut new, value, &sealed) {
                Ok(()) => Ok(Some(new)),
                Err(Reshaped) => Err(withheld(tool, content)),
            }
        }
        other => Err(withheld(tool, other)),
    }
}

/// What an item of OpenAI Responses has of the call that the provider made itself, beside what came of it.
const OF_CALL: [&str; 8] =
    ["action", "arguments", "call_id", "code", "id", "name", "queries", "server_label"];

/// The field of a call in a result that a hook rewrote.
fn rewritten_input(api: Api, shown: &Value, new: &Value) -> Option<&'static str> {
    let is_rewritten = |field: &&&str| shown.get(field) != new.get(field);
    OF_CALL.iter().filter(|_| api == Api::OpenAiResponses).find(is_rewritten).copied()
}

/// The call was made as it is: another one in its place would be a lie.
fn rewrites_call(tool: &str, field: &str) -> Blocked {
    let told: Text =
        format!("what `{tool}` brought in can't be shown: a hook rewrote `{field}` of its call").into();
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

/// A hook wants something else in the place of a result.
fn withheld(tool: &str, wanted: &[Part]) -> Blocked {
    let said: String = wanted.iter().filter_map(Part::as_text).map(Text::as_str).collect();
    let told: Text = format!("what `{tool}` brought in can't be shown: {said}").into();
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

/// What is left of `places` inside the field or item `step`.
fn inside(places: &[&'static Place], step: &str) -> Vec<&'static Place> {
    let rest = places.iter().filter_map(|place| place.split_first().filter(|(first, _)| **first == step));
    rest.map(|(_, rest)| rest).collect()
}

/// Whether `value` stands at one of `places` itself and reads as something sealed does: what people can read is none.
fn is_sealed(value: &Value, places: &[&'static Place]) -> bool {
    let is_letter =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    places.iter().any(|place| place.is_empty())
        && value.as_str().is_some_and(|text| text.bytes().all(is_letter))
}

/// Takes out what no hook reads.
fn unseal(value: &mut Value, places: &[&'static Place]) {
    if places.is_empty() {
        return;
    }
    match value {
        Value::Array(items) => {
            let places = inside(places, EACH);
            items.iter_mut().for_each(|item| unseal(item, &places));
        }
        Value::Object(fields) => {
            fields.retain(|name, field| !is_sealed(field, &inside(places, name)));
            fields.iter_mut().for_each(|(name, field)| unseal(field, &inside(places, name)));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What held something sealed has another shape now.
#[derive(Debug, PartialEq, Eq)]
struct Reshaped;

/// Puts it back where it stood.
///
/// # Errors
/// If that place is not the same any more.
fn seal(value: &mut Value, old: &Value, places: &[&'static Place]) -> Result<(), Reshaped> {
    if !holds_sealed(old, places) {
        return Ok(());
    }
    match (value, old) {
        (Value::Array(items), Value::Array(old)) if items.len() == old.len() => {
            let places = inside(places, EACH);
            items.iter_mut().zip(old).try_for_each(|(item, old)| seal(item, old, &places))
        }
        (Value::Object(fields), Value::Object(old)) => {
            let is_open = |name: &str, field: &Value| !is_sealed(field, &inside(places, name));
            let open = || old.iter().filter(|(name, field)| is_open(name, field)).map(|(name, _)| name);
            if fields.len() != open().count() || !open().all(|name| fields.contains_key(name)) {
                return Err(Reshaped);
            }
            for (name, old) in old {
                match fields.get_mut(name) {
                    Some(field) => seal(field, old, &inside(places, name))?,
                    None => {
                        fields.insert(name.clone(), old.clone());
                    }
                }
            }
            Ok(())
        }
        _ => Err(Reshaped),
    }
}

/// Whether something sealed stands in `value`, however deep.
fn holds_sealed(value: &Value, places: &[&'static Place]) -> bool {
    match value {
        _ if places.is_empty() => false,
        Value::Array(items) => {
            let places = inside(places, EACH);
            items.iter().any(|item| holds_sealed(item, &places))
        }
        Value::Object(fields) => fields.iter().any(|(name, field)| {
            let places = inside(places, name);
            is_sealed(field, &places) || holds_sealed(field, &places)
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sealed_comes_back_where_it_stood() {
        let old = json!({"type": "web_search_tool_result", "content": [
            {"title": "a", "encrypted_content": "x"}, {"title": "b", "encrypted_content": "y"}]});
        let mut shown = old.clone();
        let places = sealed_places(Api::AnthropicMessages, "web_search");
        unseal(&mut shown, &places);
        assert!(!shown.to_string().contains("encrypted"), "{shown}");
        shown["content"][1]["title"] = json!("c");
        assert_eq!(seal(&mut shown, &old, &places), Ok(()));
        let mut expected = old;
        expected["content"][1]["title"] = json!("c");
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_seal_gets_to_nothing_that_it_was_not_for() {
        let old = json!({"type": "t", "content": [
            {"title": "a", "encrypted_content": "x"}, {"title": "b", "encrypted_content": "y"}], "free": [1, 2]});
        let places = sealed_places(Api::AnthropicMessages, "web_search");
        for reshaped in [
            json!({"type": "t", "content": [{"title": "b"}], "free": [1, 2]}),
            json!({"type": "t", "content": [{"title": "a"}, {"title": "b"}, {"title": "c"}], "free": [1, 2]}),
            json!({"type": "t", "content": [{"title": "a"}, {"name": "b"}], "free": [1, 2]}),
            json!({"type": "t", "content": [{"title": "a"}, {"title": "b", "encrypted_content": "z"}], "free": [1, 2]}),
            json!({"type": "t", "content": "gone", "free": [1, 2]}),
            json!({"type": "t", "free": [1, 2]}),
        ] {
            assert_eq!(seal(&mut reshaped.clone(), &old, &places), Err(Reshaped), "{reshaped}");
        }
        // What holds nothing sealed may change its shape.
        let mut shorter = json!({"type": "t", "content": [{"title": "a"}, {"title": "b"}], "free": []});
        assert_eq!(seal(&mut shorter, &old, &places), Ok(()));
        assert_eq!(shorter["content"], old["content"]);
    }
    /// A tool may call its own fields so, and somebody may write into them what people can read.
    #[test]
    fn only_what_is_sealed_at_its_place_is_kept_from_hooks() {
        for (api, tool, value) in [
            (
                Api::Gemini,
                "provider_tool",
                json!({"name": "f", "response": {"encrypted_content": "word", "signature": "word"}}),
            ),
            (
                Api::Gemini,
                "provider_tool",
                json!({"parts": [{"inlineData": {"mimeType": "a/b", "displayName": "word"}}]}),
            ),
            (Api::Gemini, "code_execution", json!({"output": "a", "thoughtSignature": "word"})),
            (
                Api::AnthropicMessages,
                "web_search",
                json!({"encrypted_content": "word", "content": [{"inner": {"encrypted_content": "word"}}]}),
            ),
            (
                Api::AnthropicMessages,
                "web_search",
                json!({"content": [{"encrypted_content": "these are words"}]}),
            ),
            (
                Api::AnthropicMessages,
                "web_search",
                json!({"content": [{"encrypted_content": {"text": "word"}}]}),
            ),
            (Api::AnthropicMessages, "mcp", json!({"content": [{"encrypted_content": "word"}]})),
            (Api::OpenAiResponses, "web_search", json!({"result": "word", "b64_json": "word"})),
            (Api::OpenAiResponses, "citations", json!({"encrypted_index": "word"})),
        ] {
            let mut shown = value.clone();
            unseal(&mut shown, &sealed_places(api, tool));
            assert_eq!(shown, value, "{api} {tool}");
        }
        let picture = json!({"type": "image_generation_call", "revised_prompt": "a cat", "result": "aGk="});
        let mut shown = picture.clone();
        unseal(&mut shown, &sealed_places(Api::OpenAiResponses, "image_generation"));
        assert_eq!(shown, json!({"type": "image_generation_call", "revised_prompt": "a cat"}));
    }
}
