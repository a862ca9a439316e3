//! Requests.

use backstop_hooks::conversation::{Message, Part, Role, ToolSpec};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{Calls, Place, decode_parts, encode_part, encode_parts};
use super::names::{canonical, list};
use crate::error::WireError;
use crate::model::{ModelRequest, ThinkLevel, ToolChoice, ToolDefinition};
use crate::wire::call_ids::CallIds;
use crate::wire::json::{Object, malformed};
use crate::wire::meta::{attach, own_field, wrap};
use crate::wire::{DecodedRequest, RequestTarget};

const KNOWN: &[&str] = &["model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"];

/// Under which name a tool's schema came: the older one takes the provider's own dialect.
const OLD_SCHEMA: &str = "parameters";
const SCHEMA: &str = "parametersJsonSchema";

pub(crate) fn encode_request(request: &ModelRequest) -> Value {
    let mut body = Map::new();
    if let Some(system) = encode_system(request) {
        body.insert("systemInstruction".to_owned(), system);
    }
    body.insert("contents".to_owned(), Value::Array(encode_contents(&request.messages)));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), Value::Array(encode_tools(&request.tools)));
    }
    let mut extra = request.extra_fields();
    let mut tool_config = take_object(&mut extra, "toolConfig");
    if let Some(choice) = &request.tool_choice {
        tool_config.insert("functionCallingConfig".to_owned(), encode_tool_choice(choice));
    }
    let mut generation = take_object(&mut extra, "generationConfig");
    encode_generation(request, &mut generation);
    for (key, fields) in [("toolConfig", tool_config), ("generationConfig", generation)] {
        if !fields.is_empty() {
            body.insert(key.to_owned(), fields.into());
        }
    }
    for (key, value) in extra {
        body.entry(key).or_insert(value);
    }
    body.into()
}

/// One part of a conversation; `None` if the provider would refuse it or must not see it.
pub(crate) fn encode_request_part(part: &Part, calls: &Calls<'_>) -> Option<Value> {
    encode_part(part, Place::Request, calls)
}

/// One message of a conversation; `None` if it says nothing or belongs to the system prompt.
pub(crate) fn encode_request_content(message: &Message, calls: &Calls<'_>) -> Option<Value> {
    let parts = encode_parts(&message.content, Place::Request, calls);
    (message.role != Role::System && !parts.is_empty()).then(|| encode_content(message, parts))
}

fn take_object(fields: &mut Map<String, Value>, key: &str) -> Map<String, Value> {
    match fields.remove(key) {
        Some(Value::Object(object)) => object,
        _ => Map::new(),
    }
}

/// The limit counts the reasoning in. Reasoning is asked for by budgets, which every model that reasons
/// takes; only the small models let themselves be told not to reason at all.
fn encode_generation(request: &ModelRequest, generation: &mut Map<String, Value>) {
    let budget = match request.thinking {
        None => None,
        Some(ThinkLevel::Off) => request.model.contains("flash").then_some(0),
        Some(ThinkLevel::Low) => Some(4_096),
        Some(ThinkLevel::Medium) => Some(12_288),
        Some(ThinkLevel::High) => Some(24_576),
    };
    if let Some(budget) = budget {
        let mut thinking = take_object(generation, "thinkingConfig");
        // The provider refuses a level beside a budget.
        thinking.remove("thinkingLevel");
        thinking.insert("thinkingBudget".to_owned(), budget.into());
        if budget > 0 {
            thinking.entry("includeThoughts").or_insert_with(|| true.into());
        }
        generation.insert("thinkingConfig".to_owned(), thinking.into());
    }
    if let Some(limit) = request.max_tokens {
        let limit = limit.saturating_add(budget.unwrap_or_default());
        generation.insert("maxOutputTokens".to_owned(), limit.into());
    }
    if let Some(temperature) = request.temperature {
        generation.insert("temperature".to_owned(), temperature.into());
    }
}

fn encode_system(request: &ModelRequest) -> Option<Value> {
    let inside = request.messages.iter().filter(|message| message.role == Role::System);
    let parts: Vec<Part> =
        request.system.iter().chain(inside.flat_map(|message| &message.content)).cloned().collect();
    let parts = encode_parts(&parts, Place::Request, &Calls::default());
    (!parts.is_empty()).then(|| json!({"parts": parts}))
}

/// Results of parallel calls go back in one content, right after the calls.
fn encode_contents(messages: &[Message]) -> Vec<Value> {
    let mut encoded: Vec<Value> = Vec::with_capacity(messages.len());
    let mut calls = Calls::default();
    let mut after_results = false;
    for message in messages {
        if message.role == Role::System {
            continue;
        }
        calls.remember(&message.content);
        let parts = encode_parts(&message.content, Place::Request, &calls);
        if parts.is_empty() {
            continue;
        }
        let is_results = message.role == Role::Tool;
        let joined = encoded.last_mut().filter(|_| is_results && after_results);
        if let Some(Value::Array(so_far)) = joined.and_then(|content| content.get_mut("parts")) {
            so_far.extend(parts);
            continue;
        }
        after_results = is_results;
        encoded.push(encode_content(message, parts));
    }
    encoded
}

