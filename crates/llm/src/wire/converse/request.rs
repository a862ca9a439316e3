//! Requests.

use backstop_hooks::conversation::{Message, Part, Role, ToolSpec};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use super::content::{Direction, GUARDED, decode_content, decode_request_block, encode_parts};
use super::{API, member, object, only, union};
use crate::error::WireError;
use crate::model::{ModelRequest, ToolChoice, ToolDefinition};
use crate::wire::json::malformed;
use crate::wire::meta::{attach, wrap};
use crate::wire::{DecodedRequest, RequestTarget};

/// Where the model and the kind of answer stand once the address is gone.
const MODEL: &str = "modelId";
const STREAM: &str = "stream";
const LIMITS: &str = "inferenceConfig";
const TOOLS: &str = "toolConfig";

pub(crate) fn encode_request(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    let system = encode_system(request);
    if !system.is_empty() {
        body.insert("system".to_owned(), system.into());
    }
    body.insert("messages".to_owned(), encode_messages(&request.messages).into());
    let mut extra = request.extra_fields();
    let mut part_of = |field: &str| match extra.shift_remove(field) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (mut limits, mut tools) = (part_of(LIMITS), part_of(TOOLS));
    if let Some(most) = request.max_tokens {
        limits.insert("maxTokens".to_owned(), most.into());
    }
    if let Some(temperature) = request.temperature {
        limits.insert("temperature".to_owned(), temperature.into());
    }
    if !request.tools.is_empty() {
        tools.insert("tools".to_owned(), request.tools.iter().map(encode_tool).collect());
    }
    tools.extend(request.tool_choice.as_ref().and_then(|choice| {
        let choice = encode_tool_choice(choice)?;
        Some(("toolChoice".to_owned(), choice))
    }));
    for (field, fields) in [(LIMITS, limits), (TOOLS, tools)] {
        if !fields.is_empty() {
            body.insert(field.to_owned(), fields.into());
        }
    }
    for (key, value) in extra {
        body.entry(key).or_insert(value);
    }
    body.into()
}

fn encode_system(request: &ModelRequest) -> Vec<Value> {
    let inside = request.messages.iter().filter(|message| message.role == Role::System);
    let parts: Vec<Part> =
        request.system.iter().chain(inside.flat_map(|message| &message.content)).cloned().collect();
    encode_parts(&parts, Direction::ToProvider)
}

fn encode_messages(messages: &[Message]) -> Vec<Value> {
    let mut encoded = Vec::with_capacity(messages.len());
    let mut results: Vec<Value> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            results.extend(encode_parts(&message.content, Direction::ToProvider));
            continue;
        }
        flush_results(&mut results, &mut encoded);
        let role = match message.role {
            Role::Assistant => "assistant",
            Role::User | Role::Tool => "user",
            Role::System => continue,
        };
        let content = encode_parts(&message.content, Direction::ToProvider);
        if content.is_empty() {
            continue;
        }
        let mut fields =
            Map::from_iter([("role".to_owned(), Value::from(role)), ("content".to_owned(), content.into())]);
        attach(&mut fields, message.meta.as_ref(), API);
        encoded.push(fields.into());
    }
    flush_results(&mut results, &mut encoded);
    encoded
}

fn flush_results(results: &mut Vec<Value>, encoded: &mut Vec<Value>) {
    if !results.is_empty() {
        encoded.push(json!({"role": "user", "content": std::mem::take(results)}));
    }
}

/// A list of tools, and the choice among them.
pub(crate) fn encode_tools(tools: &[ToolDefinition], choice: Option<&ToolChoice>) -> Value {
    let mut fields = Map::from_iter([("tools".to_owned(), tools.iter().map(encode_tool).collect())]);
    fields.extend(choice.and_then(encode_tool_choice).map(|choice| ("toolChoice".to_owned(), choice)));
    fields.into()
}

pub(crate) fn encode_tool(tool: &ToolDefinition) -> Value {
    let (spec, meta) = match tool {
        ToolDefinition::Provider { raw } => return raw.to_value(),
        ToolDefinition::Function { spec, meta } => (spec, meta),
    };
    let mut fields = Map::from_iter([("name".to_owned(), Value::from(spec.name.as_str()))]);
    if let Some(description) = &spec.description {
        fields.insert("description".to_owned(), description.as_str().into());
    }
    fields.insert("inputSchema".to_owned(), union("json", spec.input_schema.to_value()));
    attach(&mut fields, meta.as_ref(), API);
    union("toolSpec", fields)
}

/// The choice; `None` if the wire can't say it, as that no tool is to be called.
pub(crate) fn encode_tool_choice(choice: &ToolChoice) -> Option<Value> {
    match choice {
        ToolChoice::Auto => Some(json!({"auto": {}})),
        ToolChoice::None => None,
        ToolChoice::Required => Some(json!({"any": {}})),
        ToolChoice::Tool(name) => Some(json!({"tool": {"name": name}})),
        ToolChoice::Other(raw) => Some(raw.to_value()),
    }
}

