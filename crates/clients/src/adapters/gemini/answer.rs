//! Our decisions in Gemini CLI's words.
//!
//! A question is never sent: without a user it waits for ever in the mode `yolo`, and a payload does not
//! name the mode. JSON counts at any exit code, so only refusals may leave with exit 2.

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
    deny_permission: None,
    result: ResultGate::Replace(replace),
    mcp_result: ResultGate::Replace(replace),
    failure: ResultGate::Replace(replace),
    block_prompt: Some(deny),
    revise: Some(revise),
};

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "decision": "deny", "reason": reason }), reason)
}

/// The client's documents speak of merging; it replaces.
fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "hookSpecificOutput": { "hookEventName": "BeforeTool", "tool_input": arguments } }))
}

/// The reason takes the place of what the model would have read.
fn replace(_: &Frame, text: &str) -> Answer {
    Answer::json(&json!({ "decision": "deny", "reason": crate::adapters::filled(text) }))
}

fn revise(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "decision": "deny", "reason": reason }))
}
