//! The protocol of clients that take an exit code and nothing else: Kiro, Windsurf, Droid, Devin and Kimi Code. JSON is not read, or says no
//! more; on Kiro what stands on stdout becomes text for the model, so nothing does.

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;

pub(super) const GATES: Gates = Gates {
    pass: |_| Answer::silence(),
    deny,
    ask: AskGate::Never,
    rewrite: None,
    deny_permission: None,
    result: ResultGate::Unreachable,
    mcp_result: ResultGate::Unreachable,
    failure: ResultGate::Unreachable,
    block_prompt: Some(deny),
    revise: None,
};

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::exit_refusal(reason)
}
