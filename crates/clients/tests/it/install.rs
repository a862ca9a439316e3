//! Installing into real files: the laws, for any configuration that a client could have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use backstop_clients::Client;
use backstop_clients::install::{
    Folders, HookCommand, PlanError, Scope, StatusLine, plan_install, plan_uninstall, status, status_line,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const PROGRAM: &str = "/opt/back stop/backstop";

struct Home {
    folder: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn folders(&self) -> Folders {
        let at = self.folder.path();
        Folders::new(at.join("home"), at.join("project"))
    }

    fn config(&self, client: Client) -> PathBuf {
        client.layout().user_path(&self.folders())
    }

    fn write(&self, client: Client, text: &str) {
        let path = self.config(client);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, client: Client) -> Option<String> {
        fs::read_to_string(self.config(client)).ok()
    }

    fn install(&self, client: Client) {
        plan_install(client, Scope::User, &self.folders(), Path::new(PROGRAM)).unwrap().apply().unwrap();
    }

    fn uninstall(&self, client: Client) {
        plan_uninstall(client, Scope::User, &self.folders(), Path::new(PROGRAM)).unwrap().apply().unwrap();
    }

    fn files(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let mut pending = vec![self.folder.path().to_owned()];
        while let Some(folder) = pending.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    found.insert(path);
                }
            }
        }
        found
    }
}

/// Clients whose hooks stand in a file of their own.
const MERGED: [Client; 6] =
    [Client::Claude, Client::Codex, Client::Gemini, Client::Qwen, Client::Cursor, Client::Windsurf];

#[test]
fn installing_twice_is_installing_once_and_uninstalling_leaves_nothing() {
    for client in Client::ALL {
        for scope in [Scope::User, Scope::Project] {
            let home = Home::new();
            let folders = home.folders();
            let program = Path::new(PROGRAM);
            if client.layout().path(scope, &folders).is_none() {
                continue;
            }
            let plan = plan_install(client, scope, &folders, program).unwrap();
            assert!(!plan.is_empty());
            plan.apply().unwrap();
            assert!(status(client, scope, &folders, program).unwrap().is_current(program), "{client}");
            assert!(plan_install(client, scope, &folders, program).unwrap().is_empty(), "{client}");
            plan_uninstall(client, scope, &folders, program).unwrap().apply().unwrap();
            assert!(status(client, scope, &folders, program).unwrap().is_absent(), "{client}");
            assert_eq!(home.files(), BTreeSet::new(), "{client}");
        }
    }
}

#[test]
fn a_client_that_reads_no_hooks_of_projects_gets_none_there() {
    let home = Home::new();
    let (folders, program) = (home.folders(), Path::new(PROGRAM));
    let error = plan_install(Client::Kimi, Scope::Project, &folders, program).unwrap_err();
    assert!(matches!(error, PlanError::NoProject { client: Client::Kimi }), "{error}");
    assert!(error.to_string().contains("hint: `backstop install kimi`"), "{error}");
    assert!(plan_uninstall(Client::Kimi, Scope::Project, &folders, program).unwrap().is_empty());
    assert!(status(Client::Kimi, Scope::Project, &folders, program).unwrap().is_absent());
}

/// What a user of Kimi Code can have written, in pieces that may follow each other.
const TOML: [&str; 9] = [
    "# mine\n",
    "\n",
    "[providers.p] # theirs\nbase_url = \"http://[::1]/#x\"\n",
    "[models.\"a.b\"]\nnames = [\n  \"]\", # no end\n  [ 'x' ],\n]\n",
    "[[hooks]]\nevent = \"Stop\"\ncommand = 'other-guard \"x\"'\n",
    "[[hooks]]\nevent = \"PreToolUse\"\nmatcher = \"Bash\"\ncommand = \"other\" # theirs\n\n",
    "[text]\nlong = \"\"\"\n[[hooks]]\ncommand = 1\n\"\"\"\n",
    "  [loop_control]\n  max = 3\r\n",
    "[last]\nkey = true",
];

