//! Content blocks.

use backstop_hooks::conversation::{ImageSource, Part, ToolCall, ToolResult};
use backstop_hooks::{Json, Params, Text};
use serde_json::{Map, Value, json};

use super::API;
use crate::error::WireError;
use crate::wire::json::Object;
use crate::wire::meta::{attach, own_field, wrap};
use crate::wire::whole_call::{thing_of, whole_call};
use crate::wire::{ANTHROPIC_BLOCKS, TypeClass};

/// Which way an encoded block goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the provider, which refuses some blocks.
    ToProvider,
    /// To a client, which is shown all there is.
    ToClient,
}

/// Reads `content`: a string, or an array of blocks.
pub(super) fn decode_content(content: &Value) -> Result<Vec<Part>, WireError> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text.as_str())]),
        Value::Array(blocks) => blocks.iter().map(decode_block).collect(),
        _ => Err(crate::wire::json::malformed("message", "content", "is neither a string nor an array")),
    }
}

pub(super) fn decode_block(value: &Value) -> Result<Part, WireError> {
    let block = Object::of("content block", value)?;
    Ok(match block.required_string("type")? {
        "text" => Part::Text {
            text: block.required_string("text")?.into(),
            meta: wrap(API, block.rest(&["type", "text"])),
        },
        "thinking" => Part::Thinking {
            text: block.required_string("thinking")?.into(),
            meta: wrap(API, signed_fields(block)),
        },
        "redacted_thinking" => Part::Thinking { text: Text::default(), meta: wrap(API, block.rest(&[])) },
        "tool_use" => Part::ToolCall(decode_tool_use(block)?),
        "tool_result" => Part::ToolResult(decode_tool_result(block)?),
        "image" => decode_image(block, value)?,
        _ => Part::Unknown { raw: Json::new(value.clone()) },
    })
}

/// Reads a block of an answer. One that asks the client to act and has no form here is a call as a whole.
pub(super) fn decode_answer_block(value: &Value) -> Result<Part, WireError> {
    let block = Object::of("content block", value)?;
    match block.required_string("type")? {
        "tool_use" => decode_block(value),
        kind if is_call(kind) => decode_whole(kind, block).map(Part::ToolCall),
        _ => decode_block(value),
    }
}

/// Whether a block of this type in an answer asks the client to act.
pub(super) fn is_call(kind: &str) -> bool {
    ANTHROPIC_BLOCKS.class_or_call(kind) == TypeClass::Call
}

/// A block of a type that nobody here knows.
pub(super) fn decode_whole(kind: &str, block: Object<'_>) -> Result<ToolCall, WireError> {
    let id = block.string("id")?.unwrap_or_default();
    Ok(whole_call(API, id.into(), kind, block.rest(&[])))
}

/// What is attached to a thinking block; an empty signature is none.
pub(super) fn signed_fields(block: Object<'_>) -> Map<String, Value> {
    let mut fields = block.rest(&["type", "thinking"]);
    fields.retain(|key, value| key != "signature" || value.as_str() != Some(""));
    fields
}

fn decode_tool_use(block: Object<'_>) -> Result<ToolCall, WireError> {
    let (arguments, malformed) = match block.get("input") {
        None => (Params::default(), None),
        Some(Value::Object(input)) => (Params::new(input.clone()), None),
        Some(Value::String(text)) => (Params::default(), Some(text.as_str().into())),
        Some(other) => (Params::default(), Some(other.to_string().into())),
    };
    Ok(ToolCall {
        id: block.string("id")?.unwrap_or_default().into(),
        name: block.required_string("name")?.to_owned(),
        arguments,
        malformed,
        meta: wrap(API, block.rest(&["type", "id", "name", "input"])),
    })
}

fn decode_tool_result(block: Object<'_>) -> Result<ToolResult, WireError> {
    Ok(ToolResult {
        tool_call_id: block.required_string("tool_use_id")?.into(),
        tool_name: None,
        content: block.get("content").map(decode_content).transpose()?.unwrap_or_default(),
        is_error: block.bool("is_error")?.unwrap_or(false),
        details: None,
        meta: wrap(API, block.rest(&["type", "tool_use_id", "content", "is_error"])),
    })
}

fn decode_image(block: Object<'_>, value: &Value) -> Result<Part, WireError> {
    let source = block.required_object("source")?;
    let kind = source.required_string("type")?;
    let known: &[&str] = if kind == "url" { &["type", "url"] } else { &["type", "media_type", "data"] };
    let meta = || wrap(API, block.rest(&["type", "source"]));
    Ok(match kind {
        // What stands beside has no place in an image.
        _ if !source.rest(known).is_empty() => Part::Unknown { raw: Json::new(value.clone()) },
        "base64" => Part::Image {
            mime_type: source.required_string("media_type")?.to_owned(),
            source: ImageSource::Data(source.required_string("data")?.into()),
            meta: meta(),
        },
        "url" => Part::Image {
            mime_type: "image/*".to_owned(),
            source: ImageSource::Url(source.required_string("url")?.into()),
            meta: meta(),
        },
        _ => Part::Unknown { raw: Json::new(value.clone()) },
    })
}

