//! The daemon: hooks that are answered by a `backstop serve` which is there, and what happens when it is not quite.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use super::support::{Done, User, done, hang_up, interrupt, until};

const NO_SHELL: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [exec]}}]}}\n";

/// A call that a human is asked about, and that does nothing but write a file.
const ASKED: &str = r#"eval "$PLAN" || true; echo ran > ran.txt"#;

fn socket(user: &User) -> PathBuf {
    user.path().join("data/backstop/daemon/hooks.sock")
}

/// A daemon, and where it says it listens.
pub(crate) struct Serving {
    child: Child,
    line: Value,
}

impl Serving {
    pub(crate) fn start(user: &User) -> Self {
        Self::with(user, &[])
    }

    fn with(user: &User, more: &[&str]) -> Self {
        let args = [&["serve", "--json", "--port", "0"], more].concat();
        let mut child = user.command(&args).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let line = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Self { child, line }
    }

    /// Has it read its configuration anew.
    pub(crate) fn hang_up(&self) {
        hang_up(&self.child);
    }

    pub(crate) fn stop(self) -> Done {
        interrupt(&self.child);
        done(self.child)
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// A call with an id of its own, as clients give each.
fn call(user: &User, command: &str) -> Value {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let id = format!("toolu_0123456789{:06}", CALLS.fetch_add(1, Ordering::Relaxed));
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_use_id": id, "tool_input": { "command": command },
    })
}

fn hook(user: &User, client: &str, payload: &Value) -> Done {
    user.feed(&["hook", client], payload.to_string())
}

#[track_caller]
fn refused(done: &Done, why: &str) {
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains(why), "`{why}` is not in {}", done.whole());
    assert!(done.json().is_object(), "{}", done.whole());
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

#[test]
fn a_daemon_judges_as_the_hook_alone_would_and_tells_of_it() {
    let user = User::with_config(NO_SHELL);
    let read = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Read",
        "tool_input": { "file_path": user.work().join("a.txt") },
    });
    let events = [call(&user, "ls"), read];
    let alone: Vec<Done> = events.iter().map(|event| hook(&user, "claude", event)).collect();
    let serving = Serving::start(&user);
    assert_eq!(serving.line["hooks"], json!(socket(&user)));
    for (event, alone) in events.iter().zip(&alone) {
        assert_eq!(hook(&user, "claude", event).whole(), alone.whole());
    }
    let told = serving.stop();
    assert!(told.err.contains("backstop: ") && told.err.contains("house-rules"), "{}", told.whole());
    let trail = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert_eq!(
        trail.matches("\"verdict\":\"block\"").count(),
        2,
        "once alone, once through the daemon: {trail}"
    );
    user.run(&["audit", "verify"]).succeeded();
}

#[test]
fn nothing_is_left_of_a_daemon_that_was_stopped() {
    let user = User::new();
    let serving = Serving::start(&user);
    let folder = socket(&user).parent().unwrap().to_path_buf();
    let mode = |path: &PathBuf| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&socket(&user))), (0o700, 0o600));
    assert_eq!(serving.stop().code, Some(0));
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 0);
    passes(&hook(&user, "claude", &call(&user, "ls")));
}

#[test]
fn what_a_killed_daemon_left_is_replaced_and_a_living_one_respected() {
    let user = User::with_config(NO_SHELL);
    Serving::start(&user).kill();
    assert!(socket(&user).exists());
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    let first = Serving::start(&user);
    assert_eq!(first.line["hooks"], json!(socket(&user)));
    let second = Serving::start(&user);
    assert_eq!(second.line["hooks"], Value::Null);
    let second = second.stop();
    assert!(second.err.contains("another daemon answers hooks"), "{}", second.whole());
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    let first = first.stop();
    assert!(first.err.contains("house-rules"), "it went on answering: {}", first.whole());
}

