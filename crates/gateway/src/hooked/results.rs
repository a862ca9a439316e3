//! The judgement of what the provider's own tools brought in.
//!
//! A result that stands in an answer goes to the person, and with the next request to the model, like that of any tool. So it
//! passes `tool.after` before it is shown. What hooks make of it is put in its place; where they want something else than a
//! result of its form, or want it withheld, the answer ends.
//!
//! Limits: what a provider has sealed for itself, and pictures, are shown to no hook, and stay as they came.

use backstop_engine::{BlockCause, Blocked, Engine};
use backstop_hooks::conversation::{Part, ToolResult};
use backstop_hooks::points::{ToolAfter, ToolAfterEvent};
use backstop_hooks::{CallContext, Text};
use backstop_llm::live::FreshResult;
use serde_json::Value;

/// Fields that only the provider reads, and those that hold pictures and sounds.
const SEALED: [&str; 8] = [
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "signature",
    "thoughtSignature",
    "inlineData",
    "inline_data",
    "b64_json",
];

/// Judges one result; answers what stands in its place, if that is another.
pub(super) async fn judge(
    fresh: &FreshResult,
    engine: &Engine,
    call: &CallContext,
) -> Result<Option<Value>, Blocked> {
    let mut shown = fresh.value.clone();
    unseal(&mut shown, fresh.tool);
    let result = ToolResult {
        tool_call_id: fresh.call.as_str().into(),
        tool_name: Some(fresh.tool.to_owned()),
        content: vec![Part::Unknown { raw: shown.clone().into() }],
        is_error: false,
        details: None,
        meta: None,
    };
    let event = ToolAfterEvent::new(fresh.tool, fresh.call.as_str(), false, result);
    let decided = engine.decide::<ToolAfter>(event, call).await.into_parts();
    if let Some(blocked) = decided.blocked {
        return Err(blocked);
    }
    match decided.event.result.content.as_slice() {
        [Part::Unknown { raw }] if **raw == shown => Ok(None),
        [Part::Unknown { raw }] => {
            let mut new = raw.to_value();
            seal(&mut new, &fresh.value, fresh.tool);
            Ok(Some(new))
        }
        other => Err(withheld(fresh.tool, other)),
    }
}

/// A hook wants something else in the place of a result.
fn withheld(tool: &str, wanted: &[Part]) -> Blocked {
    let said: String = wanted.iter().filter_map(Part::as_text).map(Text::as_str).collect();
    let told: Text = format!("what `{tool}` brought in can't be shown: {said}").into();
    Blocked { cause: BlockCause::Withheld, reason: Some(told.into()), hook: None, owner: None }
}

fn is_sealed(name: &str, tool: &str) -> bool {
    SEALED.contains(&name) || (tool == "image_generation" && name == "result")
}

/// Takes out what no hook reads.
fn unseal(value: &mut Value, tool: &str) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| unseal(item, tool)),
        Value::Object(fields) => {
            fields.retain(|name, _| !is_sealed(name, tool));
            fields.values_mut().for_each(|field| unseal(field, tool));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts it back where it stood.
fn seal(value: &mut Value, old: &Value, tool: &str) {
    match (value, old) {
        (Value::Array(items), Value::Array(old)) => {
            items.iter_mut().zip(old).for_each(|(item, old)| seal(item, old, tool));
        }
        (Value::Object(fields), Value::Object(old)) => {
            for (name, old) in old {
                match fields.get_mut(name) {
                    Some(field) => seal(field, old, tool),
                    None if is_sealed(name, tool) => {
                        fields.insert(name.clone(), old.clone());
                    }
                    None => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_sealed_comes_back_where_it_stood() {
        let old = json!({"type": "web_search_tool_result", "content": [
            {"title": "a", "encrypted_content": "x"}, {"title": "b", "encrypted_content": "y"}]});
        let mut shown = old.clone();
        unseal(&mut shown, "web_search");
        assert!(!shown.to_string().contains("encrypted"), "{shown}");
        shown["content"][1]["title"] = json!("c");
        seal(&mut shown, &old, "web_search");
        let mut expected = old;
        expected["content"][1]["title"] = json!("c");
        assert_eq!(shown, expected);
    }
}
