//! The words of Claude Code's hooks: what a script of theirs is given, and what it means by its answer.
//!
//! This is the other side of the protocol that Backstop's own adapter for Claude Code speaks: there the client reports and we
//! answer, here we report and a script answers. Its facts were taken from version 2.1.330, as those of the adapter were.
//!
//! The laws: *what a script judges is what runs*, so arguments are handed over under Claude Code's names only where that leaves
//! no other argument by such a name; otherwise the call is not handed over at all, and the hook has failed. *Tighten only*:
//! `allow`, `approve` and `suppressOutput` are no opinion.
//!
//! Limits: there is no transcript of Claude Code, so `transcript_path` is empty. Text that a script adds to the conversation
//! (`additionalContext`, plain output at a prompt) has no place at these points and is logged as dropped.

use std::path::Path;

use backstop_hooks::{ApprovalRequest, HookError, Malformed, PointId, ShownName, Unambiguous};
use serde_json::{Map, Value, json};

use super::not_json;
use crate::external::{no_opinion, session_folder, shown, stop};

/// Which of Claude Code's events stands for which point.
pub(super) const POINTS: [(PointId, &str); 11] = [
    (PointId::BeforeToolCall, "PreToolUse"),
    (PointId::ToolAfter, "PostToolUse"),
    (PointId::AfterToolCall, "PostToolUse"),
    (PointId::BeforeAgentRun, "UserPromptSubmit"),
    (PointId::BeforeAgentFinalize, "Stop"),
    (PointId::SessionStart, "SessionStart"),
    (PointId::SessionEnd, "SessionEnd"),
    (PointId::BeforeCompaction, "PreCompact"),
    (PointId::AfterCompaction, "PostCompact"),
    (PointId::SubagentSpawned, "SubagentStart"),
    (PointId::SubagentEnded, "SubagentStop"),
];

/// The event at a point.
pub(super) fn event_name(point: PointId) -> Option<&'static str> {
    POINTS.iter().find(|(known, _)| *known == point).map(|(_, event)| *event)
}

/// A tool of Claude Code: its name, ours, and the arguments that are called differently (theirs, ours).
type Row = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const EDIT: &[(&str, &str)] =
    &[("file_path", "path"), ("old_string", "old_text"), ("new_string", "new_text")];

/// The first row of a tool of ours is what it is called for a script, unless the model called it by another name that is here.
const TOOLS: &[Row] = &[
    ("Bash", "exec", &[]),
    ("PowerShell", "exec", &[]),
    ("Monitor", "exec", &[]),
    ("Read", "read", &[("file_path", "path")]),
    ("Write", "write", &[("file_path", "path")]),
    ("Edit", "edit", EDIT),
    ("MultiEdit", "edit", &[("file_path", "path")]),
    ("NotebookEdit", "edit", &[("notebook_path", "path"), ("new_source", "new_text")]),
    ("WebFetch", "web_fetch", &[]),
    ("WebSearch", "web_search", &[]),
    ("Task", "sessions_spawn", &[]),
    ("Agent", "sessions_spawn", &[]),
    ("SendMessage", "sessions_send", &[]),
];

/// A tool call under Claude Code's names.
struct Tool {
    name: String,
    keys: &'static [(&'static str, &'static str)],
}

impl Tool {
    fn of(event: &Value) -> Self {
        let canonical = text(event, "toolName").unwrap_or_default();
        let called = text(event, "calledAs").unwrap_or(canonical);
        let own = TOOLS.iter().find(|(theirs, ours, _)| *theirs == called && *ours == canonical);
        match own.or_else(|| TOOLS.iter().find(|(_, ours, _)| *ours == canonical)) {
            Some((theirs, _, keys)) => Self { name: (*theirs).to_owned(), keys },
            None => Self { name: called.to_owned(), keys: &[] },
        }
    }

    /// The arguments under Claude Code's names.
    fn theirs(&self, ours: &Map<String, Value>) -> Result<Map<String, Value>, HookError> {
        let name = |key: &str| self.keys.iter().find(|(_, ours)| *ours == key).map(|(theirs, _)| *theirs);
        renamed(ours, name).ok_or_else(|| {
            HookError::failed(format!(
                "the arguments of `{}` have names that Claude Code gives to others of them, so that a script would judge another call",
                shown(&self.name, 60)
            ))
        })
    }

