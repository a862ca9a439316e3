//! Our decisions in Cline's words. A refusal ends the whole run: the client has no smaller one. Exit codes
//! are ignored, `review` has no effect.

use backstop_hooks::Params;
use serde_json::json;

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny: cancel,
    ask: AskGate::Never,
    rewrite: Some(rewrite),
    deny_permission: None,
    result: ResultGate::EndRun(cancel),
    mcp_result: ResultGate::EndRun(cancel),
    failure: ResultGate::EndRun(cancel),
    block_prompt: Some(cancel),
    revise: None,
};

fn cancel(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "cancel": true, "errorMessage": reason }), reason)
}

fn rewrite(_: &Frame, arguments: &Params) -> Answer {
    Answer::json(&json!({ "overrideInput": arguments }))
}