/// The blocks of parts, without those that the provider would refuse.
pub(super) fn encode_parts(parts: &[Part], direction: Direction) -> Vec<Value> {
    parts.iter().filter_map(|part| encode_part(part, direction)).collect()
}

/// The block of a part in a request; `None` if the provider would refuse it.
pub(crate) fn encode_request_part(part: &Part) -> Option<Value> {
    encode_part(part, Direction::ToProvider)
}

pub(super) fn encode_part(part: &Part, direction: Direction) -> Option<Value> {
    let to_provider = direction == Direction::ToProvider;
    match part {
        Part::Text { text, meta } => (!to_provider || !text.trim().is_empty())
            .then(|| block("text", [("text", text.as_str().into())], meta)),
        Part::Thinking { text, meta } => encode_thinking(text, meta.as_ref(), to_provider),
        Part::ToolCall(call) => Some(encode_tool_use(call, to_provider)),
        Part::ToolResult(result) => Some(encode_tool_result(result)),
        Part::Image { mime_type, source, meta } => {
            let source = match source {
                ImageSource::Data(data) => json!({"type": "base64", "media_type": mime_type, "data": data}),
                ImageSource::Url(url) => json!({"type": "url", "url": url}),
            };
            Some(block("image", [("source", source)], meta))
        }
        Part::Unknown { raw } => Some(raw.to_value()),
    }
}

/// Whether the provider sent this thinking encrypted only.
pub(super) fn is_redacted(meta: Option<&Json>) -> bool {
    own_field(meta, API, "type").and_then(Value::as_str) == Some("redacted_thinking")
}

fn encode_thinking(text: &Text, meta: Option<&Json>, to_provider: bool) -> Option<Value> {
    if is_redacted(meta) {
        return Some(Value::Object(crate::wire::own_meta(meta, API)));
    }
    let signature = own_field(meta, API, "signature").and_then(Value::as_str);
    let signed = signature.is_some_and(|signature| !signature.is_empty());
    if to_provider && !signed {
        return None;
    }
    let mut fields = Map::from_iter([
        ("type".to_owned(), Value::from("thinking")),
        ("thinking".to_owned(), Value::from(text.as_str())),
    ]);
    attach(&mut fields, meta, API);
    fields.entry("signature").or_insert_with(|| "".into());
    Some(fields.into())
}

fn encode_tool_use(call: &ToolCall, to_provider: bool) -> Value {
    if let Some(block) = thing_of(call, API) {
        return block.into();
    }
    let input = match &call.malformed {
        Some(text) if !to_provider => Value::from(text.as_str()),
        _ => call.arguments.to_value(),
    };
    block(
        "tool_use",
        [("id", call.id.as_str().into()), ("name", call.name.as_str().into()), ("input", input)],
        &call.meta,
    )
}

fn encode_tool_result(result: &ToolResult) -> Value {
    let mut fields = Map::from_iter([
        ("type".to_owned(), Value::from("tool_result")),
        ("tool_use_id".to_owned(), Value::from(result.tool_call_id.as_str())),
    ]);
    match encode_content(&result.content) {
        Value::Array(blocks) if blocks.is_empty() => {}
        content => {
            fields.insert("content".to_owned(), content);
        }
    }
    if result.is_error {
        fields.insert("is_error".to_owned(), true.into());
    }
    attach(&mut fields, result.meta.as_ref(), API);
    fields.into()
}

/// Parts as `content`: a string for one plain text, else an array of blocks.
pub(crate) fn encode_content(parts: &[Part]) -> Value {
    match encode_parts(parts, Direction::ToProvider).as_mut_slice() {
        [Value::Object(only)] if only.len() == 2 && only.contains_key("text") => {
            only.remove("text").unwrap_or_default()
        }
        blocks => Value::Array(blocks.iter_mut().map(Value::take).collect()),
    }
}

fn block<const N: usize>(kind: &str, fields: [(&str, Value); N], meta: &Option<Json>) -> Value {
    let mut object = Map::with_capacity(N + 1);
    object.insert("type".to_owned(), kind.into());
    for (key, value) in fields {
        object.insert(key.to_owned(), value);
    }
    attach(&mut object, meta.as_ref(), API);
    object.into()
}
