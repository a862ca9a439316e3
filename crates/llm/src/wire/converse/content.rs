//! Content blocks.

use backstop_hooks::conversation::{ImageSource, Part, ToolCall, ToolResult};
use backstop_hooks::{Json, Params, Text};
use serde_json::{Map, Value, json};

use super::{API, member, object, only, union};
use crate::error::WireError;
use crate::wire::json::{Object, malformed};
use crate::wire::meta::{attach, own_field, wrap};
use crate::wire::whole_call::{thing_of, whole_call};
use crate::wire::{CONVERSE_BLOCKS, TypeClass};

const BLOCK: &str = "content block";
/// How the types of images begin, of which the wire names the rest.
const IMAGE: &str = "image/";
/// How addresses in S3 begin.
const S3: &str = "s3://";

/// Entries of `meta` that say in what a text stood.
pub(super) const GUARDED: &str = "guardContent";
pub(super) const CITED: &str = "citationsContent";

/// Which way an encoded block goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// To the provider, which refuses some blocks.
    ToProvider,
    /// To a client, which is shown all there is.
    ToClient,
}

/// Reads the blocks of a message.
pub(super) fn decode_content(blocks: &[Value]) -> Result<Vec<Part>, WireError> {
    blocks.iter().map(decode_request_block).collect()
}

