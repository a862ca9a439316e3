//! `backstop run` with a program that is a coding agent: a stand-in that reads what it was given, and starts the hooks in
//! it as the client would.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::gateway::{MESSAGE, post};
use super::support::{BACKSTOP, Done, ModelServer, User, done, until};

pub(super) const NO_SHELL: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [exec]}}]}}\n";

/// A program of that name in the user's folder.
pub(super) fn program(user: &User, name: &str, script: &str) -> PathBuf {
    let path = user.path().join("bin").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What is in the user's folder for temporary files.
fn temporary(user: &User) -> Vec<PathBuf> {
    std::fs::read_dir(user.path().join("tmp")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn run(user: &User, more: &[&str], program: &Path, arguments: &[&str]) -> std::process::Child {
    std::fs::create_dir_all(user.path().join("tmp")).unwrap();
    let args = [&["run"], more, &["--", program.to_str().unwrap()], arguments].concat();
    user.command(&args).env("TMPDIR", user.path().join("tmp")).spawn().unwrap()
}

fn event(user: &User) -> Value {
    json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_use_id": "toolu_0123456789abcdef", "tool_input": { "command": "ls" },
    })
}

/// The command in the settings after `--settings`, given the event as the client would.
const FIRE_SETTINGS: &str = r#"
test "$1" = --settings || exit 90
command=$(sed -n 's/^ *"command": "\(.*\)",$/\1/p' "$2" | head -n 1)
test -n "$command" || exit 91
sh -c "$command" < event.json
code=$?
shift 2
echo "arguments: $*"
exit $code"#;

pub(super) fn claude(user: &User) -> PathBuf {
    std::fs::write(user.work().join("event.json"), event(user).to_string()).unwrap();
    program(user, "claude", FIRE_SETTINGS)
}

/// One whose shell is to run `command`, and that goes on until a line is typed.
pub(super) fn claude_that_stays(user: &User, command: &str) -> PathBuf {
    let mut event = event(user);
    event["tool_input"]["command"] = command.into();
    std::fs::write(user.work().join("event.json"), event.to_string()).unwrap();
    let waits = FIRE_SETTINGS
        .replace("< event.json", "< event.json > hook.out 2>&1")
        .replace("exit $code", "echo answered\nread -r line\nexit $code");
    program(user, "claude", &waits)
}

#[track_caller]
fn blocked(ended: &Done) {
    assert_eq!(ended.code, Some(2), "{}", ended.whole());
    assert!(ended.out.contains(r#""permissionDecision":"deny""#), "{}", ended.whole());
    assert!(
        ended.err.contains("backstop: before_tool_call") && ended.err.contains("house-rules"),
        "{}",
        ended.whole()
    );
}

#[test]
fn a_client_has_our_hooks_for_its_run_and_nothing_is_left() {
    let user = User::with_config(NO_SHELL);
    let ended = done(run(&user, &[], &claude(&user), &["-p", "a b"]));
    blocked(&ended);
    assert!(ended.out.contains("arguments: -p a b\n"), "{}", ended.whole());
    assert!(!ended.err.contains("note:"), "{}", ended.whole());
    assert!(temporary(&user).is_empty(), "{:?}", temporary(&user));
    assert!(!user.path().join(".claude").exists());
    // Made so that it is hidden, whoever listens there meanwhile.
    let daemon = std::fs::read_dir(user.path().join("data/backstop/daemon")).unwrap();
    assert_eq!(daemon.count(), 0, "the run has a socket of its own");
    user.run(&["audit", "verify"]).succeeded();
}

#[test]
fn the_configuration_of_the_run_holds_for_its_hooks() {
    let user = User::new();
    let own = user.path().join("own.yaml");
    std::fs::write(&own, NO_SHELL).unwrap();
    let config = ["--config", own.to_str().unwrap()];
    blocked(&done(run(&user, &config, &claude(&user), &[])));
    let without = done(run(&user, &["--hooks-only"], &claude(&user), &[]));
    assert_eq!(without.code, Some(0), "{}", without.whole());
}

/// A stand-in for an agent that tries to answer its own question: by the program, by a copy of it, without its
/// environment, in a session of its own, and orphaned.
#[test]
fn nothing_that_a_client_starts_answers_its_question_or_is_shown_the_code() {
    let user = User::new();
    let question = json!({
        "hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash",
        "tool_input": { "command": "eval \"$PLAN\"" },
    });
    user.feed(&["hook", "codex"], question.to_string());
    let list = user.run(&["approvals", "list", "--json"]).succeeded().json();
    let code = list[0]["code"].as_str().unwrap();
    let script = format!(
        r#"
cp {BACKSTOP} ./b
clean="env -i HOME=$HOME XDG_CONFIG_HOME=$XDG_CONFIG_HOME XDG_DATA_HOME=$XDG_DATA_HOME"
{BACKSTOP} allow-once {code}
./b allow-once {code}
$clean ./b approvals approve {code}
$clean ./b approvals list --all
$clean ./b approvals show {code} --whole
$clean ./b install claude
$clean ./b config pin
$clean ./b run --no-sandbox -- true
$clean ./b run --no-hooks -- true
setsid $clean ./b allow-once {code}
sh -c 'exec ./b allow-once {code}'
(setsid sh -c 'sleep 0.5; ./b allow-once {code}' > orphan.out 2>&1 &)
sleep 1.5"#
    );
    let client = program(&user, "claude", &script);
    for launch in [vec!["run", "--no-hooks", "--"], vec![]] {
        let mut command = match launch.is_empty() {
            true => {
                let mut command = std::process::Command::new(&client);
                command.current_dir(user.work()).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
                command
                    .env("HOME", user.path())
                    .env("XDG_CONFIG_HOME", user.path().join("config"))
                    .env("XDG_DATA_HOME", user.path().join("data"))
                    .stdout(std::process::Stdio::piped())
                    .stderr(std::process::Stdio::piped());
                command
            }
            false => user.command(&[launch.as_slice(), &[client.to_str().unwrap()]].concat()),
        };
        let ended = done(command.spawn().unwrap());
        let refused =
            ended.err.matches("is for people, and this was started from inside of an agent").count();
        assert_eq!(refused, 11, "{}", ended.whole());
        assert!(!ended.out.contains(code), "{}", ended.whole());
        let orphan = std::fs::read_to_string(user.work().join("orphan.out")).unwrap();
        assert!(launch.is_empty() || orphan.contains("is for people"), "{orphan}");
        let list = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
        if !launch.is_empty() {
            assert_eq!(list[0]["state"]["status"], "unattended", "{list:#}");
        }
        assert!(!user.path().join(".claude").exists(), "it installed something");
    }
}

#[test]
fn no_call_reaches_a_client_whose_hooks_are_not_heard_of() {
    let user = User::new();
    let model =
        ModelServer::start(&user, r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "ls"}}]}"#);
    user.configure(&model.config(""));
    // It only says where its model is, and never starts a hook.
    let deaf = program(&user, "claude", "echo $ANTHROPIC_BASE_URL; exec sleep 55");
    let mut child = run(&user, &[], &deaf, &[]);
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let answer = post(&format!("{}/v1/messages", url.trim()), MESSAGE);
    assert!(!answer.contains("\"ls\"") && !answer.contains("tool_use"), "{answer}");
    let ended = done(child);
    assert_eq!(ended.code, Some(1), "{}", ended.whole());
    for said in ["none of its hooks was heard of", "backstop doctor claude", "1 tool call judged"] {
        assert!(ended.err.contains(said), "no `{said}` in {}", ended.whole());
    }
}

