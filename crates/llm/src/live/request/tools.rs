//! Tools, and the choice among them.

use std::collections::HashSet;

use backstop_hooks::Json;
use serde_json::Value;

use super::BodyEdit;
use super::align::{Step, align};
use crate::live::span::{Node, Slot, Splices};
use crate::model::{ModelRequest, ToolChoice, ToolDefinition};

/// Takes tools that are gone out of the choice.
pub(super) fn narrow_choice(old: &ModelRequest, new: &mut ModelRequest) {
    if new.tools == old.tools {
        return;
    }
    let kept: HashSet<&str> = new.tools.iter().map(choice_name).collect();
    let gone: HashSet<&str> =
        old.tools.iter().map(choice_name).filter(|name| !name.is_empty() && !kept.contains(name)).collect();
    if gone.is_empty() {
        return;
    }
    if new.tools.is_empty() {
        drop_choice(new);
        return;
    }
    new.tool_choice = match new.tool_choice.take() {
        Some(ToolChoice::Tool(name)) if gone.contains(name.as_str()) => None,
        Some(ToolChoice::Other(raw)) => narrow(&raw, &gone),
        choice => choice,
    };
}

/// Says nothing about the choice among tools.
pub(super) fn drop_choice(request: &mut ModelRequest) {
    request.tool_choice = None;
    drop_extra(request, "parallel_tool_calls");
}

/// Takes a field out of the extra ones.
pub(super) fn drop_extra(request: &mut ModelRequest, field: &str) {
    if let Some(fields) = request.extra.as_object().filter(|fields| fields.contains_key(field)) {
        let mut fields = fields.clone();
        fields.remove(field);
        request.extra = if fields.is_empty() { Json::default() } else { Json::new(fields.into()) };
    }
}

/// A choice in the provider's own form without the tools that are gone.
fn narrow(raw: &Json, gone: &HashSet<&str>) -> Option<ToolChoice> {
    let mut choice = raw.to_value();
    if is_gone(&choice, gone) {
        // What else the choice says is for any tool.
        let fields = choice.as_object_mut()?;
        fields.remove("name")?;
        fields.insert("type".to_owned(), "auto".into());
        return (fields.len() > 1).then(|| ToolChoice::Other(Json::new(choice)));
    }
    if let Some(Value::Array(names)) = choice.get_mut("allowedFunctionNames") {
        names.retain(|name| !name.as_str().is_some_and(|name| gone.contains(name)));
        return (!names.is_empty()).then(|| ToolChoice::Other(Json::new(choice)));
    }
    let inside =
        if choice.get("tools").is_some() { Some(&mut choice) } else { choice.get_mut("allowed_tools") };
    if let Some(Value::Array(tools)) = inside.and_then(|holder| holder.get_mut("tools")) {
        tools.retain(|tool| !is_gone(tool, gone));
        if tools.is_empty() {
            return None;
        }
    }
    Some(ToolChoice::Other(Json::new(choice)))
}

fn is_gone(choice: &Value, gone: &HashSet<&str>) -> bool {
    gone.contains(raw_name(choice))
}

/// The name by which a choice names a tool.
fn choice_name(tool: &ToolDefinition) -> &str {
    match tool {
        ToolDefinition::Function { spec, .. } => &spec.name,
        ToolDefinition::Provider { raw } => raw_name(raw),
    }
}

/// The name in a provider's own form; its type if it has no name.
fn raw_name(raw: &Value) -> &str {
    let name = |holder: Option<&'static str>| {
        let holder = holder.map_or(Some(raw), |field| raw.get(field))?;
        holder.get("name").and_then(Value::as_str)
    };
    let named = name(None)
        .or_else(|| name(Some("function")))
        .or_else(|| name(Some("custom")))
        .or_else(|| name(Some("systemTool")));
    named.or_else(|| raw.get("type").and_then(Value::as_str)).unwrap_or_default()
}

