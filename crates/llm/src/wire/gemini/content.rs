//! Parts of contents.

use std::collections::BTreeMap;

use backstop_hooks::conversation::{ImageSource, Message, Part, ToolCall, ToolResult};
use backstop_hooks::{Json, Params, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::names::{canonical, list};
use crate::error::WireError;
use crate::live::steps::step;
use crate::wire::GEMINI_PARTS;
use crate::wire::call_ids::CallIds;
use crate::wire::json::Object;
use crate::wire::meta::{own_field, wrap};
use crate::wire::whole_call::{thing_of, whole_call};

/// The fields of a part of which one says what the part is.
const KINDS: &[&str] = &[
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
];

/// The entry of `meta` under which this codec notes what only it needs to know.
const NOTES: &str = "backstop";
/// The note that an id is made up.
const NO_ID: &str = "no_id";

/// Where a part stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a request's conversation, or on the way there.
    Request,
    /// In an answer.
    Answer,
}

/// The tool calls of a conversation, for the results that name them.
#[derive(Debug, Default)]
pub(crate) struct Calls<'a>(BTreeMap<&'a str, &'a ToolCall>);

impl<'a> Calls<'a> {
    pub(crate) fn of(messages: &'a [Message]) -> Self {
        let mut calls = Self::default();
        messages.iter().for_each(|message| calls.remember(&message.content));
        calls
    }

    pub(super) fn remember(&mut self, parts: &'a [Part]) {
        for part in parts {
            step();
            if let Part::ToolCall(call) = part {
                self.0.insert(call.id.as_str(), call);
            }
        }
    }
}

pub(super) fn decode_parts(
    content: Object<'_>,
    place: Place,
    ids: &mut CallIds,
) -> Result<Vec<Part>, WireError> {
    let parts = list("content", "parts", content.get("parts"))?;
    parts.iter().map(|part| decode_part(part, place, ids)).collect()
}

pub(super) fn decode_part(value: &Value, place: Place, ids: &mut CallIds) -> Result<Part, WireError> {
    let canonical = canonical("part", value)?;
    let part = Object::of("part", &canonical)?;
    let unknown = || Part::Unknown { raw: Json::new(value.clone()) };
    if place == Place::Answer
        && let Some(field) = unknown_field(&canonical)
    {
        if kind(part)?.is_some() {
            refuse_unknown(part, &canonical)?;
        }
        return Ok(Part::ToolCall(decode_whole(&field, value, ids)));
    }
    Ok(match kind(part)? {
        // Under this name `meta` has notes.
        Some(_) if part.get(NOTES).is_some() => unknown(),
        Some("text") => {
            let text: Text = part.required_string("text")?.into();
            match part.bool("thought")?.unwrap_or(false) {
                true => Part::Thinking { text, meta: text_meta(part) },
                false => Part::Text { text, meta: text_meta(part) },
            }
        }
        Some(field @ "inlineData") => decode_inline(field, part)?.unwrap_or_else(unknown),
        Some(field @ "fileData") => decode_file(field, part)?.unwrap_or_else(unknown),
        Some("functionCall") => {
            let call = self::canonical("function call", part.get("functionCall").unwrap_or(&Value::Null))?;
            let call = Object::of("function call", &call)?;
            match (place, is_piece(call)?) {
                (_, false) => Part::ToolCall(decode_call(part, call, ids)?),
                // Clients put the pieces of a streamed call into the conversation as they came.
                (Place::Request, true) => unknown(),
                (Place::Answer, true) => return Err(call.error("willContinue", "is for streams only")),
            }
        }
        Some("functionResponse") => Part::ToolResult(decode_result(part, ids)?),
        Some(_) | None => unknown(),
    })
}

