//! Answers: their exact bytes, and what the clients do with them.

use std::fmt::Write as _;

use backstop_hooks::Params;
use backstop_hooks::conversation::{Part, ToolResult};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fixtures;
use super::model::{Fate, fate};
use crate::answer::{Answer, universal_deny};
use crate::client::Client;
use crate::decision::{CallDecision, PromptDecision, Reply, ResultDecision, Shortfall, StopDecision};
use crate::event::{Attended, ClientEvent, Moment};
use crate::payload::Payload;
use crate::reason::Reason;

/// The event before a tool call, by the name on the command line.
pub(super) fn tool_event(client: Client) -> &'static str {
    match client {
        Client::Gemini => "BeforeTool",
        Client::Copilot | Client::Cursor => "preToolUse",
        Client::OpenCode => "tool.execute.before",
        Client::Windsurf => "pre_run_command",
        Client::Claude
        | Client::Codex
        | Client::Qwen
        | Client::Cline
        | Client::Kiro
        | Client::Goose
        | Client::Droid
        | Client::Devin
        | Client::Kimi => "PreToolUse",
    }
}

/// A payload of the client about a call of `tool`.
pub(super) fn tool_payload(client: Client, tool: &str, arguments: &Value) -> Value {
    match client {
        Client::Copilot => json!({ "sessionId": "s", "cwd": "/p", "toolName": tool, "toolArgs": arguments }),
        Client::Cline => {
            json!({ "hookName": "tool_call", "tool_call": { "id": "c", "name": tool, "input": arguments } })
        }
        Client::OpenCode => {
            json!({ "event": "tool.execute.before", "input": { "tool": tool, "sessionID": "s" }, "output": { "args": arguments } })
        }
        Client::Goose => json!({ "event": "PreToolUse", "tool_name": tool, "tool_input": arguments }),
        Client::Windsurf => json!({ "agent_action_name": "pre_run_command", "tool_info": arguments }),
        Client::Claude
        | Client::Codex
        | Client::Gemini
        | Client::Qwen
        | Client::Cursor
        | Client::Kiro
        | Client::Droid
        | Client::Devin
        | Client::Kimi => {
            json!({ "hook_event_name": tool_event(client), "permission_mode": "default", "tool_name": tool, "tool_input": arguments })
        }
    }
}

/// A shell call with one more argument beside the command, where the client's shell tool has any.
fn shell_call(client: Client, command: &str) -> (ClientEvent, Value) {
    let (tool, arguments) = match client {
        Client::Claude | Client::Codex => ("Bash", json!({ "command": command, "timeout": 5 })),
        Client::Gemini | Client::Qwen => {
            ("run_shell_command", json!({ "command": command, "is_background": false }))
        }
        Client::Copilot => ("bash", json!({ "command": command, "description": "x" })),
        Client::OpenCode => ("bash", json!({ "command": command, "timeout": 5 })),
        Client::Cline => ("run_commands", json!({ "commands": [command] })),
        Client::Cursor => ("Shell", json!({ "command": command, "working_directory": "/p" })),
        Client::Windsurf => ("", json!({ "command_line": command, "cwd": "/p" })),
        Client::Kiro => ("execute_bash", json!({ "command": command })),
        Client::Goose => ("developer__shell", json!({ "command": command })),
        Client::Droid => ("Execute", json!({ "command": command, "timeout": 5 })),
        Client::Devin => ("exec", json!({ "command": command, "shell_id": "main" })),
        Client::Kimi => ("Bash", json!({ "command": command, "timeout": 5 })),
    };
    let payload = tool_payload(client, tool, &arguments);
    let event = client.read(&payload.into(), Some(tool_event(client))).unwrap();
    (event.attended(Attended::Yes), arguments)
}

fn reply(event: &ClientEvent, decision: &CallDecision) -> Reply {
    let Moment::ToolCall(used) = &event.moment else { panic!("not a tool call") };
    event.frame.answer_call(used, decision)
}

/// The call with another command, in our words.
fn changed(event: &ClientEvent, command: &str) -> Vec<Params> {
    let Moment::ToolCall(used) = &event.moment else { panic!("not a tool call") };
    assert_eq!(used.name().canonical(), "exec");
    let mut parts = used.parts().to_vec();
    parts[0].make_mut().insert("command".to_owned(), command.into());
    parts
}

fn ask(event: &ClientEvent, command: Option<&str>) -> CallDecision {
    CallDecision::Ask {
        question: "may it?".into(),
        refusal: "a person can allow it".into(),
        changed: command.map(|command| changed(event, command)),
    }
}