proptest! {
    #[test]
    fn whatever_else_stands_in_a_toml_file_stays_to_the_byte(pieces in proptest::collection::vec(0..8_usize, 0..8), last in any::<bool>()) {
        let mut before: String = pieces.iter().map(|piece| TOML[*piece]).collect();
        if last {
            before.push_str(TOML[8]);
        }
        let home = Home::new();
        home.write(Client::Kimi, &before);
        home.install(Client::Kimi);
        let installed = home.read(Client::Kimi).unwrap();
        prop_assert!(installed.starts_with(&before));
        let found = status(Client::Kimi, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
        prop_assert!(found.is_current(Path::new(PROGRAM)), "{found:?}");
        prop_assert_eq!(found.foreign, pieces.iter().filter(|piece| [4, 5].contains(*piece)).count());
        home.install(Client::Kimi);
        prop_assert_eq!(&home.read(Client::Kimi).unwrap(), &installed);
        // What its user adds behind it, or changes in front of it, stays as well.
        let edited = format!("# new\n{installed}\n[more]\nx = 1\n");
        home.write(Client::Kimi, &edited);
        home.uninstall(Client::Kimi);
        let line_end = match (last, before.contains("\r\n")) {
            (true, true) => "\r\n",
            (true, false) => "\n",
            (false, _) => "",
        };
        prop_assert_eq!(home.read(Client::Kimi).unwrap(), format!("# new\n{before}{line_end}\n[more]\nx = 1\n"));
        home.write(Client::Kimi, &before);
        home.install(Client::Kimi);
        home.uninstall(Client::Kimi);
        prop_assert_eq!(home.read(Client::Kimi).unwrap(), before);
        prop_assert_eq!(home.files().len(), 1);
    }
}

#[test]
fn tables_of_ours_are_known_without_marks_and_brought_up_to_date() {
    let home = Home::new();
    home.write(Client::Kimi, "default_model = \"m\"\n");
    home.install(Client::Kimi);
    let installed = home.read(Client::Kimi).unwrap();
    let current = || {
        let found = status(Client::Kimi, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
        (found.is_current(Path::new(PROGRAM)), found)
    };
    for (from, to) in [
        ("/opt/back stop/backstop", "/old/backstop-0.1"),
        ("timeout = 300", "timeout = 1"),
        ("timeout = 300", "timeout = 300\nmatcher = \"Read\""),
        ("event = \"Stop\"", "event = \"Notification\""),
    ] {
        home.write(Client::Kimi, &installed.replace(from, to));
        let (is_current, found) = current();
        assert!(!is_current && !found.is_absent(), "{to}: {found:?}");
        home.install(Client::Kimi);
        assert_eq!(home.read(Client::Kimi).unwrap(), installed, "{to}");
    }
    // One that is there twice judges twice where its command differs; as the client writes it anew, it is the same.
    let again = installed.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n");
    home.write(Client::Kimi, &again);
    assert!(current().0);
    home.uninstall(Client::Kimi);
    assert_eq!(home.read(Client::Kimi).unwrap(), "default_model = \"m\"\n");
}

#[test]
fn toml_that_can_not_be_edited_is_left_alone() {
    for (text, said) in [
        ("hooks = []\n", "`hooks` at line 1 is not a list of tables"),
        ("[x]\ny = 1\n[hooks]\nz = 1\n", "`hooks` at line 3"),
        ("[[hooks]]\nevent = \"Stop\"\n[hooks.more]\n", "`hooks` at line 3"),
        ("[[\"hooks\".x]]\n", "`hooks` at line 1"),
        ("a = \"\n", "a string without its end at line 1, column 5"),
        ("a = [1\n", "a value without its end"),
    ] {
        let home = Home::new();
        home.write(Client::Kimi, text);
        let error = plan_install(Client::Kimi, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap_err();
        assert!(matches!(error, PlanError::Config { .. }) && error.to_string().contains(said), "{error}");
        assert_eq!(home.read(Client::Kimi).unwrap(), text);
    }
}

/// Windsurf's plugin for JetBrains reads a file of its own, which one installation keeps as well.
#[test]
fn a_second_file_of_a_client_is_whole_where_the_first_is() {
    let home = Home::new();
    let (folders, program) = (home.folders(), Path::new(PROGRAM));
    let (first, second) =
        (folders.home.join(".codeium/windsurf/hooks.json"), folders.home.join(".codeium/hooks.json"));
    let theirs = "{\n  // mine\n  \"hooks\": {}\n}\n";
    fs::create_dir_all(second.parent().unwrap()).unwrap();
    fs::write(&second, theirs).unwrap();
    plan_install(Client::Windsurf, Scope::User, &folders, program).unwrap().apply().unwrap();
    let text = |path: &Path| fs::read_to_string(path).unwrap();
    assert!(text(&first).contains(PROGRAM) && text(&second).contains(PROGRAM));
    assert!(text(&second).contains("// mine"));
    fs::write(&second, theirs).unwrap();
    let found = status(Client::Windsurf, Scope::User, &folders, program).unwrap();
    assert!(!found.is_current(program), "{found:?}");
    assert!(found.missing.iter().any(|event| event.contains(".codeium/hooks.json")), "{found:?}");
    plan_install(Client::Windsurf, Scope::User, &folders, program).unwrap().apply().unwrap();
    assert!(status(Client::Windsurf, Scope::User, &folders, program).unwrap().is_current(program));
    plan_uninstall(Client::Windsurf, Scope::User, &folders, program).unwrap().apply().unwrap();
    assert_eq!(text(&second), theirs);
    assert!(!first.exists());
}

/// The exact text of every installed file.
#[test]
fn installed_files_are_these() {
    let mut listing = String::new();
    for client in Client::ALL {
        let home = Home::new();
        let plan = plan_install(client, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
        for change in plan.changes {
            let path = change.path.strip_prefix(home.folder.path()).unwrap().display().to_string();
            let program = if change.executable { " (executable)" } else { "" };
            listing.push_str(&format!("=== {client}: {path}{program}\n{}\n", change.after.unwrap()));
        }
    }
    insta::assert_snapshot!(listing);
}

#[test]
fn comments_order_and_other_hooks_stay() {
    let before = r#"{
  // mine
  "zeta": 1,
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "other-guard" }] }, // theirs
    ],
    "Stop": [] // nothing yet
  },
  "alpha": { "b": [1, 2] } /* last */
}
"#;
    let home = Home::new();
    home.write(Client::Claude, before);
    home.install(Client::Claude);
    let text = home.read(Client::Claude).unwrap();
    for kept in [
        "// mine\n",
        "\"command\": \"other-guard\" }] }, // theirs\n",
        "// nothing yet\n",
        "\"alpha\": { \"b\": [1, 2] }, /* last */\n",
    ] {
        assert!(text.contains(kept), "{kept} is gone:\n{text}");
    }
    let found = status(Client::Claude, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
    assert_eq!(found.foreign, 1);
    home.uninstall(Client::Claude);
    assert_eq!(home.read(Client::Claude).unwrap(), before);
    assert_eq!(home.files().len(), 1, "the backup is gone");
}