fn encode_content(message: &Message, parts: Vec<Value>) -> Value {
    let role = if message.role == Role::Assistant { "model" } else { "user" };
    let own = own_field(message.meta.as_ref(), API, "role").filter(|_| message.role == Role::Tool);
    let mut object = Map::from_iter([
        ("role".to_owned(), own.cloned().unwrap_or_else(|| role.into())),
        ("parts".to_owned(), parts.into()),
    ]);
    attach(&mut object, message.meta.as_ref(), API);
    object.into()
}

/// Functions that stand together share one entry.
fn encode_tools(tools: &[ToolDefinition]) -> Vec<Value> {
    let mut encoded: Vec<Value> = Vec::new();
    for tool in tools {
        match tool {
            ToolDefinition::Provider { raw } => encoded.push(raw.to_value()),
            ToolDefinition::Function { spec, meta } => {
                let declaration = encode_declaration(spec, meta.as_ref());
                let open = encoded.last_mut().and_then(|last| last.get_mut("functionDeclarations"));
                match open {
                    Some(Value::Array(declarations)) => declarations.push(declaration),
                    _ => encoded.push(json!({"functionDeclarations": [declaration]})),
                }
            }
        }
    }
    encoded
}

fn encode_declaration(spec: &ToolSpec, meta: Option<&Json>) -> Value {
    let mut object = Map::from_iter([("name".to_owned(), Value::from(spec.name.as_str()))]);
    if let Some(description) = &spec.description {
        object.insert("description".to_owned(), description.as_str().into());
    }
    let mut own = crate::wire::own_meta(meta, API);
    let field = if own.remove(OLD_SCHEMA).is_some() { OLD_SCHEMA } else { SCHEMA };
    if !spec.input_schema.is_null() {
        object.insert(field.to_owned(), spec.input_schema.to_value());
    }
    for (key, value) in own {
        object.entry(key).or_insert(value);
    }
    object.into()
}

fn encode_tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        ToolChoice::Other(raw) => raw.to_value(),
    }
}

/// Reads all but the contents.
pub(crate) fn decode_frame(target: &RequestTarget, body: &Value) -> Result<DecodedRequest, WireError> {
    let body = canonical("request", body)?;
    let body = Object::of("request", &body)?;
    let mut extra = body.rest(KNOWN);
    let (max_tokens, temperature) = decode_generation(body, &mut extra)?;
    let request = ModelRequest {
        model: model(target, body)?,
        system: decode_system(body)?.into(),
        messages: Vec::new(),
        tools: body.get("tools").map(decode_tools).transpose()?.unwrap_or_default(),
        tool_choice: decode_tool_config(body, &mut extra)?,
        max_tokens,
        temperature,
        thinking: None,
        extra: if extra.is_empty() { Json::default() } else { Json::new(extra.into()) },
        span: None,
    };
    Ok(DecodedRequest { request, stream: target.stream })
}

/// The model that the address names. Some clients say it a second time in the body; two different ones are
/// refused.
fn model(target: &RequestTarget, body: Object<'_>) -> Result<String, WireError> {
    let bare = |name: &str| name.strip_prefix("models/").unwrap_or(name).to_owned();
    match (&target.model, body.string("model")?.map(bare)) {
        (Some(named), Some(said)) if bare(named) != said => Err(body.error("model", "is not the address's")),
        (Some(named), _) => Ok(named.clone()),
        (None, Some(said)) => Ok(said),
        (None, None) => Err(body.error("model", "is missing in address and body")),
    }
}

fn decode_system(body: Object<'_>) -> Result<Vec<Part>, WireError> {
    let Some(system) = body.get("systemInstruction") else { return Ok(Vec::new()) };
    let system = canonical("system instruction", system)?;
    let system = Object::of("system instruction", &system)?;
    // The prompt has no place for anything else.
    if !matches!(system.string("role")?, None | Some("user" | "system" | "model")) {
        return Err(system.error("role", "is not known"));
    }
    if let Some(field) = system.rest(&["parts", "role"]).keys().next() {
        return Err(system.error(field, "is not known"));
    }
    decode_parts(system, Place::Request, &mut CallIds::of_request())
}

/// The contents of a request, of which there is at least one.
pub(crate) fn contents(body: &Value) -> Result<&[Value], WireError> {
    match list("request", "contents", body.get("contents"))? {
        [] => Err(malformed("request", "contents", "is missing")),
        contents => Ok(contents),
    }
}