#[test]
fn a_repository_and_a_changed_file_hold_from_the_next_event_on() {
    let user = User::new();
    let project = user.path().join("project");
    std::fs::create_dir(&project).unwrap();
    let serving = Serving::start(&user);
    let there = || {
        let mut event = call(&user, "ls");
        event["cwd"] = json!(project);
        event
    };
    passes(&hook(&user, "claude", &there()));
    std::fs::write(project.join("backstop.yaml"), NO_SHELL).unwrap();
    refused(&hook(&user, "claude", &there()), "deny_tools");
    passes(&hook(&user, "claude", &call(&user, "ls")));
    user.configure(NO_SHELL);
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    user.configure("guards: {no_such_guard: {}}\n");
    refused(&hook(&user, "claude", &call(&user, "ls")), "no_such_guard");
    serving.stop();
}

#[test]
fn a_changed_rule_pack_holds_from_the_next_event_on() {
    let user = User::with_config("guards: {command_safety: {packs: [pack.json]}}\n");
    let pack = user.path().join("config/backstop/pack.json");
    std::fs::write(&pack, "[]").unwrap();
    let serving = Serving::start(&user);
    passes(&hook(&user, "claude", &call(&user, "ls")));
    std::fs::write(&pack, "not a pack").unwrap();
    refused(&hook(&user, "claude", &call(&user, "ls")), "pack.json");
    serving.stop();
}

#[test]
fn what_is_done_with_plugins_holds_from_the_next_event_on() {
    let user = User::new();
    let serving = Serving::start(&user);
    let folder = user.path().join("no-canvas");
    std::fs::create_dir(&folder).unwrap();
    let manifest = r#"{"id": "no-canvas", "version": "1", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
        "points": [{"point": "before_tool_call", "matcher": ["canvas"]}]}"#;
    std::fs::write(folder.join("backstop.plugin.json"), manifest).unwrap();
    std::fs::write(folder.join("hook.sh"), "echo 'no canvas here' >&2; exit 2\n").unwrap();
    let folder = folder.display().to_string();
    let is_refused = || {
        let mut event = call(&user, "");
        event["tool_name"] = json!("canvas");
        hook(&user, "claude", &event).whole().contains("no canvas here")
    };
    assert!(!is_refused());
    let told = user.run(&["plugins", "inspect", &folder, "--json"]).json();
    user.run(&["plugins", "install", &folder, "--yes", "--trust", told["hash"].as_str().unwrap()])
        .succeeded();
    assert!(is_refused());
    // Again and again, within whatever the clock of the file system tells apart, and with lists of one size.
    for _ in 0..3 {
        user.run(&["plugins", "disable", "no-canvas"]).succeeded();
        assert!(!is_refused());
        user.run(&["plugins", "enable", "no-canvas"]).succeeded();
        assert!(is_refused());
    }
    serving.stop().succeeded();
}

#[test]
fn a_reload_of_plugins_holds_from_the_next_event_on_though_the_list_names_the_same() {
    let user = User::with_config("plugins: {entries: {loads: {grants: {files: {write: ['${data}']}}}}}\n");
    let log = super::plugin_uses::chronicler(
        &user,
        "loads",
        "write('load'); api.on('before_tool_call', () => {});",
    );
    let serving = Serving::start(&user);
    let loads = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    // The proxy of the same server has them, too.
    for _ in 0..2 {
        passes(&hook(&user, "claude", &call(&user, "ls")));
        assert_eq!(loads(), 2, "what a policy has loaded it keeps");
    }
    // The command looks by itself whether they can be had, and the proxy has the next set by itself.
    user.run(&["plugins", "reload"]).succeeded();
    until("the next set of the proxy", || (loads() == 4).then_some(()));
    for _ in 0..2 {
        passes(&hook(&user, "claude", &call(&user, "ls")));
        assert_eq!(loads(), 5);
    }
    serving.stop().succeeded();
}

#[test]
fn a_hook_with_another_configuration_judges_alone() {
    let user = User::new();
    let serving = Serving::start(&user);
    let other = user.path().join("other.yaml");
    std::fs::write(&other, NO_SHELL).unwrap();
    let event = call(&user, "ls");
    passes(&hook(&user, "claude", &event));
    let args = ["hook", "claude", "--config", other.to_str().unwrap()];
    refused(&user.feed(&args, event.to_string()), "deny_tools");
    let told = serving.stop();
    assert!(!told.err.contains("house-rules"), "{}", told.whole());
}