    /// Arguments that a script wrote, under our names.
    fn ours(&self, theirs: &Map<String, Value>) -> Result<Map<String, Value>, HookError> {
        let name = |key: &str| self.keys.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| *ours);
        renamed(theirs, name)
            .ok_or_else(|| Malformed::new("`updatedInput` has one argument under two names").into())
    }
}

/// The fields under other names; `None` if two of them would have the same.
fn renamed<'a>(
    fields: &Map<String, Value>,
    name: impl Fn(&str) -> Option<&'a str>,
) -> Option<Map<String, Value>> {
    let mut renamed = Map::new();
    for (key, value) in fields {
        let key = name(key).unwrap_or(key);
        if renamed.insert(key.to_owned(), value.clone()).is_some() {
            return None;
        }
    }
    Some(renamed)
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str()
}

/// What a script is given on its standard input.
pub(super) fn payload(point: PointId, event: &Value, directory: &Path) -> Result<Value, HookError> {
    let name = event_name(point).ok_or_else(|| HookError::failed("the dialect has no such event"))?;
    let context = event.get("context").unwrap_or(&Value::Null);
    let session = text(context, "sessionId").or_else(|| text(event, "sessionId"));
    let session = session.or_else(|| text(context, "sessionKey")).unwrap_or_default();
    let folder =
        session_folder(event).map_or_else(|| directory.to_string_lossy().into_owned(), str::to_owned);
    let mut payload = json!({
        "session_id": session,
        "transcript_path": "",
        "cwd": folder,
        "permission_mode": "default",
        "hook_event_name": name,
    });
    let more = about(point, event)?;
    if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
        payload.extend(more);
    }
    Ok(payload)
}

/// What is special about an event.
fn about(point: PointId, event: &Value) -> Result<Value, HookError> {
    let flag = |field: &str| event.get(field).and_then(Value::as_bool).unwrap_or_default();
    Ok(match point {
        PointId::BeforeToolCall => tool_use(event)?,
        PointId::AfterToolCall | PointId::ToolAfter => tool_result(event)?,
        PointId::BeforeAgentRun => json!({ "prompt": text(event, "prompt").unwrap_or_default() }),
        PointId::BeforeAgentFinalize => json!({
            "stop_hook_active": flag("stopHookActive"),
            "last_assistant_message": text(event, "lastAssistantMessage").unwrap_or_default(),
        }),
        PointId::SessionStart => {
            json!({ "source": if text(event, "resumedFrom").is_some() { "resume" } else { "startup" } })
        }
        PointId::SessionEnd => {
            json!({ "reason": if text(event, "reason") == Some("reset") { "clear" } else { "other" } })
        }
        PointId::BeforeCompaction => json!({ "trigger": "auto", "custom_instructions": "" }),
        PointId::AfterCompaction => json!({ "trigger": "auto" }),
        PointId::SubagentSpawned | PointId::SubagentEnded => json!({
            "agent_id": text(event, "runId").unwrap_or_default(),
            "agent_type": text(event, "agentId").unwrap_or_default(),
            "stop_hook_active": false,
        }),
        _ => Value::Null,
    })
}

fn tool_use(event: &Value) -> Result<Value, HookError> {
    let tool = Tool::of(event);
    let empty = Map::new();
    let params = event.get("params").and_then(Value::as_object).unwrap_or(&empty);
    Ok(json!({
        "tool_name": tool.name,
        "tool_input": tool.theirs(params)?,
        "tool_use_id": text(event, "toolCallId").unwrap_or_default(),
    }))
}

/// A result. A tool that failed has an event of its own.
fn tool_result(event: &Value) -> Result<Value, HookError> {
    let Value::Object(mut fields) = tool_use(event)? else { return Ok(Value::Null) };
    let result = event.get("result").unwrap_or(&Value::Null);
    let parts = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let said: Vec<&str> = parts.iter().filter_map(|part| text(part, "text")).collect();
    let said = said.join("\n");
    let error = text(event, "error").map(str::to_owned);
    let is_error = |value: &Value| value.get("isError").and_then(Value::as_bool) == Some(true);
    let failed = is_error(event) || is_error(result);
    if failed || error.is_some() {
        fields.insert("hook_event_name".to_owned(), "PostToolUseFailure".into());
        fields.insert("error".to_owned(), error.unwrap_or(said).into());
        fields.insert("is_interrupt".to_owned(), false.into());
    } else {
        let is_shell = fields.get("tool_name").is_some_and(|name| name == "Bash");
        let response = match is_shell {
            true => json!({ "stdout": said, "stderr": "", "interrupted": false, "isImage": false }),
            false => json!({ "content": parts }),
        };
        fields.insert("tool_response".to_owned(), response);
    }
    if let Some(duration) = event.get("durationMs") {
        fields.insert("duration_ms".to_owned(), duration.clone());
    }
    Ok(Value::Object(fields))
}

