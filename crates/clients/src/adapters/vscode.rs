//! The agent of VS Code that runs in the editor itself ("Local"), by its documents; it could not be run.
//!
//! It has no configuration of its own: it starts the entries of Claude Code and of Copilot CLI that it finds, with a payload that is
//! neither's. So it is no client here but a way in which those two are spoken to, told by the one field that only it has.
//!
//! Limits: sessions of VS Code that run in a harness of Copilot, Claude or Codex are those clients. Of the entries of Copilot CLI it
//! starts those only whose event it knows by the same name, so that prompts and ends of turns are not heard by them.

use serde_json::json;

use crate::adapter::{AskGate, Gates, ResultGate};
use crate::adapters::claude_like::{self, unknown_event};
use crate::answer::Answer;
use crate::client::Client;
use crate::event::{ClientEvent, Frame, Speech};
use crate::payload::{Payload, PayloadError};
use crate::reason::Reason;
use crate::tools::{McpSpelling, ToolRow, renamed, tool};

/// The field in which it names the event, which for others is `hook_event_name`.
const EVENT: &str = "hookEventName";

const TOOLS: &[ToolRow] = &[
    tool("run_in_terminal", "exec"),
    tool("runTerminalCommand", "exec"),
    renamed("read_file", "read", &[("filePath", "path")]),
    renamed("create_file", "write", &[("filePath", "path")]),
    renamed("createFile", "write", &[("filePath", "path")]),
    renamed(
        "replace_string_in_file",
        "edit",
        &[("filePath", "path"), ("oldString", "old_text"), ("newString", "new_text")],
    ),
    renamed("insert_edit_into_file", "edit", &[("filePath", "path"), ("code", "new_text")]),
    tool("apply_patch", "apply_patch"),
    tool("runSubagent", "sessions_spawn"),
];

/// Changed arguments are ignored where their shape is not the tool's own, and the call runs as it was: they are no answer.
pub(crate) const GATES: Gates = Gates {
    pass: |_| Answer::json(&json!({ "continue": true })),
    deny,
    ask: AskGate::Native {
        when: |_| true,
        encode: |_, question, _| ask(question),
        with_changes: false,
        note: NOTE,
    },
    rewrite: None,
    deny_permission: None,
    result: ResultGate::Unreachable,
    mcp_result: ResultGate::Unreachable,
    failure: ResultGate::Unreachable,
    block_prompt: Some(end),
    revise: Some(go_on),
};

const NOTE: &str = "where the operator says that a person attends it (agent.approvals.attended); otherwise the call is denied";

/// Whether an entry of `client` was started by it.
pub(crate) fn is_speaking(client: Client, payload: &Payload) -> bool {
    let is_started = matches!(client, Client::Claude | Client::Copilot);
    is_started && payload.text(EVENT).is_some() && payload.get("hook_event_name").is_none()
}

pub(crate) fn read(client: Client, payload: &Payload) -> Result<ClientEvent, PayloadError> {
    let event = payload.text(EVENT).ok_or(PayloadError::NoEvent { client: client.name() })?;
    let mut frame = claude_like::frame(client, payload, event, "prompt_id");
    frame.session = payload.text("sessionId").map(Into::into);
    frame.speech = Speech::VsCode;
    let moment = claude_like::moment(payload, event, TOOLS, McpSpelling::DoubleUnderscore)?;
    Ok(ClientEvent { frame, moment: moment.ok_or_else(|| unknown_event(client, event))? })
}

fn deny(_: &Frame, reason: &Reason) -> Answer {
    Answer::refusal(&decision("deny", reason), reason)
}

fn ask(question: &Reason) -> Answer {
    Answer::json(&decision("ask", question))
}

fn decision(decision: &str, reason: &Reason) -> serde_json::Value {
    json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision, "permissionDecisionReason": reason,
    }})
}

/// Exit 2 shows the reason to the model; this is the documented end of a session before that.
fn end(_: &Frame, reason: &Reason) -> Answer {
    Answer::json(&json!({ "continue": false, "stopReason": reason }))
}

