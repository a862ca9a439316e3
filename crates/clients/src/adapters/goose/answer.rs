//! Our decisions in goose's words. Only an empty stdout with exit 0 is "no objection"; `{}` would be no
//! decision at all, which an installation makes a refusal.

use serde_json::json;

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny: block,
    ask: AskGate::Never,
    rewrite: None,
    deny_permission: None,
    result: ResultGate::Unreachable,
    mcp_result: ResultGate::Unreachable,
    failure: ResultGate::Unreachable,
    block_prompt: None,
    revise: Some(block),
};

fn block(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "decision": "block", "reason": reason }), reason)
}
