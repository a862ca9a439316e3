//! `backstop install`, `uninstall`, `status` and `doctor` on the files of a user of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use backstop::clients::Client;
use serde_json::Value;

use super::support::{BACKSTOP, User, done, snapshot};

const SETTINGS: &str = "{\n  // mine\n  \"model\": \"x\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"matcher\": \"Bash\", \"hooks\": [{ \"type\": \"command\", \"command\": \"other-guard\" }] }\n    ]\n  }\n}\n";

fn names() -> Vec<&'static str> {
    Client::ALL.map(Client::name).to_vec()
}

fn claude_settings(user: &User) -> PathBuf {
    user.path().join(".claude/settings.json")
}

fn with_claude(text: &str) -> User {
    let user = User::new();
    std::fs::create_dir(user.path().join(".claude")).unwrap();
    std::fs::write(claude_settings(&user), text).unwrap();
    user
}

fn checks(user: &User, client: &str) -> (Option<i32>, Vec<(String, String)>) {
    let done = user.run(&["doctor", client, "--json"]);
    let told = done.json();
    let checks = told[0]["checks"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (done.code, checks.iter().map(|check| (text(&check["grade"]), text(&check["text"]))).collect())
}

#[track_caller]
fn finds(found: &[(String, String)], grade: &str, text: &str) {
    assert!(found.iter().any(|(is, said)| is == grade && said.contains(text)), "{grade} {text}: {found:#?}");
}

#[test]
fn what_a_client_can_honour_is_shown_before_anything_is_written() {
    let user = with_claude(SETTINGS);
    snapshot!(user.run(&["install", "claude", "--dry-run"]).succeeded().whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), SETTINGS);
    let told = user.run(&["install", "claude", "--dry-run", "--json"]).succeeded().json();
    assert_eq!(told[0]["written"], false);
    assert_eq!(told[0]["changes"][0]["action"], "changes");
}

#[test]
fn installing_keeps_what_is_there_and_uninstalling_gives_it_back() {
    let user = with_claude(SETTINGS);
    user.run(&["install", "claude"]).succeeded();
    let installed = std::fs::read_to_string(claude_settings(&user)).unwrap();
    assert!(installed.contains("// mine") && installed.contains("other-guard"), "{installed}");
    assert!(installed.contains(&format!("{BACKSTOP} hook claude")), "{installed}");
    let again = user.run(&["install", "claude"]).succeeded();
    assert!(again.out.contains("is installed already"), "{}", again.whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), installed);
    user.run(&["uninstall", "claude"]).succeeded();
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), SETTINGS);
}

#[test]
fn who_puts_hooks_in_and_takes_them_out_is_in_the_trail() {
    let user = with_claude(SETTINGS);
    user.run(&["install", "claude", "--dry-run"]).succeeded();
    for command in ["install", "install", "uninstall"] {
        user.run(&[command, "claude"]).succeeded();
    }
    let told = user.trail();
    let kinds: Vec<_> = told.iter().map(|entry| entry["kind"].as_str().unwrap()).collect();
    // The first one pins the configuration that its hooks judge by.
    assert_eq!(kinds, ["configuration.pinned", "client.installed", "client.removed"]);
    for entry in &told[1..] {
        let body = &entry["body"];
        assert_eq!((body["client"].as_str(), body["scope"].as_str()), (Some("claude"), Some("user")));
        let path = |file: &Value| file["path"].as_str().unwrap().ends_with(".claude/settings.json");
        assert!(body["files"].as_array().unwrap().iter().any(path), "{body}");
        assert!(body["by"].as_str().unwrap().ends_with(", by the command line"), "{body}");
    }
    let verified = user.run(&["audit", "verify", "--json"]).succeeded().json();
    assert_eq!(
        verified["checkpoints"]["covered"], 4,
        "each signs before it ends, and one has told of the policy"
    );
    // Also where nobody knows where the trail is.
    user.run(&["install", "claude"]).succeeded();
    user.configure("guards: {no_such_guard: {}}\n");
    let untold = user.run(&["uninstall", "claude"]).succeeded();
    assert!(untold.err.contains("the audit trail does not tell of this"), "{}", untold.whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), SETTINGS);
}

