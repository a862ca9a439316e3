//! Our decisions in Qwen Code's words.
//!
//! Its documents take over much of Claude Code that has no effect in the tested version: changed arguments,
//! changed results. What replaces a result is `continue: false`.

use backstop_hooks::Params;
use serde_json::json;

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny,
    ask: AskGate::Native {
        when: asks,
        encode: ask,
        with_changes: false,
        note: "where the operator says that a person attends it (agent.approvals.attended), and not in the mode yolo; otherwise the call is denied",
    },
    rewrite: None,
    deny_permission: None,
    result: ResultGate::Replace(replace),
    mcp_result: ResultGate::Replace(replace),
    failure: ResultGate::Unreachable,
    block_prompt: Some(block_prompt),
    revise: Some(revise),
};

fn asks(frame: &Frame) -> bool {
    frame.mode().is_some_and(|mode| mode != "yolo")
}

fn deny(_: &Frame, reason: &Reason) -> Answer {
    let body = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason,
    }});
    Answer::refusal(&body, reason)
}

fn ask(_: &Frame, question: &Reason, _: Option<&Params>) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": question,
    }}))
}

fn replace(_: &Frame, text: &str) -> Answer {
    let text = crate::adapters::filled(text);
    Answer::json(&json!({ "continue": false, "stopReason": text, "reason": text }))
}

fn block_prompt(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": reason }))
}

fn revise(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "block", "reason": reason }))
}
