//! `backstop plugins`: consent, trust, and that what is trusted judges.

use std::path::PathBuf;

use super::support::User;

const MANIFEST: &str = r#"{"id": "no-canvas", "version": "1.0.0", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
    "points": [{"point": "before_tool_call", "matcher": ["canvas"]}], "permissions": {"env": ["MARK"], "files": {"read": ["${data}"]}}}"#;
const BLOCKS: &str = "echo 'no canvas here' >&2; exit 2\n";

fn source(user: &User, code: &str) -> String {
    let folder = user.path().join("source");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.plugin.json"), MANIFEST).unwrap();
    std::fs::write(folder.join("hook.sh"), code).unwrap();
    folder.to_str().unwrap().to_owned()
}

fn hash(user: &User, plugin: &str) -> String {
    let told = user.run(&["plugins", "inspect", plugin, "--json"]).succeeded().json();
    told["hash"].as_str().unwrap().to_owned()
}

pub(super) fn installed(user: &User) -> String {
    let folder = source(user, BLOCKS);
    let hash = hash(user, &folder);
    user.run(&["plugins", "install", &folder, "--yes", "--trust", &hash]).succeeded();
    hash
}

fn code(user: &User) -> PathBuf {
    let list = user.run(&["plugins", "list", "--json"]).succeeded().json();
    PathBuf::from(list[0]["folder"].as_str().unwrap()).join("hook.sh")
}

fn state(user: &User) -> String {
    user.run(&["plugins", "list", "--json"]).succeeded().json()[0]["state"].as_str().unwrap().to_owned()
}

fn canvas(user: &User) -> (Option<i32>, String) {
    let done = user.run(&["check", "--tool", "canvas", "--args", "{}"]);
    (done.code, done.whole())
}

#[test]
fn the_trail_says_who_did_what_with_which_content() {
    let user = User::new();
    let hash = installed(&user);
    user.run(&["plugins", "trust", "no-canvas", "--yes", "--trust", &hash]).succeeded();
    user.run(&["plugins", "disable", "no-canvas"]).succeeded();
    user.run(&["plugins", "enable", "no-canvas"]).succeeded();
    user.run(&["plugins", "remove", "no-canvas"]).succeeded();
    let told = user.trail();
    let told: Vec<_> =
        told.iter().filter(|entry| entry["kind"].as_str().unwrap().starts_with("plugin.")).collect();
    let kinds = ["plugin.installed", "plugin.trusted", "plugin.disabled", "plugin.enabled", "plugin.removed"];
    assert_eq!(told.iter().map(|entry| entry["kind"].as_str().unwrap()).collect::<Vec<_>>(), kinds);
    for entry in told {
        assert_eq!(
            (&entry["body"]["plugin"], &entry["body"]["hash"]),
            (&"no-canvas".into(), &hash.as_str().into())
        );
        assert!(entry["body"]["by"].as_str().unwrap().contains("(uid "), "{entry}");
    }
}

#[test]
fn where_the_configuration_cannot_be_read_rights_are_only_taken_away() {
    let user = User::new();
    let hash = installed(&user);
    let folder = source(&user, BLOCKS);
    let (unreadable, none) = ("nonsense: true\n", "{}\n");
    let goes_on = |command: &str| {
        let done = user.run(&["plugins", command, "no-canvas"]).succeeded();
        let warning = "warning: the audit trail does not tell of this";
        assert!(done.err.contains(warning) && done.err.contains("nonsense"), "{}", done.whole());
    };
    user.configure(unreadable);
    goes_on("disable");
    for args in [
        vec!["plugins", "enable", "no-canvas"],
        vec!["plugins", "trust", "no-canvas", "--yes", "--trust", &hash],
        vec!["plugins", "install", &folder, "--yes", "--trust", &hash],
    ] {
        let refused = user.run(&args);
        assert!(refused.code != Some(0) && refused.err.contains("nonsense"), "{}", refused.whole());
    }
    user.configure(none);
    assert_eq!(state(&user), "off");
    user.configure(unreadable);
    goes_on("remove");
    user.configure(none);
    let list = user.run(&["plugins", "list"]).succeeded();
    assert!(list.err.contains("no plugins are installed"), "{}", list.whole());
    let told = user.trail();
    let told = told.iter().map(|entry| entry["kind"].as_str().unwrap());
    assert_eq!(told.filter(|kind| kind.starts_with("plugin.")).collect::<Vec<_>>(), ["plugin.installed"]);
}

