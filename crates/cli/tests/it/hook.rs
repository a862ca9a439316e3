//! `backstop hook` as a client starts it: what was recorded, what breaks, and who is asked.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use backstop::clients::{Client, Moment, Payload, respond};
use backstop::engine::Attendance;
use backstop::hooks::{RunId, SessionId, ToolCallId};
use backstop::store::{SqliteStore, Store, Timestamp, ToolDecision};
use serde_json::{Value, json};

use super::support::{Done, User, done, last_code, until};

/// A call that a human is asked about, and that does nothing but write a file.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;

/// A policy that no shell command passes.
const NO_SHELL: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [exec]}}]}}\n";

struct Fixture {
    client: Client,
    event: String,
    path: PathBuf,
    bytes: Vec<u8>,
}

/// What the real clients sent.
fn fixtures() -> Vec<Fixture> {
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/src/adapters");
    let mut found = Vec::new();
    for client in Client::ALL {
        for file in std::fs::read_dir(adapters.join(client.name()).join("fixtures")).into_iter().flatten() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap();
            let dotted = ["tool.execute.before", "tool.execute.after", "chat.message", "shell.env"];
            let event = match (client, dotted.iter().find(|event| name.starts_with(**event))) {
                (Client::OpenCode, Some(event)) => (*event).to_owned(),
                (Client::OpenCode, None) => name.to_owned(),
                _ => name.split('.').next().unwrap().to_owned(),
            };
            found.push(Fixture { client, event, bytes: std::fs::read(&path).unwrap(), path });
        }
    }
    assert!(found.len() > 160, "the fixtures were not found");
    found
}

fn hook(user: &User, client: &str, payload: &Value) -> Done {
    user.feed(&["hook", client], payload.to_string())
}

fn call(user: &User, command: &str) -> Value {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "permission_mode": "default",
        "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": command },
    })
}

/// Refused in every way at once: JSON on stdout, a reason on stderr, exit code 2.
#[track_caller]
fn refused(done: &Done, why: &str) {
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains(why), "`{why}` is not in {}", done.whole());
    let said = done.json();
    assert!(said.is_object(), "{}", done.whole());
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

#[tokio::test]
async fn what_the_clients_sent_is_answered_as_the_adapters_say() {
    let user = User::new();
    let backstop = backstop::Backstop::builder().home(user.path().to_str().unwrap()).build().await.unwrap();
    for fixture in fixtures() {
        let event =
            fixture.client.read(&Payload::parse(&fixture.bytes).unwrap(), Some(&fixture.event)).unwrap();
        let reply = respond(backstop.engine(), &event, &Attendance::Nobody).await;
        let args = ["hook", fixture.client.name(), &fixture.event];
        let done = user.feed(&args, fixture.bytes.clone());
        let place = fixture.path.display();
        assert_eq!(done.code, Some(i32::from(reply.answer.exit_code())), "{place}: {}", done.whole());
        assert_eq!(done.out.as_bytes(), reply.answer.stdout(), "{place}: {}", done.whole());
    }
}

#[test]
fn without_a_configuration_that_loads_no_recorded_call_runs() {
    let user = User::with_config("guards: {no_such_guard: {}}\n");
    let mut calls = 0;
    for fixture in fixtures() {
        let event =
            fixture.client.read(&Payload::parse(&fixture.bytes).unwrap(), Some(&fixture.event)).unwrap();
        if !matches!(event.moment, Moment::ToolCall(_)) {
            continue;
        }
        calls += 1;
        let done = user.feed(&["hook", fixture.client.name(), &fixture.event], fixture.bytes.clone());
        match fixture.client {
            // They read the exit code and nothing else; what stands on stdout would be text for the model.
            Client::Windsurf | Client::Kiro | Client::Droid | Client::Devin | Client::Kimi => {
                assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{}", done.whole());
                assert!(done.err.contains("no_such_guard"), "{}", done.whole());
            }
            _ => refused(&done, "no_such_guard"),
        }
        assert!(done.err.contains("backstop.yaml"), "{}", done.whole());
    }
    assert!(calls > 30);
}

#[test]
fn policy_decides_and_the_decision_is_in_the_audit_trail() {
    let user = User::with_config(NO_SHELL);
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    let read = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Read",
        "tool_input": { "file_path": user.work().join("a.txt") },
    });
    passes(&hook(&user, "claude", &read));
    let trail = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert!(trail.contains("house-rules") && trail.contains("before_tool_call"), "{trail}");
    user.run(&["audit", "verify"]).succeeded();
}

