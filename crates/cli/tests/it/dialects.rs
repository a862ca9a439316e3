//! Every way by which a client's payload can carry a command or a file past the guards.
//!
//! Each case is a call that no guard may miss, in a shape that a client sends or that its agent can make it send.
//! The commands are harmless; what stops them is a rule of this test.

use backstop::clients::Client;
use serde_json::{Value, json};

use super::support::{Done, User, last_code};

/// Stops one harmless program.
const NO_TOUCH: &str = "guards: {command_safety: {packs: [{id: test.touch, severity: critical, verdict: block, profile: core, \
                        reason: touching is over, code: NO_TOUCH, when: [{run: {program: [touch]}}]}]}}\n";
/// Asks about it.
const ASK_TOUCH: &str = "guards: {command_safety: {packs: [{id: test.touch, severity: warning, verdict: ask, profile: core, \
                         reason: touching wants a word, code: TOUCHED, when: [{run: {program: [touch]}}]}]}}\n";
const TOUCH: &str = "touch made-by-nobody";
const KEY: &str = "~/.ssh/id_ed25519";

fn hook(user: &User, client: &str, event: &str, payload: &Value) -> Done {
    user.feed(&["hook", client, event], payload.to_string())
}

/// The event before a tool, as the client tells it.
fn call(client: &str, tool: &str, arguments: Value) -> (&'static str, Value) {
    match client {
        "gemini" => {
            let event = json!({ "hook_event_name": "BeforeTool", "session_id": "s", "tool_name": tool, "tool_input": arguments });
            ("BeforeTool", event)
        }
        "copilot" => ("preToolUse", json!({ "sessionId": "s", "toolName": tool, "toolArgs": arguments })),
        "cline" => {
            let call = json!({ "id": "c", "name": tool, "input": arguments });
            ("PreToolUse", json!({ "hookName": "tool_call", "taskId": "t", "tool_call": call }))
        }
        "opencode" => {
            let input = json!({ "tool": tool, "sessionID": "s", "callID": "c" });
            let event = json!({ "event": "tool.execute.before", "input": input, "output": { "args": arguments }, "mcpServers": ["box"] });
            ("tool.execute.before", event)
        }
        "cursor" => {
            let event = json!({ "hook_event_name": "preToolUse", "conversation_id": "s", "tool_name": tool, "tool_input": arguments });
            ("preToolUse", event)
        }
        "goose" => {
            let event = json!({ "event": "PreToolUse", "session_id": "s", "tool_name": tool, "tool_input": arguments });
            ("PreToolUse", event)
        }
        _ => {
            // In this mode Claude Code asks nobody.
            let event = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "permission_mode": "dontAsk", "tool_name": tool, "tool_input": arguments });
            ("PreToolUse", event)
        }
    }
}

