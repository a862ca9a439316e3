//! Requests.

use backstop_hooks::Json;
use backstop_hooks::conversation::{Content, Message, Part, Role, ToolResult};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{encode_assistant, encode_content};
use super::functions::{FUNCTIONS, decode_function, decode_spec, encode_function, is_function, result_head};
use crate::error::WireError;
use crate::model::{ModelRequest, ThinkLevel, ToolChoice, ToolDefinition};
use crate::wire::DecodedRequest;
use crate::wire::json::{Object, array};
use crate::wire::meta::{attach, own_field, wrap};

/// The older name of the limit. A request that came with it leaves with it, since many compatible servers
/// know no other; everything else uses the documented one.
const OLD_LIMIT: &str = "max_tokens";
const LIMIT: &str = "max_completion_tokens";

const KNOWN: &[&str] =
    &["model", "messages", "tools", FUNCTIONS, "tool_choice", LIMIT, "temperature", "stream"];

pub(crate) fn encode_request(request: &ModelRequest, stream: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.as_str().into());
    body.insert("messages".to_owned(), Value::Array(encode_messages(request)));
    let (functions, tools): (Vec<_>, Vec<_>) = request.tools.iter().partition(|tool| is_function(tool));
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.into_iter().map(encode_tool).collect());
    }
    if !functions.is_empty() {
        body.insert(FUNCTIONS.to_owned(), functions.into_iter().map(encode_function).collect());
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("tool_choice".to_owned(), encode_tool_choice(choice));
    }
    let extra = request.extra_fields();
    if let Some(limit) = request.max_tokens {
        let field = if extra.contains_key(OLD_LIMIT) { OLD_LIMIT } else { LIMIT };
        body.insert(field.to_owned(), limit.into());
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
    if let Some(effort) = request.thinking.and_then(effort) {
        body.insert("reasoning_effort".to_owned(), effort.into());
    }
    for (key, value) in extra {
        body.entry(key).or_insert(value);
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
        let options = body.entry("stream_options").or_insert_with(|| json!({}));
        if let Value::Object(options) = options {
            options.insert("include_usage".to_owned(), true.into());
        }
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

fn encode_messages(request: &ModelRequest) -> Vec<Value> {
    let mut encoded = Vec::with_capacity(request.messages.len() + 1);
    if !request.system.is_empty() {
        // The role of the whole prompt is remembered at its first block.
        let developer = request.system.iter().any(|part| match part {
            Part::Text { meta, .. } => own_field(meta.as_ref(), API, "role").is_some(),
            _ => false,
        });
        let blocks: Vec<Part> = request.system.iter().map(without_role).collect();
        let role = if developer { "developer" } else { "system" };
        encoded.push(json!({"role": role, "content": encode_content(&blocks)}));
    }
    let mut images: Vec<Part> = Vec::new();
    for message in &request.messages {
        for result in message.tool_results() {
            encoded.push(encode_result(result));
            images.extend(result.content.iter().filter(|part| matches!(part, Part::Image { .. })).cloned());
        }
        if message.role == Role::Tool {
            continue;
        }
        flush_images(&mut images, &mut encoded);
        encoded.extend(encode_message(message));
    }
    flush_images(&mut images, &mut encoded);
    encoded
}

/// A block of the system prompt without the role that it remembers.
pub(crate) fn without_role(part: &Part) -> Part {
    match part {
        Part::Text { text, meta } => {
            let mut fields = crate::wire::own_meta(meta.as_ref(), API);
            fields.remove("role");
            Part::Text { text: text.clone(), meta: wrap(API, fields) }
        }
        other => other.clone(),
    }
}

/// A message without its tool results; nothing if that leaves nothing.
fn encode_message(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::Assistant => return Some(encode_assistant(message, false)).filter(says_something),
        Role::System => "system",
        Role::User | Role::Tool => "user",
    };
    let mut object = Map::new();
    let own_role = own_field(message.meta.as_ref(), API, "role");
    object.insert("role".to_owned(), own_role.cloned().unwrap_or_else(|| role.into()));
    match encode_content(&message.content) {
        Value::Array(parts) if parts.is_empty() => return None,
        content => object.insert("content".to_owned(), content),
    };
    attach(&mut object, message.meta.as_ref(), API);
    Some(object.into())
}

/// Whether an assistant's message has more than its role: thinking of another wire is left out.
fn says_something(message: &Value) -> bool {
    message
        .as_object()
        .is_some_and(|fields| fields.iter().any(|(key, value)| key != "role" && !value.is_null()))
}

fn encode_result(result: &ToolResult) -> Value {
    let texts = result.content.iter().filter(|part| !matches!(part, Part::Image { .. }));
    let mut object = result_head(result).unwrap_or_else(|| {
        Map::from_iter([
            ("role".to_owned(), Value::from("tool")),
            ("tool_call_id".to_owned(), Value::from(result.tool_call_id.as_str())),
        ])
    });
    let content = match encode_content(texts) {
        Value::Array(parts) if parts.is_empty() => "".into(),
        content => content,
    };
    object.insert("content".to_owned(), content);
    attach(&mut object, result.meta.as_ref(), API);
    object.into()
}

/// Tool messages take no images, and nothing may stand between them: images follow the last one.
fn flush_images(images: &mut Vec<Part>, encoded: &mut Vec<Value>) {
    if !images.is_empty() {
        encoded.push(json!({"role": "user", "content": encode_content(images.iter())}));
        images.clear();
    }
}

pub(crate) fn encode_tool(tool: &ToolDefinition) -> Value {
    match tool {
        ToolDefinition::Provider { raw } => raw.to_value(),
        ToolDefinition::Function { .. } => json!({"type": "function", "function": encode_function(tool)}),
    }
}

fn encode_tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => "auto".into(),
        ToolChoice::None => "none".into(),
        ToolChoice::Required => "required".into(),
        ToolChoice::Tool(name) => json!({"type": "function", "function": {"name": name}}),
        ToolChoice::Other(raw) => raw.to_value(),
    }
}