/// What the settings say of a status line.
fn line(home: &Home) -> Option<Value> {
    let settings: Value = serde_json::from_str(&home.read(Client::Claude)?).unwrap();
    settings.get("statusLine").cloned()
}

#[test]
fn a_status_line_is_ours_where_its_user_has_none() {
    let home = Home::new();
    home.install(Client::Claude);
    assert_eq!(line(&home).unwrap()["command"], "'/opt/back stop/backstop' statusline");
    assert_eq!(status_line(Client::Claude, &home.folders()).unwrap(), Some(StatusLine::Ours));
    // How it is laid out is the user's; what it starts is not.
    let installed = home.read(Client::Claude).unwrap();
    home.write(Client::Claude, &installed.replace("statusline\"", "statusline\", \"padding\": 0"));
    let current = || {
        status(Client::Claude, Scope::User, &home.folders(), Path::new(PROGRAM))
            .unwrap()
            .is_current(Path::new(PROGRAM))
    };
    assert!(current());
    home.install(Client::Claude);
    assert_eq!(line(&home).unwrap()["padding"], 0);
    home.write(
        Client::Claude,
        &installed.replace("back stop/backstop' statusline", "else/backstop' statusline"),
    );
    assert!(!current(), "another program prints it");
    home.install(Client::Claude);
    assert_eq!(home.read(Client::Claude).unwrap(), installed);
    home.uninstall(Client::Claude);
    assert_eq!(home.files(), BTreeSet::new());
}

#[test]
fn a_status_line_of_somebody_else_stays_and_is_told_of() {
    for theirs in [
        r#"{"statusLine": {"type": "command", "command": "date"}}"#,
        r#"{"statusLine": null}"#,
        r#"{"statusLine": {"type": "command", "command": "/opt/backstop statusline | cat"}}"#,
        r#"{"statusLine": {"type": "command", "command": "/opt/guard statusline"}}"#,
    ] {
        let home = Home::new();
        home.write(Client::Claude, theirs);
        let before = line(&home);
        home.install(Client::Claude);
        assert_eq!(line(&home), before, "{theirs}");
        assert_eq!(status_line(Client::Claude, &home.folders()).unwrap(), Some(StatusLine::Theirs));
        home.uninstall(Client::Claude);
        assert_eq!(home.read(Client::Claude).unwrap(), theirs);
    }
}