/// What the proxy would have to ask about is asked about by the hooks, which see it next; what it blocks stays blocked.
#[test]
fn a_question_is_left_to_the_hooks_of_the_client() {
    let user = User::new();
    let script = r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\""}}]}"#;
    let model = ModelServer::start(&user, &script.repeat(4));
    std::fs::write(user.work().join("event.json"), event(&user).to_string()).unwrap();
    let fires = FIRE_SETTINGS.replace("|| exit 90", "|| { echo $ANTHROPIC_BASE_URL; exec cat; }");
    let fires = fires.replace("|| exit 91", "|| { echo $ANTHROPIC_BASE_URL; exec cat; }");
    let fires = fires.replace("< event.json", "< event.json > hook.out");
    let ends = "echo \"arguments: $*\"\nexit $code";
    let tells = program(&user, "claude", &fires.replace(ends, "echo $ANTHROPIC_BASE_URL; exec cat"));
    let questions =
        || user.run(&["approvals", "list", "--all", "--json"]).succeeded().json().as_array().unwrap().len();
    // The model is asked once in each run.
    let once = "gateway: {hooks: {max_refusals: 0}}\n";
    let waits = "gateway: {hooks: {approvals: wait, max_refusals: 0}}\n";
    let denied = format!("{NO_SHELL}{once}");
    for (hooks, more, is_left) in
        [(&["--no-hooks"][..], once, false), (&[], once, true), (&[], waits, true), (&[], &denied, false)]
    {
        user.configure(&model.config(more));
        let before = questions();
        let args = [&["run"], hooks, &["--", tells.to_str().unwrap()]].concat();
        std::fs::create_dir_all(user.path().join("tmp")).unwrap();
        let mut command = user.command(&args);
        command.env("TMPDIR", user.path().join("tmp")).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let answer = post(&format!("{}/v1/messages", url.trim()), MESSAGE);
        assert_eq!(answer.contains("\"tool_use\""), is_left, "{answer}");
        assert!(!is_left || questions() == before, "the proxy asked, too");
        drop(child.stdin.take());
        let ended = done(child);
        // A question that nobody could be asked is filed: people are told its code, and the model is not.
        let filed = questions() - before;
        assert_eq!(filed, usize::from(!hooks.is_empty()), "{}", ended.whole());
        if filed == 1 {
            let all = user.run(&["approvals", "list", "--all", "--json"]).succeeded().json();
            assert_eq!((&all[0]["host"], &all[0]["client"]), (&json!("gateway"), &json!("claude")), "{all}");
        }
        assert_eq!(ended.err.contains("backstop allow-once "), filed == 1, "{}", ended.whole());
        assert!(!answer.contains("allow-once"), "{answer}");
    }
}