#[test]
fn a_repository_is_judged_by_its_own_file_too() {
    let user = User::new();
    let project = user.path().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("backstop.yaml"), NO_SHELL).unwrap();
    let mut event = call(&user, "ls");
    passes(&hook(&user, "claude", &event));
    event["cwd"] = json!(project);
    refused(&hook(&user, "claude", &event), "deny_tools");
}

#[test]
fn what_is_no_event_is_refused() {
    let user = User::new();
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(9 * 1024 * 1024));
    let unknown = json!({"hook_event_name": "BeforeEverything", "session_id": "s"}).to_string();
    let cases: [(&[u8], &str); 7] = [
        (b"", "nothing on stdin"),
        (b" \n", "nothing on stdin"),
        (b"{\"hook_event_name\": \"PreToolUse\", ", "not valid JSON"),
        (b"{\"a\": \"\xff\xfe\"}", "UTF-8"),
        (b"[]", "not a JSON object"),
        (large.as_bytes(), "more than"),
        (unknown.as_bytes(), "`BeforeEverything` is no event"),
    ];
    for (input, why) in cases {
        refused(&user.feed(&["hook", "claude"], input), why);
    }
    refused(&user.feed(&["hook", "cloude"], "{}"), "did you mean `claude`?");
    refused(&user.feed(&["hook"], "{}"), "command line is wrong");
    refused(&user.feed(&["hook", "claude", "PreToolUse", "more"], "{}"), "command line is wrong");
    refused(
        &user.feed(&["hook", "claude", "--config", "missing.yaml"], call(&user, "ls").to_string()),
        "missing.yaml",
    );
}

#[test]
fn an_event_that_does_not_come_is_refused_before_the_client_gives_up() {
    let user = User::new();
    let start = Instant::now();
    let mut child = user.command(&["hook", "claude", "SessionEnd"]).stdin(Stdio::piped()).spawn().unwrap();
    let stdin = child.stdin.take();
    let done = done(child);
    refused(&done, "did not come within");
    assert!(start.elapsed() < Duration::from_secs(9), "the client waits 1.5 s: {:?}", start.elapsed());
    drop(stdin);
}

#[test]
fn an_answer_that_nobody_can_read_is_a_refusal() {
    let user = User::new();
    let event = json!({
        "event": "tool.execute.before", "directory": user.work(), "output": { "args": { "command": "ls" } },
        "input": { "tool": "bash", "sessionID": "ses_1", "callID": "call_1" },
    });
    assert_eq!(hook(&user, "opencode", &event).succeeded().json(), json!({ "decision": "pass" }));
    let path = user.path().join("event.json");
    std::fs::write(&path, event.to_string()).unwrap();
    let stdin = || Stdio::from(std::fs::File::open(&path).unwrap());
    let mut broken = user.command(&["hook", "opencode"]).stdin(stdin()).spawn().unwrap();
    drop(broken.stdout.take());
    let broken = done(broken);
    assert_eq!(broken.code, Some(2), "{}", broken.whole());
    let away =
        done(user.command(&["hook", "opencode"]).stdin(stdin()).stdout(Stdio::null()).spawn().unwrap());
    assert_eq!(away.code, Some(2), "{}", away.whole());
    assert!(away.err.contains("could not write its answer"), "{}", away.whole());
}

#[test]
fn without_a_place_for_the_audit_trail_no_call_runs() {
    let user = User::new();
    let file = user.path().join("file");
    std::fs::write(&file, "").unwrap();
    let run = || {
        let [home, operator, data] =
            [user.path().to_path_buf(), user.path().join("config/backstop"), file.join("backstop")];
        let [home, operator, data] = [&home, &operator, &data].map(|path| path.to_str().unwrap());
        let folders = ["--home", home, "--operator", operator, "--data", data];
        let mut command = user.command(&[&["hook", "claude"][..], &folders].concat());
        let input = user.path().join("event.json");
        std::fs::write(&input, call(&user, "ls").to_string()).unwrap();
        command.stdin(std::fs::File::open(input).unwrap());
        done(command.spawn().unwrap())
    };
    refused(&run(), "can't be");
    user.configure("audit: {enabled: false}\n");
    let without = run();
    assert_eq!(without.code, Some(2), "what a proxy decided can't be looked up: {}", without.whole());
}