#[test]
fn a_status_line_is_written_for_a_user_only_and_a_projects_one_is_told_of() {
    let home = Home::new();
    let folders = home.folders();
    plan_install(Client::Claude, Scope::Project, &folders, Path::new(PROGRAM)).unwrap().apply().unwrap();
    let file = folders.project.join(".claude/settings.json");
    assert!(!fs::read_to_string(&file).unwrap().contains("statusLine"));
    home.install(Client::Claude);
    assert_eq!(status_line(Client::Claude, &folders).unwrap(), Some(StatusLine::Ours));
    fs::write(&file, r#"{"statusLine": {"type": "command", "command": "echo guarded by backstop"}}"#)
        .unwrap();
    assert_eq!(status_line(Client::Claude, &folders).unwrap(), Some(StatusLine::OfProject(file)));
    for client in Client::ALL.into_iter().filter(|client| *client != Client::Claude) {
        assert_eq!(status_line(client, &folders).unwrap(), None);
    }
}

#[test]
fn a_file_that_was_changed_since_keeps_the_change() {
    let home = Home::new();
    home.write(Client::Claude, "{\n  \"a\": 1\n}\n");
    home.install(Client::Claude);
    let edited = home.read(Client::Claude).unwrap().replace("\"a\": 1", "\"a\": 2");
    home.write(Client::Claude, &edited);
    home.uninstall(Client::Claude);
    assert_eq!(home.read(Client::Claude).unwrap(), "{\n  \"a\": 2\n}\n");
}

#[test]
fn a_file_that_cannot_be_parsed_is_left_alone() {
    for (text, said) in [
        ("{\"hooks\": ", "line 1"),
        ("[]", "is not an object"),
        ("{\"hooks\": []}", "`hooks` at line 1 is not an object"),
        ("{\"hooks\": {\n\"PreToolUse\": {}}, \"version\": 1, \"x\": 1}", "line"),
        (
            "{\"hooks\": {}, \"version\": 1,\n \"hooks\": {}}",
            "`hooks` is there twice, the second time at line 2",
        ),
    ] {
        for client in MERGED {
            let home = Home::new();
            home.write(client, text);
            let result = plan_install(client, Scope::User, &home.folders(), Path::new(PROGRAM));
            if let Ok(plan) = &result {
                // Only clients without this event take a wrong shape under its name for somebody else's.
                panic!("{client} took {text}: {plan:?}");
            }
            let error = result.unwrap_err();
            assert!(matches!(error, PlanError::Config { .. }));
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(home.read(client).unwrap(), text);
        }
    }
}

#[test]
fn another_programs_entry_is_brought_up_to_date_in_its_place() {
    let home = Home::new();
    home.install(Client::Codex);
    let old = home.read(Client::Codex).unwrap().replace("/opt/back stop/backstop", "/old/backstop-0.1");
    home.write(Client::Codex, &old);
    let found = status(Client::Codex, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
    assert_eq!(found.programs, BTreeSet::from(["/old/backstop-0.1".to_owned()]));
    assert!(found.outdated && !found.is_current(Path::new(PROGRAM)));
    home.install(Client::Codex);
    assert!(
        status(Client::Codex, Scope::User, &home.folders(), Path::new(PROGRAM))
            .unwrap()
            .is_current(Path::new(PROGRAM))
    );
    assert!(!home.read(Client::Codex).unwrap().contains("/old/"));
}

#[test]
fn our_entry_in_a_group_of_others_goes_alone() {
    let ours = HookCommand::new(Client::Claude, Path::new(PROGRAM)).unwrap().plain();
    let shared = json!({ "hooks": { "PreToolUse": [{ "matcher": "*", "hooks": [
        { "type": "command", "command": "other" }, { "type": "command", "command": ours }, { "type": "command", "command": ours },
    ]}]}});
    let home = Home::new();
    home.write(Client::Claude, &shared.to_string());
    home.uninstall(Client::Claude);
    let left: Value = serde_json::from_str(&home.read(Client::Claude).unwrap()).unwrap();
    assert_eq!(left["hooks"]["PreToolUse"][0]["hooks"], json!([{ "type": "command", "command": "other" }]));
}

#[test]
fn somebody_elses_file_is_not_overwritten() {
    let home = Home::new();
    home.write(Client::Cline, "#!/bin/sh\nexec other-guard\n");
    let error = plan_install(Client::Cline, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap_err();
    assert!(matches!(error, PlanError::Occupied { .. }), "{error}");
    home.uninstall(Client::Cline);
    assert_eq!(home.read(Client::Cline).unwrap(), "#!/bin/sh\nexec other-guard\n");
}

#[test]
fn a_file_that_changed_after_the_plan_is_not_written() {
    let home = Home::new();
    home.write(Client::Gemini, "{}");
    let plan = plan_install(Client::Gemini, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
    home.write(Client::Gemini, "{\"new\": 1}");
    assert!(plan.apply().unwrap_err().to_string().contains("has changed meanwhile"));
    assert_eq!(home.read(Client::Gemini).unwrap(), "{\"new\": 1}");
}

#[test]
fn what_was_changed_before_an_error_is_counted() {
    let home = Home::new();
    let plan = plan_install(Client::Windsurf, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
    let [first, second] = plan.changes.as_slice() else { panic!("{:?}", plan.changes) };
    fs::create_dir_all(second.path.parent().unwrap()).unwrap();
    fs::write(&second.path, "{}").unwrap();
    let (made, done) = plan.apply_counting();
    assert!(done.unwrap_err().to_string().contains("has changed meanwhile"));
    assert_eq!((made, first.path.exists()), (1, true));
    // Nothing of it is made twice.
    let (made, done) = plan.apply_counting();
    assert!(made == 0 && done.is_err());
}

#[test]
#[cfg(unix)]
fn a_link_stays_a_link_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let real = home.folder.path().join("dotfiles.json");
    fs::write(&real, "{}").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
    let path = home.config(Client::Claude);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&real, &path).unwrap();
    home.install(Client::Claude);
    assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("hook claude"));
    assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_variable_moves_a_clients_folder() {
    let home = Home::new();
    let moved = home.folder.path().join("elsewhere");
    let folders = Folders { variables: vec![("CODEX_HOME".to_owned(), moved.clone())], ..home.folders() };
    let plan = plan_install(Client::Codex, Scope::User, &folders, Path::new(PROGRAM)).unwrap();
    assert_eq!(plan.changes[0].path, moved.join("hooks.json"));
}

#[test]
fn every_variable_that_moves_a_client_moves_what_is_installed() {
    for (client, variable, file) in [
        (Client::Claude, "CLAUDE_CONFIG_DIR", "settings.json"),
        (Client::Codex, "CODEX_HOME", "hooks.json"),
        (Client::Gemini, "GEMINI_CLI_HOME", ".gemini/settings.json"),
        (Client::Qwen, "QWEN_HOME", "settings.json"),
        (Client::Kimi, "KIMI_CODE_HOME", "config.toml"),
        (Client::Copilot, "COPILOT_HOME", "hooks/backstop.json"),
        (Client::Cline, "CLINE_DIR", "hooks/PreToolUse"),
        (Client::OpenCode, "XDG_CONFIG_HOME", "opencode/plugins/backstop.js"),
    ] {
        let home = Home::new();
        let moved = home.folder.path().join("moved");
        let folders = Folders { variables: vec![(variable.to_owned(), moved.clone())], ..home.folders() };
        plan_install(client, Scope::User, &folders, Path::new(PROGRAM)).unwrap().apply().unwrap();
        assert!(moved.join(file).exists(), "{client}: {:?}", home.files());
        assert!(!home.config(client).exists(), "{client}");
        assert_eq!(client.layout().moved_by(&folders), Some(variable));
        assert!(status(client, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap().is_absent());
    }
}

#[test]
#[cfg(unix)]
fn a_backup_is_as_private_as_its_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    home.write(Client::Claude, "{\"env\": {\"KEY\": \"x\"}}");
    fs::set_permissions(home.config(Client::Claude), fs::Permissions::from_mode(0o600)).unwrap();
    home.install(Client::Claude);
    let is_backup = |path: &PathBuf| path.to_string_lossy().ends_with("before-backstop");
    let backup = home.files().into_iter().find(is_backup).unwrap();
    assert_eq!(fs::metadata(backup).unwrap().permissions().mode() & 0o777, 0o600);
}

/// A script of Cline's says the refusal itself when the program fails.
#[test]
#[cfg(unix)]
fn the_script_for_cline_refuses_when_the_program_fails() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    let program = home.folder.path().join("bin").join("backstop");
    fs::create_dir_all(program.parent().unwrap()).unwrap();
    plan_install(Client::Cline, Scope::User, &home.folders(), &program).unwrap().apply().unwrap();
    let run = || {
        let output = std::process::Command::new(home.config(Client::Cline)).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let refusal = "\nHOOK_CONTROL\t{\"cancel\":true,\"errorMessage\":\"backstop could not judge this\"}\n";
    assert_eq!(run(), refusal);
    for (script, said) in [
        ("printf '{\"cancel\":tr'; exit 101", format!("{{\"cancel\":tr{refusal}")),
        ("kill -9 $$", refusal.to_owned()),
        ("exit 0", String::new()),
        ("printf '{\"cancel\":true}'; exit 2", "{\"cancel\":true}".to_owned()),
    ] {
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(run(), said, "{script}");
    }
}

fn leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from)
    ]
}

