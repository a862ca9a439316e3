//! Tool results as the transcript keeps them: made up where none came, bounded where too much came.

use backstop_hooks::conversation::{Message, Part, ToolCall, ToolResult};
use backstop_hooks::{Digest, Json, Params, ShownName, Text, ToolCallId};
use serde_json::{Map, Value, json};

/// The largest `details` of a result, in bytes of JSON.
const MAX_DETAILS_BYTES: usize = 8 * 1024;

/// Facts that are kept of `details` that are too large.
const SMALL_FACTS: [&str; 8] =
    ["status", "exitCode", "signal", "truncated", "timedOut", "bytes", "durationMs", "digest"];

/// A call that was not run: what the model reads is JSON, so that it can tell this from a tool's own words.
pub(crate) fn refused(id: &ToolCallId, tool: &str, reason: &str, digest: Option<Digest>) -> ToolResult {
    let said = json!({ "status": "blocked", "tool": ShownName::new(tool).to_string(), "reason": reason });
    let details = json!({ "status": "blocked", "digest": digest });
    error(id, Some(tool), said.to_string(), Some(details))
}

/// A call that was not, or perhaps not wholly, run.
pub(crate) fn interrupted(call: &ToolCall, reason: &str) -> ToolResult {
    let said =
        json!({ "status": "interrupted", "tool": ShownName::new(&call.name).to_string(), "reason": reason });
    error(&call.id, Some(&call.name), said.to_string(), Some(json!({ "status": "interrupted" })))
}

/// A result that a hook withheld.
pub(crate) fn withheld(id: &ToolCallId, tool: Option<&str>) -> ToolResult {
    let said = json!({
        "status": "withheld",
        "tool": tool.map(|tool| ShownName::new(tool).to_string()),
        "reason": "the call was made, but its result may not be shown or kept",
    });
    error(id, tool, said.to_string(), Some(json!({ "status": "withheld" })))
}

/// A message without anything anybody said: its calls and results, which the transcript needs to be whole.
/// `None` if it has none.
pub(crate) fn bare(message: &Message) -> Option<Message> {
    let parts: Vec<Part> = message
        .content
        .iter()
        .filter_map(|part| match part {
            Part::ToolCall(call) => Some(Part::ToolCall(ToolCall {
                arguments: removed_arguments(),
                malformed: None,
                meta: None,
                ..call.clone()
            })),
            Part::ToolResult(result) => {
                Some(Part::ToolResult(withheld(&result.tool_call_id, result.tool_name.as_deref())))
            }
            Part::Text { .. } | Part::Thinking { .. } | Part::Image { .. } | Part::Unknown { .. } => None,
        })
        .collect();
    (!parts.is_empty()).then(|| Message::new(message.role, parts))
}

/// What stands in place of the arguments of a call that was stopped.
pub(crate) fn removed_arguments() -> Params {
    Params::from_value(json!({ "blocked": "the arguments of this call were blocked and are not kept" }))
        .unwrap_or_default()
}

fn error(id: &ToolCallId, tool: Option<&str>, said: String, details: Option<Value>) -> ToolResult {
    ToolResult {
        tool_call_id: id.clone(),
        tool_name: tool.map(str::to_owned),
        content: vec![Part::text(said)],
        is_error: true,
        details: details.map(Json::new),
        meta: None,
    }
}

/// The result with texts of together at most `limit` bytes and small details. What a hook added counts too.
pub(crate) fn bounded(mut result: ToolResult, limit: usize) -> ToolResult {
    let mut left = limit;
    for part in &mut result.content {
        if let Part::Text { text, .. } = part {
            if text.len() > left {
                let kept = text.get(..text.floor_char_boundary(left)).unwrap_or_default();
                let missing = text.len() - kept.len();
                *text = Text::from(format!("{kept}\n[{missing} more bytes were cut]"));
                left = 0;
            } else {
                left -= text.len();
            }
        }
    }
    result.details = result.details.map(small_details);
    result
}

pub(crate) fn bound_message(mut message: Message, limit: usize) -> Message {
    for part in &mut message.content {
        if let Part::ToolResult(result) = part {
            *result = bounded(result.clone(), limit.saturating_add(64));
        }
    }
    message
}

fn small_details(details: Json) -> Json {
    let bytes = details.to_string().len();
    if bytes <= MAX_DETAILS_BYTES {
        return details;
    }
    let small = |value: &Value| match value {
        Value::Bool(_) | Value::Number(_) | Value::Null => true,
        Value::String(text) => text.len() <= 256,
        Value::Array(_) | Value::Object(_) => false,
    };
    let kept = details.as_object().into_iter().flatten();
    let mut kept: Map<String, Value> = kept
        .filter(|(key, value)| SMALL_FACTS.contains(&key.as_str()) && small(value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    kept.insert("persistedDetailsTruncated".to_owned(), true.into());
    kept.insert("originalDetailsBytes".to_owned(), bytes.into());
    Json::new(Value::Object(kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_details_are_bounded_whatever_a_hook_made_of_them() {
        let mut result = withheld(&"c".into(), Some("exec"));
        result.content = vec![Part::text("é".repeat(100)), Part::text("more")];
        result.details = Some(json!({ "exitCode": 3, "tail": "x".repeat(9_000) }).into());
        let result = bounded(result, 51);
        assert!(result.visible_text().starts_with(&"é".repeat(25)));
        assert!(result.visible_text().contains("150 more bytes were cut"));
        assert!(result.visible_text().contains("4 more bytes were cut"));
        let details = result.details.unwrap().to_value();
        assert_eq!((&details["exitCode"], &details["persistedDetailsTruncated"]), (&json!(3), &json!(true)));
        assert!(details.get("tail").is_none());
    }
}