#[test]
fn what_fails_half_way_is_in_the_trail_as_far_as_it_went() {
    let user = User::new();
    let folder = user.path().join(".codeium");
    std::fs::create_dir_all(folder.join("windsurf")).unwrap();
    std::fs::write(folder.join("hooks.json"), "{}").unwrap();
    // The second file can't be kept as it was.
    std::fs::create_dir(folder.join("hooks.json.before-backstop")).unwrap();
    let half = user.run(&["install", "windsurf"]);
    assert_eq!(half.code, Some(1), "{}", half.whole());
    assert!(half.err.contains("can't be written"), "{}", half.whole());
    let [_, entry] = user.trail().try_into().unwrap();
    let body = &entry["body"];
    assert_eq!((entry["kind"].as_str(), body["failed"].as_bool()), (Some("client.installed"), Some(true)));
    let files = body["files"].as_array().unwrap();
    assert_eq!(files.len(), 1, "{body}");
    assert!(files[0]["path"].as_str().unwrap().ends_with(".codeium/windsurf/hooks.json"), "{body}");
    assert_eq!(std::fs::read_to_string(folder.join("hooks.json")).unwrap(), "{}");
}

#[test]
fn a_trail_that_can_not_be_opened_fails_the_command() {
    let user = with_claude(SETTINGS);
    user.run(&["install", "claude"]).succeeded();
    user.configure(&format!("store: {{path: '{}'}}\n", user.path().join("own.db").display()));
    std::fs::write(user.path().join("own.trail"), "no folder").unwrap();
    let untold = user.run(&["uninstall", "claude"]);
    assert_eq!(untold.code, Some(1), "{}", untold.whole());
    assert!(untold.err.contains("are taken out, but the audit trail can't tell so"), "{}", untold.whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), SETTINGS);
}

#[test]
fn hooks_are_installed_though_the_trail_can_not_tell_of_the_pin() {
    let user = with_claude(SETTINGS);
    user.configure(&format!("store: {{path: '{}'}}\n", user.path().join("own.db").display()));
    std::fs::write(user.path().join("own.trail"), "no folder").unwrap();
    let untold = user.run(&["install", "claude"]);
    assert_eq!(untold.code, Some(1), "{}", untold.whole());
    let said = "the operator's configuration is pinned, but the audit trail can't tell so";
    assert!(untold.err.contains(said), "{}", untold.whole());
    assert_ne!(std::fs::read_to_string(claude_settings(&user)).unwrap(), SETTINGS, "what is there judges");
}

#[test]
fn every_client_is_installed_fired_and_taken_out_again() {
    let user = User::new();
    user.run(&[&["install"], names().as_slice()].concat()).succeeded();
    let told = user.run(&["status", "--json"]).succeeded().json();
    for row in told.as_array().unwrap().iter().filter(|row| row["scope"] == "user") {
        assert_eq!(row["state"], "installed", "{row}");
    }
    for name in names() {
        let (code, found) = checks(&user, name);
        // Codex was never told to trust them.
        let expected = if name == "codex" { 1 } else { 0 };
        assert_eq!(code, Some(expected), "{name}: {found:#?}");
        finds(&found, "good", "fired");
    }
    user.run(&["uninstall", "--all"]).succeeded();
    let told = user.run(&["status", "--json"]).succeeded().json();
    assert!(told.as_array().unwrap().iter().all(|row| row["state"] == "absent"), "{told:#}");
}