fn settings() -> impl Strategy<Value = Value> {
    let other = leaf().prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-z]{1,5}", inner, 0..3).prop_map(|fields| json!(fields)),
        ]
    });
    let entry = "[a-z]{1,8}"
        .prop_map(|command| json!({ "matcher": "*", "hooks": [{ "type": "command", "command": command }] }));
    let events = proptest::sample::select(vec!["PreToolUse", "Stop", "BeforeTool", "preToolUse", "Other"]);
    let hooks = proptest::collection::btree_map(events, proptest::collection::vec(entry, 1..3), 1..4);
    let key = prop_oneof![8 => "[a-z]{1,6}", 1 => Just("statusLine".to_owned())];
    (proptest::collection::btree_map(key, other, 0..4), proptest::option::of(hooks), any::<bool>()).prop_map(
        |(others, hooks, first)| {
            let mut fields: Vec<(String, Value)> =
                others.into_iter().filter(|(key, _)| key != "hooks" && key != "version").collect();
            if let Some(hooks) = hooks {
                let at = if first { 0 } else { fields.len() };
                fields.insert(at, ("hooks".to_owned(), json!(hooks)));
            }
            Value::Object(fields.into_iter().collect())
        },
    )
}

/// A value as text in one of several layouts, with comments where the layout has room for them.
fn layout(value: &Value, style: u8) -> String {
    match style {
        0 => value.to_string(),
        1 => format!("{value:#}\n"),
        2 => format!("// head\n{value:#} // tail"),
        3 => format!("{value:#}").replace("  ", "\t"),
        4 => format!("{value:#}\n").replace('\n', "\r\n"),
        _ => format!("{value:#}").replace(",\n", ", // note, with a comma\n"),
    }
}