/// At the end of a turn it is read from one place, at that of a sub-agent from the other.
fn go_on(frame: &Frame, reason: &Reason) -> Answer {
    let specific = json!({ "hookEventName": frame.event(), "decision": "block", "reason": reason });
    Answer::json(&json!({ "decision": "block", "reason": reason, "hookSpecificOutput": specific }))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::decision::{CallDecision, PromptDecision, StopDecision};
    use crate::event::Moment;

    fn event(client: Client, event: &str, more: &Value) -> ClientEvent {
        let mut payload = json!({
            "timestamp": "2026-02-09T10:30:00.000Z", "cwd": "/p", "sessionId": "s-1", "hookEventName": event,
            "transcript_path": "/t.json",
        });
        let fields = payload.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        // As the entry of Copilot CLI names it.
        client.read(&payload.into(), Some("preToolUse")).unwrap()
    }

    fn call(client: Client, tool: &str, input: &Value) -> ClientEvent {
        event(client, "PreToolUse", &json!({ "tool_name": tool, "tool_input": input, "tool_use_id": "t" }))
    }

    fn said(event: &ClientEvent, decision: &CallDecision) -> (Value, u8) {
        let Moment::ToolCall(used) = &event.moment else { panic!("no call: {event:?}") };
        let answer = event.frame.answer_call(used, decision).answer;
        (serde_json::from_slice(answer.stdout()).unwrap_or_default(), answer.exit_code())
    }

    #[test]
    fn entries_of_both_clients_understand_it_and_answer_in_its_words() {
        for client in [Client::Claude, Client::Copilot] {
            let event = call(client, "run_in_terminal", &json!({ "command": "ls", "explanation": "x" }));
            let Moment::ToolCall(used) = &event.moment else { panic!("no call: {event:?}") };
            assert_eq!(used.name().canonical(), "exec");
            assert_eq!(event.frame.session_key().unwrap().as_str(), format!("{client}:s-1"));
            let (body, code) = said(&event, &CallDecision::Deny("no".into()));
            assert_eq!(body.pointer("/hookSpecificOutput/permissionDecision"), Some(&"deny".into()));
            assert_eq!(code, 2);
            assert_eq!(said(&event, &CallDecision::Pass), (json!({ "continue": true }), 0));
            let changed = used.parts().to_vec();
            assert_eq!(
                said(&event, &CallDecision::Rewrite(changed)).1,
                2,
                "changed arguments may be ignored"
            );
        }
    }

    #[test]
    fn its_file_tools_are_known_by_their_own_names_of_arguments() {
        let edit = json!({ "filePath": "/p/a", "oldString": "a", "newString": "b" });
        for (tool, input, name, path) in [
            ("create_file", json!({ "filePath": "/p/a", "content": "x" }), "write", "/p/a"),
            ("createFile", json!({ "path": "/p/a", "content": "x" }), "write", "/p/a"),
            ("replace_string_in_file", edit, "edit", "/p/a"),
            ("read_file", json!({ "filePath": "/p/a", "startLine": 1 }), "read", "/p/a"),
        ] {
            let event = call(Client::Copilot, tool, &input);
            let Moment::ToolCall(used) = &event.moment else { panic!("no call: {event:?}") };
            let found = used.parts().first().and_then(|part| part.get("path")).and_then(|path| path.as_str());
            assert_eq!((used.name().canonical(), found), (name, Some(path)), "{tool}");
        }
    }

    #[test]
    fn a_prompt_ends_the_session_and_an_end_goes_on_where_policy_says_so() {
        let prompt = event(Client::Claude, "UserPromptSubmit", &json!({ "prompt": "hello" }));
        let answer = prompt.frame.answer_prompt(&PromptDecision::Block("no".into())).answer;
        assert_eq!(answer.stdout(), br#"{"continue":false,"stopReason":"no"}"#);
        for name in ["Stop", "SubagentStop"] {
            let stop = event(Client::Claude, name, &json!({ "stop_hook_active": false }));
            let answer = stop.frame.answer_stop(&StopDecision::Revise("go on".into())).answer;
            let body: Value = serde_json::from_slice(answer.stdout()).unwrap();
            assert_eq!(body["decision"], "block");
            assert_eq!(body["hookSpecificOutput"]["decision"], "block");
            assert_eq!(body["hookSpecificOutput"]["hookEventName"], name);
        }
    }

    #[test]
    fn what_names_the_event_as_the_client_does_is_the_clients() {
        let payload = json!({ "hook_event_name": "PreToolUse", "hookEventName": "PreToolUse", "session_id": "s",
            "tool_name": "Bash", "tool_input": { "command": "ls" } });
        let own = Client::Claude.read(&payload.into(), None).unwrap();
        assert_eq!(own.frame.speech, Speech::Own);
        let payload = json!({ "hookEventName": "SomethingNew", "sessionId": "s" });
        assert!(Client::Claude.read(&payload.clone().into(), None).is_err(), "{payload}");
        assert!(Client::Codex.read(&payload.into(), None).is_err());
    }
}
