//! The parts of messages.

use backstop_hooks::Json;
use backstop_hooks::conversation::Part;
use serde_json::{Map, Value, json};

use super::API;
use crate::error::WireError;
use crate::wire::json::{Object, malformed};
use crate::wire::meta::{own_field, wrap};
use crate::wire::openai_chat::{decode_image_url, encode_image_url};
use crate::wire::own_meta;

/// The type of a text that is said to the model.
pub(crate) const INPUT_TEXT: &str = "input_text";
/// The type of a text that the model says.
pub(super) const OUTPUT_TEXT: &str = "output_text";

/// The type of what the model says aloud, which is refused elsewhere.
pub(super) const SPOKEN: &str = "output_audio";

/// A part of a message of an answer has a type that nobody here knows.
pub(super) fn unknown_part() -> WireError {
    malformed("message", "content", "has a part of an unknown type")
}

/// Fields of `meta` that say something about a part's place and are not sent with it.
pub(super) const ITEM: &str = "item";
pub(super) const CONTINUES: &str = "continues";
const REFUSAL: &str = "refusal";
/// Lists that texts have although they say nothing of them.
const EMPTY_LISTS: [&str; 2] = ["annotations", LOGPROBS];
/// The text once more, in pieces. They are shown, and not sent with a text that was written anew.
pub(super) const LOGPROBS: &str = "logprobs";

/// Reads `content`: a string, or an array of parts, whose texts are usually of the type `usual`.
pub(super) fn decode_content(content: &Value, usual: &str) -> Result<Vec<Part>, WireError> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text.as_str())]),
        Value::Array(parts) => parts.iter().map(|part| decode_part(part, usual)).collect(),
        _ => Err(malformed("message", "content", "is neither a string nor an array")),
    }
}

pub(super) fn decode_part(value: &Value, usual: &str) -> Result<Part, WireError> {
    let part = Object::of("content part", value)?;
    let unknown = || Part::Unknown { raw: Json::new(value.clone()) };
    Ok(match part.required_string("type")? {
        // Under these names `meta` has notes.
        _ if [ITEM, CONTINUES].iter().any(|note| part.get(note).is_some()) => unknown(),
        kind @ (INPUT_TEXT | OUTPUT_TEXT | "text" | "summary_text" | "reasoning_text") => {
            let mut meta = part.rest(&["type", "text"]);
            meta.retain(|key, value| !EMPTY_LISTS.contains(&key.as_str()) || *value != json!([]));
            if meta.contains_key(REFUSAL) {
                return Ok(unknown());
            }
            if kind != usual {
                meta.insert("type".to_owned(), kind.into());
            }
            Part::Text { text: part.required_string("text")?.into(), meta: wrap(API, meta) }
        }
        "refusal" if !part.rest(&["type", "refusal"]).is_empty() => unknown(),
        "refusal" => Part::Text {
            text: part.required_string("refusal")?.into(),
            meta: wrap(API, Map::from_iter([(REFUSAL.to_owned(), true.into())])),
        },
        "input_image" => match part.string("image_url")? {
            Some(url) => {
                let (mime_type, source) = decode_image_url(url);
                Part::Image { mime_type, source, meta: wrap(API, part.rest(&["type", "image_url"])) }
            }
            None => unknown(),
        },
        _ => unknown(),
    })
}

pub(super) fn is_refusal(meta: Option<&Json>) -> bool {
    own_field(meta, API, REFUSAL).is_some()
}

/// Parts as `content`: a string for one plain text, else an array of parts.
pub(super) fn encode_content<'a>(parts: impl IntoIterator<Item = &'a Part>, usual: &str) -> Value {
    let mut encoded: Vec<Value> = parts.into_iter().filter_map(|part| encode_part(part, usual)).collect();
    match encoded.as_mut_slice() {
        [Value::Object(only)] if only.len() == 2 && only.contains_key("text") => {
            only.remove("text").unwrap_or_default()
        }
        _ => Value::Array(encoded),
    }
}

/// One part; nothing for those that are items of their own.
pub(crate) fn encode_part(part: &Part, usual: &str) -> Option<Value> {
    let (mut object, meta) = match part {
        Part::Text { text, meta } if is_refusal(meta.as_ref()) => {
            return Some(json!({"type": "refusal", "refusal": text}));
        }
        Part::Text { text, meta } => (json!({"type": usual, "text": text}), meta),
        Part::Image { mime_type, source, meta } => {
            (json!({"type": "input_image", "image_url": encode_image_url(mime_type, source)}), meta)
        }
        Part::Unknown { raw } => return Some(raw.to_value()),
        Part::Thinking { .. } | Part::ToolCall(_) | Part::ToolResult(_) => return None,
    };
    if let Value::Object(object) = &mut object {
        let mut fields = own_meta(meta.as_ref(), API);
        fields.retain(|key, _| ![ITEM, CONTINUES, LOGPROBS].contains(&key.as_str()));
        object.extend(fields);
        if object.get("type").and_then(Value::as_str) == Some(OUTPUT_TEXT) {
            object.entry("annotations").or_insert_with(|| json!([]));
        }
    }
    Some(object)
}