/// Which kind of part this is; `None` for one that has no content, or a kind that is not known.
pub(super) fn kind(part: Object<'_>) -> Result<Option<&'static str>, WireError> {
    let mut found = KINDS.iter().copied().filter(|kind| part.get(kind).is_some());
    let first = found.next();
    match found.next() {
        Some(second) => Err(part.error(second, "stands beside another kind of content")),
        None => Ok(first),
    }
}

/// The first field of a part that nobody knows; nulls say nothing.
fn unknown_field(part: &Value) -> Option<String> {
    let mut fields = part.as_object()?.iter().filter(|(_, value)| !value.is_null());
    fields.find(|(name, _)| GEMINI_PARTS.class(name).is_none()).map(|(name, _)| name.clone())
}

/// Refuses a part of a known kind that says something else beside it: what left as a text would be a call, too.
pub(super) fn refuse_unknown(part: Object<'_>, canonical: &Value) -> Result<(), WireError> {
    match unknown_field(canonical) {
        Some(_) => Err(part.error("part", "has a field that nobody knows beside its content")),
        None => Ok(()),
    }
}

/// A part of a kind that nobody knows.
fn decode_whole(field: &str, part: &Value, ids: &mut CallIds) -> ToolCall {
    whole_call(API, ids.make_up(field, part), field, part.as_object().cloned().unwrap_or_default())
}

/// Whether this is a piece of a call that is streamed argument by argument.
pub(super) fn is_piece(call: Object<'_>) -> Result<bool, WireError> {
    let continues = call.bool("willContinue")?.unwrap_or(false);
    Ok(continues || call.get("partialArgs").is_some() || call.get("name").is_none())
}

/// What is attached to a text or a thought; an empty signature is none.
pub(super) fn text_fields(part: Object<'_>) -> Map<String, Value> {
    let mut fields = part.rest(&["text", "thought", NOTES]);
    fields.retain(|key, value| key != "thoughtSignature" || value.as_str() != Some(""));
    fields
}

/// What is attached to a text. A thought is marked as one of this wire, since only those go back.
fn text_meta(part: Object<'_>) -> Option<Json> {
    let mut fields = text_fields(part);
    if part.get("thought") == Some(&Value::Bool(true)) {
        fields.insert("thought".to_owned(), true.into());
    }
    wrap(API, fields)
}

/// What is attached to a part: to the part itself, to what it holds (under the name of the field), and notes.
fn part_meta(
    part: Object<'_>,
    field: &str,
    inner: Map<String, Value>,
    notes: Map<String, Value>,
) -> Option<Json> {
    let mut fields = part.rest(&[field, NOTES]);
    for (key, entries) in [(field, inner), (NOTES, notes)] {
        if !entries.is_empty() {
            fields.insert(key.to_owned(), entries.into());
        }
    }
    wrap(API, fields)
}

fn note(name: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(name.to_owned(), value)])
}

fn noted<'a>(meta: Option<&'a Json>, name: &str) -> Option<&'a Value> {
    own_field(meta, API, NOTES)?.get(name)
}

fn decode_inline(field: &str, part: Object<'_>) -> Result<Option<Part>, WireError> {
    let blob = canonical("inline data", part.get(field).unwrap_or(&Value::Null))?;
    let blob = Object::of("inline data", &blob)?;
    let Some(mime_type) = blob.string("mimeType")?.filter(|kind| kind.starts_with("image/")) else {
        return Ok(None);
    };
    Ok(Some(Part::Image {
        mime_type: mime_type.to_owned(),
        source: ImageSource::Data(blob.required_string("data")?.into()),
        meta: part_meta(part, field, blob.rest(&["mimeType", "data"]), Map::new()),
    }))
}

fn decode_file(field: &str, part: Object<'_>) -> Result<Option<Part>, WireError> {
    let file = canonical("file data", part.get(field).unwrap_or(&Value::Null))?;
    let file = Object::of("file data", &file)?;
    let Some(mime_type) = file.string("mimeType")?.filter(|kind| kind.starts_with("image/")) else {
        return Ok(None);
    };
    Ok(Some(Part::Image {
        mime_type: mime_type.to_owned(),
        source: ImageSource::Url(file.required_string("fileUri")?.into()),
        meta: part_meta(part, field, file.rest(&["mimeType", "fileUri"]), Map::new()),
    }))
}

pub(super) fn decode_call(
    part: Object<'_>,
    call: Object<'_>,
    ids: &mut CallIds,
) -> Result<ToolCall, WireError> {
    let name = call.required_string("name")?;
    let args = call.get("args");
    let (arguments, malformed) = match args {
        None => (Params::default(), None),
        Some(Value::Object(args)) => (Params::new(args.clone()), None),
        Some(Value::String(text)) => (Params::default(), Some(text.as_str().into())),
        Some(other) => (Params::default(), Some(other.to_string().into())),
    };
    let (id, notes) = match call.string("id")?.filter(|id| !id.is_empty()) {
        Some(id) => (id.into(), Map::new()),
        None => (ids.make_up(name, args.unwrap_or(&Value::Null)), made_up_note()),
    };
    let inner = call.rest(&["id", "name", "args", "willContinue", "partialArgs"]);
    let meta = part_meta(part, "functionCall", inner, notes);
    Ok(ToolCall { id, name: name.to_owned(), arguments, malformed, meta })
}