/// What stops the event: exit code 2, or the word `block`.
pub(super) fn stop_at(point: PointId, event: &Value, reason: &str) -> Option<Value> {
    match point {
        // A script that has no other way to say that the model is not to read a result.
        PointId::ToolAfter => {
            let content = json!([{ "type": "text", "text": reason }]);
            replaced(event, content, true)
        }
        _ => stop(point, reason),
    }
}

/// The result with another content.
fn replaced(event: &Value, content: Value, failed: bool) -> Option<Value> {
    let mut result = event.get("result")?.as_object()?.clone();
    // Facts for programs would hold what the model is not to read.
    result.retain(|field, _| matches!(field.as_str(), "toolCallId" | "toolName" | "isError"));
    result.insert("content".to_owned(), content);
    if failed {
        result.insert("isError".to_owned(), true.into());
    }
    Some(json!({ "result": result }))
}

/// Reads what a script that ended with 0 has written.
pub(super) fn read(point: PointId, event: &Value, output: &[u8]) -> Result<Value, HookError> {
    if output.first() != Some(&b'{') {
        if !output.is_empty() && matches!(point, PointId::BeforeAgentRun | PointId::SessionStart) {
            dropped("plain output");
        }
        return Ok(no_opinion(point));
    }
    let answer = Unambiguous::read(output).map_err(|error| not_json(&error))?;
    let reason = |field: &str| text(&answer, field).unwrap_or_default();
    if answer.get("async").is_some() {
        return Err(Malformed::new("the script answers later (`async`), and nothing waits for that").into());
    }
    match answer.get("continue") {
        None | Some(Value::Bool(true)) => {}
        Some(Value::Bool(false)) => return stopped(point, event, reason("stopReason")),
        Some(_) => return Err(Malformed::new("`continue` is true or false").into()),
    }
    match answer.get("decision").map(Value::as_str) {
        // `approve` is an older word for `allow`.
        None | Some(Some("approve")) => {}
        Some(Some("block")) => return blocked(point, event, reason("reason")),
        Some(_) => return Err(Malformed::new("`decision` is `approve` or `block`").into()),
    }
    match answer.get("hookSpecificOutput") {
        None => Ok(no_opinion(point)),
        Some(specific) => specific_answer(point, event, specific),
    }
}

/// `continue: false`: the agent is to go no further. Where the end of a turn is at stake, that is what it wants.
fn stopped(point: PointId, event: &Value, reason: &str) -> Result<Value, HookError> {
    match point {
        PointId::BeforeAgentFinalize => Ok(json!({ "action": "finalize", "reason": reason })),
        _ => blocked(point, event, reason),
    }
}

fn blocked(point: PointId, event: &Value, reason: &str) -> Result<Value, HookError> {
    let reason = if reason.trim().is_empty() { "stopped by a hook that gave no reason" } else { reason };
    stop_at(point, event, reason).ok_or_else(|| {
        HookError::failed(format!("the script stops something, and nothing can be stopped at `{point}`"))
    })
}

/// `hookSpecificOutput`.
fn specific_answer(point: PointId, event: &Value, output: &Value) -> Result<Value, HookError> {
    let expected = event_name(point).unwrap_or_default();
    let named = text(output, "hookEventName");
    if named != Some(expected) && !(named == Some("PostToolUseFailure") && expected == "PostToolUse") {
        return Err(Malformed::new(format!("`hookSpecificOutput.hookEventName` is not `{expected}`")).into());
    }
    if output.get("additionalContext").is_some() {
        dropped("`additionalContext`");
    }
    match point {
        PointId::BeforeToolCall => permission(event, output),
        PointId::ToolAfter => {
            let updated = ["updatedToolOutput", "updatedMCPToolOutput"];
            let updated = updated.iter().find_map(|field| output.get(field));
            Ok(updated.map_or(Value::Null, |updated| rewritten(event, updated)))
        }
        _ => Ok(no_opinion(point)),
    }
}