proptest! {
    #[test]
    fn a_refusal_is_obeyed_by_every_client(reason in "\\PC{0,60}", command in "\\PC{0,40}") {
        for client in Client::ALL {
            let (event, _) = shell_call(client, &command);
            let answer = reply(&event, &CallDecision::Deny(Reason::new(&reason))).answer;
            prop_assert_eq!(fate(client, &answer), Fate::Denied, "{}", client);
            prop_assert_eq!(fate(client, &universal_deny(&Reason::new(&reason))), Fate::Denied, "{}", client);
        }
    }

    #[test]
    fn changed_arguments_run_whole_or_not_at_all(old in "\\PC{0,40}", new in "\\PC{0,40}") {
        for client in Client::ALL {
            let (event, _) = shell_call(client, &old);
            let said = reply(&event, &CallDecision::Rewrite(changed(&event, &new)));
            let (_, whole) = shell_call(client, &new);
            match fate(client, &said.answer) {
                Fate::RunsWith(ran) => prop_assert_eq!(ran, whole, "{}", client),
                Fate::Denied => prop_assert_eq!(said.shortfall, Some(Shortfall::RewriteDenied), "{}", client),
                other => prop_assert!(false, "{}: {:?}", client, other),
            }
        }
    }
}

/// What a person may change is what the client was seen to run.
#[test]
fn a_call_may_be_changed_only_where_the_changed_one_was_seen_to_run() {
    let seen =
        [Client::Claude, Client::Codex, Client::Gemini, Client::Copilot, Client::Cline, Client::OpenCode];
    for client in Client::ALL {
        let (event, _) = shell_call(client, "ls");
        let said = reply(&event, &CallDecision::Rewrite(changed(&event, "echo safe")));
        let runs = matches!(fate(client, &said.answer), Fate::RunsWith(_));
        assert_eq!(event.frame.takes_changes(), seen.contains(&client), "{client}");
        assert!(runs || !seen.contains(&client), "{client}");
    }
    // Nor in other words than an installation's.
    let pascal = tool_payload(Client::Claude, "Bash", &json!({ "command": "ls" }));
    let event = Client::Copilot.read(&pascal.into(), None).unwrap();
    assert!(!event.frame.takes_changes());
    for client in [Client::Claude, Client::Copilot] {
        let payload = json!({
            "hookEventName": "PreToolUse", "sessionId": "s", "tool_name": "run_in_terminal",
            "tool_input": { "command": "ls" },
        });
        let event = client.read(&payload.into(), Some("preToolUse")).unwrap();
        assert!(!event.frame.takes_changes(), "the agent of VS Code takes no notice of them: {client}");
    }
}

#[test]
fn no_objection_is_no_consent_and_no_refusal() {
    for client in Client::ALL {
        let (event, _) = shell_call(client, "ls");
        let said = reply(&event, &CallDecision::Pass);
        assert_eq!(fate(client, &said.answer), Fate::Runs, "{client}");
        let needs_words = matches!(client, Client::Cursor | Client::OpenCode);
        assert_eq!(said.answer.is_silent(), !needs_words, "{client}");
    }
}

#[test]
fn a_question_reaches_a_human_or_is_a_refusal() {
    let native = [Client::Claude, Client::Qwen, Client::Copilot];
    for client in Client::ALL {
        let (event, _) = shell_call(client, "ls");
        let said = reply(&event, &ask(&event, None));
        if native.contains(&client) {
            assert_eq!((fate(client, &said.answer), said.shortfall), (Fate::Asked, None), "{client}");
        } else {
            assert_eq!(
                (fate(client, &said.answer), said.shortfall),
                (Fate::Denied, Some(Shortfall::AskDenied)),
                "{client}"
            );
            let out = format!("{} {}", String::from_utf8_lossy(said.answer.stdout()), said.answer.stderr());
            assert!(out.contains("a person can allow it"), "{client}");
        }
        let said = reply(&event, &ask(&event, Some("echo safe")));
        assert!(matches!(fate(client, &said.answer), Fate::AskedWith(_) | Fate::Denied), "{client}");
    }
}

#[test]
fn a_mode_in_which_nobody_is_asked_is_a_refusal() {
    for (client, mode) in [
        (Client::Claude, "auto"),
        (Client::Claude, "dontAsk"),
        (Client::Claude, "bypassPermissions"),
        (Client::Claude, "a mode of tomorrow"),
        (Client::Qwen, "yolo"),
    ] {
        let (mut event, _) = shell_call(client, "ls");
        event.frame.mode = Some(mode.to_owned());
        assert_eq!(fate(client, &reply(&event, &ask(&event, None)).answer), Fate::Denied, "{client} {mode}");
        assert!(!event.frame.can_ask());
    }
}