/// Something that listens where a daemon would.
fn impostor(user: &User) -> UnixListener {
    let folder = socket(user).parent().unwrap().to_path_buf();
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    UnixListener::bind(socket(user)).unwrap()
}

/// Answers every connection with these bytes, until the user goes.
fn babble(listener: UnixListener, bytes: &'static [u8]) {
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(bytes);
            let mut rest = [0; 4096];
            while stream.read(&mut rest).is_ok_and(|read| read > 0 && bytes.is_empty()) {}
        }
    });
}

/// A word of this version of the protocol, whole, well-formed, and signed by nobody.
const CONSENT: &[u8] =
    b"BKST\0\x04\0\0\0\x42{\"answered\":{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":0,\"remark\":null}}\
      ................................";
/// The same of one that first says that it has the question.
const ACCEPTED_CONSENT: &[u8] = b"BKST\0\x04\0\0\0\x0a\"accepted\"................................\
      BKST\0\x04\0\0\0\x42{\"answered\":{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":0,\"remark\":null}}\
      ................................";

/// A key where a daemon's would lie, such as a killed one leaves.
fn key(user: &User) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let path = socket(user).with_extension("key");
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).unwrap();
    file.write_all(b"a key of before").unwrap();
}

#[test]
fn a_squatter_on_the_socket_is_not_believed() {
    for bytes in [CONSENT, ACCEPTED_CONSENT] {
        for has_key in [true, false] {
            let user = User::with_config(NO_SHELL);
            babble(impostor(&user), bytes);
            if has_key {
                key(&user);
            }
            let asked = hook(&user, "claude", &call(&user, "ls"));
            refused(&asked, "gives no answer");
            assert!(asked.err.contains("not signed"), "{}", asked.whole());
        }
    }
}

#[test]
fn a_variable_names_no_daemon_but_the_run_above() {
    let user = User::with_config(NO_SHELL);
    // A true daemon, of this user, with its key: but no run that has started the hook.
    let serving = Serving::start(&user);
    let named = |socket: &std::path::Path| {
        let path = user.path().join("event.json");
        std::fs::write(&path, call(&user, "ls").to_string()).unwrap();
        let mut command = user.command(&["hook", "claude"]);
        command.env("BACKSTOP_SOCKET", socket).stdin(std::fs::File::open(path).unwrap());
        done(command.spawn().unwrap())
    };
    refused(&named(&socket(&user)), "is not the daemon that belongs there");
    refused(&named(&user.work().join("nobody.sock")), "deny_tools");
    serving.stop();
}

#[test]
fn a_daemon_that_talks_nonsense_or_dies_is_a_refusal_or_whatever_the_operator_wants() {
    for bytes in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], b"BKST", CONSENT] {
        let user = User::new();
        babble(impostor(&user), bytes);
        refused(&hook(&user, "claude", &call(&user, "ls")), "gives no answer");
        user.configure("daemon: {on_failure: judge}\n");
        let alone = hook(&user, "claude", &call(&user, "ls"));
        passes(&alone);
        assert!(alone.err.contains("warning: the daemon at"), "{}", alone.whole());
        user.configure("daemon: {enabled: false}\n");
        assert_eq!(hook(&user, "claude", &call(&user, "ls")).whole(), "exit: 0\n--- stdout\n--- stderr\n");
    }
}

#[test]
fn a_daemon_that_hangs_is_a_refusal_before_the_client_gives_up() {
    let user = User::new();
    babble(impostor(&user), b"");
    let event = json!({ "hook_event_name": "SessionEnd", "session_id": "s-1", "cwd": user.work() });
    let ended = hook(&user, "claude", &event);
    assert!(ended.err.contains("gives no answer") || ended.err.contains("took longer"), "{}", ended.whole());
    refused(&hook(&user, "claude", &call(&user, "ls")), "gives no answer");
}

#[test]
fn a_daemon_of_another_version_is_not_asked() {
    let user = User::with_config(NO_SHELL);
    babble(impostor(&user), b"BKST\0\x63\0\0\0\0");
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
}