/// The result that a script wants the model to read instead.
fn rewritten(event: &Value, updated: &Value) -> Value {
    let content = match updated.get("content") {
        Some(parts @ Value::Array(_)) => parts.clone(),
        _ => {
            let text = match (updated, updated.get("stdout")) {
                (Value::String(text), _) | (_, Some(Value::String(text))) => text.clone(),
                (other, _) => other.to_string(),
            };
            json!([{ "type": "text", "text": text }])
        }
    };
    replaced(event, content, false).unwrap_or(Value::Null)
}

/// `permissionDecision` and `updatedInput`.
fn permission(event: &Value, output: &Value) -> Result<Value, HookError> {
    let reason = text(output, "permissionDecisionReason").unwrap_or_default();
    let mut answer = Map::new();
    match output.get("permissionDecision").map(Value::as_str) {
        None | Some(Some("allow")) => {}
        Some(Some("deny")) => return blocked(PointId::BeforeToolCall, event, reason),
        Some(Some("ask")) => {
            let tool = Tool::of(event);
            let title = format!("`{}` needs approval", ShownName::new(&tool.name));
            let request =
                serde_json::to_value(ApprovalRequest::cut(&title, reason)).map_err(HookError::failed)?;
            answer.insert("requireApproval".to_owned(), request);
        }
        Some(_) => return Err(Malformed::new("`permissionDecision` is `allow`, `deny` or `ask`").into()),
    }
    match output.get("updatedInput") {
        None => {}
        Some(Value::Object(theirs)) => {
            answer.insert("params".to_owned(), Tool::of(event).ours(theirs)?.into());
        }
        Some(_) => return Err(Malformed::new("`updatedInput` is no object").into()),
    }
    Ok(if answer.is_empty() { Value::Null } else { answer.into() })
}

fn dropped(what: &str) {
    tracing::warn!("{what} of a script for Claude Code has no place at this point and is dropped");
}

#[cfg(test)]
mod tests {
    use backstop_hooks::Outcome;
    use backstop_hooks::points::ToolCallOutcome;

    use super::*;

    fn call(called: &str, canonical: &str, params: Value) -> Value {
        json!({ "toolName": canonical, "calledAs": called, "params": params, "toolCallId": "c1",
            "context": { "sessionId": "s1", "workspaceDir": "/w" } })
    }

    fn pre(answer: &str) -> Result<Option<ToolCallOutcome>, HookError> {
        let event = call("edit", "edit", json!({ "path": "a", "old_text": "x", "new_text": "y" }));
        let answer = read(PointId::BeforeToolCall, &event, answer.as_bytes())?;
        Ok(ToolCallOutcome::from_json(answer)?)
    }

    #[test]
    fn calls_are_reported_under_claude_codes_names() {
        for (called, canonical, params, name, input) in [
            ("bash", "exec", json!({ "command": "ls" }), "Bash", json!({ "command": "ls" })),
            ("Bash", "exec", json!({ "command": "ls" }), "Bash", json!({ "command": "ls" })),
            ("PowerShell", "exec", json!({ "command": "ls" }), "PowerShell", json!({ "command": "ls" })),
            (
                "read",
                "read",
                json!({ "path": "a", "limit": 3 }),
                "Read",
                json!({ "file_path": "a", "limit": 3 }),
            ),
            ("NotebookEdit", "edit", json!({ "path": "a" }), "NotebookEdit", json!({ "notebook_path": "a" })),
            ("mcp__x__Read", "mcp__x__Read", json!({ "path": "a" }), "mcp__x__Read", json!({ "path": "a" })),
        ] {
            let event = call(called, canonical, params.clone());
            let payload = payload(PointId::BeforeToolCall, &event, Path::new("/d")).unwrap();
            assert_eq!(payload["tool_name"], name);
            assert_eq!(payload["tool_input"], input);
            assert_eq!(payload["session_id"], "s1");
            assert_eq!((&payload["cwd"], &payload["hook_event_name"]), (&json!("/w"), &json!("PreToolUse")));
            let back = Tool::of(&event).ours(payload["tool_input"].as_object().unwrap()).unwrap();
            assert_eq!(Value::Object(back), params, "translated and back it is the same call");
        }
    }

