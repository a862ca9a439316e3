//! Requests.

use backstop_hooks::conversation::{Message, Part, Role, ToolSpec};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{Direction, decode_content, encode_content, encode_parts};
use crate::error::WireError;
use crate::model::{ModelRequest, ThinkLevel, ToolChoice, ToolDefinition};
use crate::wire::DecodedRequest;
use crate::wire::json::{Object, array};
use crate::wire::meta::{attach, wrap};

/// The wire demands a limit; this one is what every current model can write.
const DEFAULT_MAX_TOKENS: u64 = 8192;

const KNOWN: &[&str] =
    &["model", "system", "messages", "tools", "tool_choice", "max_tokens", "temperature", "stream"];

pub(crate) fn encode_request(request: &ModelRequest, stream: bool) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), request.model.as_str().into());
    encode_limits(request, &mut body);
    if let Some(system) = encode_system(request) {
        body.insert("system".to_owned(), system);
    }
    body.insert("messages".to_owned(), Value::Array(encode_messages(&request.messages)));
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(encode_tool).collect());
    }
    if let Some(choice) = &request.tool_choice {
        body.insert("tool_choice".to_owned(), encode_tool_choice(choice));
    }
    for (key, value) in request.extra_fields() {
        body.entry(key).or_insert(value);
    }
    if stream {
        body.insert("stream".to_owned(), true.into());
    }
    body.into()
}

/// Limit, temperature and thinking depend on each other: the limit counts the reasoning in, and the
/// provider refuses a temperature while the model reasons. Models that know fixed budgets only are asked
/// by `thinking` among the extra fields.
fn encode_limits(request: &ModelRequest, body: &mut Map<String, Value>) {
    let answer = request.max_tokens.unwrap_or(DEFAULT_MAX_TOKENS);
    let effort = match request.thinking {
        None | Some(ThinkLevel::Off) => None,
        Some(ThinkLevel::Low) => Some(("low", 4_096)),
        Some(ThinkLevel::Medium) => Some(("medium", 16_384)),
        Some(ThinkLevel::High) => Some(("high", 32_768)),
    };
    let room = effort.map_or(0, |(_, room)| room);
    body.insert("max_tokens".to_owned(), answer.saturating_add(room).into());
    if let Some((effort, _)) = effort {
        body.insert("thinking".to_owned(), json!({"type": "adaptive"}));
        let mut output =
            request.extra.get("output_config").and_then(Value::as_object).cloned().unwrap_or_default();
        output.insert("effort".to_owned(), effort.into());
        body.insert("output_config".to_owned(), output.into());
        return;
    }
    if request.thinking == Some(ThinkLevel::Off) {
        body.insert("thinking".to_owned(), json!({"type": "disabled"}));
    }
    if let Some(temperature) = request.temperature {
        body.insert("temperature".to_owned(), temperature.into());
    }
}

fn encode_system(request: &ModelRequest) -> Option<Value> {
    let inside = request.messages.iter().filter(|message| message.role == Role::System);
    let parts: Vec<Part> =
        request.system.iter().chain(inside.flat_map(|message| &message.content)).cloned().collect();
    match encode_content(&parts) {
        Value::Array(blocks) if blocks.is_empty() => None,
        system => Some(system),
    }
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
        let mut object = Map::from_iter([("role".to_owned(), Value::from(role))]);
        match encode_content(&message.content) {
            Value::Array(blocks) if blocks.is_empty() => continue,
            content => object.insert("content".to_owned(), content),
        };
        attach(&mut object, message.meta.as_ref(), API);
        encoded.push(object.into());
    }
    flush_results(&mut results, &mut encoded);
    encoded
}

fn flush_results(results: &mut Vec<Value>, encoded: &mut Vec<Value>) {
    if !results.is_empty() {
        encoded.push(json!({"role": "user", "content": std::mem::take(results)}));
    }
}

pub(crate) fn encode_tool(tool: &ToolDefinition) -> Value {
    match tool {
        ToolDefinition::Provider { raw } => raw.to_value(),
        ToolDefinition::Function { spec, meta } => {
            let mut object = Map::from_iter([("name".to_owned(), Value::from(spec.name.as_str()))]);
            if let Some(description) = &spec.description {
                object.insert("description".to_owned(), description.as_str().into());
            }
            object.insert("input_schema".to_owned(), spec.input_schema.to_value());
            attach(&mut object, meta.as_ref(), API);
            object.into()
        }
    }
}

fn encode_tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Auto => json!({"type": "auto"}),
        ToolChoice::None => json!({"type": "none"}),
        ToolChoice::Required => json!({"type": "any"}),
        ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
        ToolChoice::Other(raw) => raw.to_value(),
    }
}

/// Reads all but the messages.
pub(crate) fn decode_frame(body: &Value) -> Result<DecodedRequest, WireError> {
    let body = Object::of("request", body)?;
    body.required_array("messages")?;
    let request = ModelRequest {
        model: body.required_string("model")?.to_owned(),
        system: body.get("system").map(decode_system).transpose()?.unwrap_or_default().into(),
        messages: Vec::new(),
        tools: body.get("tools").map(decode_tools).transpose()?.unwrap_or_default(),
        tool_choice: body.get("tool_choice").map(decode_tool_choice),
        max_tokens: body.u64("max_tokens")?,
        temperature: body.f64("temperature")?,
        thinking: None,
        extra: extra(body.rest(KNOWN)),
        span: None,
    };
    Ok(DecodedRequest { request, stream: body.bool("stream")?.unwrap_or(false) })
}

fn extra(fields: Map<String, Value>) -> Json {
    if fields.is_empty() { Json::default() } else { Json::new(fields.into()) }
}

/// Reads the system prompt.
pub(crate) fn decode_system(value: &Value) -> Result<Vec<Part>, WireError> {
    decode_content(value)
}

/// Reads the list of tools.
pub(crate) fn decode_tools(value: &Value) -> Result<Vec<ToolDefinition>, WireError> {
    array("request", "tools", value)?.iter().map(decode_tool).collect()
}

/// Reads one message.
pub(crate) fn decode_message(value: &Value) -> Result<Message, WireError> {
    let message = Object::of("message", value)?;
    let content = match message.get("content") {
        Some(content) => decode_content(content)?,
        None => return Err(message.error("content", "is missing")),
    };
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
    let tool = Object::of("tool", value)?;
    let is_function = matches!(tool.string("type")?, None | Some("custom"));
    let Some(schema) = tool.get("input_schema").filter(|_| is_function) else {
        return Ok(ToolDefinition::Provider { raw: Json::new(value.clone()) });
    };
    Ok(ToolDefinition::Function {
        spec: ToolSpec {
            name: tool.required_string("name")?.to_owned(),
            description: tool.string("description")?.map(Text::from),
            input_schema: Json::new(schema.clone()),
        },
        meta: wrap(API, tool.rest(&["name", "description", "input_schema"])),
    })
}

fn decode_tool_choice(value: &Value) -> ToolChoice {
    let name = value.get("name").and_then(Value::as_str);
    let fields = value.as_object().map_or(0, Map::len);
    match (value.get("type").and_then(Value::as_str), name, fields) {
        (Some("auto"), None, 1) => ToolChoice::Auto,
        (Some("none"), None, 1) => ToolChoice::None,
        (Some("any"), None, 1) => ToolChoice::Required,
        (Some("tool"), Some(name), 2) => ToolChoice::Tool(name.to_owned()),
        _ => ToolChoice::Other(Json::new(value.clone())),
    }
}