/// Gemini CLI can be given no hooks for a run. Once one of those that are installed was heard of, questions are left to them; one that
/// is heard of only after a call may have been started by what the agent ran, and that of another client by another client.
#[test]
fn a_question_is_left_to_hooks_that_are_installed_once_one_was_heard_of() {
    let user = User::new();
    let script = r#"{"tool_calls": [{"name": "exec", "arguments": {"command": "eval \"$PLAN\""}}]}"#;
    let model = ModelServer::start(&user, &script.repeat(12));
    let folders: Vec<_> = user.folders().iter().map(|word| word.display().to_string()).collect();
    let fire = |client: &str, event: &str| {
        let file = user.work().join(format!("{client}.json"));
        let event = json!({
            "hook_event_name": event, "session_id": "s-1", "cwd": user.work(), "prompt": "hi",
            "timestamp": "2026-11-27T00:00:00Z", "transcript_path": "",
        });
        std::fs::write(&file, event.to_string()).unwrap();
        format!("{BACKSTOP} hook {client} {} < {client}.json > hook.out 2>&1", folders.join(" "))
    };
    let (own, other) = (fire("gemini", "BeforeAgent"), fire("claude", "UserPromptSubmit"));
    let once = "gateway: {hooks: {max_refusals: 0}}\n";
    let denied = format!("{NO_SHELL}{once}");
    let asks = "echo $ANTHROPIC_BASE_URL; read -r line";
    for (configuration, is_installed, first, is_left) in [
        // A repository's entry can fire an event like this one, and judge no call.
        (once, false, own.as_str(), vec![false, false]),
        (once, true, own.as_str(), vec![true, true]),
        (once, true, &other, vec![false, false]),
        (once, true, "true", vec![false, false]),
        (&denied, true, &own, vec![false, false]),
    ] {
        user.configure(&model.config(configuration));
        if is_installed {
            user.run(&["install", "gemini"]).succeeded();
        }
        // The hook of its own comes at last in each of these, so that only the first counts.
        let client = program(&user, "gemini", &format!("{first}; {asks}; {own}; {asks}"));
        std::fs::create_dir_all(user.path().join("tmp")).unwrap();
        let mut command = user.command(&["run", "--", client.to_str().unwrap()]);
        command.env("TMPDIR", user.path().join("tmp")).stdin(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (mut lines, mut stdin) =
            (BufReader::new(child.stdout.take().unwrap()), child.stdin.take().unwrap());
        let answers = is_left.iter().map(|_| {
            let mut url = String::new();
            lines.read_line(&mut url).unwrap();
            let answer = post(&format!("{}/v1/messages", url.trim()), MESSAGE);
            stdin.write_all(b"\n").unwrap();
            answer.contains("\"tool_use\"")
        });
        let answers: Vec<_> = answers.collect();
        drop((lines, stdin));
        let ended = done(child);
        assert_eq!(
            answers,
            is_left,
            "{first} {configuration}: {} {:?}",
            ended.whole(),
            std::fs::read_to_string(user.work().join("hook.out"))
        );
    }
}

/// The client reads the command from its settings, and starts it as it would.
#[test]
fn a_client_shows_a_line_of_its_run() {
    let user = User::with_config(NO_SHELL);
    let show = r#"python3 - "$2" <<'END'
import json, subprocess, sys, time
command = json.load(open(sys.argv[1]))["statusLine"]["command"]
for _ in range(100):
    done = subprocess.run(["sh", "-c", command], input=b'{"session_id": "s"}', capture_output=True)
    if b"guarded" in done.stdout:
        break
    time.sleep(0.1)
print(done.stdout.decode(), done.stderr.decode())
END"#;
    let client = program(&user, "claude", show);
    let shown = done(run(&user, &[], &client, &[]));
    assert!(shown.out.contains("guarded by backstop (standard) \u{b7} 0 judged"), "{}", shown.whole());
    // Where the user has a line of their own, it is theirs.
    std::fs::create_dir_all(user.path().join(".claude")).unwrap();
    let theirs = r#"{"statusLine": {"type": "command", "command": "date"}}"#;
    std::fs::write(user.path().join(".claude/settings.json"), theirs).unwrap();
    let kept = done(run(&user, &[], &client, &[]));
    assert!(kept.err.contains("KeyError: 'statusLine'"), "{}", kept.whole());
    // What is installed for good gives way to the run, which knows more of it.
    std::fs::remove_file(user.path().join(".claude/settings.json")).unwrap();
    user.run(&["install", "claude"]).succeeded();
    let shown = done(run(&user, &[], &client, &[]));
    assert!(shown.out.contains("guarded by backstop (standard) \u{b7} 0 judged"), "{}", shown.whole());
}

#[test]
fn a_run_says_what_loads_code_into_hooks_where_it_does_not_overrule_it() {
    let user = User::with_config("{}");
    let client = program(&user, "claude", "true");
    let said = |more: &[&str]| done(run(&user, more, &client, &["--version"])).err;
    for (file, of_project) in [
        (user.work().join(".claude/settings.json"), true),
        (user.path().join(".claude/settings.json"), false),
    ] {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, r#"{"env": {"LD_PRELOAD": "./x.so"}}"#).unwrap();
        let warns = |said: &str| said.contains("sets `LD_PRELOAD` for all that is started");
        assert_eq!(warns(&said(&[])), !of_project, "{}", said(&[]));
        assert!(warns(&said(&["--hooks-only"])));
        std::fs::remove_file(&file).unwrap();
        assert!(!warns(&said(&[])));
    }
}

#[test]
fn settings_that_the_user_gives_are_kept() {
    let user = User::with_config(NO_SHELL);
    std::fs::write(user.work().join("event.json"), event(&user).to_string()).unwrap();
    let script = format!("grep -o '\"model\": \"mine\"' \"$2\"\n{FIRE_SETTINGS}");
    let claude = program(&user, "claude", &script);
    let ended = done(run(&user, &[], &claude, &["-p", "--settings", r#"{"model": "mine"}"#]));
    blocked(&ended);
    assert!(ended.out.starts_with("\"model\": \"mine\"\n"), "{}", ended.whole());
    assert!(ended.out.contains("arguments: -p\n"), "{}", ended.whole());
    let ended = done(run(&user, &[], &claude, &["--settings", "{]"]));
    assert_eq!(ended.code, Some(1), "{}", ended.whole());
    assert!(
        ended.err.contains("can't be given hooks") && ended.err.contains("--no-hooks"),
        "{}",
        ended.whole()
    );
    assert!(temporary(&user).is_empty());
}

#[test]
fn a_client_can_be_run_without_hooks_and_under_another_name() {
    let user = User::with_config(NO_SHELL);
    let show = program(&user, "claude", "echo \"arguments: $*\"");
    let ended = done(run(&user, &["--no-hooks"], &show, &["-p"]));
    assert!(
        ended.out.contains("arguments: --settings ") && ended.out.ends_with(" -p\n"),
        "{}",
        ended.whole()
    );
    let neither = done(run(&user, &["--no-hooks", "--hooks-only"], &show, &["-p"]));
    assert_eq!(neither.code, Some(2), "{}", neither.whole());
    let silent = done(run(&user, &[], &show, &["-p"]));
    assert!(silent.out.contains("--settings"), "{}", silent.whole());
    assert!(silent.err.contains("no hook of Claude Code was heard of"), "{}", silent.whole());
    let other = program(&user, "agent", "echo \"arguments: $*\"");
    let ended = done(run(&user, &["--client", "codex", "--hooks-only"], &other, &["exec"]));
    let started = "arguments: -c features.hooks=true -c hooks={\"PreToolUse\"=";
    assert!(ended.out.contains(started), "{}", ended.whole());
    assert!(ended.out.ends_with("} exec\n"), "{}", ended.whole());
    let ended = done(run(&user, &["--client", "cursor"], &other, &["exec"]));
    assert_eq!(ended.code, Some(5), "{}", ended.whole());
    assert!(ended.out.contains("arguments: exec\n"), "{}", ended.whole());
    assert!(ended.err.contains("the model calls of Cursor do not pass the proxy"), "{}", ended.whole());
    assert!(ended.err.contains("`backstop install cursor`"), "{}", ended.whole());
}

#[test]
fn a_client_that_would_run_no_hooks_is_not_started() {
    let user = User::with_config(NO_SHELL);
    let show = program(&user, "claude", "echo \"arguments: $*\"");
    let ended = done(run(&user, &[], &show, &["--bare", "-p"]));
    assert_eq!(ended.code, Some(1), "{}", ended.whole());
    assert!(ended.err.contains("`--bare` keeps it from running hooks"), "{}", ended.whole());
    assert!(!ended.out.contains("arguments"), "{}", ended.whole());
    let copilot = program(&user, "copilot", "echo \"arguments: $*\"");
    let folder = user.work().join(".github/hooks");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("quiet.json"), r#"{"version": 1, "disableAllHooks": true}"#).unwrap();
    let ended = done(run(&user, &[], &copilot, &[]));
    assert_eq!(ended.code, Some(1), "{}", ended.whole());
    assert!(
        ended.err.contains("runs no hooks here") && !ended.out.contains("arguments"),
        "{}",
        ended.whole()
    );
    let ended = done(run(&user, &["--no-hooks"], &copilot, &[]));
    assert!(ended.out.contains("arguments"), "{}", ended.whole());
}

#[test]
fn clients_that_read_a_variable_are_pointed_at_the_run() {
    let user = User::with_config(NO_SHELL);
    let show = "cat \"$QWEN_CODE_SYSTEM_SETTINGS_PATH\"; echo \"$OPENCODE_CONFIG_CONTENT\"";
    let ended = done(run(&user, &[], &program(&user, "qwen", show), &[]));
    assert!(ended.out.contains("hook qwen") && ended.out.contains("PreToolUse"), "{}", ended.whole());
    let ended = done(run(&user, &[], &program(&user, "opencode", show), &[]));
    assert!(
        ended.out.contains("\"plugin\":[\"file://") && ended.out.contains("/backstop.js"),
        "{}",
        ended.whole()
    );
    assert!(temporary(&user).is_empty());
}

#[test]
fn hooks_that_are_installed_are_answered_by_the_run_too() {
    let user = User::with_config(NO_SHELL);
    std::fs::write(user.work().join("event.json"), event(&user).to_string()).unwrap();
    let folders: Vec<_> = user.folders().iter().map(|word| word.display().to_string()).collect();
    let hook = format!("{} hook claude {} < event.json", BACKSTOP, folders.join(" "));
    let twice = format!("({hook}) & ({hook}); code=$?; wait; exit $code");
    let ended = done(run(&user, &["--no-hooks"], &program(&user, "claude", &twice), &[]));
    blocked(&ended);
    assert_eq!(ended.out.matches("permissionDecision\":").count(), 2, "both say it: {}", ended.whole());
    assert_eq!(ended.err.matches("backstop: before_tool_call").count(), 1, "one decides: {}", ended.whole());
    let trail = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert_eq!(trail.matches("\"verdict\":\"block\"").count(), 1, "{trail}");
}

#[test]
fn a_killed_run_leaves_no_file() {
    let user = User::new();
    let waiting = program(&user, "claude", "echo $$ > pid.new; mv pid.new pid; exec sleep 60");
    let mut child = run(&user, &[], &waiting, &[]);
    until("the program starts", || user.work().join("pid").exists().then_some(()));
    assert_eq!(temporary(&user).len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    until("its folder is gone", || temporary(&user).is_empty().then_some(()));
}

/// A stand-in that asks the model at the address that its settings name, as Claude Code does.
const ASK: &str = r#"url=$(sed -n 's/^ *"ANTHROPIC_BASE_URL": "\(.*\)".*$/\1/p' "$2")
curl --silent --show-error "$url/v1/messages" --data "{\"model\": \"m\", \"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}""#;

#[test]
fn a_repository_can_not_send_model_calls_elsewhere() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"} {"text": "from the model"}"#);
    user.configure(&model.config(""));
    let settings = user.work().join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    std::fs::write(settings, r#"{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}"#).unwrap();
    for more in [&[][..], &["--no-hooks"]] {
        let ended = done(run(&user, more, &program(&user, "claude", ASK), &["-p", "hi"]));
        assert_eq!(ended.code, Some(0), "{}", ended.whole());
        assert!(ended.out.contains("from the model"), "{}", ended.whole());
        assert!(!ended.err.contains("not one request"), "{}", ended.whole());
    }
    let only = done(run(&user, &["--hooks-only"], &program(&user, "claude", "cat \"$2\""), &[]));
    assert!(!only.out.contains("ANTHROPIC_BASE_URL") && only.out.contains("hook claude"), "{}", only.whole());
}

#[test]
fn a_run_without_a_request_has_an_exit_code_of_its_own() {
    let user = User::new();
    let silent = program(&user, "agent", "exit ${1:-0}");
    let ended = done(run(&user, &[], &silent, &[]));
    assert_eq!(ended.code, Some(5), "{}", ended.whole());
    assert!(ended.err.contains("not one request that asks a model came to the proxy"), "{}", ended.whole());
    let failed = done(run(&user, &[], &silent, &["7"]));
    assert_eq!(failed.code, Some(7), "the program's own failure: {}", failed.whole());
    assert!(failed.err.contains("not one request"), "{}", failed.whole());
    // What is a version elsewhere is an option of an interpreter.
    let interpreter = program(&user, "interpreter", "exit 0");
    for (words, code) in
        [(&["-v", "agent.py"][..], 5), (&["help"], 5), (&["-u", "--version"], 5), (&["--version"], 0)]
    {
        let ended = done(run(&user, &[], &interpreter, words));
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.whole());
    }
}

/// A list of models says nothing of where the model itself is asked, and neither does a count of tokens.
#[test]
fn what_asks_no_model_is_no_request_of_one() {
    let user = User::new();
    let model = ModelServer::start(&user, r#"{"text": "from the model"}"#);
    user.configure(&model.config(""));
    let message =
        r#"{\"model\": \"m\", \"max_tokens\": 9, \"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}"#;
    let lists = "curl --silent $ANTHROPIC_BASE_URL/v1/models; curl --silent --head $ANTHROPIC_BASE_URL/";
    let counts = format!("curl --silent $ANTHROPIC_BASE_URL/v1/messages/count_tokens --data \"{message}\"");
    let asks = format!("curl --silent $ANTHROPIC_BASE_URL/v1/messages --data \"{message}\"");
    for (script, code) in [(lists, 5), (&counts, 5), (&format!("{lists}; {asks}"), 0)] {
        let ended = done(run(&user, &[], &program(&user, "agent", &format!("{script}; exit 0")), &[]));
        assert_eq!(ended.code, Some(code), "{script}: {}", ended.whole());
        assert_eq!(ended.err.contains("not one request that asks a model"), code == 5, "{}", ended.whole());
    }
}

#[test]
fn a_client_that_says_its_version_is_no_failure() {
    let user = User::new();
    for name in ["claude", "codex", "gemini", "qwen", "copilot", "cline", "opencode", "goose"] {
        let version = done(run(&user, &[], &program(&user, name, "echo 1.0"), &["--version"]));
        assert_eq!(version.code, Some(0), "{name} asks no model: {}", version.whole());
        assert!(!version.err.contains("not one request"), "{}", version.whole());
    }
}

#[test]
fn a_client_that_can_not_be_pointed_only_says_what_it_is() {
    let user = User::new();
    let show = program(&user, "claude", "echo \"started: $*\"");
    let settings = user.work().join(".claude/settings.json");
    std::fs::create_dir_all(settings.parent().unwrap()).unwrap();
    let sent = r#"{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}"#;
    for text in [format!("{sent}, ]"), format!("{sent}{}}}", " ".repeat(5 << 20))] {
        std::fs::write(&settings, text).unwrap();
        for words in [
            &["-p", "hi"][..],
            &["-p", "hi", "--append-system-prompt", "--help"],
            &["auto-mode", "critique"],
            &["mcp", "serve"],
            &["mcp", "list"],
            &["doctor"],
        ] {
            let ended = done(run(&user, &["--no-hooks"], &show, words));
            assert_eq!(ended.code, Some(1), "{words:?}: {}", ended.whole());
            assert!(!ended.out.contains("started"), "{words:?}: {}", ended.whole());
            assert!(ended.err.contains("can't be pointed at the proxy"), "{}", ended.whole());
        }
        for words in [&["--version"], &["--help"]] {
            let ended = done(run(&user, &["--no-hooks"], &show, words));
            assert_eq!(ended.code, Some(0), "{words:?}: {}", ended.whole());
            assert!(ended.out.contains("started: --"), "{}", ended.whole());
            assert!(ended.err.contains("note: Claude Code is asked what it is"), "{}", ended.whole());
        }
    }
}

#[test]
fn a_client_that_a_person_sent_elsewhere_is_not_started() {
    let user = User::new();
    let show = program(&user, "claude", "echo started");
    let mut command = user.command(&["run", "--", show.to_str().unwrap(), "-p", "hi"]);
    let ended = done(command.env("CLAUDE_CODE_USE_BEDROCK", "1").spawn().unwrap());
    assert_eq!(ended.code, Some(1), "{}", ended.whole());
    assert!(ended.err.contains("`CLAUDE_CODE_USE_BEDROCK`") && ended.err.contains("--hooks-only"));
    assert!(!ended.out.contains("started"), "{}", ended.whole());
    let mut command = user.command(&["run", "--hooks-only", "--", show.to_str().unwrap(), "-p", "hi"]);
    let ended = done(command.env("CLAUDE_CODE_USE_BEDROCK", "1").spawn().unwrap());
    assert!(ended.out.contains("started"), "{}", ended.whole());
}