/// Marks an id as none of the provider's.
fn made_up_note() -> Map<String, Value> {
    note(NO_ID, true.into())
}

/// What is attached to a call whose pieces are `parts`, of which some may carry a signature.
pub(super) fn call_meta(mut fields: Map<String, Value>, has_id: bool) -> Option<Json> {
    fields.remove("functionCall");
    fields.remove(NOTES);
    if !has_id {
        fields.insert(NOTES.to_owned(), made_up_note().into());
    }
    wrap(API, fields)
}

fn decode_result(part: Object<'_>, ids: &mut CallIds) -> Result<ToolResult, WireError> {
    const FIELD: &str = "functionResponse";
    let result = canonical("function response", part.get(FIELD).unwrap_or(&Value::Null))?;
    let result = Object::of("function response", &result)?;
    let name = result.required_string("name")?;
    let own_id = result.string("id")?.filter(|id| !id.is_empty());
    let id = own_id.map(Into::into).or_else(|| ids.answered(name)).unwrap_or_else(|| "".into());
    let response = match result.object("response")? {
        Some(response) => response.rest(&[]),
        None => Map::new(),
    };
    let (text, is_error, mut notes) = decode_response_object(response);
    if own_id.is_none() {
        notes.extend(made_up_note());
    }
    let mut content: Vec<Part> = (!text.is_empty()).then(|| Part::text(text)).into_iter().collect();
    for media in list("function response", "parts", result.get("parts"))? {
        content.push(decode_media(media)?);
    }
    let inner = result.rest(&["id", "name", "response", "parts"]);
    Ok(ToolResult {
        tool_call_id: id,
        tool_name: Some(name.to_owned()),
        content,
        is_error,
        details: None,
        meta: part_meta(part, FIELD, inner, notes),
    })
}

/// The text of a result, whether it is an error, and what must be noted to write it again.
fn decode_response_object(response: Map<String, Value>) -> (String, bool, Map<String, Value>) {
    let is_error = response.get("error").is_some_and(|error| !error.is_null());
    let mut fields = response.iter();
    match (fields.next(), fields.next()) {
        (None, _) => (String::new(), false, Map::new()),
        (Some((key, Value::String(text))), None) => {
            let usual = matches!(key.as_str(), "output" | "error");
            let notes = if usual { Map::new() } else { note("key", key.as_str().into()) };
            (text.clone(), is_error, notes)
        }
        _ => (Value::Object(response).to_string(), is_error, note("json", true.into())),
    }
}

fn decode_media(value: &Value) -> Result<Part, WireError> {
    let canonical = canonical("part", value)?;
    let part = Object::of("part", &canonical)?;
    let image = match kind(part)? {
        _ if part.get(NOTES).is_some() => None,
        Some(field @ "inlineData") => decode_inline(field, part)?,
        Some(field @ "fileData") => decode_file(field, part)?,
        _ => None,
    };
    Ok(image.unwrap_or_else(|| Part::Unknown { raw: Json::new(value.clone()) }))
}

/// The parts as the wire has them, without those that the provider would refuse or must not see.
pub(super) fn encode_parts(parts: &[Part], place: Place, calls: &Calls<'_>) -> Vec<Value> {
    parts.iter().filter_map(|part| encode_part(part, place, calls)).collect()
}

pub(super) fn encode_part(part: &Part, place: Place, calls: &Calls<'_>) -> Option<Value> {
    let to_provider = place == Place::Request;
    match part {
        Part::Text { text, meta } => (!to_provider || !text.is_empty() || has_own(meta.as_ref()))
            .then(|| encode("text", text.as_str().into(), meta.as_ref())),
        Part::Thinking { text, meta } => {
            let own = own_field(meta.as_ref(), API, "thought").is_some();
            if to_provider && !own {
                return None;
            }
            let mut part = encode("text", text.as_str().into(), meta.as_ref());
            if let Value::Object(part) = &mut part {
                part.insert("thought".to_owned(), true.into());
            }
            Some(part)
        }
        Part::ToolCall(call) => Some(encode_call(call, to_provider)),
        Part::ToolResult(result) => Some(encode_result(result, calls)),
        Part::Image { .. } => encode_image(part),
        Part::Unknown { raw } => Some(raw.to_value()),
    }
}

