//! Answers that put something in the place of a call: the own agent runs the changed call, or takes the result; a client is told the changed call.

use std::process::Child;

use serde_json::{Value, json};

use super::support::{Done, ModelServer, User, done, until};

/// A call that a human is asked about, and that does nothing but write a file.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;
/// The same, with another file.
const ASKED_TOO: &str = r#"eval "$PLAN" || true; echo changed > changed.txt"#;

/// An agent that makes the call, and whose model wants a result that matches.
fn scene(command: &str, expected: &str, more: &str) -> (User, ModelServer, Child) {
    let user = User::new();
    let call = json!({"tool_calls": [{"name": "exec", "arguments": {"command": command}}]});
    let told = json!({"expect": {"tool_result_matches": expected}, "text": "finished"});
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    user.configure(&model.config(more));
    let child = user.command(&["agent", "-m", "go", "--wait-approvals"]).spawn().unwrap();
    (user, model, child)
}

/// The code of the question that waits.
fn waiting(user: &User) -> String {
    until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list[0]["code"].as_str().map(str::to_owned)
    })
}

fn edit(user: &User, code: &str, arguments: &Value) -> Done {
    user.feed(&["approvals", "edit", code, "--arguments", "-"], arguments.to_string())
}

/// Allows the call into which the one of this question was changed.
fn allow_next(user: &User, known: &str) {
    let next = until("another question", || Some(waiting(user)).filter(|code| code != known));
    user.run(&["approvals", "approve", &next]).succeeded();
}

/// The transcript of the only session.
fn transcript(user: &User) -> String {
    let sessions = user.run(&["sessions", "list", "--json"]).succeeded().json();
    user.run(&["sessions", "show", sessions[0]["id"].as_str().unwrap(), "--json"]).succeeded().out
}

fn wrote(user: &User, file: &str) -> bool {
    user.work().join(file).exists()
}

#[track_caller]
fn ends(model: ModelServer, child: Child) {
    let ended = done(child).succeeded();
    assert_eq!(ended.out, "finished\n", "{}", ended.whole());
    assert_eq!(model.stop().code, Some(0), "the model was told what it expects");
}

#[test]
fn the_changed_call_runs_and_the_one_that_was_made_does_not() {
    let (user, model, child) = scene(ASKED, "a human changed the arguments of this call", "");
    let code = waiting(&user);
    let shown = user.run(&["approvals", "show", &code]).succeeded();
    assert!(
        shown.out.contains("answers: allow once, allow always, deny, edit, respond\n"),
        "{}",
        shown.whole()
    );
    let file = user.work().join("arguments.json");
    std::fs::write(&file, json!({"command": "echo changed > changed.txt"}).to_string()).unwrap();
    let name = file.to_str().unwrap();
    let answered = user.run(&["approvals", "edit", &code, "--arguments", name]).succeeded();
    assert!(
        answered.out.contains(": changed by ") && answered.out.contains("by the command line"),
        "{}",
        answered.whole()
    );
    ends(model, child);
    assert!(wrote(&user, "changed.txt") && !wrote(&user, "ran.txt"));
    assert!(!transcript(&user).contains("ran.txt"), "the call that was made is not kept");
    let shown = user.run(&["approvals", "show", &code, "--json"]).succeeded();
    assert!(!shown.out.contains("changed.txt") && !shown.out.contains("ran.txt"), "{}", shown.whole());
    // The same answer twice is fine, another one is refused, and told who was first.
    user.run(&["approvals", "edit", &code, "--arguments", name]).succeeded();
    for other in [
        user.run(&["approvals", "approve", &code]),
        user.run(&["approvals", "respond", &code, "--text", "none"]),
        edit(&user, &code, &json!({"command": "ls"})),
    ] {
        assert_eq!(other.code, Some(1), "{}", other.whole());
        assert!(other.err.contains("is already edited by "), "{}", other.whole());
    }
    let trail = user.trail();
    let answer = trail.iter().find(|entry| entry["kind"] == "approval.answered").unwrap();
    assert_eq!(answer["body"]["decision"], "edit", "{answer}");
    let child = trail.iter().find(|entry| entry["body"].get("editedFrom").is_some()).unwrap();
    let from = &child["body"]["editedFrom"];
    assert_eq!(
        (&from["approval"], &from["digest"]),
        (&answer["body"]["approval"], &answer["body"]["digest"])
    );
    assert!(from["by"].as_str().unwrap().ends_with("by the command line"), "{child}");
    assert!(child["body"]["judged"].is_string() && child["body"]["judged"] != from["digest"], "{child}");
    assert!(!trail.iter().any(|entry| entry.to_string().contains("changed.txt")), "no text in the trail");
}

