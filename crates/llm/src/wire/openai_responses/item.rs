//! Items: from the list that the wire has to the parts of messages, and back.

use std::collections::{BTreeMap, BTreeSet};

use backstop_hooks::conversation::{Part, ToolCall};
use backstop_hooks::{Digest, Json};
use serde_json::{Map, Value, json};

use super::API;
use super::call::{CallKind, decode_call, decode_result, encode_call, encode_result, unknown};
use super::content::{
    CONTINUES, ITEM, LOGPROBS, OUTPUT_TEXT, SPOKEN, decode_part, encode_part, unknown_part,
};
use crate::error::WireError;
use crate::live::steps::step;
use crate::wire::json::Object;
use crate::wire::meta::{own_field, wrap};
use crate::wire::{RESPONSES_ITEMS, TypeClass, own_meta};

/// Where an item is read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reader<'a> {
    /// In a request, where all that is said is kept.
    Request,
    /// In an answer: what is so in every answer is not kept.
    Answer {
        /// The answer's id.
        response: &'a str,
        /// The item's place in it.
        place: usize,
    },
}

impl Reader<'_> {
    /// The kind of call that an item of this type is here.
    fn call(self, item_type: &str) -> Option<CallKind> {
        match self {
            Self::Request => CallKind::in_request(item_type),
            Self::Answer { .. } => CallKind::in_answer(item_type),
        }
    }

    /// Reads a part of a message of the assistant.
    ///
    /// # Errors
    /// For a part of an answer that nobody knows: it can't leave without its message, which may have left.
    fn message_part(self, part: &Value) -> Result<Part, WireError> {
        let mut decoded = decode_part(part, OUTPUT_TEXT)?;
        if let (Part::Text { meta, .. }, Self::Answer { .. }) = (&mut decoded, self) {
            *meta = wrap(API, own_fields(meta.as_ref(), &[LOGPROBS]));
        }
        match (&decoded, self) {
            (Part::Unknown { raw }, Self::Answer { .. })
                if raw.get("type").and_then(Value::as_str) != Some(SPOKEN) =>
            {
                Err(unknown_part())
            }
            _ => Ok(decoded),
        }
    }

    /// The fields of an item but the known ones.
    pub(super) fn item_fields(self, item: Object<'_>, known: &[&str]) -> Map<String, Value> {
        let mut fields = item.rest(known);
        if let Self::Answer { response, place } = self {
            let kind = item.get("type").and_then(Value::as_str).unwrap_or_default();
            let made = made_id(kind, response, place);
            fields.retain(|key, value| match key.as_str() {
                "status" => value.as_str() != Some("completed"),
                "id" => value.as_str() != Some(&made),
                _ => !value.is_null(),
            });
        }
        fields
    }
}

/// The longest id of an answer that ids of its items repeat.
const LONGEST_REPEATED: usize = 256;

/// The id of an item that has none of its own. It repeats that of the answer only where that is a word, as ids are: anything else is
/// judged as what somebody says, and may be taken out.
pub(crate) fn made_id(kind: &str, response: &str, place: usize) -> String {
    let prefix = match kind {
        "message" => "msg",
        "reasoning" => "rs",
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        _ => "item",
    };
    let is_word = response.len() <= LONGEST_REPEATED && response.bytes().all(|byte| byte.is_ascii_graphic());
    if is_word {
        return format!("{prefix}_{response}_{place}");
    }
    format!("{prefix}_{}_{place}", Digest::of_text("response_id", response).prefix(24))
}

/// Reads an item of the assistant's side; always at least one part.
pub(super) fn decode_item(value: &Value, reader: Reader<'_>) -> Result<Vec<Part>, WireError> {
    let item = Object::of("item", value)?;
    let kind = item.string("type")?.unwrap_or_default();
    let parts = match kind {
        "message" => decode_message_item(item, reader)?,
        "reasoning" => decode_reasoning(item, reader)?,
        _ => match (reader.call(kind), CallKind::of_output(kind)) {
            (Some(call), _) => vec![Part::ToolCall(decode_call(call, item, reader)?)],
            (None, Some(call)) => vec![Part::ToolResult(decode_result(call, item)?)],
            (None, None) => vec![unknown(value)],
        },
    };
    Ok(if parts.is_empty() { vec![unknown(value)] } else { parts })
}

/// A message of the assistant. Content that nobody here knows stays in a message of its own.
fn decode_message_item(item: Object<'_>, reader: Reader<'_>) -> Result<Vec<Part>, WireError> {
    if !matches!(item.string("role")?, None | Some("assistant")) {
        return Err(item.error("role", "is not `assistant`"));
    }
    let content = match item.get("content") {
        Some(Value::String(text)) => vec![Part::text(text.as_str())],
        _ => item
            .array("content")?
            .unwrap_or_default()
            .iter()
            .map(|part| reader.message_part(part).map(in_message))
            .collect::<Result<_, _>>()?,
    };
    Ok(as_item(content, reader.item_fields(item, &["type", "role", "content"])))
}

