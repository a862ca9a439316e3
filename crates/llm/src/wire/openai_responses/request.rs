//! Requests.

use std::collections::BTreeMap;

use backstop_hooks::conversation::{Message, Part, Role, ToolSpec};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::call::{CallKind, decode_result, encode_result, unknown};
use super::content::{INPUT_TEXT, decode_content, encode_content};
use super::item::{Reader, Writer, decode_item, encode_items};
use crate::error::WireError;
use crate::model::{ModelRequest, ThinkLevel, ToolChoice, ToolDefinition};
use crate::wire::DecodedRequest;
use crate::wire::json::{Object, array, malformed};
use crate::wire::meta::{attach, own_field, wrap};

const KNOWN: &[&str] =
    &["model", "input", "instructions", "tools", "tool_choice", "max_output_tokens", "temperature", "stream"];

pub(crate) fn encode_request(request: &ModelRequest, stream: bool) -> Value {
    let mut body = Map::new();
    if !request.model.is_empty() {
        body.insert("model".to_owned(), request.model.as_str().into());
    }
    if let Some(instructions) = request.system_text() {
        body.insert("instructions".to_owned(), instructions.as_str().into());
    }
    // A stored conversation or prompt may be all there is.
    if !request.messages.is_empty() {
        body.insert("input".to_owned(), encode_input(&request.messages).into());
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(encode_tool).collect());
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("tool_choice".to_owned(), encode_tool_choice(choice));
    }
    if let Some(limit) = request.max_tokens {
        body.insert("max_output_tokens".to_owned(), limit.into());
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    for (key, value) in request.extra_fields() {
        body.entry(key).or_insert(value);
    }
    if let Some(effort) = request.thinking.and_then(effort) {
        let reasoning = body.entry("reasoning").or_insert_with(|| json!({}));
        if let Value::Object(reasoning) = reasoning {
            reasoning.insert("effort".to_owned(), effort.into());
        }
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
    }
    body.into()
}

fn effort(level: ThinkLevel) -> Option<&'static str> {
    match level {
        ThinkLevel::Off => None,
        ThinkLevel::Low => Some("low"),
        ThinkLevel::Medium => Some("medium"),
        ThinkLevel::High => Some("high"),
    }
}

pub(crate) fn encode_input(messages: &[Message]) -> Vec<Value> {
    let mut items = Vec::with_capacity(messages.len());
    let mut calls = BTreeMap::new();
    for message in messages {
        if message.role == Role::Assistant {
            items.extend(encode_items(&message.content, Writer::Provider, &mut calls));
            continue;
        }
        let mut said: Vec<&Part> = Vec::new();
        for part in &message.content {
            match part {
                Part::ToolResult(result) => {
                    let asked = calls.get(result.tool_call_id.as_str()).copied();
                    items.push(encode_result(result, asked));
                }
                Part::Unknown { raw } if message.role == Role::Tool => items.push(raw.to_value()),
                Part::ToolCall(_) | Part::Thinking { .. } => {}
                part => said.push(part),
            }
        }
        items.extend(encode_message(message, &said));
    }
    items
}

/// What a message says besides the results of tools; nothing if that is nothing.
fn encode_message(message: &Message, said: &[&Part]) -> Option<Value> {
    let role = if message.role == Role::System { "system" } else { "user" };
    let content = match encode_content(said.iter().copied(), INPUT_TEXT) {
        Value::Array(parts) if parts.is_empty() => return None,
        content => content,
    };
    let own_role = own_field(message.meta.as_ref(), API, "role").cloned();
    let mut item = Map::from_iter([
        ("type".to_owned(), Value::from("message")),
        ("role".to_owned(), own_role.unwrap_or_else(|| role.into())),
        ("content".to_owned(), content),
    ]);
    attach(&mut item, message.meta.as_ref(), API);
    Some(item.into())
}

/// What stands in `strict` of a tool that left it out: the provider then takes the schema as a strict one if it
/// can, while a tool without this mark is to be taken as it is.
const PROVIDERS_CHOICE: &str = "default";

pub(crate) fn encode_tool(tool: &ToolDefinition) -> Value {
    match tool {
        ToolDefinition::Provider { raw } => raw.to_value(),
        ToolDefinition::Function { spec, meta } => {
            let mut tool = Map::from_iter([
                ("type".to_owned(), Value::from("function")),
                ("name".to_owned(), spec.name.as_str().into()),
                ("parameters".to_owned(), spec.input_schema.to_value()),
            ]);
            if let Some(description) = &spec.description {
                tool.insert("description".to_owned(), description.as_str().into());
            }
            attach(&mut tool, meta.as_ref(), API);
            match tool.get("strict").map(Value::as_str) {
                None => {
                    tool.insert("strict".to_owned(), false.into());
                }
                Some(Some(PROVIDERS_CHOICE)) => {
                    tool.remove("strict");
                }
                Some(_) => {}
            }
            tool.into()
        }
    }
}

fn encode_tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
        ToolChoice::Other(raw) => raw.to_value(),
    }
}

