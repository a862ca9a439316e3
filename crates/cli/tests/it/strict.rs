//! `agent.approvals.strict`: answers in the memory of the process that asks.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::daemon::Serving;
use super::run_client::program;
use super::support::{Done, ModelServer, User, done, until};

const STRICT: &str = "agent: {approvals: {strict: true}}\n";

/// A call that a human is asked about, with an id of its own.
fn asked(user: &User) -> Value {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let id = format!("toolu_0123456789{:06}", CALLS.fetch_add(1, Ordering::Relaxed));
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_use_id": id, "tool_input": { "command": "eval \"$PLAN\"" },
    })
}

fn hook(user: &User) -> Done {
    user.feed(&["hook", "claude"], asked(user).to_string())
}

fn code(user: &User) -> String {
    let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
    list[0]["code"].as_str().unwrap().to_owned()
}

#[track_caller]
fn refused(done: &Done) {
    assert_eq!(done.code, Some(2), "{}", done.whole());
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

#[test]
fn answers_live_in_the_daemon_end_with_it_and_are_on_record() {
    let user = User::with_config(STRICT);
    let serving = Serving::start(&user);
    refused(&hook(&user));
    let code = code(&user);
    user.run(&["allow-once", &code]).succeeded();
    passes(&hook(&user));
    refused(&hook(&user));
    let open = self::code(&user);
    user.run(&["allow-once", &open]).succeeded();
    let trail = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert_eq!(trail.matches("approval.answered").count(), 2, "{trail}");
    user.run(&["audit", "verify"]).succeeded();
    // What was allowed and not used yet is gone with the daemon.
    serving.stop();
    refused(&hook(&user));
    let serving = Serving::start(&user);
    refused(&hook(&user));
    let gone = user.run(&["approvals", "show", &open]);
    assert!(gone.code == Some(1) && gone.err.contains("there is no approval"), "{}", gone.whole());
    serving.stop();
    let none = user.run(&["approvals", "list"]).succeeded();
    assert!(none.err.contains("no process is running that asks"), "{}", none.whole());
}

#[test]
fn rows_of_the_database_answer_nothing() {
    let user = User::new();
    refused(&hook(&user));
    user.run(&["allow-once", &code(&user)]).succeeded();
    user.configure(STRICT);
    refused(&hook(&user));
    let serving = Serving::start(&user);
    refused(&hook(&user));
    serving.stop();
    user.configure("{}");
    passes(&hook(&user));
}

/// A stand-in for an agent that knows the protocol and asks the desk itself.
#[test]
fn a_desk_tells_an_agent_nothing_and_takes_no_answer_from_it() {
    let user = User::with_config(STRICT);
    let serving = Serving::start(&user);
    refused(&hook(&user));
    let desks = user.path().join("data/backstop/daemon/desks");
    let script = format!(
        r#"python3 - {} <<'END'
import glob, json, os, socket, struct, sys
[desk] = glob.glob(sys.argv[1] + "/*.sock")
def by_a_child_that_ends(stream):
    child = os.fork()
    if child == 0:
        stream.connect(desk)
        os._exit(0)
    os.waitpid(child, 0)
def ask(request, connect=lambda stream: stream.connect(desk)):
    stream = socket.socket(socket.AF_UNIX)
    connect(stream)
    key = open(desk[:-5] + ".key").read()
    body = json.dumps({{"key": key, "request": request}}).encode()
    stream.sendall(struct.pack(">I", len(body)) + body)
    data = stream.makefile("rb").read()
    return data[4:].decode()
print(ask({{"list": {{"limit": 5}}}}))
print(ask({{"list": {{"limit": 5}}}}, by_a_child_that_ends))
os.setsid() if os.fork() == 0 else os._exit(0 * os.wait()[0])
print(ask({{"list": {{"limit": 5}}}}))
END"#,
        desks.display()
    );
    let client = program(&user, "claude", &script);
    let mut command = std::process::Command::new(client);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(user.work());
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let told = done(command.spawn().unwrap());
    let said = told.out.matches("is for people, and this was started from inside of an agent").count();
    assert_eq!(said, 3, "{}", told.whole());
    assert!(told.out.contains("whoever connected is gone"), "{}", told.whole());
    assert!(!told.out.contains(&code(&user)), "{}", told.whole());
    assert_eq!(
        user.run(&["approvals", "list", "--json"]).succeeded().json()[0]["state"]["status"],
        "unattended"
    );
    serving.stop();
}

/// Landlock keeps nothing from connecting to a socket before its version 9. What is asked there without the key that lies
/// beside it, which can't be read from inside, is not heard, whatever hides where it comes from.
#[test]
fn who_is_behind_walls_can_not_ask_a_desk() {
    let user = User::with_config(STRICT);
    let serving = Serving::start(&user);
    refused(&hook(&user));
    let desks = user.path().join("data/backstop/daemon/desks");
    let is_socket = |path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "sock");
    let desk = std::fs::read_dir(&desks).unwrap().map(|entry| entry.unwrap().path()).find(is_socket).unwrap();
    let ask = r#"
import json, socket, struct, sys
desk = sys.argv[1]
try:
    key = open(desk[:-5] + ".key").read()
except OSError as error:
    print("no key")
    key = "guessed"
stream = socket.socket(socket.AF_UNIX)
stream.connect(desk)
print("connected")
body = json.dumps({"key": key, "request": {"list": {"limit": 5}}}).encode()
stream.sendall(struct.pack(">I", len(body)) + body)
print(stream.makefile("rb").read()[4:].decode())"#;
    let script = user.path().join("ask.py");
    std::fs::write(&script, ask).unwrap();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new("setsid");
        command.args(["--wait"]).args(words).arg("python3").arg(&script).arg(&desk);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").current_dir(user.work());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        done(command.spawn().unwrap())
    };
    let hidden = desks.parent().unwrap().to_str().unwrap();
    for tier in ["--keep-files", "--mount-walls"] {
        let told = run(&[super::support::BACKSTOP, "confined", tier, "--hidden", hidden, "--"]);
        assert!(told.out.starts_with("no key\n"), "{tier}: {}", told.whole());
        assert!(!told.out.contains(&code(&user)), "{tier}: {}", told.whole());
        match tier {
            "--mount-walls" => assert!(!told.out.contains("connected"), "{}", told.whole()),
            _ => assert!(told.out.contains("does not know the key"), "{}", told.whole()),
        }
    }
    serving.stop();
}

#[test]
fn what_an_agent_asks_is_answered_at_its_own_desk_and_granted_in_its_memory() {
    let user = User::new();
    let call = json!({"tool_calls": [{"name": "exec", "arguments": {"command": r#"eval "$PLAN" || true"#}}]});
    let model = ModelServer::start(&user, &format!("{call}\n{call}\n{}\n", json!({"text": "finished"})));
    let config = model.config("").replacen("agent: {", "agent: { approvals: {strict: true},", 1);
    user.configure(&config);
    let child = user.command(&["agent", "-m", "go", "--wait-approvals"]).spawn().unwrap();
    let code = until("a question", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list[0]["code"].as_str().map(str::to_owned)
    });
    let answered = user.run(&["approvals", "approve", &code, "--always"]).succeeded();
    assert!(answered.err.contains("granted until"), "{}", answered.whole());
    assert_eq!(done(child).succeeded().out, "finished\n", "the second call is covered by the grant");
    let none = user.run(&["grants", "list", "--all", "--json"]).succeeded().json();
    assert_eq!(none, json!([]), "it ended with the process");
}
