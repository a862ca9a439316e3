//! Our decisions for the generated plugin. It takes nothing for consent but exit 0 with one of these words,
//! so that a program which dies, prints nothing or prints something else stops the tool.

use backstop_hooks::Params;
use serde_json::{Value, json};

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;
use crate::tools::ToolOutput;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::json(&json!({ "decision": "pass" })),
    deny,
    ask: AskGate::Never,
    rewrite: Some(rewrite),
    deny_permission: None,
    result: ResultGate::Rewrite(result),
    mcp_result: ResultGate::Rewrite(result),
    failure: ResultGate::Rewrite(result),
    block_prompt: Some(deny),
    revise: None,
};

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "decision": "deny", "reason": reason }), reason)
}

fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "decision": "rewrite", "args": arguments }))
}

fn result(_: &Frame, _: &ToolOutput, body: Value) -> Answer {
    Answer::json(&json!({ "decision": "replace", "result": body }))
}