fn in_message(part: Part) -> Part {
    match part {
        Part::Unknown { raw } => Part::Unknown {
            raw: json!({"type": "message", "role": "assistant", "content": [raw.to_value()]}).into(),
        },
        part => part,
    }
}

/// Marks parts that share an item: the first has the item's fields, the others say that they continue it.
fn as_item(mut parts: Vec<Part>, fields: Map<String, Value>) -> Vec<Part> {
    for (place, part) in parts.iter_mut().enumerate() {
        match part {
            Part::Unknown { raw } if place == 0 => {
                let mut message = raw.to_value();
                if let Value::Object(message) = &mut message {
                    message.extend(fields.clone());
                }
                *raw = Json::new(message);
            }
            Part::Text { meta, .. } | Part::Thinking { meta, .. } | Part::Image { meta, .. } => {
                let mut own = own_meta(meta.as_ref(), API);
                if place > 0 {
                    own.insert(CONTINUES.to_owned(), true.into());
                } else if !fields.is_empty() {
                    own.insert(ITEM.to_owned(), fields.clone().into());
                }
                *meta = wrap(API, own);
            }
            _ => {}
        }
    }
    parts
}

const CONTENT: &str = "content";
const SUMMARY: &str = "summary";
/// The note in which of these lists a text stood.
const KIND: &str = "kind";

/// Reasoning: its summary, then its text; a part without text if it is encrypted only.
fn decode_reasoning(item: Object<'_>, reader: Reader<'_>) -> Result<Vec<Part>, WireError> {
    let mut parts = Vec::new();
    for field in [SUMMARY, CONTENT] {
        for text in item.array(field)?.unwrap_or_default() {
            let text = Object::of("reasoning", text)?;
            let mut meta = text.rest(&["type", "text"]);
            if [KIND, ITEM, CONTINUES].iter().any(|note| meta.contains_key(*note)) {
                return Err(text.error("reasoning", "has a field that no text of it has"));
            }
            let usual = if field == CONTENT { "reasoning_text" } else { "summary_text" };
            if let Some(other) = text.string("type")?.filter(|kind| *kind != usual) {
                meta.insert("type".to_owned(), other.into());
            }
            if field == CONTENT {
                meta.insert(KIND.to_owned(), CONTENT.into());
            }
            parts.push(Part::Thinking { text: text.required_string("text")?.into(), meta: wrap(API, meta) });
        }
    }
    if parts.is_empty() {
        parts.push(Part::Thinking { text: "".into(), meta: None });
    }
    Ok(as_item(parts, reader.item_fields(item, &["type", SUMMARY, CONTENT])))
}

/// The calls in a list of stored items, as an answer with them would have them: also items of a type that nobody knows.
///
/// # Errors
/// For an item that is none of this wire.
pub fn listed_calls(items: &[Value]) -> Result<Vec<ToolCall>, WireError> {
    let mut calls = Vec::new();
    for (place, value) in items.iter().enumerate() {
        let item = Object::of("item", value)?;
        // Messages of people may leave their type out.
        let kind = item.string("type")?.unwrap_or(if item.get("role").is_some() { "message" } else { "" });
        if RESPONSES_ITEMS.class_or_call(kind) != TypeClass::Call {
            continue;
        }
        let parts = decode_item(value, Reader::Answer { response: "", place })?;
        calls.extend(parts.into_iter().filter_map(|part| match part {
            Part::ToolCall(call) => Some(call),
            _ => None,
        }));
    }
    Ok(calls)
}

/// Who reads the items.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer<'a> {
    /// The provider, who takes back only reasoning that was its own.
    Provider,
    /// A client, who is shown all there is; every item needs an id and a status.
    Client {
        /// The answer's id.
        response: &'a str,
    },
}