#[track_caller]
fn all_are_refused(user: &User, cases: Vec<(&str, &str, Value)>, why: &[&str]) {
    let mut missed = Vec::new();
    for (client, tool, arguments) in cases {
        let (event, payload) = call(client, tool, arguments);
        let done = hook(user, client, event, &payload);
        if done.code != Some(2) || !why.iter().any(|why| done.err.contains(why)) {
            missed.push(format!("{client} {payload}: {}", done.whole()));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n\n"));
}

#[test]
fn no_shape_hides_a_command() {
    let user = User::with_config(NO_TOUCH);
    let list = json!({ "commands": ["ls", TOUCH] });
    let long: Vec<_> = std::iter::repeat_n("ls", 100).chain([TOUCH]).collect();
    let inside = json!({ "command": TOUCH }).to_string();
    let cases = vec![
        // The client's own shells, under the names that it and its models use for them.
        ("claude", "Bash", json!({ "command": TOUCH, "run_in_background": true })),
        ("claude", " BASH\n", json!({ "command": TOUCH })),
        ("claude", "Monitor", json!({ "description": "d", "command": TOUCH })),
        ("claude", "PowerShell", json!({ "command": TOUCH })),
        ("claude", "Bash", json!({ "command": ["touch", "x"] })),
        ("claude", "Bash", json!({ "command": "ls", "Command": TOUCH })),
        ("claude", "Bash", json!({ "command": format!("ls\n{TOUCH}") })),
        ("claude", "Bash", json!(inside)),
        ("codex", "Bash", json!({ "command": TOUCH })),
        ("codex", "exec_command", json!({ "cmd": TOUCH, "tty": true })),
        ("codex", "exec_command", json!({ "cmd": TOUCH, "command": "ls" })),
        ("codex", "shell", json!({ "command": ["bash", "-lc", TOUCH] })),
        ("codex", "local_shell", json!({ "action": { "type": "exec", "command": ["touch", "x"] } })),
        ("codex", "write_stdin", json!({ "session_id": 1, "chars": format!("{TOUCH}\n") })),
        ("gemini", "run_shell_command", json!({ "command": TOUCH, "is_background": true })),
        ("qwen", "run_shell_command", json!({ "command": TOUCH, "is_background": true })),
        ("qwen", "tool_call", json!({ "name": "run_shell_command", "arguments": { "command": TOUCH } })),
        ("qwen", "tool_call", json!({ "name": "run_shell_command", "arguments": inside })),
        ("copilot", "bash", json!({ "command": TOUCH, "mode": "async", "detach": true })),
        ("copilot", "bash", json!(inside)),
        ("copilot", "write_bash", json!({ "shellId": "0", "input": format!("{TOUCH}\n") })),
        ("cline", "run_commands", list),
        ("cline", "run_commands", json!({ "commands": TOUCH })),
        ("cline", "run_commands", json!({ "commands": long })),
        ("cline", "run_commands", json!({ "commands": ["ls", { "command": TOUCH }] })),
        ("cline", "run_commands", json!({ "commands": [{ "command": "touch", "args": ["x"] }] })),
        ("cline", "run_commands", json!({ "commands": json!(["ls", TOUCH]).to_string() })),
        ("cline", "execute_command", json!({ "command": TOUCH, "requires_approval": false })),
        ("opencode", "bash", json!({ "command": TOUCH, "workdir": "/" })),
        ("cursor", "Shell", json!({ "command": TOUCH })),
        ("kiro", "execute_bash", json!({ "command": TOUCH })),
        ("kiro", "executeBash", json!({ "command": TOUCH })),
        ("goose", "developer__shell", json!({ "command": TOUCH })),
        ("droid", "Execute", json!({ "command": TOUCH })),
        ("kimi", "Bash", json!({ "command": TOUCH, "cwd": "/" })),
        ("devin", "exec", json!({ "command": TOUCH, "shell_id": "main" })),
        ("goose", "computercontroller__automation_script", json!({ "language": "shell", "script": TOUCH })),
        // Tools that nobody has heard of, and those of servers, in all spellings.
        ("claude", "Terminal", json!({ "cmd": TOUCH })),
        ("claude", "RunScript", json!({ "script": TOUCH })),
        ("claude", "Batch", json!({ "calls": [{ "tool": "Bash", "parameters": { "command": TOUCH } }] })),
        ("claude", "Batch", json!({ "calls": [{ "tool": "Bash", "arguments": inside }] })),
        ("claude", "mcp__box__run", json!({ "command": TOUCH })),
        ("gemini", "mcp_box_run", json!({ "command": TOUCH })),
        ("copilot", "box-run", json!({ "command": TOUCH })),
        ("copilot", "box/run", json!({ "command": TOUCH })),
        ("cline", "box__run", json!({ "command": TOUCH })),
        ("opencode", "box_run", json!({ "command": TOUCH })),
        ("cursor", "MCP:run", json!({ "command": TOUCH })),
        ("kiro", "@box/run", json!({ "command": TOUCH })),
        ("goose", "box__run", json!({ "program": "touch", "args": ["x"] })),
        // A tool of somebody else's that is called like one of ours whose arguments are no commands.
        ("opencode", "message", json!({ "command": TOUCH })),
        ("opencode", "image", json!({ "cmd": TOUCH })),
        ("goose", "web_fetch", json!({ "command": TOUCH })),
    ];
    all_are_refused(&user, cases, &["NO_TOUCH"]);
}

#[test]
fn no_shape_hides_a_file() {
    let user = User::new();
    let patch = format!(
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+b\n*** Delete File: b.txt\n*** Update File: c.txt\n*** Move to: {KEY}\n@@\n-a\n+b\n*** End Patch\n"
    );
    let deletes = format!("*** Begin Patch\n*** Delete File: {KEY}\n*** End Patch\n");
    let heredoc = format!("apply_patch <<'EOF'\n{patch}EOF\n");
    let cases = vec![
        ("claude", "Read", json!({ "file_path": KEY })),
        ("claude", "Read", json!({ "file_path": KEY, "path": "a.txt" })),
        ("claude", "Write", json!({ "file_path": KEY, "content": "x" })),
        ("claude", "Edit", json!({ "file_path": KEY, "old_string": "a", "new_string": "b" })),
        ("claude", "MultiEdit", json!({ "file_path": "a.txt", "edits": [{ "file_path": KEY }] })),
        ("claude", "NotebookEdit", json!({ "notebook_path": KEY, "new_source": "x" })),
        ("claude", "Bash", json!({ "command": heredoc })),
        ("codex", "apply_patch", json!({ "command": patch })),
        ("codex", "apply_patch", json!({ "command": deletes })),
        ("codex", "apply_patch", json!({ "input": patch })),
        ("codex", "apply_patch", json!({ "command": "*** Begin Patch\n*** End Patch\n", "input": patch })),
        ("codex", "Bash", json!({ "command": heredoc })),
        ("codex", "view_image", json!({ "path": KEY })),
        ("gemini", "read_many_files", json!({ "include": ["a.txt", KEY] })),
        ("gemini", "read_many_files", json!({ "paths": ["a.txt", KEY] })),
        ("gemini", "write_file", json!({ "file_path": KEY, "content": "x" })),
        ("gemini", "replace", json!({ "file_path": KEY, "old_string": "a", "new_string": "b" })),
        ("qwen", "tool_call", json!({ "name": "read_file", "arguments": { "file_path": KEY } })),
        ("qwen", "notebook_edit", json!({ "notebook_path": KEY })),
        ("copilot", "view", json!({ "path": KEY })),
        ("copilot", "create", json!({ "path": KEY, "file_text": "x" })),
        ("copilot", "grep", json!({ "pattern": ".", "paths": ["a", KEY] })),
        ("cline", "read_files", json!({ "files": [{ "path": KEY }] })),
        ("cline", "read_files", json!({ "files": [KEY] })),
        ("cline", "editor", json!({ "path": KEY, "new_text": "x" })),
        ("opencode", "read", json!({ "filePath": KEY })),
        ("opencode", "apply_patch", json!({ "patchText": patch })),
        ("cursor", "Read", json!({ "target_file": KEY })),
        ("cursor", "Delete", json!({ "path": KEY })),
        ("kimi", "Read", json!({ "path": KEY })),
        ("kimi", "Edit", json!({ "path": KEY, "old_string": "a", "new_string": "b" })),
        ("kiro", "fs_read", json!({ "operations": [{ "mode": "Line", "path": KEY }] })),
        ("kiro", "fs_write", json!({ "command": "create", "path": KEY, "file_text": "x" })),
        ("goose", "developer__text_editor", json!({ "command": "write", "path": KEY, "file_text": "x" })),
        ("claude", "mcp__files__move_file", json!({ "source": "a.txt", "destination": KEY })),
    ];
    all_are_refused(
        &user,
        cases,
        &["id_ed25519", "credential", "private key", "sensitive", "a person can allow"],
    );
}

#[test]
fn events_about_one_kind_of_tool_hide_nothing() {
    let user = User::with_config(NO_TOUCH);
    let cases = [
        (
            "cursor",
            "beforeShellExecution",
            json!({ "hook_event_name": "beforeShellExecution", "command": TOUCH, "cwd": "" }),
        ),
        (
            "cursor",
            "beforeMCPExecution",
            json!({ "hook_event_name": "beforeMCPExecution", "tool_name": "run", "tool_input": json!({ "command": TOUCH }).to_string() }),
        ),
        (
            "cursor",
            "beforeReadFile",
            json!({ "hook_event_name": "beforeReadFile", "file_path": "a.txt", "attachments": [{ "type": "file", "file_path": KEY }] }),
        ),
        (
            "windsurf",
            "pre_run_command",
            json!({ "agent_action_name": "pre_run_command", "tool_info": { "command_line": TOUCH, "cwd": "/" } }),
        ),
        (
            "windsurf",
            "pre_mcp_tool_use",
            json!({ "agent_action_name": "pre_mcp_tool_use", "tool_info": { "mcp_server_name": "box", "mcp_tool_name": "run", "mcp_tool_arguments": { "command": TOUCH } } }),
        ),
        (
            "windsurf",
            "pre_write_code",
            json!({ "agent_action_name": "pre_write_code", "tool_info": { "file_path": KEY, "edits": [] } }),
        ),
        (
            "cline",
            "PreToolUse",
            json!({ "preToolUse": { "toolName": "run_commands", "parameters": { "commands": json!(["ls", TOUCH]).to_string() } } }),
        ),
        (
            "copilot",
            "PreToolUse",
            json!({ "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": { "command": TOUCH } }),
        ),
        (
            "kiro",
            "preToolUse",
            json!({ "hook_event_name": "preToolUse", "tool_name": "shell", "tool_input": { "command": TOUCH } }),
        ),
    ];
    for (client, event, payload) in cases {
        let done = hook(&user, client, event, &payload);
        assert_eq!(done.code, Some(2), "{client} {payload}: {}", done.whole());
    }
}

/// What is typed into a shell that stands open passes no hook of these clients.
#[test]
fn a_program_that_waits_to_be_told_is_asked_about_where_nobody_sees_what_it_is_told() {
    let user = User::new();
    for command in ["bash", "python", "node", "psql", "ssh host", "sqlite3 db"] {
        let (event, payload) = call("codex", "Bash", json!({ "command": command }));
        let asked = hook(&user, "codex", event, &payload);
        assert_eq!(asked.code, Some(2), "{command}: {}", asked.whole());
        for said in ["UNSEEN_INPUT", command, "a person can allow "] {
            assert!(asked.err.contains(said), "{command}: {}", asked.whole());
        }
        let (event, payload) = call("claude", "Bash", json!({ "command": command }));
        let passes = hook(&user, "claude", event, &payload);
        assert_eq!((passes.code, passes.out.as_str()), (Some(0), ""), "{command}: {}", passes.whole());
    }
    for command in ["bash build.sh", "python -c 'print(1)'", "sqlite3 db 'select 1'", "cargo test"] {
        let (event, payload) = call("codex", "Bash", json!({ "command": command }));
        let passes = hook(&user, "codex", event, &payload);
        assert_eq!((passes.code, passes.out.as_str()), (Some(0), ""), "{command}: {}", passes.whole());
    }
    user.configure(
        "guards: {command_safety: {profile: core, allow: [{rule: terminal.unseen-input, reason: a look}]}}\n",
    );
    let (event, payload) = call("codex", "Bash", json!({ "command": "bash" }));
    assert_eq!(hook(&user, "codex", event, &payload).code, Some(0), "the operator does not mind");
    user.configure("guards: {command_safety: {profile: core}}\n");
    assert_eq!(hook(&user, "codex", event, &payload).code, Some(2), "in every profile");
}

/// Whatever a hook prints reaches the model or a transcript that its agent can read, so no client is told how to answer.
#[test]
fn no_client_is_told_by_what_a_question_is_answered() {
    let user = User::with_config(ASK_TOUCH);
    let shells = [
        ("claude", "Bash"),
        ("codex", "Bash"),
        ("gemini", "run_shell_command"),
        ("qwen", "run_shell_command"),
        ("copilot", "bash"),
        ("cline", "run_commands"),
        ("opencode", "bash"),
        ("cursor", "Shell"),
        ("windsurf", ""),
        ("kiro", "execute_bash"),
        ("goose", "developer__shell"),
        ("droid", "Execute"),
        ("devin", "exec"),
        ("kimi", "Bash"),
    ];
    assert_eq!(shells.map(|(client, _)| client).as_slice(), Client::ALL.map(Client::name).as_slice());
    for (client, tool) in shells {
        let arguments =
            if client == "cline" { json!({ "commands": [TOUCH] }) } else { json!({ "command": TOUCH }) };
        let (event, mut payload) = call(client, tool, arguments);
        let event = if client == "windsurf" { "pre_run_command" } else { event };
        if client == "windsurf" {
            let said = json!({ "command_line": TOUCH, "cwd": "/" });
            payload = json!({ "agent_action_name": event, "tool_info": said });
        }
        // With nobody to ask; and, where the client has such a mode, with its own user.
        for mode in ["dontAsk", "default"] {
            if payload.get("permission_mode").is_some() {
                payload["permission_mode"] = json!(mode);
            }
            let asked = hook(&user, client, event, &payload);
            let said = format!("{}{}", asked.out, asked.err);
            assert!(said.contains("touching wants a word"), "{client}: {}", asked.whole());
            let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
            let row = &list[0];
            assert_eq!(row["preview"]["command"], TOUCH, "{client} left nothing to answer: {list:#}");
            for way in [
                &row["code"],
                &row["id"],
                &json!("allow-once"),
                &json!("approvals approve"),
                &json!("`backstop"),
            ] {
                assert!(!said.contains(way.as_str().unwrap()), "{client} is told {way}: {said}");
            }
        }
    }
}

/// What a human allowed by its code passes once, in whichever session of the client the call is made again.
#[test]
fn a_code_holds_for_the_call_in_this_session_or_another() {
    let user = User::with_config(ASK_TOUCH);
    let made = |session: &str, command: &str, folder: &std::path::Path| {
        let (event, mut payload) = call("codex", "Bash", json!({ "command": command }));
        payload["session_id"] = json!(session);
        payload["turn_id"] = json!(format!("turn of {session}"));
        payload["tool_use_id"] = json!(format!("call of {session}"));
        payload["cwd"] = json!(folder);
        hook(&user, "codex", event, &payload)
    };
    let (here, there) = (user.work(), user.path().join("elsewhere"));
    std::fs::create_dir(&there).unwrap();
    let (here, there) = (here.as_path(), there.as_path());
    for again in ["first", "second"] {
        let asked = made("first", TOUCH, here);
        assert_eq!(asked.code, Some(2), "{}", asked.whole());
        for said in ["approval needed", "test.touch", "touching wants a word", "TOUCHED"] {
            assert!(asked.err.contains(said), "`{said}` is not in {}", asked.whole());
        }
        user.run(&["allow-once", &last_code(&user)]).succeeded();
        assert_eq!(made(again, "touch another", here).code, Some(2), "another call");
        assert_eq!(made(again, TOUCH, there).code, Some(2), "in another folder it is another call");
        let passes = made(again, TOUCH, here);
        assert_eq!((passes.code, passes.out.as_str()), (Some(0), ""), "{}", passes.whole());
        assert_eq!(made(again, TOUCH, here).code, Some(2), "once");
    }
}

/// Codex names the folder that its agent chose for a command. The session's folder is the one that the hook starts in.
#[test]
fn an_agent_does_not_choose_which_repositorys_rules_hold() {
    let user = User::new();
    std::fs::write(
        user.work().join("backstop.yaml"),
        "hooks: {tool_call: {pre_call: [{type: policy, config: {deny_tools: [exec]}}]}}\n",
    )
    .unwrap();
    let (event, mut payload) = call("codex", "Bash", json!({ "command": "ls" }));
    payload["cwd"] = json!(std::env::temp_dir());
    let refused = hook(&user, "codex", event, &payload);
    assert_eq!(refused.code, Some(2), "{}", refused.whole());
    assert!(refused.err.contains("is denied by `deny_tools` pattern `exec`"), "{}", refused.whole());
}

/// The agent of VS Code starts the entries of both clients, with a payload of its own.
#[test]
fn no_tool_of_vs_code_passes_entries_of_other_clients() {
    let user = User::with_config(NO_TOUCH);
    let patch = format!("*** Begin Patch\n*** Delete File: {KEY}\n*** End Patch\n");
    let pairs = json!([{ "filePath": "a.txt", "oldString": "a", "newString": "b" }, { "filePath": KEY, "oldString": "a", "newString": "b" }]);
    let cases = [
        ("run_in_terminal", json!({ "command": TOUCH, "explanation": "x", "isBackground": false })),
        ("runTerminalCommand", json!({ "command": TOUCH })),
        ("send_to_terminal", json!({ "id": "1", "command": TOUCH })),
        ("mcp_box_run", json!({ "command": TOUCH })),
        ("read_file", json!({ "filePath": KEY, "startLine": 1, "endLine": 9 })),
        ("create_file", json!({ "filePath": KEY, "content": "x" })),
        ("replace_string_in_file", json!({ "filePath": KEY, "oldString": "a", "newString": "b" })),
        ("multi_replace_string_in_file", json!({ "explanation": "x", "replacements": pairs })),
        ("apply_patch", json!({ "input": patch, "explanation": "x" })),
        ("editFiles", json!({ "files": ["a.txt", KEY] })),
        ("deleteFile", json!({ "path": KEY })),
    ];
    for (client, given) in [("copilot", "preToolUse"), ("claude", "PreToolUse")] {
        let call = |tool: &str, input: &Value| {
            let payload = json!({ "timestamp": "2026-02-09T10:30:00.000Z", "sessionId": "s", "hookEventName": "PreToolUse",
                "cwd": user.work(), "tool_name": tool, "tool_input": input, "tool_use_id": "t" });
            hook(&user, client, given, &payload)
        };
        for (tool, input) in &cases {
            let done = call(tool, input);
            assert_eq!(done.code, Some(2), "{client} {tool} {input}: {}", done.whole());
            assert!(
                done.out.contains("\"permissionDecision\":\"deny\""),
                "{client} {tool}: {}",
                done.whole()
            );
        }
        let done = call("run_in_terminal", &json!({ "command": "ls", "explanation": "x" }));
        assert_eq!((done.code, done.out.trim()), (Some(0), "{\"continue\":true}"), "{}", done.whole());
    }
}
