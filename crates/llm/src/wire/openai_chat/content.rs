//! Messages and their content.

use backstop_hooks::conversation::{ImageSource, Message, Part, Role, ToolCall, ToolResult};
use backstop_hooks::{Json, Params, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::calls::{decode_call, encode_call};
use super::functions::{self, FUNCTION_CALL};
use crate::error::WireError;
use crate::model::parse_arguments;
use crate::wire::call_ids::CallIds;
use crate::wire::json::{Object, malformed};
use crate::wire::meta::{attach, own_field, wrap};

/// Under which names servers send reasoning. The wire's documentation has none.
pub(super) const REASONING_FIELDS: [&str; 2] = ["reasoning_content", "reasoning"];

/// Reads `content`: a string, or an array of parts.
pub(super) fn decode_content(content: &Value) -> Result<Vec<Part>, WireError> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text.as_str())]),
        Value::Array(parts) => parts.iter().map(decode_part).collect(),
        _ => Err(malformed("message", "content", "is neither a string nor an array")),
    }
}

fn decode_part(value: &Value) -> Result<Part, WireError> {
    let part = Object::of("content part", value)?;
    // Under these names `meta` has notes.
    let has_note = part.get("role").is_some() || part.get("refusal").is_some();
    Ok(match part.required_string("type")? {
        "text" if !has_note => Part::Text {
            text: part.required_string("text")?.into(),
            meta: wrap(API, part.rest(&["type", "text"])),
        },
        "refusal" if part.rest(&["type", "refusal"]).is_empty() => refusal(part.required_string("refusal")?),
        "image_url" => {
            let image = part.required_object("image_url")?;
            let mut meta = part.rest(&["type", "image_url"]);
            let rest = image.rest(&["url"]);
            if !rest.is_empty() {
                meta.insert("image_url".to_owned(), rest.into());
            }
            let (mime_type, source) = decode_image_url(image.required_string("url")?);
            Part::Image { mime_type, source, meta: wrap(API, meta) }
        }
        _ => Part::Unknown { raw: Json::new(value.clone()) },
    })
}

/// Media type and place of an image that is written as an address.
pub(crate) fn decode_image_url(url: &str) -> (String, ImageSource) {
    match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((mime_type, data)) => (mime_type.to_owned(), ImageSource::Data(data.into())),
        None => ("image/*".to_owned(), ImageSource::Url(url.into())),
    }
}

/// An image as an address.
pub(crate) fn encode_image_url(mime_type: &str, source: &ImageSource) -> String {
    match source {
        ImageSource::Data(data) => format!("data:{mime_type};base64,{data}"),
        ImageSource::Url(url) => url.to_string(),
    }
}

/// A refusal as a text part.
pub(super) fn refusal(text: &str) -> Part {
    Part::Text { text: text.into(), meta: wrap(API, Map::from_iter([("refusal".to_owned(), true.into())])) }
}

pub(super) fn is_refusal(meta: Option<&Json>) -> bool {
    own_field(meta, API, "refusal").is_some()
}

/// Reasoning as a thinking part that remembers under which name it came.
pub(super) fn reasoning(text: &str, field: &str) -> Part {
    Part::Thinking {
        text: text.into(),
        meta: wrap(API, Map::from_iter([("field".to_owned(), field.into())])),
    }
}

/// Reads the parts of an assistant's message: reasoning, text, refusal, tool calls or a function call.
pub(super) fn decode_assistant(message: Object<'_>, ids: &mut CallIds) -> Result<Vec<Part>, WireError> {
    let mut parts = Vec::new();
    for field in REASONING_FIELDS {
        if let Some(text) = message.string(field)?.filter(|text| !text.is_empty()) {
            parts.push(reasoning(text, field));
            break;
        }
    }
    match message.get("content") {
        None => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(content) => parts.extend(decode_content(content)?),
    }
    if let Some(text) = message.string("refusal")? {
        parts.push(refusal(text));
    }
    for call in message.array("tool_calls")?.unwrap_or_default() {
        parts.push(Part::ToolCall(decode_call(call)?));
    }
    parts.extend(functions::decode_call(message, ids)?);
    Ok(parts)
}

/// Fields of an assistant's message that become parts.
pub(super) const ASSISTANT_KNOWN: &[&str] =
    &["role", "content", "refusal", "tool_calls", FUNCTION_CALL, "reasoning_content", "reasoning"];

/// The arguments of a call, and their text if it is no object.
pub(super) fn arguments_of(function: Object<'_>) -> (Params, Option<Text>) {
    match function.get("arguments") {
        None => (Params::default(), None),
        Some(Value::String(text)) => parse_arguments(text),
        Some(Value::Object(object)) => (Params::new(object.clone()), None),
        Some(other) => (Params::default(), Some(Text::from(other.to_string()))),
    }
}