/// Reads a block of a request. One that has names beside what it holds, with nothing under them, is kept as it is: these names
/// go with it.
pub(super) fn decode_request_block(value: &Value) -> Result<Part, WireError> {
    let is_kept = match only(BLOCK, value)? {
        ("toolUse" | "toolResult", _) => value.as_object().is_some_and(|fields| fields.len() > 1),
        _ => has_null(value),
    };
    if is_kept { Ok(Part::Unknown { raw: Json::new(value.clone()) }) } else { decode_block(value) }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.iter().any(has_null),
        Value::Object(fields) => fields.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

pub(super) fn decode_block(value: &Value) -> Result<Part, WireError> {
    let (kind, inside) = only(BLOCK, value)?;
    let unknown = || Part::Unknown { raw: Json::new(value.clone()) };
    Ok(match kind {
        "text" => Part::text(text_of(inside)?),
        "reasoningContent" => decode_reasoning(inside)?.unwrap_or_else(unknown),
        "toolUse" => Part::ToolCall(decode_tool_use(object("toolUse", inside)?)?),
        "toolResult" => Part::ToolResult(decode_tool_result(object("toolResult", inside)?)?),
        "image" => decode_image(object("image", inside)?)?.unwrap_or_else(unknown),
        GUARDED => decode_guarded(inside)?.unwrap_or_else(unknown),
        CITED => decode_cited(object(CITED, inside)?)?.unwrap_or_else(unknown),
        _ => unknown(),
    })
}

fn text_of(value: &Value) -> Result<&str, WireError> {
    value.as_str().ok_or_else(|| malformed(BLOCK, "text", "is not a string"))
}

/// Reads a block of an answer. One that asks the client to act, or that nobody knows, is a call.
pub(super) fn decode_answer_block(value: &Value) -> Result<Part, WireError> {
    let (kind, _) = only(BLOCK, value)?;
    if kind != "toolUse" && CONVERSE_BLOCKS.class_or_call(kind) == TypeClass::Call {
        return Ok(Part::ToolCall(decode_whole(kind, value)));
    }
    let part = decode_block(value)?;
    // Whoever reads it differently may find a call or a text there.
    match part {
        Part::Unknown { .. } if CONVERSE_BLOCKS.class(kind) == Some(TypeClass::Text) => {
            Ok(Part::ToolCall(decode_whole(kind, value)))
        }
        part => Ok(part),
    }
}

/// A block of a type that nobody here knows.
pub(super) fn decode_whole(kind: &str, block: &Value) -> ToolCall {
    let fields = block.as_object().cloned().unwrap_or_default();
    let id = fields.get(kind).and_then(|inside| inside.get("toolUseId")).and_then(Value::as_str);
    whole_call(API, id.unwrap_or_default().into(), kind, fields)
}

fn decode_reasoning(value: &Value) -> Result<Option<Part>, WireError> {
    Ok(match only("reasoningContent", value)? {
        ("reasoningText", inside) => {
            let inside = object("reasoningText", inside)?;
            let text = inside.required_string("text")?.into();
            Some(Part::Thinking { text, meta: wrap(API, inside.rest(&["text"])) })
        }
        ("redactedContent", Value::String(_)) => {
            let fields = value.as_object().cloned().unwrap_or_default();
            Some(Part::Thinking { text: Text::default(), meta: wrap(API, fields) })
        }
        _ => None,
    })
}

pub(super) fn decode_tool_use(block: Object<'_>) -> Result<ToolCall, WireError> {
    let (arguments, malformed) = match block.get("input") {
        None => (Params::default(), None),
        Some(Value::Object(input)) => (Params::new(input.clone()), None),
        Some(Value::String(text)) => (Params::default(), Some(text.as_str().into())),
        Some(other) => (Params::default(), Some(other.to_string().into())),
    };
    Ok(ToolCall {
        id: block.string("toolUseId")?.unwrap_or_default().into(),
        name: block.required_string("name")?.to_owned(),
        arguments,
        malformed,
        meta: wrap(API, block.rest(&["toolUseId", "name", "input"])),
    })
}

fn decode_tool_result(block: Object<'_>) -> Result<ToolResult, WireError> {
    let is_error = block.string("status")? == Some("error");
    let mut rest = block.rest(&["toolUseId", "content"]);
    rest.retain(|key, _| !(is_error && key == "status"));
    Ok(ToolResult {
        tool_call_id: block.required_string("toolUseId")?.into(),
        tool_name: None,
        content: decode_content(block.array("content")?.unwrap_or_default())?,
        is_error,
        details: None,
        meta: wrap(API, rest),
    })
}

fn decode_image(block: Object<'_>) -> Result<Option<Part>, WireError> {
    let Some(source) = block.get("source") else { return Ok(None) };
    let source = match only("source", source)? {
        ("bytes", Value::String(data)) => ImageSource::Data(data.as_str().into()),
        ("s3Location", place) => {
            let place = object("s3Location", place)?;
            let uri = place.required_string("uri")?;
            if !uri.starts_with(S3) || !place.rest(&["uri"]).is_empty() {
                return Ok(None);
            }
            ImageSource::Url(uri.into())
        }
        _ => return Ok(None),
    };
    let mime_type = format!("{IMAGE}{}", block.required_string("format")?);
    Ok(Some(Part::Image { mime_type, source, meta: wrap(API, block.rest(&["format", "source"])) }))
}

fn decode_guarded(value: &Value) -> Result<Option<Part>, WireError> {
    let ("text", inside) = only(GUARDED, value)? else { return Ok(None) };
    let inside = object(GUARDED, inside)?;
    let meta = Map::from_iter([(GUARDED.to_owned(), inside.rest(&["text"]).into())]);
    Ok(Some(Part::Text { text: inside.required_string("text")?.into(), meta: wrap(API, meta) }))
}

/// The texts of a block of citations; `None` if something else stands among them.
pub(crate) fn cited_texts(block: &Value) -> Option<Vec<&str>> {
    let items = match block.get("content") {
        None | Some(Value::Null) => return Some(Vec::new()),
        Some(items) => items.as_array()?,
    };
    let text = |item| match member(CITED, item) {
        Ok(Some(("text", Value::String(text)))) => Some(text.as_str()),
        _ => None,
    };
    items.iter().map(text).collect()
}

fn decode_cited(block: Object<'_>) -> Result<Option<Part>, WireError> {
    let rest = block.rest(&["content"]);
    let whole = Value::Object(block.rest(&[]));
    let Some(texts) = cited_texts(&whole) else { return Ok(None) };
    let meta = Map::from_iter([(CITED.to_owned(), rest.into())]);
    Ok(Some(Part::Text { text: texts.concat().into(), meta: wrap(API, meta) }))
}

/// The blocks of parts, without those that the provider would refuse.
pub(super) fn encode_parts(parts: &[Part], direction: Direction) -> Vec<Value> {
    parts.iter().filter_map(|part| encode_part(part, direction)).collect()
}

/// The block of a part in a request; `None` if the provider would refuse it.
pub(crate) fn encode_request_part(part: &Part) -> Option<Value> {
    encode_part(part, Direction::ToProvider)
}

/// Parts as the blocks of a message.
pub(crate) fn encode_content(parts: &[Part]) -> Value {
    encode_parts(parts, Direction::ToProvider).into()
}

pub(super) fn encode_part(part: &Part, direction: Direction) -> Option<Value> {
    let to_provider = direction == Direction::ToProvider;
    match part {
        Part::Text { text, meta } => {
            (!to_provider || !text.trim().is_empty()).then(|| encode_text(text, meta.as_ref()))
        }
        Part::Thinking { text, meta } => {
            Some(union("reasoningContent", encode_thinking(text, meta.as_ref())))
        }
        Part::ToolCall(call) => Some(encode_tool_use(call, to_provider)),
        Part::ToolResult(result) => Some(encode_tool_result(result, direction)),
        Part::Image { mime_type, source, meta } => encode_image(mime_type, source, meta.as_ref()),
        Part::Unknown { raw } => Some(raw.to_value()),
    }
}

fn encode_text(text: &Text, meta: Option<&Json>) -> Value {
    let inside = |kind| own_field(meta, API, kind).and_then(Value::as_object).cloned();
    if let Some(mut guarded) = inside(GUARDED) {
        guarded.insert("text".to_owned(), text.as_str().into());
        return union(GUARDED, union("text", guarded));
    }
    match inside(CITED) {
        Some(mut cited) => {
            cited.insert("content".to_owned(), json!([{ "text": text }]));
            union(CITED, cited)
        }
        None => union("text", text.as_str()),
    }
}

/// Whether the provider sent this thinking encrypted only.
pub(super) fn redacted(meta: Option<&Json>) -> Option<&Value> {
    own_field(meta, API, "redactedContent")
}

fn encode_thinking(text: &Text, meta: Option<&Json>) -> Value {
    if let Some(redacted) = redacted(meta) {
        return union("redactedContent", redacted.clone());
    }
    let mut fields = Map::from_iter([("text".to_owned(), Value::from(text.as_str()))]);
    attach(&mut fields, meta, API);
    union("reasoningText", fields)
}

fn encode_tool_use(call: &ToolCall, to_provider: bool) -> Value {
    if let Some(block) = thing_of(call, API) {
        return block.into();
    }
    let input = match &call.malformed {
        Some(text) if !to_provider => Value::from(text.as_str()),
        _ => call.arguments.to_value(),
    };
    let mut fields = Map::from_iter([
        ("toolUseId".to_owned(), Value::from(call.id.as_str())),
        ("name".to_owned(), call.name.as_str().into()),
        ("input".to_owned(), input),
    ]);
    attach(&mut fields, call.meta.as_ref(), API);
    union("toolUse", fields)
}

fn encode_tool_result(result: &ToolResult, direction: Direction) -> Value {
    let mut fields = Map::from_iter([
        ("toolUseId".to_owned(), Value::from(result.tool_call_id.as_str())),
        ("content".to_owned(), encode_parts(&result.content, direction).into()),
    ]);
    if result.is_error {
        fields.insert("status".to_owned(), "error".into());
    }
    attach(&mut fields, result.meta.as_ref(), API);
    union("toolResult", fields)
}

fn encode_image(mime_type: &str, source: &ImageSource, meta: Option<&Json>) -> Option<Value> {
    let source = match source {
        ImageSource::Data(data) => json!({ "bytes": data }),
        ImageSource::Url(url) if url.starts_with(S3) => json!({ "s3Location": { "uri": url } }),
        ImageSource::Url(_) => return None,
    };
    let format = mime_type.strip_prefix(IMAGE).unwrap_or(mime_type);
    let mut fields = Map::from_iter([("format".to_owned(), format.into()), ("source".to_owned(), source)]);
    attach(&mut fields, meta, API);
    Some(union("image", fields))
}
