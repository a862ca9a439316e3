//! Our decisions in Copilot CLI's words, in both dialects. Each ignores the other's shape, and an answer that
//! is ignored lets the tool run, so the event's name decides. Changed arguments go without a decision, so that
//! the client still asks its user where it would have.

use backstop_hooks::Params;
use serde_json::{Value, json};

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;
use crate::tools::ToolOutput;

const NOTE: &str = "where the operator says that a person attends it (agent.approvals.attended); otherwise the call is denied";

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny,
    ask: AskGate::Native { when: |_| true, encode: ask, with_changes: true, note: NOTE },
    rewrite: Some(rewrite),
    deny_permission: Some(deny_permission),
    result: ResultGate::Rewrite(result),
    mcp_result: ResultGate::Rewrite(result),
    failure: ResultGate::Unreachable,
    block_prompt: Some(block),
    revise: Some(block),
};

/// Results can't be changed in this dialect.
pub(super) const PASCAL_GATES: Gates = Gates {
    deny: pascal_deny,
    ask: AskGate::Native { when: |_| true, encode: pascal_ask, with_changes: false, note: NOTE },
    rewrite: Some(pascal_rewrite),
    deny_permission: None,
    result: ResultGate::Unreachable,
    mcp_result: ResultGate::Unreachable,
    ..GATES
};

pub(super) fn is_pascal(frame: &Frame) -> bool {
    is_pascal_name(frame.event())
}

pub(super) fn is_pascal_name(event: &str) -> bool {
    event.starts_with(|first: char| first.is_ascii_uppercase())
}

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "permissionDecision": "deny", "permissionDecisionReason": reason }), reason)
}

fn ask(_: &Frame, question: &Reason, changed: Option<&Params>) -> Answer {
    let mut body = json!({ "permissionDecision": "ask", "permissionDecisionReason": question });
    if let (Some(arguments), Value::Object(fields)) = (changed, &mut body) {
        fields.insert("modifiedArgs".to_owned(), arguments.to_value());
    }
    Answer::json(&body)
}

fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "modifiedArgs": arguments }))
}

fn deny_permission(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "behavior": "deny", "message": reason, "interrupt": false }))
}

fn result(_: &Frame, _: &ToolOutput, body: Value) -> Answer {
    Answer::json(&json!({ "modifiedResult": body }))
}

/// Exit 2 is ignored at these events, or ends the client.
fn block(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": reason }))
}

fn pascal_deny(_: &Frame, reason: &Reason) -> Answer {
    let body = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    }});
    Answer::refusal(&body, reason)
}

fn pascal_ask(_: &Frame, question: &Reason, _: Option<&Params>) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": question,
    }}))
}

fn pascal_rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": arguments,
    }}))
}