#[test]
fn what_is_trusted_judges_and_what_is_off_does_not() {
    let user = User::new();
    assert!(!canvas(&user).1.contains("no canvas here"));
    installed(&user);
    assert!(canvas(&user).1.contains("no canvas here"), "{}", canvas(&user).1);
    let hooks = user.run(&["hooks"]).succeeded().out;
    assert!(hooks.contains("no-canvas"), "{hooks}");
    user.run(&["plugins", "disable", "no-canvas"]).succeeded();
    assert_eq!(state(&user), "off");
    assert!(!canvas(&user).1.contains("no canvas here"));
    user.run(&["plugins", "enable", "no-canvas"]).succeeded();
    assert!(canvas(&user).1.contains("no canvas here"));
    user.configure("plugins: {entries: {no-canvas: {enabled: false}}}\n");
    assert_eq!(state(&user), "off", "the configuration has the last word");
    assert!(!canvas(&user).1.contains("no canvas here"));
    user.configure("");
    user.run(&["plugins", "remove", "no-canvas"]).succeeded();
    assert!(!canvas(&user).1.contains("no canvas here"));
}

/// A coding agent may take `PATH` out of a repository's files and hand it to the hooks that it starts.
#[test]
fn law_14_path_chooses_no_program_of_a_plugin() {
    use std::os::unix::fs::PermissionsExt as _;

    let user = User::new();
    installed(&user);
    let script = r#"{"id": "under-node", "version": "1", "kind": "script", "entry": "./index.js",
        "points": [{"point": "before_tool_call"}]}"#;
    let folder = user.path().join("script");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("backstop.plugin.json"), script).unwrap();
    let code = "export default { id: 'under-node', register(api) {
        api.on('before_tool_call', (event) => event.toolName === 'nodes'
            ? { block: true, blockReason: `no nodes, ${process.release.name}` } : undefined); } };";
    std::fs::write(folder.join("index.js"), code).unwrap();
    let folder = folder.to_str().unwrap();
    user.run(&["plugins", "install", folder, "--yes", "--trust", &hash(&user, folder)]).succeeded();
    user.configure("plugins: {entries: {under-node: {runtime: node}}}\n");
    let (lures, marker) = (user.path().join("lures"), user.path().join("marker"));
    std::fs::create_dir(&lures).unwrap();
    for name in ["sh", "node"] {
        let lure = format!("#!/bin/sh\n: > '{}'\n", marker.display());
        std::fs::write(lures.join(name), lure).unwrap();
        std::fs::set_permissions(lures.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    // Where the tests run as root, everything of theirs would be the system's.
    let _ = std::os::unix::fs::chown(&lures, Some(65_534), None);
    let path = std::env::var("PATH").unwrap();
    let ask = |tool: &str, path: &str| {
        let args = ["check", "--tool", tool, "--args", "{}"];
        let done = user.command(&args).env("PATH", path).output().unwrap();
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    };
    for (tool, said) in [("canvas", "no canvas here"), ("nodes", "no nodes, node")] {
        let whole = ask(tool, &format!("{}:{path}", lures.display()));
        assert!(whole.contains(said), "{whole}");
        assert!(!marker.exists(), "`PATH` chose who judges");
        let none = ask(tool, lures.to_str().unwrap());
        assert!(none.contains("belongs to root") && none.contains("plugins.programs"), "{none}");
        assert!(!marker.exists());
    }
}

#[test]
fn law_05_a_plugin_that_has_changed_refuses_until_it_is_trusted_again() {
    let user = User::new();
    let old = installed(&user);
    std::fs::write(code(&user), "exit 0\n").unwrap();
    assert_eq!(state(&user), "changed");
    let (exit, said) = canvas(&user);
    assert!(exit == Some(2) && said.contains("not those that are trusted"), "{said}");
    let refused = user.run(&["plugins", "trust", "no-canvas", "--yes", "--trust", &old]);
    assert!(refused.code != Some(0) && refused.err.contains("and not"), "{}", refused.whole());
    let now = hash(&user, "no-canvas");
    user.run(&["plugins", "trust", "no-canvas", "--yes", "--trust", &now]).succeeded();
    assert_eq!(state(&user), "on");
    assert!(!canvas(&user).1.contains("no canvas here"));
}

#[test]
fn nobody_consents_but_a_person_or_whoever_wrote_the_digest_down() {
    let user = User::new();
    let folder = source(&user, BLOCKS);
    let hash = hash(&user, &folder);
    let asked = user.run(&["plugins", "install", &folder]);
    assert!(asked.code == Some(2) && asked.err.contains("at a terminal"), "{}", asked.whole());
    assert_eq!(user.run(&["plugins", "install", &folder, "--yes"]).code, Some(2));
    assert_eq!(user.run(&["plugins", "install", &folder, "--trust", &hash]).code, Some(2));
    let other = format!("sha256:{}", "0".repeat(64));
    assert_ne!(user.run(&["plugins", "install", &folder, "--yes", "--trust", &other]).code, Some(0));
    for args in [
        vec!["plugins", "install", &folder, "--yes", "--trust", &hash],
        vec!["plugins", "trust", "no-canvas", "--yes", "--trust", &hash],
        vec!["plugins", "enable", "no-canvas"],
        vec!["plugins", "disable", "no-canvas"],
        vec!["plugins", "remove", "no-canvas"],
    ] {
        let child = user.command(&args).env("AI_AGENT", "1").output().unwrap();
        let said = String::from_utf8_lossy(&child.stderr).into_owned();
        assert!(said.contains("is for people"), "{args:?}: {said}");
    }
    let list = user.run(&["plugins", "list"]).succeeded();
    assert!(list.err.contains("no plugins are installed"), "{}", list.whole());
}

#[test]
fn a_plugin_says_nothing_in_our_words_before_consent() {
    let user = User::new();
    let folder = source(&user, BLOCKS);
    let long = "harmless ".repeat(20);
    let manifest = serde_json::json!({
        "id": "no-canvas", "version": "1.0.0", "kind": "command",
        "command": ["sh", "-c", format!("{long}\n; the end of it")],
        "description": format!("It is nice.\nfound in its files:\n  nothing\n{}", "long ".repeat(1000)),
        "points": [{"point": "before_tool_call", "id": "one\nfrom elsewhere", "matcher": ["canvas"]}],
        "contracts": {"tools": ["a_tool_of_it"], "trustedToolPolicies": ["a_policy"]},
    });
    std::fs::write(std::path::Path::new(&folder).join("backstop.plugin.json"), manifest.to_string()).unwrap();
    let done = user.run(&["plugins", "inspect", &folder]);
    let told = done.whole();
    assert!(!told.lines().any(|line| line.starts_with("found in its files")), "{told}");
    assert!(!told.lines().any(|line| line.starts_with("from elsewhere")), "{told}");
    assert!(told.lines().all(|line| line.len() < 1000), "{told}");
    if done.code == Some(0) {
        for said in ["the end of it", "a_tool_of_it", "a_policy", "It is nice."] {
            assert!(told.contains(said), "{said}: {told}");
        }
    }
}

#[test]
fn a_person_is_shown_what_a_plugin_asks_for_and_gets() {
    let user = User::with_config(
        "plugins: {entries: {no-canvas: {grants: {env: [MARK, OTHER], files: {write: ['${data}']}}}}}\n",
    );
    let folder = source(&user, "fetch(1) # \u{202e}\n");
    let told = user.run(&["plugins", "inspect", &folder]).succeeded().out;
    for said in [
        "with all the rights that you have",
        "see the environment variable `MARK`",
        "read files in the plugin's folder for data",
        "does not ask for",
        "`OTHER`",
        "before_tool_call",
        "can't be seen",
        "uses the network: hook.sh",
        "not installed",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    let json = user.run(&["plugins", "inspect", &folder, "--json"]).succeeded().json();
    assert_eq!(json["gets"].as_array().unwrap().len(), 2, "{json}");
    let bad = User::with_config("plugins: {entries: {no-canvas: {grants: {hosts: ['*']}}}}\n");
    let folder = source(&bad, BLOCKS);
    let refused = bad.run(&["plugins", "inspect", &folder]);
    assert!(refused.code == Some(2) && refused.err.contains("backstop.yaml:1:"), "{}", refused.whole());
}

#[test]
fn a_list_that_cannot_be_read_stops_whatever_judges() {
    let user = User::new();
    installed(&user);
    std::fs::write(user.path().join("data/backstop/plugins/trust.json"), "{").unwrap();
    let (exit, said) = canvas(&user);
    assert!(exit != Some(0) && said.contains("trust.json"), "{said}");
}

#[test]
fn options_that_the_plugin_does_not_have_are_an_error_where_they_stand() {
    let user = User::new();
    let folder = source(&user, BLOCKS);
    let schema = r#""configSchema": {"additionalProperties": false, "properties": {"level": {"type": "integer"}}}, "points""#;
    let manifest = MANIFEST.replace("\"points\"", schema);
    std::fs::write(std::path::Path::new(&folder).join("backstop.plugin.json"), manifest).unwrap();
    let hash = hash(&user, &folder);
    user.run(&["plugins", "install", &folder, "--yes", "--trust", &hash]).succeeded();
    assert!(canvas(&user).1.contains("no canvas here"), "without options it has all that it needs");
    for (config, said) in
        [("{level: high}", "`level` is no integer"), ("{levle: 1}", "did you mean `level`?")]
    {
        user.configure(&format!("plugins:\n  entries:\n    no-canvas:\n      config: {config}\n"));
        let (code, told) = canvas(&user);
        assert_ne!(code, Some(0), "{told}");
        assert!(told.contains(said) && told.contains(":4:15") && !told.contains("high"), "{told}");
    }
    user.configure("plugins: {entries: {no-canvas: {config: {level: 1}}}}\n");
    assert!(canvas(&user).1.contains("no canvas here"));
}

/// It has left its group, is given another environment and has lost its parent: nothing but who adopts it says whose it is.
#[cfg(target_os = "linux")]
#[test]
fn what_a_plugin_leaves_behind_is_gone_when_the_command_ends() {
    let user = User::new();
    let file = user.path().join("left");
    let file = file.to_str().unwrap();
    let inner = format!("echo $$ > {file}; exec sleep 600");
    let code = format!(
        "(setsid env -i /bin/sh -c '{inner}' < /dev/null > /dev/null 2>&1 &)\nwhile [ ! -s {file} ]; do sleep 0.05; done\n{BLOCKS}"
    );
    let folder = source(&user, &code);
    let hash = hash(&user, &folder);
    user.run(&["plugins", "install", &folder, "--yes", "--trust", &hash]).succeeded();
    assert!(canvas(&user).1.contains("no canvas here"), "{}", canvas(&user).1);
    let left = std::fs::read_to_string(file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", left.trim())).unwrap_or_default();
    let runs = stat.rsplit(") ").next().is_some_and(|rest| !stat.is_empty() && !rest.starts_with(['Z', 'X']));
    assert!(!runs, "{stat}");
}

#[test]
fn a_place_that_is_none_is_told_from_a_plugin_and_shows_no_password() {
    let user = User::new();
    let secret = ["hunt", "er2"].concat();
    for command in ["install", "inspect"] {
        for place in [
            format!("https://me:{secret}@example.org/a.tgz"),
            format!("git:http://{secret}@example.org/a"),
            "npm:../x".to_owned(),
        ] {
            let done = user.run(&["plugins", command, &place]);
            let said = done.whole();
            assert_ne!(done.code, Some(0), "{said}");
            assert!(said.contains("is no place to get a plugin from") && said.contains("hint: "), "{said}");
            assert!(!said.contains(&secret), "{said}");
        }
    }
    let none = user.path().join("typo");
    let none = none.to_str().unwrap();
    for command in ["test", "types"] {
        let done = user.run(&["plugins", command, none]);
        assert!(done.code != Some(0) && done.whole().contains("there is no folder"), "{}", done.whole());
    }
    assert!(!user.path().join("typo").exists());
}