/// A client that nobody attends, or of which that is not known, is never told to ask.
#[test]
fn a_question_is_left_to_a_client_only_where_somebody_attends() {
    for client in Client::ALL {
        for attended in [Attended::Unsaid, Attended::No] {
            let (event, _) = shell_call(client, "ls");
            let event = event.attended(attended);
            assert!(!event.frame.can_ask(), "{client}");
            for command in [None, Some("echo safe")] {
                let said = reply(&event, &ask(&event, command));
                assert_eq!(fate(client, &said.answer), Fate::Denied, "{client} {attended:?}");
            }
        }
        let (event, _) = shell_call(client, "ls");
        let said = |attended| event.clone().attended(attended).attended_unless_said().frame.attended;
        assert_eq!(said(Attended::Unsaid), Attended::Yes);
        assert_eq!(said(Attended::No), Attended::No, "what the client says counts");
    }
}

#[test]
fn claude_code_alone_says_whether_somebody_attends() {
    let by = |client, attended: Option<&str>, entry: Option<&str>| {
        Attended::by(client, &|name| match name {
            "CLAUDE_CODE_SESSION_ATTENDED" => attended.map(str::to_owned),
            "CLAUDE_CODE_ENTRYPOINT" => entry.map(str::to_owned),
            _ => None,
        })
    };
    let claude = |attended, entry| by(Client::Claude, attended, entry);
    assert_eq!(claude(Some("1"), Some("cli")), Attended::Yes);
    assert_eq!(claude(Some("1"), None), Attended::Yes);
    assert_eq!(claude(Some("1"), Some("sdk-ts")), Attended::No);
    assert_eq!(claude(None, Some("sdk-cli")), Attended::No);
    assert_eq!(claude(Some("0"), Some("cli")), Attended::No);
    assert_eq!(claude(Some("yes"), Some("cli")), Attended::No);
    assert_eq!(claude(None, Some("cli")), Attended::Unsaid);
    for client in Client::ALL.into_iter().filter(|client| *client != Client::Claude) {
        assert_eq!(by(client, Some("1"), Some("cli")), Attended::Unsaid, "{client}");
    }
}

#[test]
fn arguments_that_have_no_form_are_a_refusal() {
    let (event, _) = shell_call(Client::Cline, "ls");
    let mut parts = changed(&event, "ls");
    parts[0].make_mut().insert("timeout".to_owned(), 1.into());
    let said = reply(&event, &CallDecision::Rewrite(parts));
    assert_eq!(
        (fate(Client::Cline, &said.answer), said.shortfall),
        (Fate::Denied, Some(Shortfall::RewriteHasNoForm))
    );
}

#[test]
fn the_other_dialect_of_copilot_is_answered_in_its_own_shape() {
    let payload = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": { "command": "ls" } });
    let event = Client::Copilot.read(&payload.into(), None).unwrap();
    let said = reply(&event, &CallDecision::Deny("no".into())).answer;
    let body: Value = serde_json::from_slice(said.stdout()).unwrap();
    assert_eq!(body.pointer("/hookSpecificOutput/permissionDecision"), Some(&json!("deny")));
    assert_eq!(body.get("permissionDecision"), None);
}

#[test]
fn the_table_says_what_happens() {
    for client in Client::ALL {
        let (event, _) = shell_call(client, "ls");
        for row in client.degradation() {
            let said = match row.wish {
                crate::Wish::Deny => reply(&event, &CallDecision::Deny("no".into())),
                crate::Wish::Rewrite => reply(&event, &CallDecision::Rewrite(changed(&event, "x"))),
                crate::Wish::BlockPrompt => event.frame.answer_prompt(&PromptDecision::Block("no".into())),
                crate::Wish::Revise => event.frame.answer_stop(&StopDecision::Revise("go on".into())),
                crate::Wish::Ask
                | crate::Wish::ChangeResult
                | crate::Wish::ChangeMcpResult
                | crate::Wish::ChangeFailure => continue,
            };
            assert_eq!(said.shortfall, row.shortfall, "{client}: {}", row.wish);
        }
    }
}

fn replaced(texts: &[&str], result: &ToolResult) -> ResultDecision {
    ResultDecision::Replace(ToolResult {
        content: texts.iter().map(|text| Part::text(*text)).collect(),
        ..result.clone()
    })
}