#[test]
fn a_client_that_can_ask_is_handed_the_question() {
    let user = User::new();
    let asked = attended(&user, "claude", &call(&user, ASKED)).succeeded().json();
    assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask");
}

/// The trail says that the client asks, and that its user let it run once the client tells of the result.
#[test]
fn a_question_that_a_client_puts_to_its_own_user_is_told_as_that() {
    let user = User::new();
    let asks = || attended(&user, "claude", &call(&user, ASKED)).succeeded().json();
    assert_eq!(asks()["hookSpecificOutput"]["permissionDecision"], "ask");
    let decided = |user: &User| {
        let told = user.trail().into_iter().filter(|entry| entry["body"].get("approval").is_some());
        told.map(|entry| (entry["kind"].clone(), entry["body"].clone())).collect::<Vec<_>>()
    };
    let [(_, question), (kind, receipt)] = <[_; 2]>::try_from(decided(&user)).unwrap();
    assert_eq!(
        (&kind, &receipt["verdict"], receipt.get("blocked")),
        (&json!("receipt"), &json!("ask"), None)
    );
    assert_eq!(receipt["approval"]["hosted"], true);
    assert_eq!((receipt["approval"].get("resolution"), question.get("unattended")), (None, None));
    assert_eq!(question["hosted"], true);
    assert!(user.run(&["log", "--verdict", "block"]).succeeded().out.is_empty());
    let log = user.run(&["log", "--verdict", "ask"]).succeeded().out;
    assert!(log.contains("put to the user of Claude Code"), "{log}");
    let state = |user: &User| {
        let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
        (list[0]["code"].as_str().unwrap().to_owned(), list[0]["state"]["status"].clone())
    };
    let (code, status) = state(&user);
    assert_eq!(status, "unattended");
    let shown = user.run(&["approvals", "show", &code]).succeeded().out;
    assert!(shown.contains("put to the user of claude"), "{shown}");
    // The client's user says yes, and the client runs the tool.
    let mut result = call(&user, ASKED);
    result["hook_event_name"] = json!("PostToolUse");
    result["tool_response"] = json!({ "stdout": "done" });
    attended(&user, "claude", &result).succeeded();
    assert_eq!(state(&user), (code.clone(), json!("used")));
    let again = user.run(&["allow-once", &code]);
    assert_eq!(again.code, Some(1), "{}", again.whole());
    let log = user.run(&["log", "--kind", "approval.ended"]).succeeded().out;
    assert!(log.contains("the user of Claude Code let it run"), "{log}");
    // What is asked for the same once more is another question.
    assert_eq!(asks()["hookSpecificOutput"]["permissionDecision"], "ask");
    assert_eq!(state(&user).1, "unattended");
}

/// A hook in an environment that says that somebody attends.
fn start_attended(user: &User, client: &str, payload: &Value) -> std::process::Child {
    let path = user.path().join("event.json");
    std::fs::write(&path, payload.to_string()).unwrap();
    let mut command = user.command(&["hook", client]);
    command.env("CLAUDE_CODE_SESSION_ATTENDED", "1").env("CLAUDE_CODE_ENTRYPOINT", "cli");
    command.stdin(std::fs::File::open(path).unwrap()).spawn().unwrap()
}

fn attended(user: &User, client: &str, payload: &Value) -> Done {
    done(start_attended(user, client, payload))
}

#[test]
fn an_attended_client_waits_for_certain_people_and_asks_its_user_where_anybody_may_answer() {
    let user = User::new();
    let uid = rustix::process::getuid().as_raw();
    let routed =
        format!("approvals: {{people: {{ann: {{account: \"{uid}\"}}}}, routes: [{{ask: [ann]}}]}}\n");
    let waits = "agent: {approvals: {wait: true}}\n";
    user.configure(&routed);
    refused(&attended(&user, "claude", &call(&user, ASKED)), "a person can allow");
    user.configure(&format!("{routed}{waits}"));
    for (answer, code) in [("approve", 0), ("deny", 2)] {
        let child = start_attended(&user, "claude", &call(&user, ASKED));
        let question = until("a question", || {
            let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
            let row = list.as_array().unwrap().iter().find(|row| row["state"]["status"] == "pending");
            row.map(|row| row["code"].as_str().unwrap().to_owned())
        });
        user.run(&["approvals", answer, &question]).succeeded();
        let told = done(child);
        assert_eq!(told.code, Some(code), "{}", told.whole());
        assert!(!told.out.contains("\"ask\""), "{}", told.whole());
    }
    user.configure(waits);
    let asked = attended(&user, "claude", &call(&user, ASKED)).succeeded().json();
    assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask");
}

