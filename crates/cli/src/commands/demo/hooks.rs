//! The demo's own hooks, written as any program would write them.

use backstop::engine::{HookOptions, RegisterError, Snapshot, ToolMatcher};
use backstop::hooks::conversation::{Part, ToolResult};
use backstop::hooks::points::{
    BeforeResponseEmit, BeforeToolCall, ResponseEmitOutcome, ToolAfter, ToolAfterOutcome, ToolCallOutcome,
};
use backstop::hooks::{ApprovalRequest, HookResult, OwnerId, Params, Severity, hook_fn};
use serde_json::Value;

use super::steps::{LAUNCH_CODE, made_up_key};

pub(super) fn register(snapshot: &mut Snapshot) -> Result<(), RegisterError> {
    let options = |id: &str| HookOptions::new(OwnerId::operator()).id(id);
    let on_tool = |id: &str, tool: &str| {
        let tools =
            ToolMatcher::names([tool]).map_err(|error| RegisterError::Matcher { hook: id.into(), error })?;
        Ok(options(id).tools(tools))
    };
    snapshot.on(
        hook_fn::<BeforeToolCall, _>(|event, _| Ok(to_staging(&event.params).map(ToolCallOutcome::rewrite))),
        on_tool("staging-first", "exec")?,
    )?;
    snapshot.on(
        hook_fn::<BeforeToolCall, _>(|event, _| asks_for_release(&event.params)),
        on_tool("release-gate", "write")?,
    )?;
    snapshot.on(
        hook_fn::<ToolAfter, _>(|event, _| {
            Ok(without_key(&event.result).map(|result| ToolAfterOutcome { result: Some(result) }))
        }),
        options("hide-keys"),
    )?;
    snapshot.on(
        hook_fn::<BeforeResponseEmit, _>(|event, _| {
            let tells = event.all_content.iter().any(|text| text.to_lowercase().contains(LAUNCH_CODE));
            Ok(tells.then(|| ResponseEmitOutcome {
                block: Some(true),
                block_reason: Some("answers must not hold launch codes".into()),
                ..ResponseEmitOutcome::default()
            }))
        }),
        options("no-launch-codes"),
    )?;
    Ok(())
}

fn to_staging(params: &Params) -> Option<Params> {
    let command = params.get("command")?.as_str()?;
    if !command.contains("production") {
        return None;
    }
    let mut params = params.clone();
    let command = command.replace("production", "staging");
    params.make_mut().insert("command".to_owned(), Value::String(command));
    Some(params)
}

fn asks_for_release(params: &Params) -> HookResult<BeforeToolCall> {
    if params.get("path").and_then(Value::as_str) != Some("VERSION") {
        return Ok(None);
    }
    Ok(Some(ToolCallOutcome::ask(
        ApprovalRequest::cut("release a new version", "VERSION is what customers get")
            .severity(Severity::Critical),
    )))
}

fn without_key(result: &ToolResult) -> Option<ToolResult> {
    let key = made_up_key();
    let mut clean = result.clone();
    for part in &mut clean.content {
        if let Part::Text { text, .. } = part {
            *text = text.replace(&key, "[redacted]").into();
        }
    }
    (clean != *result).then_some(clean)
}