fn has_own(meta: Option<&Json>) -> bool {
    !crate::wire::own_meta(meta, API).is_empty()
}

fn encode_image(part: &Part) -> Option<Value> {
    let Part::Image { mime_type, source, meta } = part else { return None };
    Some(match source {
        ImageSource::Data(data) => {
            encode("inlineData", json!({"mimeType": mime_type, "data": data}), meta.as_ref())
        }
        ImageSource::Url(url) => {
            encode("fileData", json!({"mimeType": mime_type, "fileUri": url}), meta.as_ref())
        }
    })
}

/// A part that holds `value` under `field`, with what the provider attached.
fn encode(field: &str, mut value: Value, meta: Option<&Json>) -> Value {
    let mut own = crate::wire::own_meta(meta, API);
    own.remove(NOTES);
    if let (Value::Object(value), Some(Value::Object(inner))) = (&mut value, own.remove(field)) {
        for (key, entry) in inner {
            value.entry(key).or_insert(entry);
        }
    }
    let mut part = Map::from_iter([(field.to_owned(), value)]);
    part.extend(own.into_iter().filter(|(key, _)| !KINDS.contains(&key.as_str())));
    part.into()
}

fn encode_call(call: &ToolCall, to_provider: bool) -> Value {
    if let Some(part) = thing_of(call, API) {
        return part.into();
    }
    let args = match &call.malformed {
        Some(text) if !to_provider => Value::from(text.as_str()),
        _ => call.arguments.to_value(),
    };
    let mut function = Map::new();
    if let Some(id) = id_to_send(call) {
        function.insert("id".to_owned(), id.into());
    }
    function.insert("name".to_owned(), call.name.as_str().into());
    function.insert("args".to_owned(), args);
    encode("functionCall", function.into(), call.meta.as_ref())
}

/// The call's id, if it is one that the other side knows.
fn id_to_send(call: &ToolCall) -> Option<&str> {
    let made_up = noted(call.meta.as_ref(), NO_ID).is_some();
    Some(call.id.as_str()).filter(|id| !made_up && !id.is_empty())
}

fn encode_result(result: &ToolResult, calls: &Calls<'_>) -> Value {
    let id = result.tool_call_id.as_str();
    let call = calls.0.get(id);
    let name = result.tool_name.as_deref().or_else(|| call.map(|call| call.name.as_str())).unwrap_or(id);
    let mut function = Map::new();
    let made_up = noted(result.meta.as_ref(), NO_ID).is_some();
    let known = call.map_or(Some(id).filter(|id| !id.is_empty()), |call| id_to_send(call));
    if let Some(id) = known.filter(|_| !made_up) {
        function.insert("id".to_owned(), id.into());
    }
    function.insert("name".to_owned(), name.into());
    function.insert("response".to_owned(), encode_response_object(result));
    let media: Vec<Value> = result
        .content
        .iter()
        .filter_map(|part| match part {
            Part::Image { .. } => encode_image(part),
            Part::Unknown { raw } => Some(raw.to_value()),
            _ => None,
        })
        .collect();
    if !media.is_empty() {
        function.insert("parts".to_owned(), media.into());
    }
    encode("functionResponse", function.into(), result.meta.as_ref())
}

fn encode_response_object(result: &ToolResult) -> Value {
    let texts: Vec<&str> = result.content.iter().filter_map(Part::as_text).map(Text::as_str).collect();
    let text = texts.join("\n");
    let meta = result.meta.as_ref();
    if noted(meta, "json").is_some()
        && let Ok(object @ Value::Object(_)) = crate::wire::parse_json(text.as_bytes())
    {
        return object;
    }
    let usual = if result.is_error { "error" } else { "output" };
    let key = noted(meta, "key").and_then(Value::as_str).filter(|_| !result.is_error).unwrap_or(usual);
    json!({key: text})
}