#[test]
fn a_project_has_entries_of_its_own() {
    let user = User::new();
    std::fs::create_dir_all(user.work().join(".git")).unwrap();
    user.run(&["install", "codex", "gemini", "--project"]).succeeded();
    assert!(user.work().join(".codex/hooks.json").exists());
    assert!(user.work().join(".gemini/settings.json").exists());
    assert!(!user.path().join(".codex").exists());
    let told = user.run(&["status", "--json"]).succeeded().json();
    let state = |client: &str| {
        let rows = told.as_array().unwrap().iter();
        rows.filter(|row| row["client"] == client).map(|row| row["state"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(state("codex"), ["absent", "installed"]);
    assert_eq!(state("gemini"), ["absent", "installed"]);
    // Everybody who works there gets it, so it names nobody's folders.
    let entries = std::fs::read_to_string(user.work().join(".codex/hooks.json")).unwrap();
    assert!(entries.contains("hook codex\"") && !entries.contains("--home"), "{entries}");
}

#[test]
fn all_means_the_clients_that_are_there() {
    let user = with_claude("{}");
    let told = user.run(&["install", "--all", "--json"]).succeeded().json();
    let clients: Vec<_> =
        told.as_array().unwrap().iter().map(|one| one["client"].as_str().unwrap()).collect();
    assert!(clients.contains(&"claude") && !clients.contains(&"windsurf"), "{clients:?}");
}

#[test]
fn a_file_that_can_not_be_read_is_left_alone_and_the_others_are_written() {
    let user = with_claude("{ \"hooks\": ");
    let done = user.run(&["install", "claude", "kiro"]);
    assert_eq!(done.code, Some(1), "{}", done.whole());
    assert!(done.err.contains("settings.json` can't be edited"), "{}", done.whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), "{ \"hooks\": ");
    assert!(user.path().join(".kiro/hooks/backstop.json").exists());
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "can't be edited");
}

#[test]
fn the_doctor_finds_what_is_broken() {
    let user = User::new();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "nothing is installed");

    user.run(&["install", "claude"]).succeeded();
    let installed = std::fs::read_to_string(claude_settings(&user)).unwrap();
    let gone = user.path().join("gone/backstop");
    std::fs::write(claude_settings(&user), installed.replace(BACKSTOP, gone.to_str().unwrap())).unwrap();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "is not there");
    finds(&found, "failed", "did not fire");

    // One that says yes to everything is there, executable, and no Backstop.
    std::fs::create_dir(gone.parent().unwrap()).unwrap();
    std::fs::write(&gone, "#!/bin/sh\nexit 0\n").unwrap();
    std::fs::set_permissions(&gone, std::fs::Permissions::from_mode(0o755)).unwrap();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "a call that nothing should let pass was not refused");
    finds(&found, "warning", "not this program");

    let mut settings: Value = serde_json::from_str(&installed).unwrap();
    settings["hooks"].as_object_mut().unwrap().remove("PreToolUse");
    std::fs::write(claude_settings(&user), settings.to_string()).unwrap();
    finds(&checks(&user, "claude").1, "failed", "without an entry: PreToolUse");
}

#[test]
fn the_doctor_says_that_entries_of_a_project_are_not_read_in_a_folder_below_it() {
    let user = User::new();
    std::fs::create_dir_all(user.work().join(".git")).unwrap();
    std::fs::create_dir_all(user.work().join("sub")).unwrap();
    user.run(&["install", "claude", "--project"]).succeeded();
    let said = |folder: &str| {
        let mut doctor = user.command(&["doctor", "claude"]);
        done(doctor.current_dir(user.work().join(folder)).spawn().unwrap()).out
    };
    let unread = "are not read here: Claude Code reads the settings of the folder that it is started in";
    assert!(said("sub").contains(unread), "{}", said("sub"));
    assert!(!said("").contains(unread), "{}", said(""));
    user.run(&["install", "claude", "--user"]).succeeded();
    assert!(!said("sub").contains(unread), "the user's are read everywhere");
}

#[test]
fn the_doctor_says_how_a_run_is_confined_and_who_can_answer() {
    let user = User::with_config("sandbox: {mode: off}\nagent: {approvals: {strict: true}}\n");
    user.run(&["install", "claude"]).succeeded();
    let (_, found) = checks(&user, "claude");
    finds(&found, "warning", "`sandbox.mode` is `off`");
    finds(&found, "warning", "No daemon is running, so what hooks ask about is denied");
    user.configure("{}\n");
    user.run(&["config", "pin"]).succeeded();
    let (_, found) = checks(&user, "claude");
    assert!(found.iter().any(|(_, text)| text.contains("`backstop run claude` is confined")), "{found:?}");
    finds(&found, "note", "who can answer: ");
}

