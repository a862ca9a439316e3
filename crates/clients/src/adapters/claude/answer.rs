//! Our decisions in Claude Code's words.
//!
//! `permissionDecision` counts only inside `hookSpecificOutput` with the right `hookEventName`; anywhere
//! else it is ignored and the tool runs. Changed arguments go without a decision, so that the user's own
//! rules still judge them. `continue: false` is never used: the tool runs, and the turn ends afterwards.

use backstop_hooks::Params;
use serde_json::{Value, json};

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;
use crate::tools::ToolOutput;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny,
    ask: AskGate::Native {
        when: asks,
        encode: ask,
        with_changes: true,
        note: "in a session of which the client says that a person attends it (CLAUDE_CODE_SESSION_ATTENDED). Not with -p or below an SDK, nor in the modes auto, dontAsk and bypassPermissions, where the call is denied",
    },
    rewrite: Some(rewrite),
    deny_permission: Some(deny_permission),
    result: ResultGate::Rewrite(result),
    mcp_result: ResultGate::Rewrite(mcp_result),
    failure: ResultGate::Unreachable,
    block_prompt: Some(block_prompt),
    revise: Some(revise),
};

/// In the mode `auto` a question has no effect, `dontAsk` says that nobody wants to be asked, and with
/// `bypassPermissions` a question about what the client itself holds for sensitive is dropped, and the tool runs. A mode
/// that is not known may be the next one like that.
fn asks(frame: &Frame) -> bool {
    matches!(frame.mode(), Some("default" | "plan" | "acceptEdits"))
}

fn deny(_: &Frame, reason: &Reason) -> Answer {
    let body = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    }});
    Answer::refusal(&body, reason)
}

fn ask(_: &Frame, question: &Reason, changed: Option<&Params>) -> Answer {
    let mut output = json!({
        "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": question,
    });
    if let (Some(arguments), Value::Object(fields)) = (changed, &mut output) {
        fields.insert("updatedInput".to_owned(), arguments.to_value());
    }
    Answer::json(&json!({ "hookSpecificOutput": output }))
}

fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(
        &json!({ "hookSpecificOutput": { "hookEventName": "PreToolUse", "updatedInput": arguments } }),
    )
}

fn deny_permission(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PermissionRequest",
        "decision": { "behavior": "deny", "message": reason, "interrupt": false },
    }}))
}

fn result(_: &Frame, _: &ToolOutput, body: Value) -> Answer {
    Answer::json(
        &json!({ "hookSpecificOutput": { "hookEventName": "PostToolUse", "updatedToolOutput": body } }),
    )
}

fn mcp_result(_: &Frame, _: &ToolOutput, body: Value) -> Answer {
    Answer::json(
        &json!({ "hookSpecificOutput": { "hookEventName": "PostToolUse", "updatedMCPToolOutput": body } }),
    )
}

fn block_prompt(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "decision": "block", "reason": reason }), reason)
}

fn revise(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": reason }))
}
