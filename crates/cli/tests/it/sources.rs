//! `backstop plugins install` from archives and repositories, and what judges it.

use std::path::Path;
use std::process::Command;

use super::support::{PATIENCE, User};

const MANIFEST: &str = r#"{"id": "mine", "version": "1.0.0", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
    "points": [{"point": "before_tool_call", "matcher": ["canvas"]}]}"#;
/// Judges installations by a script.
const GUARD: &str = r#"{"id": "doorkeeper", "version": "1.0.0", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
    "points": [{"point": "before_install"}]}"#;

fn folder(at: &Path, manifest: &str, code: &str) -> String {
    std::fs::create_dir_all(at).unwrap();
    std::fs::write(at.join("backstop.plugin.json"), manifest).unwrap();
    std::fs::write(at.join("hook.sh"), code).unwrap();
    at.to_str().unwrap().to_owned()
}

fn ran(program: &str, args: &[&str], at: &Path) -> String {
    let output = Command::new(program).args(args).current_dir(at).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn hash(user: &User, source: &str) -> String {
    let told = user.run(&["plugins", "inspect", source, "--json"]).succeeded().json();
    told["hash"].as_str().unwrap().to_owned()
}

/// Installs it as it is.
fn install(user: &User, source: &str) -> super::support::Done {
    let hash = hash(user, source);
    user.run(&["plugins", "install", source, "--yes", "--trust", &hash])
}

fn installed(user: &User) -> Vec<(String, String)> {
    let list = user.run(&["plugins", "list", "--json"]).succeeded().json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|plugin| (text(&plugin["id"]), text(&plugin["source"]))).collect()
}

#[test]
fn archives_and_commits_are_installed_and_where_they_came_from_is_listed() {
    let user = User::new();
    let source = user.path().join("mine-1.0");
    folder(&source, MANIFEST, "exit 0\n");
    ran("tar", &["-czf", "mine.tgz", "mine-1.0"], user.path());
    let archive = user.path().join("mine.tgz").display().to_string();
    install(&user, &archive).succeeded();
    assert_eq!(installed(&user), [("mine".to_owned(), archive.clone())]);
    let git = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"];
    ran("git", &["init", "--quiet", "-b", "main"], &source);
    ran("git", &["add", "--all"], &source);
    ran("git", &[&git[..], &["commit", "--quiet", "-m", "x"]].concat(), &source);
    let commit = ran("git", &["rev-parse", "HEAD"], &source);
    let place = format!("git:{}#main", source.display());
    assert_eq!(hash(&user, &place), hash(&user, &archive), "the same files are the same plugin");
    install(&user, &place).succeeded();
    assert_eq!(installed(&user), [("mine".to_owned(), format!("{place} at {commit}"))]);
    let shown = user.run(&["plugins", "inspect", &place]).succeeded().out;
    assert!(shown.contains(&commit), "{shown}");
}

#[test]
fn whoever_is_no_person_fetches_nothing() {
    let user = User::new();
    for place in ["git:/nowhere", "npm:left-pad"] {
        for args in [vec!["plugins", "inspect", place], vec!["plugins", "install", place]] {
            let child = user.command(&args).env("AI_AGENT", "1").output().unwrap();
            let said = String::from_utf8_lossy(&child.stderr).into_owned();
            assert!(said.contains("is for people"), "{args:?}: {said}");
        }
    }
}

#[test]
fn what_is_installed_judges_what_is_to_be_installed_and_fails_closed() {
    let user = User::new();
    let doorkeeper = user.path().join("doorkeeper");
    let seen = user.path().join("seen.json");
    let mine = folder(&user.path().join("mine"), MANIFEST, "fetch(1) # \u{202e}\n");
    for (code, said) in [
        ("echo 'not this one' >&2; exit 2", "not this one"),
        ("exit 3", "doorkeeper"),
        ("echo '{\"requireApproval\": {\"title\": \"?\"}}'", "doorkeeper"),
        ("echo '{\"block\": \"yes\"}'", "doorkeeper"),
    ] {
        install(&user, &folder(&doorkeeper, GUARD, code));
        user.run(&["plugins", "disable", "doorkeeper"]).succeeded();
        install(&user, &folder(&doorkeeper, GUARD, code)).succeeded();
        user.run(&["plugins", "enable", "doorkeeper"]).succeeded();
        let refused = install(&user, &mine);
        let is_said = refused.err.contains(said) && refused.err.contains("stops the installation");
        assert!(
            refused.code == Some(1) && is_said && refused.err.contains("hint: "),
            "{code}: {}",
            refused.whole()
        );
        assert!(installed(&user).iter().all(|(id, _)| id != "mine"), "{code}");
    }
    user.run(&["plugins", "disable", "doorkeeper"]).succeeded();
    let code = format!(
        "cat > {}; echo '{{\"findings\": [{{\"ruleId\": \"odd\", \"severity\": \"warn\", \"message\": \"looks odd\", \"file\": \"hook.sh\", \"line\": 1}}]}}'",
        seen.display()
    );
    install(&user, &folder(&doorkeeper, GUARD, &code)).succeeded();
    user.run(&["plugins", "enable", "doorkeeper"]).succeeded();
    install(&user, &mine).succeeded();
    let event: serde_json::Value = serde_json::from_slice(&std::fs::read(&seen).unwrap()).unwrap();
    let event = event.get("event").unwrap_or(&event);
    assert_eq!(
        (&event["targetName"], &event["request"]["kind"]),
        (&"mine".into(), &"plugin-dir".into()),
        "{event}"
    );
    assert_eq!(
        (&event["request"]["mode"], &event["plugin"]["version"]),
        (&"install".into(), &"1.0.0".into()),
        "{event}"
    );
    assert_eq!(
        (&event["builtinScan"]["critical"], &event["builtinScan"]["info"]),
        (&1.into(), &1.into()),
        "{event}"
    );
    let audit = user.run(&["log", "--oldest-first", "--json"]).succeeded().out;
    assert!(audit.contains("before_install"), "{audit}");
}