/// Reads one content.
pub(crate) fn decode_content(value: &Value, ids: &mut CallIds) -> Result<Message, WireError> {
    let content = canonical("content", value)?;
    let content = Object::of("content", &content)?;
    let parts = decode_parts(content, Place::Request, ids)?;
    let all_results = !parts.is_empty() && parts.iter().all(|part| matches!(part, Part::ToolResult(_)));
    let mut meta = content.rest(&["role", "parts"]);
    let role = match content.string("role")? {
        Some("model") => Role::Assistant,
        None | Some("user") if all_results => Role::Tool,
        None | Some("user") => Role::User,
        Some(role @ ("function" | "tool")) => {
            meta.insert("role".to_owned(), role.into());
            Role::Tool
        }
        Some(_) => return Err(content.error("role", "is not known")),
    };
    Ok(Message { meta: wrap(API, meta), ..Message::new(role, parts) })
}

/// Reads the tools: each function, and each tool of the provider's by itself.
pub(crate) fn decode_tools(value: &Value) -> Result<Vec<ToolDefinition>, WireError> {
    let mut tools = Vec::new();
    for tool in list("request", "tools", Some(value))? {
        let tool = canonical("tool", tool)?;
        let tool = Object::of("tool", &tool)?;
        for declaration in list("tool", "functionDeclarations", tool.get("functionDeclarations"))? {
            tools.push(decode_declaration(declaration)?);
        }
        for (key, value) in tool.rest(&["functionDeclarations"]) {
            tools.push(ToolDefinition::Provider { raw: json!({key: value}).into() });
        }
    }
    Ok(tools)
}

fn decode_declaration(value: &Value) -> Result<ToolDefinition, WireError> {
    let declaration = canonical("function declaration", value)?;
    let declaration = Object::of("function declaration", &declaration)?;
    let mut meta = declaration.rest(&["name", "description", OLD_SCHEMA, SCHEMA]);
    let schema = match (declaration.get(OLD_SCHEMA), declaration.get(SCHEMA)) {
        (Some(_), Some(_)) => return Err(declaration.error(SCHEMA, "stands beside `parameters`")),
        (Some(schema), None) => {
            meta.insert(OLD_SCHEMA.to_owned(), true.into());
            Json::new(schema.clone())
        }
        (None, schema) => schema.map(|schema| Json::new(schema.clone())).unwrap_or_default(),
    };
    Ok(ToolDefinition::Function {
        spec: ToolSpec {
            name: declaration.required_string("name")?.to_owned(),
            description: declaration.string("description")?.map(Text::from),
            input_schema: schema,
        },
        meta: wrap(API, meta),
    })
}

/// Which tools must be asked for. What else the field says stays among the extra fields.
fn decode_tool_config(
    body: Object<'_>,
    extra: &mut Map<String, Value>,
) -> Result<Option<ToolChoice>, WireError> {
    let Some(config) = body.get("toolConfig") else { return Ok(None) };
    let config = canonical("tool config", config)?;
    let config = Object::of("tool config", &config)?;
    let rest = config.rest(&["functionCallingConfig"]);
    if !rest.is_empty() {
        extra.insert("toolConfig".to_owned(), rest.into());
    }
    let Some(calling) = config.get("functionCallingConfig") else { return Ok(None) };
    let calling = canonical("tool config", calling)?;
    let calling = Object::of("tool config", &calling)?;
    let names = calling.array("allowedFunctionNames")?.unwrap_or_default();
    let is_plain = calling.rest(&["mode", "allowedFunctionNames"]).is_empty();
    let mode = match calling.get("mode") {
        // Clients that write numbers in place of names.
        Some(Value::Number(_)) => None,
        _ => calling.string("mode")?,
    };
    Ok(Some(match (mode, names) {
        (Some("AUTO"), []) if is_plain => ToolChoice::Auto,
        (Some("NONE"), []) if is_plain => ToolChoice::None,
        (Some("ANY"), []) if is_plain => ToolChoice::Required,
        (Some("ANY"), [Value::String(name)]) if is_plain => ToolChoice::Tool(name.clone()),
        _ => ToolChoice::Other(Json::new(calling.rest(&[]).into())),
    }))
}

/// The limit and the temperature. What else the field says stays among the extra fields.
fn decode_generation(
    body: Object<'_>,
    extra: &mut Map<String, Value>,
) -> Result<(Option<u64>, Option<f64>), WireError> {
    let Some(generation) = body.get("generationConfig") else { return Ok((None, None)) };
    let generation = canonical("generation config", generation)?;
    let generation = Object::of("generation config", &generation)?;
    let mut rest = generation.rest(&["maxOutputTokens", "temperature"]);
    if let Some(thinking) = rest.get_mut("thinkingConfig") {
        let renamed = canonical("thinking config", thinking)?.into_owned();
        *thinking = renamed;
    }
    if !rest.is_empty() {
        extra.insert("generationConfig".to_owned(), rest.into());
    }
    Ok((generation.u64("maxOutputTokens")?, generation.f64("temperature")?))
}