/// A message as the wire's messages: a tool's results are one message each.
pub(crate) fn decode_message(value: &Value, ids: &mut CallIds) -> Result<Message, WireError> {
    let message = Object::of("message", value)?;
    let role = message.required_string("role")?;
    let content = || message.get("content").map(decode_content).transpose().map(Option::unwrap_or_default);
    Ok(match role {
        "system" | "developer" => {
            let mut meta = message.rest(&["role", "content"]);
            if role == "developer" {
                meta.insert("role".to_owned(), role.into());
            }
            Message { meta: wrap(API, meta), ..Message::new(Role::System, content()?) }
        }
        "user" => Message {
            meta: wrap(API, message.rest(&["role", "content"])),
            ..Message::new(Role::User, content()?)
        },
        "assistant" => {
            let mut parts = decode_assistant(message, ids)?;
            // The other name may hold another text.
            let [first, second] = REASONING_FIELDS;
            let says = |field| Ok::<_, WireError>(message.string(field)?.filter(|text| !text.is_empty()));
            if let (Some(_), Some(text)) = (says(first)?, says(second)?) {
                parts.insert(1, reasoning(text, second));
            }
            Message { meta: wrap(API, message.rest(ASSISTANT_KNOWN)), ..Message::new(Role::Assistant, parts) }
        }
        "tool" => {
            let result = ToolResult {
                tool_call_id: message.required_string("tool_call_id")?.into(),
                tool_name: None,
                content: content()?,
                is_error: false,
                details: None,
                meta: wrap(API, message.rest(&["role", "content", "tool_call_id"])),
            };
            Message::new(Role::Tool, vec![Part::ToolResult(result)])
        }
        functions::ROLE => {
            let result = functions::decode_result(message, content()?, ids)?;
            Message::new(Role::Tool, vec![Part::ToolResult(result)])
        }
        _ => return Err(message.error("role", "is not known")),
    })
}

/// Parts as `content`: a string for one plain text, else an array of parts.
pub(crate) fn encode_content<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Value {
    let mut encoded: Vec<Value> = parts.into_iter().filter_map(encode_part).collect();
    match encoded.as_mut_slice() {
        [Value::Object(only)] if only.len() == 2 && only.contains_key("text") => {
            only.remove("text").unwrap_or_default()
        }
        _ => Value::Array(encoded),
    }
}

pub(crate) fn encode_part(part: &Part) -> Option<Value> {
    let (mut object, meta) = match part {
        Part::Text { text, meta } if is_refusal(meta.as_ref()) => {
            return Some(json!({"type": "refusal", "refusal": text}));
        }
        Part::Text { text, meta } => (json!({"type": "text", "text": text}), meta),
        Part::Image { mime_type, source, meta } => {
            let url = encode_image_url(mime_type, source);
            let mut image = Map::from_iter([("url".to_owned(), Value::from(url))]);
            if let Some(Value::Object(rest)) = own_field(meta.as_ref(), API, "image_url") {
                image.extend(rest.clone());
            }
            (json!({"type": "image_url", "image_url": image}), meta)
        }
        Part::Unknown { raw } => return Some(raw.to_value()),
        Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => return None,
    };
    if let Value::Object(object) = &mut object {
        attach(object, meta.as_ref(), API);
    }
    Some(object)
}

/// An assistant's message. With `joined`, as in answers, the text is one string.
pub(super) fn encode_assistant(message: &Message, joined: bool) -> Value {
    let parts = &message.content;
    let is_call = |part: &&Part| matches!(part, Part::ToolCall(_));
    let mut object = Map::from_iter([("role".to_owned(), Value::from("assistant"))]);
    let texts = || parts.iter().filter(|part| !is_call(part) && !is_refusal_part(part));
    let content = if joined {
        let text: String = texts().filter_map(Part::as_text).map(Text::as_str).collect();
        if text.is_empty() { Value::Null } else { text.into() }
    } else {
        match encode_content(texts()) {
            Value::Array(parts) if parts.is_empty() => Value::Null,
            content => content,
        }
    };
    object.insert("content".to_owned(), content);
    let refusals: String = parts
        .iter()
        .filter(|part| is_refusal_part(part))
        .filter_map(Part::as_text)
        .map(Text::as_str)
        .collect();
    if joined || !refusals.is_empty() {
        object.insert("refusal".to_owned(), if refusals.is_empty() { Value::Null } else { refusals.into() });
    }
    for part in parts {
        if let Part::Thinking { text, meta } = part
            && let Some(field) = reasoning_field(meta.as_ref(), joined)
        {
            object.insert(field, text.as_str().into());
        }
    }
    if let Some(call) = parts.iter().find_map(functions::encode_call) {
        object.insert(FUNCTION_CALL.to_owned(), call);
    }
    let tool_calls = parts.iter().filter(|part| !functions::is_function_call(part));
    let calls: Vec<Value> = tool_calls
        .filter_map(|part| if let Part::ToolCall(call) = part { Some(encode_call(call)) } else { None })
        .collect();
    if !calls.is_empty() {
        object.insert("tool_calls".to_owned(), calls.into());
    }
    attach(&mut object, message.meta.as_ref(), API);
    object.into()
}

fn is_refusal_part(part: &Part) -> bool {
    matches!(part, Part::Text { meta, .. } if is_refusal(meta.as_ref()))
}

/// The name under which thinking is sent: the one it came under. A client is shown all thinking; a provider
/// gets only what was its own.
pub(super) fn reasoning_field(meta: Option<&Json>, to_client: bool) -> Option<String> {
    let own = own_field(meta, API, "field").and_then(Value::as_str);
    let known = own.and_then(|own| REASONING_FIELDS.into_iter().find(|field| *field == own));
    known.or_else(|| REASONING_FIELDS.into_iter().next().filter(|_| to_client)).map(str::to_owned)
}

/// The arguments as the JSON text that the wire carries; malformed ones as they came.
pub(crate) fn arguments_text(call: &ToolCall) -> String {
    match &call.malformed {
        Some(text) => text.to_string(),
        None => call.arguments.to_value().to_string(),
    }
}
