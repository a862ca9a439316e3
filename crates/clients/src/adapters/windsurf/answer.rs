//! Our decisions in Windsurf's words: an exit code. JSON is not read.

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