/// Edits the list of tools in `field`.
pub(super) fn edit(
    root: &Node<'_>,
    field: &str,
    old: &[ToolDefinition],
    new: &[ToolDefinition],
    encode: impl Fn(&ToolDefinition) -> Value,
    edit: &mut BodyEdit,
) {
    if old == new {
        return;
    }
    match root.get_some(field) {
        _ if new.is_empty() => edit.set_field(field, None),
        None => edit.set_field(field, Some(Value::from_iter(new.iter().map(encode)).to_string())),
        Some(tools) => edit_list(&tools, old, new, encode, &mut edit.splices),
    }
}

/// Makes the list at `tools` that of the new ones.
pub(super) fn edit_list(
    tools: &Node<'_>,
    old: &[ToolDefinition],
    new: &[ToolDefinition],
    encode: impl Fn(&ToolDefinition) -> Value,
    splices: &mut Splices,
) {
    let encoded = |at: usize| new.get(at).map(|tool| encode(tool).to_string()).unwrap_or_default();
    let spans: Vec<_> = tools.items().iter().map(Node::span).collect();
    let steps = align(old, new, |old, new| choice_name(old) == choice_name(new));
    let slots = steps.into_iter().map(|step| match step {
        Step::Keep(place) => Slot::Keep(place),
        Step::Edit(_, at) | Step::New(at) => Slot::New(encoded(at)),
    });
    splices.set_list(tools, &spans, slots.collect());
}

#[cfg(test)]
mod tests {
    use super::*;
    use backstop_hooks::conversation::ToolSpec;
    use serde_json::json;

    fn request(tools: &[&str], choice: ToolChoice) -> ModelRequest {
        let tool = |name: &&str| {
            ToolDefinition::from(ToolSpec {
                name: (*name).to_owned(),
                description: None,
                input_schema: Json::default(),
            })
        };
        ModelRequest {
            tools: tools.iter().map(tool).collect(),
            tool_choice: Some(choice),
            extra: json!({"parallel_tool_calls": true}).into(),
            ..ModelRequest::default()
        }
    }

    fn narrowed(choice: ToolChoice, kept: &[&str]) -> Option<ToolChoice> {
        let old = request(&["a", "b", "c"], choice.clone());
        let mut new = request(kept, choice);
        narrow_choice(&old, &mut new);
        assert_eq!(new.extra.is_null(), kept.is_empty());
        new.tool_choice
    }

    #[test]
    fn tools_that_are_gone_are_not_asked_for() {
        let other = |value: Value| ToolChoice::Other(value.into());
        assert_eq!(narrowed(ToolChoice::Tool("a".into()), &["b"]), None);
        assert_eq!(narrowed(ToolChoice::Tool("b".into()), &["b"]), Some(ToolChoice::Tool("b".into())));
        assert_eq!(narrowed(ToolChoice::Required, &["b"]), Some(ToolChoice::Required));
        assert_eq!(narrowed(ToolChoice::Required, &[]), None);
        assert_eq!(
            narrowed(other(json!({"type": "tool", "name": "a", "disable_parallel_tool_use": true})), &["b"]),
            Some(other(json!({"type": "auto", "disable_parallel_tool_use": true})))
        );
        assert_eq!(narrowed(other(json!({"type": "custom", "custom": {"name": "a"}})), &["b"]), None);
        let allowed = |tools: Value| {
            other(json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": tools}}))
        };
        let named = |name: &str| json!({"type": "function", "function": {"name": name}});
        assert_eq!(
            narrowed(allowed(json!([named("a"), named("b")])), &["b", "c"]),
            Some(allowed(json!([named("b")])))
        );
        assert_eq!(narrowed(allowed(json!([named("a")])), &["b", "c"]), None);
        let flat = |names: &[&str]| {
            let tools: Vec<Value> =
                names.iter().map(|name| json!({"type": "function", "name": name})).collect();
            other(json!({"type": "allowed_tools", "mode": "auto", "tools": tools}))
        };
        assert_eq!(narrowed(flat(&["a", "c"]), &["c"]), Some(flat(&["c"])));
    }
}