#[test]
fn who_says_by_which_configuration_hooks_judge_is_in_the_trail() {
    let user = User::with_config("guards: {sensitive_files: {mode: shadow}}\n");
    user.run(&["config", "pin"]).succeeded();
    user.run(&["config", "pin"]).succeeded();
    user.configure("guards: {sensitive_files: {enabled: false}}\n");
    user.run(&["config", "pin"]).succeeded();
    let told = user.trail();
    let [first, second] = told.as_slice() else { panic!("{told:?}") };
    for (entry, change) in [(first, "new"), (second, "changed")] {
        let body = &entry["body"];
        assert_eq!(entry["kind"], "configuration.pinned");
        assert!(body["by"].as_str().unwrap().ends_with(", by the command line"), "{body}");
        let [file] = body["files"].as_array().unwrap().as_slice() else { panic!("{body}") };
        assert!(file["path"].as_str().unwrap().ends_with("backstop.yaml"), "{body}");
        assert_eq!(file["change"], change);
    }
    assert_ne!(first["body"]["digest"], second["body"]["digest"]);
    // Nobody wants a trail, and the pin is as good.
    user.configure("audit: {enabled: false}\n");
    user.run(&["config", "pin"]).succeeded();
    user.run(&["config", "check"]).succeeded();
}

#[test]
fn the_doctor_warns_of_guards_in_shadow() {
    let user = User::with_config("guards: {sensitive_files: {mode: shadow}}\n");
    user.run(&["install", "claude"]).succeeded();
    let in_shadow = |user: &User| {
        let (_, found) = checks(user, "claude");
        let told = found.into_iter().filter(|(_, text)| text.contains("is in shadow"));
        told.map(|(grade, text)| format!("{grade}: {text}")).collect::<Vec<_>>()
    };
    let told = "warning: the guard `guards.sensitive_files` is in shadow: it stops nothing, and asks nobody";
    assert_eq!(in_shadow(&user), [told]);
    // One that is switched off is not there at all.
    user.configure("guards: {sensitive_files: {mode: shadow, enabled: false}}\n");
    user.run(&["config", "pin"]).succeeded();
    assert_eq!(in_shadow(&user), [""; 0]);
    user.configure("guards: {command_safety: {mode: shadow}, sensitive_files: {mode: shadow}}\n");
    user.run(&["config", "pin"]).succeeded();
    assert_eq!(in_shadow(&user).len(), 2);
    user.configure("guards: {command_safety: {shadow: [git.force-push]}}\n");
    user.run(&["config", "pin"]).succeeded();
    let told = "warning: the rule `git.force-push` of `guards.command_safety` is in shadow: it stops nothing, and asks nobody";
    assert_eq!(in_shadow(&user), [told]);
}

#[test]
fn the_doctor_says_what_no_hook_sees() {
    let user = User::new();
    for (client, said) in
        [("codex", "`write_stdin` types into an open shell"), ("windsurf", "what is typed into")]
    {
        finds(&checks(&user, client).1, "note", said);
    }
}

#[test]
fn every_weakening_of_an_entry_is_failed() {
    for (what, from, to) in [
        ("narrowed", "\"matcher\": \"*\"", "\"matcher\": \"Read\""),
        ("async", "\"type\": \"command\"", "\"async\": true, \"type\": \"command\""),
        ("too late", "\"timeout\": 300", "\"timeout\": 0.001"),
        ("open", "\"onFailure\": \"block\"", "\"onFailure\": \"continue\""),
        ("unpinned", " --pinned", ""),
        ("of another operator", "config/backstop", "work/.evil/backstop"),
    ] {
        let user = with_claude("{}");
        user.run(&["install", "claude"]).succeeded();
        let text = std::fs::read_to_string(claude_settings(&user)).unwrap();
        assert!(text.contains(from), "{what}: {text}");
        std::fs::write(claude_settings(&user), text.replacen(from, to, 1)).unwrap();
        let (code, found) = checks(&user, "claude");
        assert_eq!(code, Some(1), "{what}");
        finds(&found, "failed", "not what `backstop install` writes");
        user.run(&["install", "claude"]).succeeded();
        assert_eq!(checks(&user, "claude").0, Some(0), "{what}: the hint mends it");
    }
    let user = User::new();
    user.run(&["install", "opencode"]).succeeded();
    let plugin = user.path().join("config/opencode/plugins/backstop.js");
    let text = std::fs::read_to_string(&plugin).unwrap();
    std::fs::write(&plugin, text.replace("if (code === 2)", "if (code === 77)")).unwrap();
    finds(&checks(&user, "opencode").1, "failed", "not what `backstop install` writes");
}

