//! `backstop agent`, against `backstop model serve`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::approvals::open_calls;
use super::support::{ModelServer, User, done, interrupt, snapshot, until};

fn scene(script: &str) -> (User, ModelServer) {
    let user = User::new();
    let model = ModelServer::start(&user, script);
    user.configure(&model.config(""));
    (user, model)
}

#[test]
fn the_answer_is_on_stdout_and_the_rest_on_stderr() {
    let (user, _model) = scene(
        r#"{"text": "I write it.", "tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "a\n"}}]}
           {"text": "It is written."}"#,
    );
    let done = user.run(&["agent", "-m", "write a.txt"]).succeeded();
    snapshot!(done.whole(), @r"
    exit: 0
    --- stdout
    It is written.
    --- stderr
    I write it.
    -> write a.txt
    session [session]; `backstop agent --session [session]` goes on with it
    ");
    assert_eq!(std::fs::read_to_string(user.work().join("a.txt")).unwrap(), "a\n");
}

#[test]
fn every_wire_runs_an_agent() {
    for api in ["anthropic", "openai-chat", "openai-responses", "gemini"] {
        let (user, model) = scene(
            r#"{"text": "I write it.", "tool_calls": [{"name": "write", "arguments": {"path": "a.txt", "content": "a"}}]}
               {"text": "It is written."}"#,
        );
        user.configure(&model.config("").replace("api: anthropic", &format!("api: {api}")));
        let done = user.run(&["agent", "-m", "write a.txt"]).succeeded();
        assert_eq!(done.out.trim(), "It is written.", "{api}: {}", done.whole());
        assert_eq!(std::fs::read_to_string(user.work().join("a.txt")).unwrap(), "a", "{api}");
    }
}

#[test]
fn json_says_how_the_turn_ended() {
    let (user, _model) = scene(r#"{"text": "hello"}"#);
    let told = user.run(&["--json", "agent", "-m", "hi"]).succeeded().json();
    assert_eq!(told["outcome"], "answered");
    assert_eq!(told["text"], "hello");
    assert_eq!(told["iterations"], 1);
    assert!(told["session"].as_str().unwrap().starts_with("s-"));
}

#[test]
fn a_session_goes_on_in_another_process() {
    let (user, model) = scene(
        r#"{"text": "first"}
           {"expect": {"user_contains": "second"}, "text": "second"}
           {"expect": {"user_contains": "third"}, "text": "third"}"#,
    );
    let told = user.run(&["--json", "agent", "-m", "the first"]).succeeded().json();
    let session = told["session"].as_str().unwrap();
    user.run(&["agent", "--session", session, "-m", "the second"]).succeeded();
    let third = user.run(&["--json", "agent", "--resume", "-m", "the third"]).succeeded().json();
    assert_eq!(third["session"], session);
    let transcript = user.run(&["sessions", "show", session]).succeeded().out;
    for text in ["the first", "first", "the second", "second", "the third", "third"] {
        assert!(transcript.contains(text), "{transcript}");
    }
    assert_eq!(model.stop().code, Some(0));
}

#[test]
fn ctrl_c_ends_the_tool_and_leaves_the_transcript_whole() {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    let command = format!("sleep 613.{moment}");
    let script = serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {"command": command}}]});
    let (user, _model) = scene(&script.to_string());
    let child = user.command(&["agent", "-m", "wait"]).spawn().unwrap();
    let runs = || process_with(&format!("613.{moment}"));
    until("the command", || runs().then_some(()));
    interrupt(&child);
    let done = done(child);
    assert_eq!(done.code, Some(130), "{}", done.whole());
    assert!(done.out.is_empty() && done.err.contains("cancelled"), "{}", done.whole());
    until("the end of the command", || (!runs()).then_some(()));
    let sessions = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let session = sessions[0]["id"].as_str().unwrap();
    let transcript = user.run(&["sessions", "show", session, "--json"]).succeeded().json();
    assert_eq!(open_calls(&transcript), 0, "{transcript:#}");
}

/// Whether some process has this among its arguments, apart from the ones that were only told about it.
fn process_with(argument: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"sleep"))
            && words.any(|word| word == argument.as_bytes())
    })
}