/// Reads all but the messages.
pub(crate) fn decode_frame(target: &RequestTarget, body: &Value) -> Result<DecodedRequest, WireError> {
    let body = object("request", body)?;
    let named = body.string(MODEL)?;
    let model = match (&target.model, named) {
        (Some(model), Some(other)) if model != other => {
            return Err(body.error(MODEL, "is not the model of the address"));
        }
        (Some(model), _) => model.clone(),
        (None, named) => named.ok_or_else(|| body.error(MODEL, "is missing"))?.to_owned(),
    };
    let limits = body.object(LIMITS)?;
    let of_limits = |field| limits.map(|limits| limits.u64(field)).transpose().map(Option::flatten);
    let temperature = limits.map(|limits| limits.f64("temperature")).transpose()?.flatten();
    let tools = body.object(TOOLS)?;
    let mut extra = body.rest(&["system", "messages", MODEL, STREAM, LIMITS, TOOLS]);
    let more = [
        (LIMITS, limits.map(|limits| limits.rest(&["maxTokens", "temperature"]))),
        (TOOLS, tools.map(|tools| tools.rest(&["tools", "toolChoice"]))),
    ];
    for (field, rest) in more {
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
            extra.insert(field.to_owned(), rest.into());
        }
    }
    let listed = tools.map(|tools| tools.array("tools")).transpose()?.flatten().unwrap_or_default();
    let request = ModelRequest {
        model,
        system: decode_system(body.array("system")?.unwrap_or_default())?.into(),
        messages: Vec::new(),
        tools: listed.iter().map(decode_tool).collect::<Result<_, _>>()?,
        tool_choice: tools.and_then(|tools| tools.get("toolChoice")).map(decode_tool_choice),
        max_tokens: of_limits("maxTokens")?,
        temperature,
        thinking: None,
        extra: if extra.is_empty() { Json::default() } else { Json::new(extra.into()) },
        span: None,
    };
    Ok(DecodedRequest { request, stream: target.stream || body.bool(STREAM)?.unwrap_or(false) })
}

/// Texts, and what is none and is known. Nobody would be shown what else stands there.
fn decode_system(blocks: &[Value]) -> Result<Vec<Part>, WireError> {
    let known = |block: &Value| match only("system", block)? {
        ("text" | GUARDED, _) | ("cachePoint", Value::Object(_)) => decode_request_block(block),
        (kind, _) => Err(malformed("system", kind, "is of a kind that nobody here can judge")),
    };
    blocks.iter().map(known).collect()
}

/// Reads one message.
pub(crate) fn decode_message(value: &Value) -> Result<Message, WireError> {
    let message = object("message", value)?;
    let content = decode_content(message.required_array("content")?)?;
    let role = match message.required_string("role")? {
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "user" if is_all_results(&content) => Role::Tool,
        "user" => Role::User,
        _ => return Err(message.error("role", "is not known")),
    };
    Ok(Message { meta: wrap(API, message.rest(&["role", "content"])), ..Message::new(role, content) })
}

fn is_all_results(parts: &[Part]) -> bool {
    !parts.is_empty() && parts.iter().all(|part| matches!(part, Part::ToolResult(_)))
}

fn decode_tool(value: &Value) -> Result<ToolDefinition, WireError> {
    let provider = || ToolDefinition::Provider { raw: Json::new(value.clone()) };
    let ("toolSpec", inside) = only("tool", value)? else { return Ok(provider()) };
    let is_alone = |value: &Value| value.as_object().is_some_and(|fields| fields.len() == 1);
    if !is_alone(value) || inside.get("inputSchema").is_some_and(|schema| !is_alone(schema)) {
        return Ok(provider());
    }
    let spec = object("toolSpec", inside)?;
    let Some(schema) = spec.get("inputSchema") else { return Ok(provider()) };
    let Ok(Some(("json", schema))) = member("inputSchema", schema) else { return Ok(provider()) };
    Ok(ToolDefinition::Function {
        spec: ToolSpec {
            name: spec.required_string("name")?.to_owned(),
            description: spec.string("description")?.map(Text::from),
            input_schema: Json::new(schema.clone()),
        },
        meta: wrap(API, spec.rest(&["name", "description", "inputSchema"])),
    })
}

fn decode_tool_choice(value: &Value) -> ToolChoice {
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    let is_alone = value.as_object().is_some_and(|fields| fields.len() == 1);
    match member("toolChoice", value) {
        _ if !is_alone => ToolChoice::Other(Json::new(value.clone())),
        Ok(Some(("auto", inside))) if is_empty(inside) => ToolChoice::Auto,
        Ok(Some(("any", inside))) if is_empty(inside) => ToolChoice::Required,
        Ok(Some(("tool", inside))) if inside.as_object().is_some_and(|fields| fields.len() == 1) => {
            match inside.get("name").and_then(Value::as_str) {
                Some(name) => ToolChoice::Tool(name.to_owned()),
                None => ToolChoice::Other(Json::new(value.clone())),
            }
        }
        _ => ToolChoice::Other(Json::new(value.clone())),
    }
}
