//! What a model is told of a call that was refused: the result that it would have had.

use backstop_hooks::conversation::{Message, Part, Role, ToolCall, ToolResult};
use backstop_hooks::{Json, Text};
use serde_json::{Map, Value, json};

use crate::wire::{Api, is_whole_call, own_meta, wrap};

/// The message that answers `call` with `reason`; `None` if the wire has no such answer to a call of this kind: one of a type
/// that nobody knows, one without an id to answer it by, a request for a screenshot.
pub fn refused(api: Api, call: &ToolCall, reason: &str) -> Option<Message> {
    // Gemini goes by the place and the name.
    let has_place = !call.id.is_empty() || api == Api::Gemini;
    if call.malformed.is_some() || !has_place || is_whole_call(call, api) {
        return None;
    }
    let mut meta = None;
    if api == Api::OpenAiResponses {
        let own = own_meta(call.meta.as_ref(), api);
        match own.get("type").and_then(Value::as_str).unwrap_or("function_call") {
            "function_call" => {}
            "mcp_approval_request" => return Some(disapproved(call, reason)),
            kind @ ("custom_tool_call" | "local_shell_call" | "shell_call" | "apply_patch_call") => {
                meta = wrap(api, Map::from_iter([("type".to_owned(), kind.into())]));
            }
            _ => return None,
        }
    }
    let result = ToolResult {
        tool_call_id: call.id.clone(),
        tool_name: Some(call.name.clone()),
        content: vec![Part::text(Text::from(reason))],
        is_error: true,
        details: None,
        meta,
    };
    Some(Message::new(Role::Tool, vec![Part::ToolResult(result)]))
}

/// The answer of somebody who was to approve a call of a server's tool.
fn disapproved(call: &ToolCall, reason: &str) -> Message {
    let raw = json!({
        "type": "mcp_approval_response", "approval_request_id": call.id.as_str(), "approve": false, "reason": reason,
    });
    Message::new(Role::Tool, vec![Part::Unknown { raw: Json::new(raw) }])
}
