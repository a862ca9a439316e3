//! Our decisions in Codex's words.
//!
//! Codex takes an answer only if it knows every field of it; a field too many, a reason too few, `ask`, or
//! changed arguments without `allow` void the whole answer, and the tool runs as it was. So each answer here
//! has exactly the fields that were seen to be taken. `allow` lifts neither the sandbox nor approvals.

use backstop_hooks::Params;
use serde_json::json;

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny,
    ask: AskGate::Never,
    rewrite: Some(rewrite),
    deny_permission: Some(deny_permission),
    result: ResultGate::Replace(replace),
    mcp_result: ResultGate::Replace(replace),
    failure: ResultGate::Replace(replace),
    block_prompt: Some(block_prompt),
    revise: Some(revise),
};

fn deny(_: &Frame, reason: &Reason) -> Answer {
    let body = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    }});
    Answer::refusal(&body, reason)
}

fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": arguments,
    }}))
}

fn deny_permission(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PermissionRequest", "decision": { "behavior": "deny", "message": reason },
    }}))
}

/// The reason takes the place of what the model would have read.
fn replace(_: &Frame, text: &str) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": crate::adapters::filled(text) }))
}

fn block_prompt(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "decision": "block", "reason": reason }), reason)
}

fn revise(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": reason }))
}