#[test]
fn what_lets_everything_pass_or_nothing_is_failed() {
    let user = User::with_config("guards: {command_safety: {enabled: false}}\n");
    user.run(&["install", "claude"]).succeeded();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "a call that nothing should let pass was not refused");

    user.configure("{}\n");
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "is not what was pinned");
    for told in [&["config", "check"][..], &["status"], &["approvals", "list"]] {
        let told = user.run(told).succeeded();
        assert!(
            told.err.contains("is not what was pinned") && told.err.contains("config pin"),
            "{}",
            told.whole()
        );
    }
    finds(&found, "failed", "a harmless call was refused");
    user.run(&["config", "pin"]).succeeded();
    assert!(!user.run(&["status"]).succeeded().err.contains("pinned"));
    assert_eq!(checks(&user, "claude").0, Some(0));

    user.configure("guards: {no_such_guard: {}}\n");
    finds(&checks(&user, "claude").1, "failed", "no_such_guard");
    user.configure("{}\n");
    std::fs::write(user.path().join("data/backstop/backstop.db"), "no database at all, but some text")
        .unwrap();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "the database can't be read");
}

#[test]
fn what_switches_hooks_off_or_moves_the_client_is_failed() {
    let user = with_claude("{}");
    std::fs::create_dir(user.work().join(".git")).unwrap();
    user.run(&["install", "claude", "qwen"]).succeeded();
    let settings = user.work().join(".claude/settings.local.json");
    std::fs::create_dir(settings.parent().unwrap()).unwrap();
    std::fs::write(&settings, "{\"disableAllHooks\": true}").unwrap();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "it runs no hooks here");

    let mut moved = user.command(&["doctor", "qwen", "--json"]);
    let done = done(moved.env("QWEN_HOME", user.path().join("other")).spawn().unwrap());
    assert_eq!(done.code, Some(1), "{}", done.whole());
    assert!(done.out.contains("`QWEN_HOME` moves it to where nothing is installed"), "{}", done.whole());
}

#[test]
fn what_loads_code_into_hooks_is_failed_or_told_of() {
    let user = with_claude("{\"env\": {\"BASH_ENV\": \"./mine.sh\"}}");
    std::fs::create_dir(user.work().join(".git")).unwrap();
    user.run(&["install", "claude", "gemini"]).succeeded();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(0), "what its user says is theirs to say");
    finds(&found, "warning", "sets `BASH_ENV` for all that is started");
    std::fs::create_dir(user.work().join(".claude")).unwrap();
    let settings = user.work().join(".claude/settings.json");
    std::fs::write(&settings, "{\"env\": {\"LD_PRELOAD\": \"./x.so\"}}").unwrap();
    let (code, found) = checks(&user, "claude");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "sets `LD_PRELOAD` for all that is started");
    std::fs::write(user.work().join(".env"), "LD_PRELOAD=./x.so\n").unwrap();
    let (code, found) = checks(&user, "gemini");
    assert_eq!(code, Some(1));
    finds(&found, "failed", "sets `LD_PRELOAD` for all that is started");
}

#[test]
fn what_is_left_to_do_is_the_last_and_loudest_line() {
    let user = User::new();
    let done = user.run(&["install", "codex", "claude"]).succeeded();
    let last = done.err.trim_end().lines().last().unwrap();
    assert!(last.starts_with("ONE STEP IS LEFT: start `codex` and enter `/hooks`"), "{}", done.whole());
    finds(&checks(&user, "codex").1, "failed", "was not told to trust");
    assert!(!user.run(&["install", "claude"]).succeeded().err.contains("ONE STEP"));
    assert!(!user.run(&["install", "codex", "--dry-run"]).succeeded().err.contains("ONE STEP"));
}

#[test]
fn the_last_event_of_a_client_is_shown() {
    let user = User::new();
    user.run(&["install", "claude"]).succeeded();
    finds(&checks(&user, "claude").1, "note", "no event of it has been heard");
    finds(&checks(&user, "claude").1, "note", "no event of it has been heard");
    let event = serde_json::json!({
        "hook_event_name": "PreToolUse", "session_id": "s-real", "cwd": user.work(), "tool_name": "Bash",
        "tool_input": { "command": "ls" },
    });
    user.feed(&["hook", "claude"], event.to_string()).succeeded();
    finds(&checks(&user, "claude").1, "note", "last heard of at ");
    let told = user.run(&["status", "--json"]).succeeded().json();
    let rows = told.as_array().unwrap();
    let heard = |client: &str| rows.iter().find(|row| row["client"] == client).unwrap()["heard"].clone();
    assert!(heard("claude")["at"].is_string() || heard("claude")["at"].is_number(), "{told:#}");
    assert!(heard("gemini").is_null());
}