/// Reads all but the messages.
pub(crate) fn decode_frame(body: &Value) -> Result<DecodedRequest, WireError> {
    let body = Object::of("request", body)?;
    body.required_array("messages")?;
    let mut tools = body.get("tools").map(decode_tools).transpose()?.unwrap_or_default();
    for function in body.array(FUNCTIONS)?.unwrap_or_default() {
        tools.push(decode_function(function)?);
    }
    let request = ModelRequest {
        model: body.required_string("model")?.to_owned(),
        system: Content::default(),
        messages: Vec::new(),
        tools,
        tool_choice: body.get("tool_choice").map(decode_tool_choice),
        max_tokens: body.u64(LIMIT)?.map_or_else(|| body.u64(OLD_LIMIT), |limit| Ok(Some(limit)))?,
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

/// Reads the list of tools.
pub(crate) fn decode_tools(value: &Value) -> Result<Vec<ToolDefinition>, WireError> {
    array("request", "tools", value)?.iter().map(decode_tool).collect()
}

/// The first message, if it is the system prompt and has nothing attached that a prompt has no place for.
pub(crate) fn take_system(messages: &mut Vec<Message>) -> Content {
    let Some(first) = messages.first() else { return Content::default() };
    let role = own_field(first.meta.as_ref(), API, "role").cloned();
    let attached = crate::wire::own_meta(first.meta.as_ref(), API).len() - usize::from(role.is_some());
    let is_prompt = first.role == Role::System && attached == 0 && !first.content.is_empty();
    if !is_prompt || !first.content.iter().all(|part| part.as_text().is_some()) {
        return Content::default();
    }
    let mut system = messages.remove(0).content;
    if let Some(role) = role
        && let Some(Part::Text { meta, .. }) = system.first_mut()
    {
        let mut fields = crate::wire::own_meta(meta.as_ref(), API);
        fields.insert("role".to_owned(), role);
        *meta = wrap(API, fields);
    }
    system
}

fn decode_tool(value: &Value) -> Result<ToolDefinition, WireError> {
    let tool = Object::of("tool", value)?;
    let is_function = matches!(tool.string("type")?, None | Some("function"))
        && tool.rest(&["type", "function"]).is_empty();
    // One that says that it stands among `functions` would be taken for one of these.
    let function = tool.object("function")?.filter(|function| function.get(FUNCTIONS).is_none());
    let Some(function) = function.filter(|_| is_function) else {
        return Ok(ToolDefinition::Provider { raw: Json::new(value.clone()) });
    };
    Ok(ToolDefinition::Function {
        spec: decode_spec(function)?,
        meta: wrap(API, function.rest(&["name", "description", "parameters"])),
    })
}

fn decode_tool_choice(value: &Value) -> ToolChoice {
    let has = |value: &Value, count: usize| value.as_object().is_some_and(|fields| fields.len() == count);
    let named = value.get("type").and_then(Value::as_str) == Some("function") && has(value, 2);
    let function = value.get("function").filter(|function| has(function, 1));
    let name = function.and_then(|function| function.get("name")).and_then(Value::as_str);
    match (value.as_str(), name) {
        (Some("auto"), _) => ToolChoice::Auto,
        (Some("none"), _) => ToolChoice::None,
        (Some("required"), _) => ToolChoice::Required,
        (None, Some(name)) if named => ToolChoice::Tool(name.to_owned()),
        _ => ToolChoice::Other(Json::new(value.clone())),
    }
}