    #[test]
    fn a_decoy_under_claude_codes_name_is_never_what_a_script_judges() {
        for params in [
            json!({ "path": "/secret", "file_path": "/harmless" }),
            json!({ "file_path": "/harmless", "path": "/secret" }),
        ] {
            let event = call("read", "read", params);
            let error = payload(PointId::BeforeToolCall, &event, Path::new("/")).unwrap_err();
            assert!(error.to_string().contains("another call"), "{error}");
        }
    }

    #[test]
    fn law_03_allow_never_loosens_and_everything_else_tightens() {
        for silent in [
            "",
            "plain text",
            "{}",
            r#"{"suppressOutput": true, "systemMessage": "hi", "continue": true}"#,
            r#"{"decision": "approve", "reason": "fine"}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}"#,
        ] {
            assert_eq!(pre(silent), Ok(None), "{silent}");
        }
        for blocking in [
            r#"{"continue": false, "stopReason": "no"}"#,
            r#"{"decision": "block", "reason": "no"}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
                "permissionDecisionReason": "no", "updatedInput": {"file_path": "b"}}}"#,
            r#"{"continue": false, "stopReason": "no", "decision": "approve"}"#,
            r#"{"decision": "block", "reason": "no", "hookSpecificOutput": {"hookEventName": "PreToolUse",
                "permissionDecision": "allow"}}"#,
        ] {
            assert_eq!(pre(blocking), Ok(Some(ToolCallOutcome::block("no"))), "{blocking}");
        }
        let asked = r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "ask",
            "permissionDecisionReason": "sure?", "updatedInput": {"file_path": "b"}}}"#;
        let asked = pre(asked).unwrap().unwrap();
        assert_eq!(asked.approvals()[0].description().as_str(), "sure?");
        assert_eq!(asked.params.unwrap().to_value(), json!({ "path": "b" }));
    }

    #[test]
    fn what_is_not_understood_is_a_failure() {
        for bad in [
            "{",
            r#"{"async": true}"#,
            r#"{"continue": "false"}"#,
            r#"{"decision": "deny"}"#,
            r#"{"decision": null}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PostToolUse", "permissionDecision": "deny"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "defer"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "DENY"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": "ls"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": {"path": "a", "file_path": "b"}}}"#,
        ] {
            assert!(pre(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn results_are_withheld_rewritten_and_told_apart_from_failures() {
        let result = |failed: bool| {
            json!({ "toolName": "exec", "toolCallId": "c1", "isError": failed, "params": { "command": "ls" }, "result": { "toolCallId": "c1",
                "content": [{ "type": "text", "text": "out" }], "isError": failed, "details": { "secret": 1 } } })
        };
        let told = payload(PointId::ToolAfter, &result(false), Path::new("/")).unwrap();
        assert_eq!(told["tool_response"]["stdout"], "out");
        assert_eq!(told["tool_input"], json!({ "command": "ls" }));
        let failed = payload(PointId::ToolAfter, &result(true), Path::new("/")).unwrap();
        assert_eq!(
            (&failed["hook_event_name"], &failed["error"]),
            (&json!("PostToolUseFailure"), &json!("out"))
        );
        let stopped =
            read(PointId::ToolAfter, &result(false), br#"{"decision": "block", "reason": "no"}"#).unwrap();
        assert_eq!(stopped["result"]["content"][0]["text"], "no");
        assert!(stopped["result"].get("details").is_none());
        let output = br#"{"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": {"stdout": "[..]"}}}"#;
        let rewritten = read(PointId::ToolAfter, &result(false), output).unwrap();
        assert_eq!(rewritten["result"]["content"][0]["text"], "[..]");
        assert!(read(PointId::AfterToolCall, &result(false), br#"{"decision": "block"}"#).is_err());
    }

    #[test]
    fn the_end_of_a_turn_is_revised_by_block_and_meant_by_continue_false() {
        let event = json!({ "stopHookActive": true, "sessionId": "s" });
        let told = payload(PointId::BeforeAgentFinalize, &event, Path::new("/")).unwrap();
        assert_eq!((&told["hook_event_name"], &told["stop_hook_active"]), (&json!("Stop"), &json!(true)));
        let answer = |text: &str| read(PointId::BeforeAgentFinalize, &event, text.as_bytes()).unwrap();
        assert_eq!(answer(r#"{"decision": "block", "reason": "test"}"#)["action"], "revise");
        assert_eq!(answer(r#"{"continue": false}"#)["action"], "finalize");
        assert_eq!(read(PointId::BeforeAgentRun, &json!({}), b"").unwrap(), json!({ "outcome": "pass" }));
    }
}