/// The client starts the line's command with its session on stdin, and shows what is printed.
#[test]
fn a_status_line_counts_what_the_session_was_judged() {
    let config = "hooks: {tool_call: {pre_call: [{type: policy, config: {deny_tools: [exec]}}]}}\n";
    let user = User::with_config(config);
    user.run(&["install", "claude"]).succeeded();
    finds(&checks(&user, "claude").1, "good", "its status line says that it is guarded");
    let settings: Value =
        serde_json::from_str(&std::fs::read_to_string(claude_settings(&user)).unwrap()).unwrap();
    let command = settings["statusLine"]["command"].as_str().unwrap().to_owned();
    let shown = |session: &str| {
        let given = user.path().join("given.json");
        std::fs::write(&given, serde_json::json!({ "session_id": session }).to_string()).unwrap();
        let child = std::process::Command::new("/bin/sh")
            .args(["-c", &command])
            .current_dir(user.work())
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(std::fs::File::open(&given).unwrap())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn();
        let shown = done(child.unwrap()).succeeded();
        assert_eq!(shown.out.lines().count(), 1, "{}", shown.whole());
        shown.out.trim_end().to_owned()
    };
    assert_eq!(shown("s-1"), "backstop (standard) \u{b7} no call of this session was heard of yet");
    for (session, tool, id) in
        [("s-1", "Bash", "t-1"), ("s-1", "Bash", "t-1"), ("s-1", "Read", "t-2"), ("s-2", "Bash", "t-3")]
    {
        let event = serde_json::json!({
            "hook_event_name": "PreToolUse", "session_id": session, "cwd": user.work(), "tool_name": tool,
            "tool_use_id": id, "tool_input": { "command": "ls", "file_path": user.work().join("a.txt") },
        });
        user.feed(&["hook", "claude"], event.to_string());
    }
    assert_eq!(shown("s-1"), "guarded by backstop (standard) \u{b7} 2 judged, 1 blocked, 0 asked");
    assert_eq!(shown("s-2"), "guarded by backstop (standard) \u{b7} 1 judged, 1 blocked, 0 asked");
    user.configure("{}\n");
    let refused = shown("s-1");
    assert!(refused.starts_with("backstop: calls are refused, run `backstop doctor`: "), "{refused}");
    let theirs = std::fs::read_to_string(claude_settings(&user)).unwrap().replace(&command, "date");
    std::fs::write(claude_settings(&user), theirs).unwrap();
    finds(&checks(&user, "claude").1, "note", "its status line is its user's");
}

#[test]
fn the_doctor_compares_versions() {
    let user = User::new();
    user.run(&["install", "claude"]).succeeded();
    let programs = user.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let client = programs.join("claude");
    for (version, grade) in [("2.1.330 (Claude Code)", "good"), ("2.2.0 (Claude Code)", "warning")] {
        std::fs::write(&client, format!("#!/bin/sh\necho '{version}'\n")).unwrap();
        std::fs::set_permissions(&client, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = user.command(&["doctor", "claude", "--json"]);
        command.env("PATH", format!("{}:/usr/bin:/bin", programs.display()));
        let done = done(command.spawn().unwrap()).succeeded();
        let told = done.json();
        let found = told[0]["checks"].as_array().unwrap().iter().any(|check| {
            check["grade"] == grade && check["text"].as_str().unwrap().starts_with("version 2.")
        });
        assert!(found, "{told:#}");
    }
}

#[test]
fn a_file_that_hooks_would_not_read_is_refused() {
    let user = with_claude("{}");
    let done = user.run(&["--config", "/elsewhere/backstop.yaml", "install", "claude"]);
    assert_eq!(done.code, Some(2), "{}", done.whole());
    assert!(done.whole().contains("`--config` has no effect"), "{}", done.whole());
    assert_eq!(std::fs::read_to_string(claude_settings(&user)).unwrap(), "{}");
}

#[test]
fn a_client_must_be_named() {
    let user = User::new();
    for args in [&["install"][..], &["install", "cloude"], &["install", "claude", "--all"], &["doctor", "x"]]
    {
        let done = user.run(args);
        assert_eq!(done.code, Some(2), "{}", done.whole());
    }
}
