//! Functions: the form that tools and their calls had before calls had ids.
//!
//! `functions` stand beside `tools`, a `function_call` where `tool_calls` would stand (one at most), and a result has
//! the role `function` and names the function alone. All of it is read as tools, calls and results, which
//! remember in `meta` how they came and go back in the same way. Ids are made up, from the answer's id in answers
//! and by counting in conversations, and are not sent. A message with calls in both forms has two readings.

use backstop_hooks::conversation::{Part, ToolCall, ToolResult, ToolSpec};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use super::API;
use super::content::{arguments_of, arguments_text};
use crate::error::WireError;
use crate::model::ToolDefinition;
use crate::wire::call_ids::CallIds;
use crate::wire::json::Object;
use crate::wire::meta::{attach, own_field, own_meta, wrap};

/// The field of messages and deltas with a call, and the entry of `meta` that says that a call came there.
pub(crate) const FUNCTION_CALL: &str = "function_call";
/// The field of requests with functions, and the entry of `meta` that says that a tool came there.
pub(crate) const FUNCTIONS: &str = "functions";
/// The role of results.
pub(super) const ROLE: &str = "function";

/// Reads the call of a message, if it has one.
///
/// # Errors
/// If it has tool calls too.
pub(super) fn decode_call(message: Object<'_>, ids: &mut CallIds) -> Result<Option<Part>, WireError> {
    let Some(call) = message.object(FUNCTION_CALL)? else { return Ok(None) };
    if message.array("tool_calls")?.is_some_and(|calls| !calls.is_empty()) {
        return Err(two_forms(message));
    }
    let name = call.required_string("name")?;
    let (arguments, malformed) = arguments_of(call);
    Ok(Some(Part::ToolCall(ToolCall {
        id: ids.make_up(name, &Value::Null),
        name: name.to_owned(),
        arguments,
        malformed,
        meta: call_meta(call),
    })))
}

pub(super) fn two_forms(message: Object<'_>) -> WireError {
    message.error(FUNCTION_CALL, "stands beside `tool_calls`")
}

/// What is attached to a call, which says that it is one of these.
pub(super) fn call_meta(call: Object<'_>) -> Option<Json> {
    let rest = call.rest(&["name", "arguments"]);
    wrap(API, Map::from_iter([(FUNCTION_CALL.to_owned(), rest.into())]))
}

/// Whether a call came as one of these.
pub(super) fn is_function_call(part: &Part) -> bool {
    matches!(part, Part::ToolCall(call) if own_field(call.meta.as_ref(), API, FUNCTION_CALL).is_some())
}

/// A call as it came; `None` if it came otherwise.
pub(super) fn encode_call(part: &Part) -> Option<Value> {
    let Part::ToolCall(call) = part else { return None };
    let rest = own_field(call.meta.as_ref(), API, FUNCTION_CALL)?;
    let mut object = Map::from_iter([
        ("name".to_owned(), Value::from(call.name.as_str())),
        ("arguments".to_owned(), arguments_text(call).into()),
    ]);
    for (key, value) in rest.as_object().into_iter().flatten() {
        object.entry(key.as_str()).or_insert_with(|| value.clone());
    }
    Some(object.into())
}

/// Reads a result, which answers the oldest call of its function that has none.
pub(super) fn decode_result(
    message: Object<'_>,
    content: Vec<Part>,
    ids: &mut CallIds,
) -> Result<ToolResult, WireError> {
    let name = message.required_string("name")?;
    let mut meta = message.rest(&["role", "content", "name"]);
    meta.insert("role".to_owned(), ROLE.into());
    Ok(ToolResult {
        tool_call_id: ids.answered(name).unwrap_or_else(|| "".into()),
        tool_name: Some(name.to_owned()),
        content,
        is_error: false,
        details: None,
        meta: wrap(API, meta),
    })
}

/// What a result that came as one of these says besides its content; `None` if it came otherwise.
pub(super) fn result_head(result: &ToolResult) -> Option<Map<String, Value>> {
    own_field(result.meta.as_ref(), API, "role").filter(|role| **role == ROLE)?;
    let name = result.tool_name.as_deref().unwrap_or_default();
    Some(Map::from_iter([("role".to_owned(), Value::from(ROLE)), ("name".to_owned(), Value::from(name))]))
}

/// Reads one of `functions`.
pub(super) fn decode_function(value: &Value) -> Result<ToolDefinition, WireError> {
    let function = Object::of("function", value)?;
    let mut meta = function.rest(&["name", "description", "parameters"]);
    if meta.contains_key(FUNCTIONS) {
        return Err(function.error(FUNCTIONS, "stands in one of them"));
    }
    meta.insert(FUNCTIONS.to_owned(), true.into());
    Ok(ToolDefinition::Function { spec: decode_spec(function)?, meta: wrap(API, meta) })
}

/// Reads what a function is, wherever it stands.
pub(super) fn decode_spec(function: Object<'_>) -> Result<ToolSpec, WireError> {
    Ok(ToolSpec {
        name: function.required_string("name")?.to_owned(),
        description: function.string("description")?.map(Text::from),
        input_schema: function.get("parameters").map(|schema| Json::new(schema.clone())).unwrap_or_default(),
    })
}

/// Whether a tool came as one of `functions`.
pub(crate) fn is_function(tool: &ToolDefinition) -> bool {
    match tool {
        ToolDefinition::Function { meta, .. } => own_field(meta.as_ref(), API, FUNCTIONS).is_some(),
        ToolDefinition::Provider { .. } => false,
    }
}

/// What a function is, as it stands in `functions`, or in a tool.
pub(crate) fn encode_function(tool: &ToolDefinition) -> Value {
    let ToolDefinition::Function { spec, meta } = tool else { return json!({"name": tool.name()}) };
    let mut function = Map::from_iter([("name".to_owned(), Value::from(spec.name.as_str()))]);
    if let Some(description) = &spec.description {
        function.insert("description".to_owned(), description.as_str().into());
    }
    if !spec.input_schema.is_null() {
        function.insert("parameters".to_owned(), spec.input_schema.to_value());
    }
    let mut own = own_meta(meta.as_ref(), API);
    own.remove(FUNCTIONS);
    attach(&mut function, wrap(API, own).as_ref(), API);
    function.into()
}