#[test]
fn a_changed_result_leaves_no_trace_of_the_old_one() {
    let secret = "SHELL_RAN";
    let mut reached = 0;
    for fixture in fixtures() {
        let event = fixture.read();
        let Moment::ToolResult(output) = &event.moment else { continue };
        let result = output.as_result();
        let masked: Vec<String> = result
            .content
            .iter()
            .filter_map(Part::as_text)
            .map(|text| text.replace(secret, "***").replace("secret-123", "***"))
            .collect();
        let masked: Vec<&str> = masked.iter().map(String::as_str).collect();
        for decision in [replaced(&masked, &result), ResultDecision::Withhold("has a key".into())] {
            let said = event.frame.answer_result(output, &decision);
            let out = String::from_utf8_lossy(said.answer.stdout()).into_owned() + said.answer.stderr();
            assert!(
                !out.contains(secret) && !out.contains("secret-123"),
                "{} {}: {out}",
                fixture.client,
                fixture.name
            );
            if said.shortfall.is_none_or(|shortfall| !shortfall.lets_through()) {
                assert!(!said.answer.is_silent(), "{} {}", fixture.client, fixture.name);
                reached += 1;
            } else {
                assert_eq!(said.answer, event.frame.pass().answer);
            }
        }
    }
    assert!(reached > 40, "only {reached} results were changed");
}

/// A result that is too large to be taken apart is not thereby let through.
#[test]
fn what_policy_takes_out_of_a_huge_result_is_out_of_it() {
    let many = json!({"filenames": vec!["secret-123"; 10_000], "stdout": "secret-123", "numFiles": 1});
    let payload = json!({"hook_event_name": "PostToolUse", "tool_name": "Grep", "tool_input": {}, "tool_response": many});
    let payload = Payload::parse(payload.to_string().as_bytes()).unwrap();
    let event = Client::Claude.read(&payload, None).unwrap();
    let Moment::ToolResult(output) = &event.moment else { panic!("a result") };
    let result = output.as_result();
    let masked = result.visible_text().replace("secret-123", "***");
    for decision in [replaced(&[&masked], &result), ResultDecision::Withhold("has a key".into())] {
        let said = event.frame.answer_result(output, &decision);
        let out = String::from_utf8_lossy(said.answer.stdout()).into_owned();
        assert!(said.shortfall.is_none() && !out.contains("secret-123"), "{:?}", said.shortfall);
        assert!(out.contains("updatedToolOutput") && out.contains(r#""numFiles":1"#));
    }
}

fn shown(listing: &mut String, title: &str, reply: &Reply) {
    let Answer { .. } = &reply.answer;
    let stdout = String::from_utf8_lossy(reply.answer.stdout()).into_owned();
    write!(listing, "  {title}: exit {}", reply.answer.exit_code()).unwrap();
    if !stdout.is_empty() {
        write!(listing, " stdout {stdout}").unwrap();
    }
    if !reply.answer.stderr().is_empty() {
        write!(listing, " stderr {:?}", reply.answer.stderr()).unwrap();
    }
    if let Some(shortfall) = reply.shortfall {
        write!(listing, " ({shortfall})").unwrap();
    }
    listing.push('\n');
}

/// The exact bytes of every answer.
#[test]
fn answers_are_these() {
    let mut listing = String::new();
    for client in Client::ALL {
        writeln!(listing, "{client}").unwrap();
        let (event, _) = shell_call(client, "ls");
        shown(&mut listing, "pass", &reply(&event, &CallDecision::Pass));
        shown(&mut listing, "deny", &reply(&event, &CallDecision::Deny("why \"not\"".into())));
        shown(&mut listing, "ask", &reply(&event, &ask(&event, None)));
        shown(&mut listing, "ask with changes", &reply(&event, &ask(&event, Some("echo safe"))));
        shown(&mut listing, "rewrite", &reply(&event, &CallDecision::Rewrite(changed(&event, "echo safe"))));
        shown(
            &mut listing,
            "deny permission",
            &event.frame.answer_permission(&CallDecision::Deny("why".into())),
        );
        shown(&mut listing, "block prompt", &event.frame.answer_prompt(&PromptDecision::Block("why".into())));
        shown(
            &mut listing,
            "revise",
            &event.frame.answer_stop(&StopDecision::Revise("run the tests".into())),
        );
    }
    writeln!(listing, "results").unwrap();
    for fixture in fixtures() {
        let event = fixture.read();
        let Moment::ToolResult(output) = &event.moment else { continue };
        let withheld = event.frame.answer_result(output, &ResultDecision::Withhold("has a key".into()));
        shown(&mut listing, &format!("{} {}", fixture.client, fixture.name), &withheld);
    }
    insta::assert_snapshot!(listing);
}

#[test]
fn the_degradation_tables_are_these() {
    let mut listing = String::new();
    for client in Client::ALL {
        writeln!(listing, "{} ({}, {:?})", client.title(), client.facts().version, client.facts().evidence)
            .unwrap();
        for row in client.degradation() {
            let what = row.shortfall.map_or_else(|| "yes".to_owned(), |shortfall| shortfall.to_string());
            let note = row.note.map(|note| format!("; {note}")).unwrap_or_default();
            writeln!(listing, "  {}: {what}{note}", row.wish).unwrap();
        }
    }
    insta::assert_snapshot!(listing);
}