/// Parts of the assistant as items. `calls` learns which kind each call is.
pub(crate) fn encode_items(
    parts: &[Part],
    writer: Writer<'_>,
    calls: &mut BTreeMap<String, CallKind>,
) -> Vec<Value> {
    let mut items: Vec<Map<String, Value>> = Vec::with_capacity(parts.len());
    for part in parts {
        match part {
            Part::Thinking { text, meta } => {
                let own = own_field(meta.as_ref(), API, ITEM).and_then(|item| item.get("id")).is_some();
                let joined = continues(meta.as_ref()) && ends_with(&items, "reasoning");
                if own || joined || matches!(writer, Writer::Client { .. }) {
                    push_reasoning(&mut items, text, meta.as_ref(), joined);
                }
            }
            Part::ToolCall(call) => {
                calls.insert(call.id.as_str().to_owned(), CallKind::of_call(call));
                items.push(encode_call(call));
            }
            Part::ToolResult(result) => {
                let asked = calls.get(result.tool_call_id.as_str()).copied();
                items.extend(into_object(encode_result(result, asked)));
            }
            Part::Unknown { raw } => push_unknown(&mut items, raw),
            Part::Text { meta, .. } | Part::Image { meta, .. } => {
                let content = encode_part(part, OUTPUT_TEXT);
                if continues(meta.as_ref()) && ends_with(&items, "message") {
                    push_content(&mut items, content);
                } else {
                    let mut item = message_item(content.into_iter().collect());
                    item.extend(item_fields(meta.as_ref()));
                    items.push(item);
                }
            }
        }
    }
    if let Writer::Client { response } = writer {
        for (place, item) in items.iter_mut().enumerate() {
            complete(item, response, place);
        }
    }
    items.into_iter().map(Value::Object).collect()
}

fn into_object(value: Value) -> Option<Map<String, Value>> {
    if let Value::Object(fields) = value { Some(fields) } else { None }
}

fn message_item(content: Vec<Value>) -> Map<String, Value> {
    Map::from_iter([
        ("type".to_owned(), "message".into()),
        ("role".to_owned(), "assistant".into()),
        (CONTENT.to_owned(), content.into()),
    ])
}

/// What clients need of an item that this wire knows: an id and a status.
pub(super) fn complete(item: &mut Map<String, Value>, response: &str, place: usize) {
    let kind = item.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind == "message" || kind == "reasoning" || CallKind::of_item(&kind).is_some() {
        item.entry("id").or_insert_with(|| made_id(&kind, response, place).into());
        item.entry("status").or_insert_with(|| "completed".into());
    }
}

pub(super) fn continues(meta: Option<&Json>) -> bool {
    own_field(meta, API, CONTINUES).is_some()
}

fn ends_with(items: &[Map<String, Value>], kind: &str) -> bool {
    items.last().and_then(|item| item.get("type")).and_then(Value::as_str) == Some(kind)
}

/// The fields of the item that a part begins.
pub(super) fn item_fields(meta: Option<&Json>) -> Map<String, Value> {
    own_field(meta, API, ITEM).and_then(Value::as_object).cloned().unwrap_or_default()
}

/// What is attached to a part, without some of it.
pub(super) fn own_fields(meta: Option<&Json>, without: &[&str]) -> Map<String, Value> {
    let mut fields = own_meta(meta, API);
    fields.retain(|key, _| !without.contains(&key.as_str()));
    fields
}

fn push_content(items: &mut [Map<String, Value>], more: impl IntoIterator<Item = Value>) {
    if let Some(Value::Array(content)) = items.last_mut().and_then(|item| item.get_mut(CONTENT)) {
        content.extend(more);
    }
}

/// An item as it came; content of a message that nobody here knows goes back into the message.
fn push_unknown(items: &mut Vec<Map<String, Value>>, raw: &Json) {
    let message = raw.get("type").and_then(Value::as_str) == Some("message");
    match raw.get(CONTENT).and_then(Value::as_array) {
        Some(content) if message && raw.get("id").is_none() && ends_with(items, "message") => {
            push_content(items, content.clone());
        }
        _ => items.extend(into_object(raw.to_value())),
    }
}

fn push_reasoning(
    items: &mut Vec<Map<String, Value>>,
    text: &backstop_hooks::Text,
    meta: Option<&Json>,
    joined: bool,
) {
    let field = match own_field(meta, API, "kind") {
        Some(_) => CONTENT,
        None => SUMMARY,
    };
    if !joined {
        let mut item =
            Map::from_iter([("type".to_owned(), "reasoning".into()), (SUMMARY.to_owned(), json!([]))]);
        item.extend(item_fields(meta));
        items.push(item);
        if text.is_empty() {
            return;
        }
    }
    let mut part = own_fields(meta, &[ITEM, CONTINUES, "kind"]);
    let kind = if field == CONTENT { "reasoning_text" } else { "summary_text" };
    part.insert("type".to_owned(), kind.into());
    part.insert("text".to_owned(), text.as_str().into());
    if let Some(Value::Array(texts)) =
        items.last_mut().map(|item| item.entry(field).or_insert_with(|| json!([])))
    {
        texts.push(part.into());
    }
}

/// Whether the answer waits for the client to run something.
pub(super) fn waits_for_tools(parts: &[Part]) -> bool {
    let result = |part: &Part| match part {
        Part::ToolResult(result) => Some(result.tool_call_id.as_str().to_owned()),
        _ => None,
    };
    let answered: BTreeSet<String> = parts.iter().inspect(|_| step()).filter_map(result).collect();
    parts.iter().any(|part| matches!(part, Part::ToolCall(call) if !answered.contains(call.id.as_str())))
}
