//! Who chooses the operator's configuration: whoever installed the hook, and neither the environment in which a client
//! starts it nor a file that somebody changed since.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::daemon::Serving;
use super::support::{Done, User, done};

const NO_SHELL: &str =
    "hooks: {tool_call: {pre_call: [{type: policy, id: house-rules, config: {deny_tools: [exec]}}]}}\n";
const LOOSE: &str = "guards: {command_safety: {enabled: false}}\naudit: {enabled: false}\n";

fn settings(user: &User) -> PathBuf {
    user.path().join(".claude/settings.json")
}

/// A user with that configuration, pinned, and Claude Code's entries.
fn installed(config: &str) -> User {
    let user = User::with_config(config);
    user.run(&["install", "claude"]).succeeded();
    user
}

/// What the client starts before a tool.
fn command(user: &User) -> String {
    let settings: Value = serde_json::from_str(&std::fs::read_to_string(settings(user)).unwrap()).unwrap();
    settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap().to_owned()
}

/// Starts the entry as the client would, in the workspace, with these variables.
fn fire(user: &User, variables: &[(&str, &str)]) -> Done {
    let event = json!({
        "hook_event_name": "PreToolUse", "session_id": "s-1", "cwd": user.work(), "tool_name": "Bash",
        "tool_input": { "command": "ls" },
    });
    std::fs::write(user.path().join("event.json"), event.to_string()).unwrap();
    let child = Command::new("/bin/sh")
        .args(["-c", &command(user)])
        .current_dir(user.work())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .envs(variables.iter().copied())
        .stdin(std::fs::File::open(user.path().join("event.json")).unwrap())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn();
    done(child.unwrap())
}

#[track_caller]
fn refused(done: &Done, why: &str) {
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.err.contains(why), "`{why}` is not in {}", done.whole());
}

#[track_caller]
fn passes(done: &Done) {
    assert_eq!((done.code, done.out.as_str()), (Some(0), ""), "{}", done.whole());
}

/// A repository's own idea of an operator, which allows everything.
fn evil(user: &User) {
    let folder = user.work().join(".evil/backstop");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.yaml"), LOOSE).unwrap();
    let below_home = user.work().join(".evil/.config/backstop");
    std::fs::create_dir_all(&below_home).unwrap();
    std::fs::write(below_home.join("backstop.yaml"), LOOSE).unwrap();
}

#[test]
fn the_environment_of_a_hook_chooses_no_operator() {
    let user = installed(NO_SHELL);
    evil(&user);
    let evil = user.work().join(".evil");
    let evil = evil.to_str().unwrap();
    for variables in [
        &[][..],
        &[("XDG_CONFIG_HOME", "/proc/self/cwd/.evil")],
        &[("XDG_CONFIG_HOME", evil)],
        &[("HOME", evil)],
        &[("HOME", "/proc/self/cwd/.evil"), ("XDG_DATA_HOME", "/proc/self/cwd/.evil")],
        &[("HOME", "/nowhere"), ("XDG_CONFIG_HOME", "/nowhere"), ("XDG_DATA_HOME", "/nowhere")],
    ] {
        refused(&fire(&user, variables), "deny_tools");
    }
    assert!(!user.work().join(".evil/backstop/backstop.db").exists(), "nor a database");
}

#[test]
fn a_command_whose_environment_points_into_the_workspace_is_refused() {
    let user = User::new();
    evil(&user);
    for place in ["/proc/self/cwd/.evil".to_owned(), user.work().join(".evil").display().to_string()] {
        let mut command = user.command(&["config", "show"]);
        let done = done(command.env("XDG_CONFIG_HOME", &place).spawn().unwrap());
        refused(&done, "not taken for the operator's");
    }
}

#[test]
fn a_file_that_was_changed_since_it_was_pinned_judges_nothing() {
    let user = installed(NO_SHELL);
    let shell = || fire(&user, &[]);
    refused(&shell(), "deny_tools");
    user.configure(LOOSE);
    refused(&shell(), "not the one that was pinned");
    let check = user.run(&["config", "check"]).succeeded();
    assert!(check.err.contains("backstop config pin"), "{}", check.whole());
    let pinned = user.run(&["config", "pin"]).succeeded();
    assert!(pinned.err.contains("backstop.yaml` is changed"), "{}", pinned.whole());
    passes(&shell());
    user.run(&["config", "check"]).succeeded();
    std::fs::remove_file(user.path().join("config/backstop/backstop.yaml")).unwrap();
    refused(&shell(), "is gone");
    std::fs::remove_file(user.path().join("data/backstop/pinned.json")).unwrap();
    refused(&shell(), "there is no pin");
    user.run(&["install", "claude"]).succeeded();
    passes(&shell());
    user.configure(LOOSE);
    refused(&shell(), "is new");
}

#[test]
fn a_rule_pack_is_pinned_with_the_file_that_names_it() {
    let user = User::new();
    let pack = user.path().join("config/backstop/pack.json");
    user.configure("guards: {command_safety: {packs: [pack.json]}}\n");
    std::fs::write(&pack, "[]").unwrap();
    user.run(&["install", "claude"]).succeeded();
    passes(&fire(&user, &[]));
    std::fs::write(&pack, "[ ]").unwrap();
    refused(&fire(&user, &[]), "pack.json` is changed");
}

#[test]
fn a_daemon_holds_hooks_to_the_pin() {
    let user = installed(NO_SHELL);
    let serving = Serving::start(&user);
    refused(&fire(&user, &[]), "deny_tools");
    user.configure(LOOSE);
    refused(&fire(&user, &[]), "not the one that was pinned");
    user.run(&["config", "pin"]).succeeded();
    passes(&fire(&user, &[]));
    let told = serving.stop();
    assert!(told.err.contains("house-rules"), "it answered: {}", told.whole());
}

#[test]
fn the_pin_is_the_users_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let user = installed(NO_SHELL);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&user.path().join("data/backstop/pinned.json")), 0o600);
    let other = user.run(&["--config", "/other.yaml", "config", "pin"]);
    refused(&other, "can't be pinned");
}

#[test]
fn folders_of_a_hook_are_whole_and_absolute() {
    let user = User::new();
    for folders in [
        &["--home", "/h", "--operator", "backstop", "--data", "/d/backstop"][..],
        &["--home", "/h", "--operator", "/o", "--data", "/d/backstop"],
        &["--home", "/h"],
        &["--pinned"],
    ] {
        let args = [&["hook", "claude"][..], folders].concat();
        let child = Command::new(super::support::BACKSTOP)
            .args(&args)
            .env_clear()
            .current_dir(user.work())
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn();
        let ended = done(child.unwrap());
        assert_eq!(ended.code, Some(2), "{args:?} {}", ended.whole());
        assert!(ended.json().is_object(), "{}", ended.whole());
    }
}