#[test]
fn who_judges_installations_alone_is_in_nobodys_way() {
    let user = User::new();
    install(&user, &folder(&user.path().join("doorkeeper"), GUARD, "exit 0\n")).succeeded();
    install(&user, &folder(&user.path().join("mine"), MANIFEST, "echo 'no canvas here' >&2; exit 2\n"))
        .succeeded();
    // What stands at this event's points is loaded, and the rest is not looked at: its code may be anything.
    let doorkeeper = user.path().join("data/backstop/plugins/code/doorkeeper");
    let code = std::fs::read_dir(&doorkeeper).unwrap().next().unwrap().unwrap().path();
    std::fs::write(code.join("hook.sh"), "changed").unwrap();
    let call = |tool: &str| {
        let event = serde_json::json!({
            "session_id": "s", "cwd": user.work(), "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": {}, "tool_use_id": "t",
        });
        user.feed(&["hook", "claude"], event.to_string()).whole()
    };
    assert!(call("canvas").contains("no canvas here"), "{}", call("canvas"));
    let stopped = user
        .feed(&["hook", "claude"], r#"{"session_id": "s", "hook_event_name": "Stop"}"#)
        .succeeded()
        .whole();
    assert!(!stopped.contains("doorkeeper") && !stopped.contains("not those that are trusted"), "{stopped}");
    // An installation asks it, and finds that it is not what was trusted.
    let refused = user.run(&["plugins", "install", &user.path().join("mine").display().to_string()]);
    assert!(
        refused.code != Some(0) && refused.err.contains("not those that are trusted"),
        "{}",
        refused.whole()
    );
    user.configure("hooks: {on_failure: {'doorkeeper:before_install:before_install-1': allow}}\n");
    assert!(
        call("canvas").contains("no canvas here"),
        "a hook that is named and not loaded is no unknown one"
    );
}

#[test]
fn two_at_once_are_one_and_an_error_and_a_kill_in_the_middle_leaves_what_was() {
    let user = User::new();
    let (reached, gate) = (user.path().join("reached"), user.path().join("gate"));
    ran("mkfifo", &[gate.to_str().unwrap()], user.path());
    let waits =
        format!("cat > /dev/null; echo > {}; cat {} > /dev/null; exit 0", reached.display(), gate.display());
    install(&user, &folder(&user.path().join("doorkeeper"), GUARD, &waits)).succeeded();
    let mine = folder(&user.path().join("mine"), MANIFEST, "exit 0\n");
    let hash = hash(&user, &mine);
    let args = ["plugins", "install", &mine, "--yes", "--trust", &hash];
    let mut first = user.command(&args).spawn().unwrap();
    let begun = std::time::Instant::now();
    while !reached.exists() {
        assert!(begun.elapsed() < PATIENCE, "the installation was never judged");
        std::thread::yield_now();
    }
    let second = user.run(&args);
    let is_said = second.err.contains("another installation") && second.err.contains("hint: ");
    assert!(second.code == Some(1) && is_said, "{}", second.whole());
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(installed(&user).len(), 1, "what was installed is what is installed");
    user.run(&["plugins", "disable", "doorkeeper"]).succeeded();
    user.run(&args).succeeded();
    let staging = user.path().join("data/backstop/plugins/staging");
    assert_eq!(
        std::fs::read_dir(staging).unwrap().count(),
        0,
        "and nothing is left of the one that was killed"
    );
}

#[test]
fn what_is_wrong_names_the_next_step() {
    let user = User::new();
    let not_json = user.path().join("not-json");
    folder(&not_json, "{\"id\": \"mine\",\n \"kin\": }", "");
    let out = user.path().join("out");
    folder(&out, MANIFEST, "");
    std::os::unix::fs::symlink("/etc/hostname", out.join("link")).unwrap();
    let empty = user.path().join("empty.tgz");
    std::fs::write(&empty, "no archive").unwrap();
    for (source, said) in [
        (not_json.to_str().unwrap(), "backstop.plugin.json:2:"),
        (out.to_str().unwrap(), "leads out"),
        (empty.to_str().unwrap(), "archive"),
        ("./nowhere", "nowhere"),
        ("https://example.org/a.tgz", "git:"),
        ("npm:../x", "npm:NAME"),
    ] {
        let done = user.run(&["plugins", "install", source]);
        assert!(
            !matches!(done.code, Some(0) | None) && done.err.contains(said),
            "{source}: {}",
            done.whole()
        );
    }
    // What was unpacked lies in a folder of ours, which tells its author nothing.
    for (files, said) in
        [(&["hook.sh"][..], "` has no manifest"), (&["backstop.plugin.json"], "/backstop.plugin.json:2:")]
    {
        let source = user.path().join("packed");
        folder(&source, "{\"id\": \"mine\",\n \"kin\": }", "");
        let archive = user.path().join("packed.tar");
        let packed = Command::new("tar").arg("-cf").arg(&archive).arg("-C").arg(&source).args(files).status();
        assert!(packed.unwrap().success());
        for words in [["plugins", "install"], ["plugins", "inspect"]] {
            let done = user.run(&[words[0], words[1], archive.to_str().unwrap()]);
            let shown = archive.to_str().unwrap();
            assert!(done.err.contains(&format!("{shown}{said}")), "{}", done.whole());
        }
    }
    // No program of the machine is where the system looks.
    for (source, tool) in [("git:/nowhere", "git"), ("npm:left-pad", "npm")] {
        let mut command = user.command(&["plugins", "install", source]);
        let done = super::support::done(command.env("PATH", user.path()).spawn().unwrap());
        assert!(done.err.contains(&format!("install {tool}")), "{}", done.whole());
    }
}

#[test]
fn what_takes_the_place_of_another_says_so_and_from_where_that_came() {
    let user = User::new();
    let first = folder(&user.path().join("mine"), MANIFEST, "exit 0\n");
    let fresh = install(&user, &first).succeeded();
    assert!(!fresh.err.contains("replaces"), "{}", fresh.whole());
    // The same place again: an update.
    let update = install(&user, &first).succeeded();
    let said = format!("replaces mine 1.0.0 from {first}, and takes over its grants");
    assert!(update.err.contains(&said) && !update.err.contains("another source"), "{}", update.whole());
    // Somebody else's plugin that calls itself the same.
    let other = folder(&user.path().join("nice-thing"), MANIFEST, "exit 1\n");
    let replaced = install(&user, &other).succeeded();
    assert!(replaced.err.contains(&said) && replaced.err.contains("another source"), "{}", replaced.whole());
}

#[test]
fn a_plugin_can_be_configured_before_it_is_installed_and_by_nobody_else() {
    let with_tool =
        MANIFEST.replacen("\"points\"", "\"contracts\": {\"tools\": [\"my_tool\"]}, \"points\"", 1);
    let config = "plugins: {entries: {mine: {config: {}}, later: {}}}\nhooks: {on_failure: {'mine:before_tool_call:hook': block}}\n\
                  agent: {tools: [read, my_tool]}\n";
    let user = User::with_config(config);
    let source = folder(&user.path().join("mine"), &with_tool, "exit 0\n");
    let refused = user.run(&["hooks"]);
    assert!(refused.code != Some(0), "{}", refused.whole());
    let done = install(&user, &source).succeeded();
    for said in ["`plugins.entries.mine` for it already", "`plugins.entries.later`", "backstop.yaml:1:"] {
        assert!(done.err.contains(said), "{said}: {}", done.whole());
    }
    // What is still not there is still an error for everybody else.
    let refused = user.run(&["hooks"]);
    assert!(refused.code != Some(0) && refused.err.contains("`later`"), "{}", refused.whole());
    let later = folder(&user.path().join("later"), &MANIFEST.replacen("mine", "later", 1), "exit 0\n");
    let done = install(&user, &later).succeeded();
    assert!(!done.err.contains("`plugins.entries.mine`"), "{}", done.whole());
    user.run(&["hooks"]).succeeded();
    // Any other fault of the configuration is one here, too.
    let hash = hash(&user, &later);
    user.configure(&config.replacen("block", "blokc", 1));
    let refused = user.run(&["plugins", "install", &later, "--yes", "--trust", &hash]);
    assert!(refused.code != Some(0) && refused.err.contains("blokc"), "{}", refused.whole());
}
