//! Our decisions in Cursor's words. With `failClosed` an answer that is not JSON is a refusal, so that even
//! "no objection" is said in words.

use backstop_hooks::Params;
use serde_json::{Value, json};

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::answer::Answer;
use crate::event::Frame;
use crate::reason::Reason;
use crate::tools::ToolOutput;

pub(super) const GATES: Gates = Gates {
    pass,
    deny,
    ask: AskGate::Native {
        when: asks,
        encode: ask,
        with_changes: false,
        note: "where the operator says that a person attends it (agent.approvals.attended), at beforeShellExecution and beforeMCPExecution only; an installation uses preToolUse, where a question is accepted and ignored: there the call is denied",
    },
    rewrite: Some(rewrite),
    deny_permission: None,
    result: ResultGate::Unreachable,
    mcp_result: ResultGate::Rewrite(mcp_result),
    failure: ResultGate::Unreachable,
    block_prompt: Some(block_prompt),
    revise: Some(revise),
};

fn asks(frame: &Frame) -> bool {
    matches!(frame.event(), "beforeShellExecution" | "beforeMCPExecution")
}

fn pass(frame: &Frame) -> Answer {
    match frame.event() {
        "preToolUse" | "beforeShellExecution" | "beforeMCPExecution" | "beforeReadFile" | "subagentStart" => {
            Answer::json(&json!({ "permission": "allow" }))
        }
        "beforeSubmitPrompt" => Answer::json(&json!({ "continue": true })),
        _ => Answer::json(&json!({})),
    }
}

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "permission": "deny", "user_message": reason, "agent_message": reason }), reason)
}

fn ask(_: &Frame, question: &Reason, _: Option<&Params>) -> Answer {
    Answer::json(&json!({ "permission": "ask", "user_message": question, "agent_message": question }))
}

fn rewrite(frame: &Frame, arguments: &Params) -> Answer {
    match frame.event() {
        "preToolUse" => Answer::json(&json!({ "permission": "allow", "updated_input": arguments })),
        _ => deny(
            frame,
            &Reason::new(
                "policy changes the arguments of this call, which can't be done at this event; the call is denied",
            ),
        ),
    }
}

fn mcp_result(_: &Frame, _: &ToolOutput, body: Value) -> Answer {
    Answer::json(&json!({ "updated_mcp_tool_output": body }))
}

fn block_prompt(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&json!({ "continue": false, "user_message": reason }), reason)
}

fn revise(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "followup_message": reason }))
}