#[test]
fn a_provider_that_fails_is_named() {
    let (user, _model) = scene(r#"{"fault": {"http_status": {"status": 401, "message": "no"}}}"#);
    let done = user.run(&["agent", "-m", "hi"]);
    assert_eq!(done.code, Some(1));
    assert!(done.err.contains("401") && done.err.contains("provider `scripted`"), "{}", done.whole());
}

#[test]
fn what_is_missing_is_said_before_anything_starts() {
    let user = User::new();
    snapshot!(user.run(&["agent", "-m", "hi"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: no model provider is chosen; the configuration has no `providers`
    hint: set `agent.provider`, or give `--provider`; `docs/configuration.md` shows an example
    ");
    user.configure("providers: {p: {api: anthropic, api_key_env: NO_SUCH_KEY}}\nagent: {model: m}\n");
    snapshot!(user.run(&["agent", "-m", "hi"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: the key of provider `p` is missing: the environment variable `NO_SUCH_KEY` is not set
    hint: export NO_SUCH_KEY=...
    ");
    snapshot!(user.run(&["agent", "-m", "hi", "--provider", "q"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: no provider is called `q`; there are `p`
    ");
    user.configure("providers: {p: {api: anthropic, base_url: 'http://127.0.0.1:9'}}\n");
    snapshot!(user.run(&["agent", "-m", "hi"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: no model of provider `p` is chosen
    hint: set `agent.model`, or give `--model`
    ");
    snapshot!(user.run(&["agent", "-m", "hi", "--model", "m", "--workspace", "nowhere"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: the workspace can't be used: cannot use `nowhere` as workspace: No such file or directory (os error 2)
    ");
    snapshot!(user.run(&["agent", "-m", "hi", "--model", "m", "--session", "s-none"]).whole(), @r"
    exit: 1
    --- stdout
    --- stderr
    error: there is no session `s-none`
    hint: `backstop sessions list` shows them
    ");
}

#[test]
fn a_turn_without_end_is_ended() {
    let user = User::new();
    let model = ModelServer::start(
        &user,
        r#"{"repeat": true, "tool_calls": [{"name": "read", "arguments": {"path": "a"}}]}"#,
    );
    user.configure(
        &model.config("").replace("model: scripted-model", "model: scripted-model, max_iterations: 2"),
    );
    let done = user.run(&["agent", "-m", "hi"]);
    assert_eq!(done.code, Some(1), "{}", done.whole());
    assert!(done.err.contains("limit of 2 model calls"), "{}", done.whole());
}

/// A token as its issuer makes them, put together here so that no file holds one.
fn token() -> String {
    ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"].concat()
}

/// Everything that is kept of the newest session.
fn kept(user: &User) -> String {
    let sessions = user.run(&["sessions", "list", "--json"]).succeeded().json();
    let session = sessions[0]["id"].as_str().unwrap();
    let transcript = user.run(&["sessions", "show", session, "--json"]).succeeded().out;
    transcript + &user.run(&["log", "--oldest-first", "--json"]).succeeded().out
}

#[test]
fn a_blocked_turn_ends_with_code_4_and_leaves_nothing_of_the_answer() {
    let user = User::new();
    let answer = serde_json::json!({"text": format!("The token is {}, keep it.", token())});
    let model = ModelServer::start(&user, &answer.to_string());
    user.configure(&model.config("guards: { secrets: { answers: block } }"));
    let done = user.run(&["agent", "-m", "which token is it?"]);
    assert_eq!(done.code, Some(4), "{}", done.whole());
    assert!(done.out.is_empty() && done.err.contains("secret/github_token"), "{}", done.whole());
    for text in [done.whole(), kept(&user)] {
        assert!(!text.contains(&token()) && !text.contains("The token is"), "{text}");
    }
}

#[test]
fn a_secret_in_a_file_is_redacted_before_the_model_reads_it_and_in_the_answer() {
    let user = User::new();
    let script = format!(
        "{}\n{}",
        serde_json::json!({"tool_calls": [{"name": "read", "arguments": {"path": "settings.txt"}}]}),
        serde_json::json!({"text": format!("It says {}.", token())}),
    );
    let model = ModelServer::start(&user, &script);
    user.configure(&model.config(""));
    std::fs::write(user.work().join("settings.txt"), format!("token: {}\n", token())).unwrap();
    let done = user.run(&["agent", "-m", "what does it say?"]).succeeded();
    assert_eq!(done.out, "It says [redacted:github_token].\n");
    let kept = kept(&user);
    assert!(kept.contains("[redacted:github_token]") && !kept.contains(&token()), "{kept}");
    assert!(!done.whole().contains(&token()));
}

#[test]
fn a_tool_gets_the_value_of_a_placeholder_and_nothing_else_does() {
    let user = User::new();
    let script = format!(
        "{}\n{}\n{}",
        serde_json::json!({"tool_calls": [{"name": "read", "arguments": {"path": "settings.txt"}}]}),
        serde_json::json!({"tool_calls": [{"name": "exec", "arguments": {
            "command": "printf %s {{secret:github_token:1}} | tee copy.txt"}}]}),
        serde_json::json!({"text": "done"}),
    );
    let model = ModelServer::start(&user, &script);
    user.configure(&model.config("guards: { secrets: { results: placeholder, restore_in: [exec] } }"));
    std::fs::write(user.work().join("settings.txt"), format!("token: {}\n", token())).unwrap();
    let done = user.run(&["agent", "--verbose", "full", "-m", "copy it"]).succeeded();
    assert_eq!(std::fs::read_to_string(user.work().join("copy.txt")).unwrap(), token(), "{}", done.whole());
    let kept = kept(&user);
    assert!(kept.contains("{{secret:github_token:1}}") && !kept.contains(&token()), "{kept}");
    assert!(!done.whole().contains(&token()), "{}", done.whole());
}

#[test]
fn what_is_typed_in_pieces_is_asked_about_as_the_line_it_makes() {
    let user = User::new();
    let calls: Vec<_> = [
        ("exec", serde_json::json!({"command": "bash --norc", "background": true})),
        ("process", typed("echo fine > fine.txt\n")),
        ("exec", serde_json::json!({"command": "while [ ! -e fine.txt ]; do sleep 0.05; done"})),
        ("process", typed("ev")),
        // Alone, this is harmless.
        ("process", typed("al \"$PLAN\" || true; echo ran > ran.txt\n")),
    ]
    .into_iter()
    .map(|(name, arguments)| serde_json::json!({"tool_calls": [{"name": name, "arguments": arguments}]}))
    .collect();
    let answer = serde_json::json!({"text": "done"});
    let script = calls.iter().chain([&answer]).map(|turn| format!("{turn}\n")).collect::<String>();
    let model = ModelServer::start(&user, &script);
    user.configure(&model.config(""));
    let told = user.run(&["agent", "-m", "go"]).succeeded();
    let asked = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    let asked = asked.as_array().unwrap();
    assert_eq!(asked.len(), 1, "{}\n{asked:#?}", told.whole());
    assert_eq!(asked[0]["toolName"], "process", "{asked:#?}");
    assert!(user.work().join("fine.txt").exists() && !user.work().join("ran.txt").exists());
}

#[test]
fn the_operator_can_let_the_agent_type_into_any_program() {
    let user = User::new();
    let turns = [
        serde_json::json!({"name": "exec", "arguments": {"command": "cat > got.txt", "background": true}}),
        serde_json::json!({"name": "process", "arguments": typed("yes\n")}),
        serde_json::json!({"name": "exec", "arguments": {"command": "while [ ! -s got.txt ]; do sleep 0.05; done"}}),
    ];
    let script = turns.map(|call| serde_json::json!({"tool_calls": [call]}).to_string()).join("\n");
    let model = ModelServer::start(&user, &format!("{script}\n{{\"text\": \"done\"}}\n"));
    let allow = "guards: {command_safety: {allow: [{rule: terminal.unknown-reader, reason: it answers}]}}\n";
    user.configure(&model.config(allow));
    user.run(&["agent", "-m", "go"]).succeeded();
    assert_eq!(std::fs::read_to_string(user.work().join("got.txt")).unwrap(), "yes\n");
}

fn typed(data: &str) -> serde_json::Value {
    serde_json::json!({"action": "write", "id": "p1", "data": data})
}