#[test]
fn a_socket_that_others_could_have_made_is_not_trusted() {
    let user = User::new();
    babble(impostor(&user), CONSENT);
    let folder = socket(&user).parent().unwrap().to_path_buf();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    refused(&hook(&user, "claude", &call(&user, "ls")), "not the user's alone");
    let serve = user.run(&["serve", "--port", "0"]);
    assert_eq!(serve.code, Some(1), "{}", serve.whole());
    assert!(serve.err.contains("not the user's alone"), "{}", serve.whole());
}

#[test]
fn what_is_no_socket_is_left_as_it_is() {
    let user = User::new();
    drop(impostor(&user));
    std::fs::remove_file(socket(&user)).unwrap();
    std::fs::write(socket(&user), "precious").unwrap();
    let serve = user.run(&["serve", "--port", "0"]);
    assert_eq!(serve.code, Some(1), "{}", serve.whole());
    assert!(serve.err.contains("is no socket"), "{}", serve.whole());
    assert_eq!(std::fs::read_to_string(socket(&user)).unwrap(), "precious");
}

#[test]
fn the_operator_says_where_it_listens_and_whether() {
    let user = User::with_config(&format!("daemon: {{socket: own/s}}\n{NO_SHELL}"));
    let own = user.path().join("config/backstop/own/s");
    let serving = Serving::start(&user);
    assert_eq!(serving.line["hooks"], json!(own));
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    let told = serving.stop();
    assert!(told.err.contains("house-rules"), "{}", told.whole());
    user.configure("daemon: {enabled: false}\n");
    let serving = Serving::start(&user);
    assert_eq!(serving.line["hooks"], Value::Null);
    assert!(!socket(&user).exists());
    serving.stop();
}

#[test]
fn what_others_send_to_the_daemon_does_not_keep_it_from_answering() {
    let user = User::with_config(NO_SHELL);
    let serving = Serving::start(&user);
    let mut held = Vec::new();
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], b"BKST\0\x04\xff\xff\xff\xff", b"BKST\0\x04\0\0\0\x02[]", b"BK", b""]
    {
        let mut stream = UnixStream::connect(socket(&user)).unwrap();
        let _ = stream.write_all(bytes);
        held.push(stream);
    }
    refused(&hook(&user, "claude", &call(&user, "ls")), "deny_tools");
    let mut other = UnixStream::connect(socket(&user)).unwrap();
    other.write_all(b"BKST\0\x63\0\0\0\0").unwrap();
    let mut answer = Vec::new();
    other.read_to_end(&mut answer).unwrap();
    assert!(String::from_utf8_lossy(&answer).contains("declined"), "{answer:?}");
    serving.stop();
}

#[test]
fn a_question_through_the_daemon_is_answered_from_elsewhere_or_withdrawn_with_its_hook() {
    let user = User::with_config("agent: {approvals: {wait: true}}\n");
    let serving = Serving::start(&user);
    let start = || {
        let path = user.path().join("event.json");
        std::fs::write(&path, call(&user, ASKED).to_string()).unwrap();
        user.command(&["hook", "codex"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap()
    };
    let question = || {
        until("a question", || {
            let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
            list.as_array().unwrap().first().cloned()
        })
    };
    let child = start();
    user.run(&["approvals", "approve", question()["code"].as_str().unwrap()]).succeeded();
    passes(&done(child));
    let mut child = start();
    question();
    child.kill().unwrap();
    child.wait().unwrap();
    until("the question is withdrawn", || {
        let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
        list.as_array().unwrap().is_empty().then_some(())
    });
    serving.stop();
}

#[test]
fn many_hooks_at_once_are_each_answered() {
    let user = User::with_config(NO_SHELL);
    let serving = Serving::start(&user);
    let children: Vec<_> = (0..12)
        .map(|number| {
            let path = user.path().join(format!("event-{number}.json"));
            std::fs::write(&path, call(&user, &format!("echo {number}")).to_string()).unwrap();
            user.command(&["hook", "claude"]).stdin(std::fs::File::open(path).unwrap()).spawn().unwrap()
        })
        .collect();
    for child in children {
        refused(&done(child), "deny_tools");
    }
    let told = serving.stop();
    assert_eq!(told.err.matches("house-rules").count(), 12, "{}", told.whole());
}