#[test]
fn a_client_that_nobody_attends_is_not_told_to_ask() {
    let user = User::new();
    // Nothing is known of who attends; then somebody does, and the mode asks nobody, or the client can't say.
    refused(&hook(&user, "claude", &call(&user, ASKED)), "a person can allow");
    for mode in ["bypassPermissions", "dontAsk", "auto"] {
        let mut payload = call(&user, ASKED);
        payload["permission_mode"] = json!(mode);
        refused(&attended(&user, "claude", &payload), "a person can allow");
    }
    let copilot = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": { "command": ASKED } });
    refused(&attended(&user, "copilot", &copilot), "a person can allow");
    user.configure("agent: {approvals: {attended: true}}\n");
    let asked = hook(&user, "copilot", &copilot).succeeded().json();
    assert_eq!(asked["hookSpecificOutput"]["permissionDecision"], "ask", "the operator says it");
}

#[test]
fn clients_that_nobody_attends_wait_for_the_queue_where_that_is_configured() {
    let user = User::with_config("agent: {approvals: {wait: true}}\n");
    let copilot = json!({ "hook_event_name": "PreToolUse", "session_id": "s", "cwd": user.work(), "tool_name": "Bash", "tool_input": { "command": ASKED } });
    for (client, payload) in [("claude", call(&user, ASKED)), ("copilot", copilot)] {
        let path = user.path().join("event.json");
        std::fs::write(&path, payload.to_string()).unwrap();
        let child =
            user.command(&["hook", client]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap();
        let code = until("a question", || {
            let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
            let row =
                list.as_array().unwrap().iter().find(|row| row["state"]["status"] == "pending").cloned();
            row.map(|row| row["code"].as_str().unwrap().to_owned())
        });
        user.run(&["approvals", "approve", &code]).succeeded();
        passes(&done(child));
    }
}

#[test]
fn a_call_that_nobody_could_be_asked_about_can_be_allowed_once() {
    let user = User::new();
    let event = call(&user, ASKED);
    let first = hook(&user, "codex", &event);
    refused(&first, "a person can allow this exact call once");
    user.run(&["allow-once", &last_code(&user)]).succeeded();
    refused(&hook(&user, "codex", &call(&user, &format!("{ASKED} "))), "a person can allow");
    passes(&hook(&user, "codex", &event));
    refused(&hook(&user, "codex", &event), "a person can allow");
}

#[test]
fn an_operator_who_answers_from_elsewhere_is_waited_for() {
    let user = User::with_config("agent: {approvals: {wait: true}}\n");
    for (answer, code) in [("approve", 0), ("deny", 2)] {
        let path = user.path().join("event.json");
        std::fs::write(&path, call(&user, ASKED).to_string()).unwrap();
        let child =
            user.command(&["hook", "codex"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap();
        let approval = until("a question", || {
            let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
            list.as_array().unwrap().first().cloned()
        });
        user.run(&["approvals", answer, approval["code"].as_str().unwrap()]).succeeded();
        let done = done(child);
        assert_eq!(done.code, Some(code), "{}", done.whole());
    }
}

#[test]
fn a_signal_ends_in_a_refusal() {
    let user = User::with_config("agent: {approvals: {wait: true}}\n");
    let path = user.path().join("event.json");
    std::fs::write(&path, call(&user, ASKED).to_string()).unwrap();
    let child = user.command(&["hook", "codex"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap();
    until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        (!list.as_array().unwrap().is_empty()).then_some(())
    });
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    refused(&done(child), "told to end");
    let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
    assert!(list.as_array().unwrap().is_empty(), "nobody is asked any more: {list}");
}

#[test]
fn a_yes_to_a_hook_that_was_killed_counts_for_nothing_unless_it_is_for_a_later_call() {
    let user = User::with_config("agent: {approvals: {wait: true}}\n");
    let path = user.path().join("event.json");
    std::fs::write(&path, call(&user, ASKED).to_string()).unwrap();
    let mut child =
        user.command(&["hook", "codex"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap();
    let asked = until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().first().cloned()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let code = asked["code"].as_str().unwrap();
    let shown = user.run(&["approvals", "show", code]).succeeded();
    assert!(shown.out.contains("nobody waits any more"), "{}", shown.whole());
    let told = user.run(&["approvals", "approve", code]);
    assert_ne!(told.code, Some(0));
    assert!(told.err.contains("nobody waits") && told.err.contains("allow-once"), "{}", told.whole());
    let told = user.run(&["allow-once", code]).succeeded().whole();
    assert!(told.contains("for one later call"), "{told}");
    passes(&hook(&user, "codex", &call(&user, ASKED)));
}

#[tokio::test]
async fn what_a_proxy_decided_about_a_call_holds_at_its_tool() {
    let user = User::new();
    let event = call(&user, "ls");
    passes(&hook(&user, "claude", &event));
    let store: Box<dyn Store> = Box::new(SqliteStore::new(user.path().join("data/backstop/backstop.db")));
    let decided = ToolDecision::Deny { reason: "the answer was withdrawn".into() };
    let id = ToolCallId::new("toolu_0123456789abcdef");
    let (session, run) = (SessionId::new("proxy"), RunId::new("r-1"));
    store.put_decisions(&session, &run, vec![(id, decided)], Timestamp::now()).await.unwrap();
    refused(&hook(&user, "claude", &event), "the answer was withdrawn");
}

#[test]
fn opencodes_plugin_gets_its_answers() {
    let user = User::with_config(NO_SHELL);
    if std::process::Command::new("node").arg("--version").output().is_err() {
        eprintln!("not tried: there is no node");
        return;
    }
    let template = include_str!("../../../clients/src/adapters/opencode/plugin.js");
    let program = json!(super::support::BACKSTOP).to_string();
    let folders = user.folders();
    let words: Vec<&str> =
        ["hook", "opencode"].into_iter().chain(folders.iter().map(|word| word.to_str().unwrap())).collect();
    let plugin = template
        .replace("\"@PROGRAM@\"", &program)
        .replace("\"@ARGUMENTS@\"", &json!(words).to_string())
        .replace("\"@TIMEOUT@\"", "30000");
    std::fs::write(user.work().join("backstop.mjs"), plugin).unwrap();
    let driver = r#"
import { Backstop } from "./backstop.mjs"
const hooks = await Backstop({ directory: process.cwd() })
for (const [tool, args] of [["bash", { command: "ls" }], ["read", { filePath: "a.txt" }]]) {
  try {
    await hooks["tool.execute.before"]({ tool, sessionID: "ses_1", callID: "call_" + tool }, { args })
    console.log(tool + " runs")
  } catch (error) { console.log(tool + " refused: " + error.message) }
}
"#;
    std::fs::write(user.work().join("driver.mjs"), driver).unwrap();
    let mut node = user.command(&[]);
    let mut command = std::process::Command::new("node");
    command.arg("driver.mjs").current_dir(user.work()).env_clear();
    command
        .envs(node.env("PATH", "/usr/local/bin:/usr/bin:/bin").get_envs().filter_map(|(k, v)| Some((k, v?))));
    let done = done(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()).succeeded();
    assert!(done.out.contains("bash refused: ") && done.out.contains("deny_tools"), "{}", done.whole());
    assert!(done.out.contains("read runs"), "{}", done.whole());
}

/// Each hook opens the database alone and reads its log, and none waits for the disk to have moved it.
#[test]
fn the_log_of_the_database_stays_short() {
    let user = User::new();
    let log = user.path().join("data/backstop/backstop.db-wal");
    let mut lengths = Vec::new();
    for number in 0..60 {
        // A question is a row of the database.
        let asked = hook(&user, "claude", &call(&user, &format!("{ASKED} # {number}")));
        assert!(asked.err.contains("approval needed"), "{}", asked.whole());
        lengths.push(std::fs::metadata(&log).map_or(0, |log| log.len()));
    }
    // The first one also writes all tables.
    assert!(lengths.iter().skip(1).all(|length| *length < 256 * 1024), "{lengths:?}");
    assert!(lengths.windows(2).any(|two| two[1] < two[0]), "it was never emptied: {lengths:?}");
    let verified = user.run(&["audit", "verify"]);
    assert_eq!(verified.code, Some(0), "{}", verified.whole());
}