/// Reads all but the items of the input.
pub(crate) fn decode_frame(body: &Value) -> Result<DecodedRequest, WireError> {
    let body = Object::of("request", body)?;
    let request = ModelRequest {
        // A stored prompt may name the model.
        model: body.string("model")?.unwrap_or_default().to_owned(),
        system: body.string("instructions")?.map(Part::text).into_iter().collect(),
        messages: body.get("input").map(decode_text).transpose()?.unwrap_or_default(),
        tools: body.get("tools").map(decode_tools).transpose()?.unwrap_or_default(),
        tool_choice: body.get("tool_choice").map(decode_tool_choice),
        max_tokens: body.u64("max_output_tokens")?,
        temperature: body.f64("temperature")?,
        thinking: None,
        extra: match body.rest(KNOWN) {
            rest if rest.is_empty() => Json::default(),
            rest => Json::new(rest.into()),
        },
        span: None,
    };
    Ok(DecodedRequest { request, stream: body.bool("stream")?.unwrap_or(false) })
}

/// The input where it is one text.
fn decode_text(input: &Value) -> Result<Vec<Message>, WireError> {
    match input {
        Value::String(text) => Ok(vec![Message::user(text.as_str())]),
        Value::Array(_) => Ok(Vec::new()),
        _ => Err(malformed("request", "input", "is neither a string nor an array")),
    }
}

/// Reads the list of tools.
pub(crate) fn decode_tools(value: &Value) -> Result<Vec<ToolDefinition>, WireError> {
    array("request", "tools", value)?.iter().map(decode_tool).collect()
}

/// Reads one item: a message of its own, or more of what the assistant said.
pub(crate) fn decode_input_item(value: &Value, messages: &mut Vec<Message>) -> Result<(), WireError> {
    append(messages, decode_element(value)?);
    Ok(())
}

/// Reads one item as a message that stands alone.
pub(crate) fn decode_element(value: &Value) -> Result<Message, WireError> {
    let item = Object::of("input item", value)?;
    let kind = item.string("type")?;
    let message = match (kind, item.string("role")?) {
        (None | Some("message"), Some(role @ ("user" | "system" | "developer"))) => {
            decode_message(item, role)?
        }
        (None, Some("assistant")) => {
            let mut message = item.rest(&[]);
            message.insert("type".to_owned(), "message".into());
            Message::new(Role::Assistant, decode_item(&message.into(), Reader::Request)?)
        }
        (None | Some("message"), Some(role)) if role != "assistant" => {
            return Err(item.error("role", "is not known"));
        }
        _ => match kind.filter(|kind| is_output(kind)) {
            Some(kind) => Message::new(Role::Tool, vec![decode_output(kind, item, value)?]),
            None => Message::new(Role::Assistant, decode_item(value, Reader::Request)?),
        },
    };
    Ok(message)
}

/// Whether an item tells what a tool, or a human who was asked, answered.
fn is_output(kind: &str) -> bool {
    kind.ends_with("_output") || kind == "mcp_approval_response"
}

fn decode_output(kind: &str, item: Object<'_>, value: &Value) -> Result<Part, WireError> {
    match CallKind::of_output(kind) {
        Some(call) => Ok(Part::ToolResult(decode_result(call, item)?)),
        None => Ok(unknown(value)),
    }
}

/// Items of the assistant that stand next to each other are one message.
/// Puts what an item says behind the messages: what the assistant said in several items is one message.
pub(crate) fn append(messages: &mut Vec<Message>, message: Message) {
    match messages.last_mut() {
        Some(last) if last.role == Role::Assistant && message.role == Role::Assistant => {
            last.content.extend(message.content);
        }
        _ => messages.push(message),
    }
}

fn decode_message(item: Object<'_>, role: &str) -> Result<Message, WireError> {
    let content = item.get("content").ok_or_else(|| item.error("content", "is missing"))?;
    let mut meta = item.rest(&["type", "role", "content"]);
    if role == "developer" {
        meta.insert("role".to_owned(), role.into());
    }
    let own = if role == "user" { Role::User } else { Role::System };
    Ok(Message { meta: wrap(API, meta), ..Message::new(own, decode_content(content, INPUT_TEXT)?) })
}

fn decode_tool(value: &Value) -> Result<ToolDefinition, WireError> {
    let tool = Object::of("tool", value)?;
    if tool.required_string("type")? != "function" {
        return Ok(ToolDefinition::Provider { raw: Json::new(value.clone()) });
    }
    let mut meta = tool.rest(&["type", "name", "description", "parameters"]);
    match tool.get("strict") {
        None => {
            meta.insert("strict".to_owned(), PROVIDERS_CHOICE.into());
        }
        Some(Value::Bool(false)) => {
            meta.remove("strict");
        }
        Some(_) => {}
    }
    Ok(ToolDefinition::Function {
        spec: ToolSpec {
            name: tool.required_string("name")?.to_owned(),
            description: tool.string("description")?.map(Text::from),
            input_schema: tool.get("parameters").map(|schema| Json::new(schema.clone())).unwrap_or_default(),
        },
        meta: wrap(API, meta),
    })
}

fn decode_tool_choice(value: &Value) -> ToolChoice {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    match (value.as_str(), text("type"), text("name")) {
        (Some("auto"), ..) => ToolChoice::Auto,
        (Some("none"), ..) => ToolChoice::None,
        (Some("required"), ..) => ToolChoice::Required,
        (None, Some("function"), Some(name)) if value.as_object().is_some_and(|choice| choice.len() == 2) => {
            ToolChoice::Tool(name.to_owned())
        }
        _ => ToolChoice::Other(Json::new(value.clone())),
    }
}