#[test]
fn a_changed_call_that_is_asked_about_waits_for_an_answer_of_its_own() {
    let (user, model, child) = scene(ASKED, "a human changed", "");
    let code = waiting(&user);
    edit(&user, &code, &json!({ "command": ASKED_TOO })).succeeded();
    allow_next(&user, &code);
    ends(model, child);
    assert!(wrote(&user, "changed.txt") && !wrote(&user, "ran.txt"));
    let all = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
    let states: Vec<&Value> = all.as_array().unwrap().iter().map(|one| &one["state"]["status"]).collect();
    assert_eq!(states, ["used", "edited"], "{all}");
    assert_eq!(all[0]["editedFrom"]["approval"], all[1]["id"]);
    assert_ne!(all[0]["digest"], all[1]["digest"]);
    let grants = user.run(&["grants", "list", "--all", "--json"]).succeeded().json();
    assert_eq!(grants, json!([]));
}

#[test]
fn a_changed_call_that_is_stopped_stays_stopped() {
    let policy = "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_argument_patterns: {command: [forbidden]}}}]}}\n";
    let (user, model, child) = scene(ASKED, "the changed call was stopped: argument", policy);
    let code = waiting(&user);
    edit(&user, &code, &json!({"command": "echo forbidden > changed.txt"})).succeeded();
    ends(model, child);
    assert!(!wrote(&user, "changed.txt") && !wrote(&user, "ran.txt"));
}

#[test]
fn a_result_stands_in_the_place_of_the_call_and_is_judged_as_every_result() {
    // Put together, so that no scanner takes it for a real one.
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let (user, model, child) = scene(ASKED, "42 files, and [^g]", "");
    let code = waiting(&user);
    let empty = user.run(&["approvals", "respond", &code, "--text", ""]);
    assert!(empty.code == Some(1) && empty.err.contains("is not empty"), "{}", empty.whole());
    let text = format!("42 files, and {token}");
    let answered = user.feed(&["approvals", "respond", &code, "--text", "-"], text).succeeded();
    assert!(answered.out.contains("answered with a result by "), "{}", answered.whole());
    ends(model, child);
    assert!(!wrote(&user, "ran.txt"));
    assert!(!transcript(&user).contains("ran.txt"), "the call that was made is not kept");
    let trail = user.trail();
    let receipt = |entry: &&Value| entry["body"]["approval"]["substitute"] == "respond";
    assert!(trail.iter().any(|entry| receipt(&entry)), "the record says who gave the result");
}

#[test]
fn arguments_are_one_object_and_masks_no_values() {
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let command = format!("eval \"$PLAN\" || true; echo {token} > ran.txt");
    let (user, model, child) = scene(&command, "a human changed", "");
    let code = waiting(&user);
    let shown = user.run(&["approvals", "show", &code, "--json"]).succeeded().json();
    let shown = shown["preview"]["command"].as_str().unwrap().to_owned();
    assert!(shown.contains("****") && !shown.contains(&token), "{shown}");
    for wrong in [json!(["ls"]), json!("ls")] {
        let refused = edit(&user, &code, &wrong);
        assert!(refused.err.contains("holds no JSON object"), "{}", refused.whole());
    }
    let short = edit(&user, &code, &json!({"command": "echo ****** > changed.txt"}));
    assert!(short.code == Some(1) && short.err.contains("a mask is no value"), "{}", short.whole());
    let moved = edit(&user, &code, &json!({"command": shown.replace("ran.txt", "changed.txt")}));
    assert!(moved.code == Some(1) && moved.err.contains("a mask is no value"), "{}", moved.whole());
    edit(&user, &code, &json!({"command": shown, "workdir": "."})).succeeded();
    allow_next(&user, &code);
    ends(model, child);
    let said = std::fs::read_to_string(user.work().join("ran.txt")).unwrap();
    assert_eq!(said.trim(), token, "the secret went back to where it stood");
}