/// The lines of a text without white space, as a bag: what of them is gone in another text.
fn lost_lines(before: &str, after: &str) -> Vec<String> {
    let tidy = |line: &str| line.trim().trim_end_matches(',').to_owned();
    let there: Vec<String> =
        after.lines().map(|line| line.replace(", // note", " // note")).map(|line| tidy(&line)).collect();
    before
        .lines()
        .map(|line| tidy(&line.replace(", // note", " // note")))
        .filter(|line| !there.contains(line))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_not_ours_stays(value in settings(), style in 0..6u8, index in 0..MERGED.len()) {
        let client = MERGED[index];
        let before = layout(&value, style);
        let home = Home::new();
        home.write(client, &before);
        home.install(client);
        let installed = home.read(client).unwrap();
        if style != 0 && value.as_object().is_some_and(|fields| !fields.is_empty()) {
            prop_assert_eq!(lost_lines(&before, &installed), Vec::<String>::new(), "{}", installed);
        }
        home.install(client);
        prop_assert_eq!(home.read(client).unwrap(), installed.clone());
        let found = status(client, Scope::User, &home.folders(), Path::new(PROGRAM)).unwrap();
        prop_assert!(found.is_current(Path::new(PROGRAM)));
        // With the backup gone, only the entries themselves say what was put in.
        for backup in home.files().into_iter().filter(|path| path.extension().is_some_and(|end| end == "before-backstop")) {
            fs::remove_file(backup).unwrap();
        }
        home.uninstall(client);
        let after = home.read(client).unwrap_or_else(|| "{}".to_owned());
        if client != Client::Cursor {
            prop_assert_eq!(after.trim(), before.trim(), "installed: {}", installed);
        }
    }

    #[test]
    fn the_backup_brings_back_every_byte(value in settings(), style in 0..6u8, index in 0..MERGED.len(), blank in "[ \n]{0,3}") {
        let client = MERGED[index];
        let before = format!("{blank}{}{blank}", layout(&value, style));
        let home = Home::new();
        home.write(client, &before);
        home.install(client);
        home.uninstall(client);
        prop_assert_eq!(home.read(client).unwrap(), before);
        prop_assert_eq!(home.files().len(), 1);
    }
}