#[test]
fn a_call_is_changed_at_the_desk_of_whoever_asks() {
    let user = User::new();
    let call = json!({"tool_calls": [{"name": "exec", "arguments": {"command": ASKED}}]});
    let told = json!({"expect": {"tool_result_matches": "a human changed"}, "text": "finished"});
    let model = ModelServer::start(&user, &format!("{call}\n{told}\n"));
    user.configure(&model.config("").replacen("agent: {", "agent: { approvals: {strict: true},", 1));
    let child = user.command(&["agent", "-m", "go", "--wait-approvals"]).spawn().unwrap();
    let code = waiting(&user);
    edit(&user, &code, &json!({ "command": ASKED_TOO })).succeeded();
    allow_next(&user, &code);
    ends(model, child);
    assert!(wrote(&user, "changed.txt") && !wrote(&user, "ran.txt"));
}

/// The hook of a client that waits for an answer about a call of this tool.
fn hook(user: &User, client: &str, tool: &str) -> Child {
    let call = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": tool,
        "permission_mode": "default", "tool_use_id": "toolu_0123456789abcdef",
        "tool_input": { "command": ASKED, "description": "a marker" },
    });
    let path = user.path().join("event.json");
    std::fs::write(&path, call.to_string()).unwrap();
    user.command(&["hook", client]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap()
}

const WAITS: &str = "agent: {approvals: {wait: true}}\n";

#[track_caller]
fn not_offered(refused: &Done, word: &str) {
    let told = format!("can't be answered with {word}");
    assert!(refused.code == Some(1) && refused.err.contains(&told), "{}", refused.whole());
}

#[test]
fn a_client_is_told_the_changed_call_in_the_answer_that_lets_it_pass() {
    let user = User::with_config(WAITS);
    for client in ["claude", "codex"] {
        let child = hook(&user, client, "Bash");
        let code = waiting(&user);
        not_offered(&user.run(&["approvals", "respond", &code, "--text", "none"]), "respond");
        let changed = json!({ "command": "echo changed", "description": "another marker" });
        edit(&user, &code, &changed).succeeded();
        let said = done(child).succeeded().json();
        assert_eq!(said["hookSpecificOutput"]["updatedInput"], changed, "{client}: {said}");
    }
    let trail = user.trail();
    let children = trail.iter().filter(|entry| entry["body"].get("editedFrom").is_some());
    for child in children {
        assert_ne!(child["body"]["judged"], child["body"]["editedFrom"]["digest"], "{child}");
    }
    assert!(!trail.iter().any(|entry| entry.to_string().contains("echo changed")), "no text in the trail");
}

#[test]
fn a_client_runs_a_changed_call_only_once_it_was_allowed_for_itself() {
    let user = User::with_config(WAITS);
    let child = hook(&user, "claude", "Bash");
    let code = waiting(&user);
    edit(&user, &code, &json!({ "command": ASKED_TOO })).succeeded();
    allow_next(&user, &code);
    let said = done(child).succeeded().json();
    assert_eq!(said["hookSpecificOutput"]["updatedInput"], json!({ "command": ASKED_TOO }), "{said}");
}

#[test]
fn a_client_is_refused_what_stops_the_changed_call() {
    let policy = "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_argument_patterns: {command: [forbidden]}}}]}}\n";
    let user = User::with_config(&format!("{WAITS}{policy}"));
    let child = hook(&user, "claude", "Bash");
    let code = waiting(&user);
    edit(&user, &code, &json!({ "command": "echo forbidden" })).succeeded();
    let said = done(child);
    assert!(said.code == Some(2) && said.err.contains("the changed call was stopped: "), "{}", said.whole());
    let said = said.json();
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
    assert!(said["hookSpecificOutput"].get("updatedInput").is_none(), "{said}");
}

#[test]
fn a_client_that_takes_no_notice_of_changed_arguments_is_handed_none() {
    let user = User::with_config(WAITS);
    let child = hook(&user, "qwen", "run_shell_command");
    let code = waiting(&user);
    not_offered(&user.run(&["approvals", "respond", &code, "--text", "none"]), "respond");
    not_offered(&edit(&user, &code, &json!({ "command": "echo changed" })), "edit");
    user.run(&["approvals", "deny", &code]).succeeded();
    let said = done(child);
    assert_eq!(said.code, Some(2), "{}", said.whole());
    let said = said.json();
    assert_eq!(said["hookSpecificOutput"]["permissionDecision"], "deny", "{said}");
}
