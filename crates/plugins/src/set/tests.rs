use std::fs;

use backstop_engine::{Attendance, Engine, Hosts, OperatorSettings};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, HostProfile, Params, PointId};
use serde_json::{Value, json};

use std::path::Path;

use super::*;
use crate::permissions::Words;
use crate::trust::Home;

fn wanted(files: &[(&str, &str)], grants: &str) -> (tempfile::TempDir, Wanted) {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    fs::create_dir(&source).unwrap();
    for (name, text) in files {
        fs::write(source.join(name), text).unwrap();
    }
    let home = Home::new(folder.path().join("plugins"));
    let staged = home.stage(&source).unwrap();
    let hash = staged.package.hash;
    let installed = home.install(staged, hash, "a folder", 1).unwrap();
    let words: Words = serde_json::from_str(grants).unwrap();
    let granted = Permissions::try_from(&words).unwrap();
    (
        folder,
        Wanted {
            installed,
            config: Json::default(),
            granted,
            optional_tools: Vec::new(),
            runtime: RunsIn::Here,
        },
    )
}

fn environment(name: &str) -> Option<String> {
    match name {
        "PATH" => std::env::var("PATH").ok(),
        "GIVEN" | "KEPT" => Some(name.to_lowercase()),
        _ => None,
    }
}

fn surroundings() -> Surroundings<'static> {
    Surroundings {
        environment: &environment,
        workspace: None,
        tools: Vec::new(),
        own_tools: vec!["exec".to_owned()],
        own_commands: vec!["new"],
        services: Arc::new(openclaw::NoServices),
        node: &node,
    }
}

/// The first that is found; where the operator's is looked for, its folder counts.
fn node() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join("node"));
    let file = files.find(|file| file.is_file()).ok_or("none is in `PATH`")?;
    file.canonicalize().map_err(|error| error.to_string())
}

async fn loaded(wanted: Wanted) -> Result<PluginSet, String> {
    PluginSet::load(vec![wanted], &surroundings()).await.map_err(|error| error.to_string())
}

const COMMAND: &str = r#"{"id": "mine", "version": "1", "kind": "command", "command": ["sh", "${plugin}/hook.sh"],
    "points": [{"point": "before_tool_call"}, {"point": "session_start"}], "permissions": {"env": ["GIVEN", "KEPT"]}}"#;

#[tokio::test]
async fn a_trusted_plugin_stands_at_its_points_and_what_is_missing_is_listed() {
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
    let (_folder, plugin) = wanted(&files, r#"{"env": ["GIVEN"]}"#);
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let seated = set.seat(&mut snapshot).unwrap();
    let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
    assert_eq!(points, [PointId::BeforeToolCall, PointId::SessionStart]);
    assert!(snapshot.iter().all(|meta| meta.owner.to_string() == "mine"));
    let left_out: Vec<_> = seated[0].1.left_out.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(left_out, ["see the environment variable `KEPT`"]);
}

#[tokio::test]
async fn a_gate_that_no_host_fires_is_an_error_that_names_plugin_and_point() {
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
    let (_folder, plugin) = wanted(&files, "{}");
    let set = loaded(plugin).await.unwrap();
    let profile = HostProfile::new("tiny", "a tiny host").fires([PointId::SessionStart]);
    let mut snapshot = Snapshot::empty(OperatorSettings::default()).hosted_by(Hosts::new([profile]));
    let error = set.seat(&mut snapshot).unwrap_err().to_string();
    assert!(error.contains("`mine`") && error.contains("before_tool_call"), "{error}");
}

#[tokio::test]
async fn law_05_a_plugin_that_is_on_and_has_changed_is_an_error_and_not_a_plugin_less() {
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 2")];
    let (_folder, plugin) = wanted(&files, "{}");
    fs::write(plugin.installed.root.join("hook.sh"), "exit 0").unwrap();
    let error = loaded(plugin.clone()).await.unwrap_err();
    assert!(error.contains("not those that are trusted") && error.contains("disable"), "{error}");
    fs::remove_dir_all(&plugin.installed.root).unwrap();
    assert!(loaded(plugin).await.is_err());
}

#[tokio::test]
async fn a_server_is_asked_only_where_host_and_credentials_are_granted() {
    let manifest = r#"{"id": "web", "version": "1", "kind": "http", "url": "http://127.0.0.1:9/x", "authorization": "GIVEN",
        "points": [{"point": "before_tool_call"}]}"#;
    let files = [("backstop.plugin.json", manifest)];
    for (grants, said) in [
        ("{}", Some("add `127.0.0.1:9` to `plugins.entries.web.grants.hosts`")),
        (r#"{"hosts": ["127.0.0.1"]}"#, Some("grants.hosts")),
        (r#"{"hosts": ["127.0.0.1:9"]}"#, Some("add `GIVEN` to `plugins.entries.web.grants.env`")),
        (r#"{"hosts": ["127.0.0.1:9"], "env": ["GIVEN"]}"#, None),
    ] {
        let (_folder, plugin) = wanted(&files, grants);
        let error = loaded(plugin).await.err();
        match said {
            Some(said) => assert!(error.as_ref().is_some_and(|error| error.contains(said)), "{error:?}"),
            None => assert_eq!(error, None),
        }
    }
}

#[test]
fn a_program_gets_what_is_granted_of_the_environment_and_what_it_needs_to_start() {
    let given = Permissions { env: ["GIVEN".to_owned()].into(), ..Permissions::default() };
    let names: Vec<_> = variables(&given, Path::new("/d"), &environment).into_keys().collect();
    assert_eq!(names, ["GIVEN", "HOME", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"]);
    let command = ["./run".to_owned(), "${plugin}/x".to_owned()];
    assert_eq!(words(&command, Path::new("/p")), ("/p/./run".into(), vec!["/p/x".into()]));
}

#[test]
fn a_program_has_a_home_where_no_agent_writes_and_python_takes_no_code_from_any() {
    let told = |given: &Permissions, environment: &(dyn Fn(&str) -> Option<String> + Sync)| {
        let code = "import os, site; print(os.path.expanduser('~'), site.ENABLE_USER_SITE)";
        let mut program = std::process::Command::new("python3");
        program.args(["-c", code]).env_clear().envs(variables(given, Path::new("/d/own"), environment));
        String::from_utf8(program.output().unwrap().stdout).unwrap().trim().to_owned()
    };
    assert_eq!(told(&Permissions::default(), &environment), "/d/own False");
    // A home that is granted is that of the user; Python's packages of the user are none of the plugin's even then.
    let with_home = |name: &str| if name == "HOME" { Some("/h".to_owned()) } else { environment(name) };
    let given = Permissions { env: ["HOME".to_owned()].into(), ..Permissions::default() };
    assert_eq!(told(&given, &with_home), "/h False");
    // One that is granted and not there is not made up out of the user's entry in the list of users.
    assert_eq!(told(&given, &environment), "/d/own False");
}

/// The agent writes in the folder of the session, and interpreters take code out of the folder that they are started in.
#[tokio::test]
async fn law_12_a_program_of_a_plugin_starts_in_its_own_folder_and_runs_nothing_out_of_the_session_s() {
    let session = tempfile::tempdir().unwrap();
    fs::write(session.path().join("hook.sh"), "exit 2").unwrap();
    let manifest = |dialect: &str, file: &str| {
        json!({ "id": "mine", "version": "1", "kind": "command", "command": ["sh", file], "dialect": dialect,
            "points": [{ "point": "before_tool_call" }], "permissions": { "user": true } })
        .to_string()
    };
    let told = "printf '%s ' \"$PWD\" \"$HOME\" \"$PATH\" \"$CLAUDE_PROJECT_DIR\" > \"$OUT/told\"; exit 0";
    let path = std::env::var("PATH").unwrap();
    let with_home = move |name: &str| match name {
        "HOME" => Some("/home/ann".to_owned()),
        "PATH" => Some(format!(".:{path}:bin")),
        name => environment(name),
    };
    let path = std::env::var("PATH").unwrap();
    for (dialect, file, grants) in [
        ("claude", "${plugin}/hook.sh", "{}"),
        ("claude", "./hook.sh", r#"{"user": true}"#),
        ("claude", "hook.sh", r#"{"user": true}"#),
        ("backstop", "hook.sh", r#"{"user": true}"#),
    ] {
        let out = session.path().display().to_string();
        let script = told.replace("$OUT", &out);
        let files = [("backstop.plugin.json", manifest(dialect, file)), ("hook.sh", script)];
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let (_folder, plugin) = wanted(&files, grants);
        let (root, data) = (plugin.installed.root.clone(), plugin.installed.data.clone());
        let surroundings = Surroundings { environment: &with_home, ..surroundings() };
        let set = PluginSet::load(vec![plugin], &surroundings).await.unwrap();
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        set.seat(&mut snapshot).unwrap();
        let engine = Engine::builder().snapshot(snapshot).build();
        let context = CallContext { workspace_dir: Some(out.clone()), ..CallContext::default() };
        let event = ToolCallEvent::new("exec", Params::default());
        let judged = engine.permit_tool_call(event, &context, &Attendance::Nobody).await;
        assert!(judged.permit.is_ok(), "{dialect} {file}");
        let project = if dialect == "claude" { out.as_str() } else { "" };
        let home = if grants == "{}" { data.as_path() } else { Path::new("/home/ann") };
        let written = fs::read_to_string(session.path().join("told")).unwrap();
        assert_eq!(written, format!("{} {} {path} {project} ", root.display(), home.display()));
    }
    // Python looks for modules in the folder that it is started in first.
    let manifest = r#"{"id": "mine", "version": "1", "kind": "command", "command": ["python3", "-m", "gate"], "dialect": "claude",
        "points": [{"point": "before_tool_call"}]}"#;
    fs::write(session.path().join("gate.py"), "").unwrap();
    let files = [("backstop.plugin.json", manifest), ("gate.py", "import sys\nsys.exit(2)\n")];
    let (_folder, plugin) = wanted(&files, "{}");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let folder = session.path().display().to_string();
    let context = CallContext { workspace_dir: Some(folder), ..CallContext::default() };
    let event = ToolCallEvent::new("exec", Params::default());
    assert!(engine.permit_tool_call(event, &context, &Attendance::Nobody).await.permit.is_err());
}

#[tokio::test]
async fn a_plugin_is_skipped_where_its_code_had_no_hook_when_it_was_loaded_with_the_same() {
    let code = "export default { id: 'mine', register(api) {
        api.on(api.pluginConfig?.point ?? 'session_start', () => undefined);
    } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw"}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code)];
    let (_folder, plugin) = wanted(&files, "{}");
    assert_eq!(stands(&plugin), [true, true], "nobody knows yet");
    loaded(plugin.clone()).await.unwrap();
    assert_eq!(stands(&plugin), [true, false]);
    // With anything else, it may have others.
    let options = Json::new(serde_json::json!({ "point": "before_tool_call" }));
    let other = Wanted { config: options, ..plugin.clone() };
    assert_eq!(stands(&other), [true, true]);
    let at = Surroundings { workspace: Some("/elsewhere".into()), ..surroundings() };
    assert!(plugin.may_stand_at(&[PointId::BeforeToolCall], &at));
    loaded(other.clone()).await.unwrap();
    assert_eq!(stands(&other), [false, true]);
    assert_eq!(stands(&plugin), [true, false], "each is noted beside the others");
    // Trusting it anew forgets what was noted.
    let home = Home::new(&plugin.installed.store);
    home.trust(&plugin.installed.id, plugin.installed.record.hash, 2).unwrap();
    assert_eq!(stands(&plugin), [true, true]);
    loaded(plugin.clone()).await.unwrap();
    fs::write(plugin.installed.store.join("points/mine.json"), "{}").unwrap();
    assert_eq!(stands(&plugin), [true, true], "what can't be read is not there");
}

/// Whether it may have hooks at the start of a session, and before a tool call.
fn stands(plugin: &Wanted) -> [bool; 2] {
    [PointId::SessionStart, PointId::BeforeToolCall]
        .map(|point| plugin.may_stand_at(&[point], &surroundings()))
}

/// Where something outside can change what its code registers, one load says nothing of the next: a gate would be skipped for good because a
/// file was not there once.
#[tokio::test]
async fn law_07_a_plugin_that_something_outside_can_change_is_loaded_at_every_event() {
    let code = "import fs from 'node:fs';
        export default { id: 'mine', register(api) {
            api.on('session_start', () => undefined);
            try { if (!fs.existsSync(api.pluginConfig.file)) return; } catch { return; }
            api.on('before_tool_call', () => ({ block: true }));
        } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw", "permissions":
        {"files": {"read": ["${data}"]}, "env": ["GIVEN"], "hosts": ["127.0.0.1:9"], "programs": ["tool"], "user": true}}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code)];
    for grants in [
        r#"{"files": {"read": ["${data}"]}}"#,
        r#"{"env": ["GIVEN"]}"#,
        r#"{"hosts": ["127.0.0.1:9"]}"#,
        r#"{"programs": ["tool"]}"#,
        r#"{"user": true}"#,
    ] {
        let (_folder, mut plugin) = wanted(&files, grants);
        let file = plugin.installed.data.join("there");
        plugin.config = Json::new(serde_json::json!({ "file": file }));
        let before = loaded(plugin.clone()).await.unwrap();
        assert!(!points_of(&before).contains(&PointId::BeforeToolCall), "{grants}");
        assert_eq!(stands(&plugin), [true, true], "{grants}");
        fs::create_dir_all(&plugin.installed.data).unwrap();
        fs::write(&file, "").unwrap();
        let after = loaded(plugin.clone()).await.unwrap();
        assert_eq!(
            points_of(&after).contains(&PointId::BeforeToolCall),
            grants.contains("files"),
            "{grants}"
        );
        // What is noted for it with no grant is not said of it with one, nor of it elsewhere.
        loaded(Wanted { granted: Permissions::default(), ..plugin.clone() }).await.unwrap();
        assert_eq!(stands(&plugin), [true, true], "{grants}");
        let alone = Wanted { granted: Permissions::default(), ..plugin };
        assert_eq!(stands(&alone), [true, false], "{grants}");
        for runtime in [RunsIn::Apart, RunsIn::Node] {
            assert_eq!(stands(&Wanted { runtime, ..alone.clone() }), [true, true], "{runtime:?}");
        }
    }
}

fn points_of(set: &PluginSet) -> Vec<PointId> {
    set.0.iter().flat_map(|plugin| plugin.registration.hooks()).map(|spec| spec.point).collect()
}

/// A process looks at the whole machine, whatever it is granted.
#[tokio::test]
async fn law_07_nothing_is_noted_of_a_plugin_that_is_a_process() {
    let manifest =
        r#"{"id": "mine", "version": "1", "kind": "process", "command": ["python3", "${plugin}/p.py"]}"#;
    let code = r#"
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        hooks = [{"id": "h", "point": "session_start"}]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"protocol": 1, "hooks": hooks}}
        print(json.dumps(answer), flush=True)
"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("p.py", code)], "{}");
    let set = loaded(plugin.clone()).await.unwrap();
    assert_eq!(points_of(&set), [PointId::SessionStart]);
    assert_eq!(stands(&plugin), [true, true]);
    set.shut_down().await;
}

#[tokio::test]
async fn law_07_code_that_has_a_hook_where_it_had_none_before_is_refused() {
    let code = "export default { id: 'mine', register(api) {
        api.on('session_start', () => undefined);
        api.on('before_tool_call', () => ({ block: true }));
    } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw"}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    loaded(plugin.clone()).await.unwrap();
    loaded(plugin.clone()).await.unwrap();
    // As if it had chosen by the clock when it was noted.
    let notes = plugin.installed.store.join("points/mine.json");
    let mut noted: Value = serde_json::from_str(&fs::read_to_string(&notes).unwrap()).unwrap();
    noted["notes"][0]["points"] = json!(["session_start"]);
    fs::write(&notes, noted.to_string()).unwrap();
    assert_eq!(stands(&plugin), [true, false]);
    let error = loaded(plugin.clone()).await.unwrap_err();
    for words in ["`mine`", "`before_tool_call`", "may have been skipped", "backstop plugins trust mine"] {
        assert!(error.contains(words), "{error}");
    }
    // Fewer hooks are what the code says, as ever.
    noted["notes"][0]["points"] = json!(["session_start", "before_tool_call", "session_end"]);
    fs::write(&notes, noted.to_string()).unwrap();
    loaded(plugin.clone()).await.unwrap();
}

#[tokio::test]
async fn a_script_stands_with_what_it_registers_where_its_manifest_says() {
    let code = r#"import { definePluginEntry } from "backstop/plugin-sdk";
        export default definePluginEntry({ id: "mine", name: "Mine", register(api) {
            api.on("before_tool_call", () => ({ block: true, blockReason: "no" }));
        } });"#;
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js",
        "points": [{"point": "before_tool_call"}]}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let points: Vec<_> = snapshot.iter().map(|meta| meta.point).collect();
    assert_eq!(points, [PointId::BeforeToolCall]);
    let elsewhere = manifest.replace("before_tool_call", "session_start");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", &elsewhere), ("a.js", code)], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("before_tool_call") && error.contains("manifest"), "{error}");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", "const x = ;")], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("`mine`") && error.contains("a.js"), "{error}");
}

#[tokio::test]
async fn law_04_code_that_is_changed_after_the_look_does_not_run() {
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
    let (_folder, plugin) = wanted(&files, "{}");
    let script = plugin.installed.root.join("hook.sh");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let judge = async || {
        let event = ToolCallEvent::new("exec", Params::default());
        engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await
    };
    assert!(judge().await.permit.is_ok());
    fs::write(&script, "exit  0").unwrap();
    let verdict = judge().await;
    assert!(verdict.permit.is_err());
    let said = verdict.receipt.steps[0].failure.as_ref().unwrap().message.to_string();
    assert!(said.contains("`hook.sh` was changed since it was looked at"), "{said}");
    fs::write(&script, "exit 0").unwrap();
    assert!(judge().await.permit.is_ok(), "it is what was trusted again");
}

#[tokio::test]
async fn options_are_held_against_the_schema_before_code_runs() {
    let manifest = |schema: &str, api: &str| {
        format!(
            r#"{{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "api": "{api}", "configSchema": {schema}}}"#
        )
    };
    let level = r#"{"type": "object", "properties": {"level": {"type": "integer", "maximum": 3}}, "required": ["level"]}"#;
    let unread = r#"{"type": "object", "properties": {"level": {"pattern": "x"}}}"#;
    for (schema, api, config, said) in [
        (level, "backstop", serde_json::json!({ "level": 2 }), None),
        (level, "backstop", serde_json::json!({ "level": 4 }), Some("`level` has to be at most 3")),
        (level, "openclaw", serde_json::json!({ "level": "2" }), Some("`level` is no integer")),
        (level, "backstop", Value::Null, Some("`level` is missing")),
        (
            unread,
            "backstop",
            serde_json::json!({}),
            Some("configSchema.properties.level.pattern` is not read"),
        ),
        (unread, "openclaw", serde_json::json!({}), None),
    ] {
        let manifest = manifest(schema, api);
        let code = "export default { register() {} };";
        let (_folder, mut plugin) = wanted(&[("backstop.plugin.json", &manifest), ("a.js", code)], "{}");
        plugin.config = Json::new(config.clone());
        match (loaded(plugin).await, said) {
            (Err(error), Some(said)) => {
                assert!(error.contains(said) && error.contains("`mine`"), "{error}");
            }
            (Ok(set), None) => {
                let seated = set.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
                assert_eq!(seated[0].1.left_out.len(), usize::from(schema == unread), "{seated:?}");
            }
            (other, _) => panic!("{config}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn law_07_a_policy_that_the_manifest_does_not_name_is_an_error() {
    let code = r#"export default { register(api) {
        api.registerTrustedToolPolicy({ id: "walls", description: "Walls.", evaluate() {} }); } };"#;
    let manifest = |contracts: &str| {
        format!(
            r#"{{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "contracts": {contracts}}}"#
        )
    };
    for (contracts, is_good) in [
        ("{}", false),
        (r#"{"trustedToolPolicies": ["Walls"]}"#, false),
        (r#"{"trustedToolPolicies": ["walls"]}"#, true),
    ] {
        let manifest = manifest(contracts);
        let (_folder, plugin) = wanted(&[("backstop.plugin.json", &manifest), ("a.js", code)], "{}");
        match loaded(plugin).await {
            Ok(_) => assert!(is_good, "{contracts}"),
            Err(error) => {
                assert!(
                    !is_good && error.contains("`walls`") && error.contains("contracts.trustedToolPolicies"),
                    "{error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_script_reads_its_own_files_without_a_grant_and_nobody_is_let_write_where_code_is() {
    let code = r#"import { readFileSync, writeFileSync } from "node:fs";
        import { fileURLToPath } from "node:url";
        const own = fileURLToPath(new URL("./words.txt", import.meta.url));
        const told = (act) => { try { return act(); } catch (error) { return error.code; } };
        const all = [told(() => readFileSync(own, "utf8")), told(() => writeFileSync(own, "x")), told(() => readFileSync("/etc/hostname", "utf8"))];
        export default { register(api) { api.on("before_tool_call", () => ({ block: true, blockReason: all.join() })); } };"#;
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "points": [{"point": "before_tool_call"}],
        "permissions": {"files": {"write": ["/", "${workspace}"]}}}"#;
    let files = [("backstop.plugin.json", manifest), ("a.js", code), ("words.txt", "words")];
    let (_folder, plugin) = wanted(&files, "{}");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let event = ToolCallEvent::new("exec", Params::default());
    let verdict = engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await;
    let said = verdict.permit.err().and_then(|blocked| blocked.reason).unwrap().text().as_str().to_owned();
    assert_eq!(said, "words,EACCES,EACCES");
    let (folder, plugin) = wanted(&files, "{}");
    for (grant, is_error) in [
        (folder.path().join("plugins/code"), true),
        (folder.path().to_owned(), true),
        (folder.path().join("work"), false),
    ] {
        let words = format!(r#"{{"files": {{"write": ["{}"]}}}}"#, grant.display());
        let words: Words = serde_json::from_str(&words).unwrap();
        let plugin = Wanted { granted: Permissions::try_from(&words).unwrap(), ..plugin.clone() };
        match loaded(plugin).await {
            Ok(_) => assert!(!is_error, "{words:?}"),
            Err(error) => assert!(is_error && error.contains("grants.files.write"), "{error}"),
        }
    }
    // A working folder around the plugins is an accident of where somebody stands: it is read, and that is said.
    let words: Words = serde_json::from_str(r#"{"files": {"write": ["${workspace}"]}}"#).unwrap();
    let plugin = Wanted { granted: Permissions::try_from(&words).unwrap(), ..plugin };
    let surroundings = Surroundings { workspace: Some(folder.path().to_owned()), ..surroundings() };
    let set = PluginSet::load(vec![plugin], &surroundings).await.unwrap();
    let seated = set.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
    let said = seated[0].1.left_out.iter().find(|left_out| left_out.why.contains("holds the code")).unwrap();
    assert!(said.what.contains("agent works in"), "{said:?}");
}

/// Tools of a script, by name.
async fn tools(code: &str) -> (tempfile::TempDir, PluginSet) {
    let code = format!(
        "import {{ definePluginEntry }} from 'backstop/plugin-sdk';
         export default definePluginEntry({{ id: 'mine', register(api) {{
             const tool = (name, execute) => api.registerTool({{ name, description: '', parameters: {{}}, execute }});
             {code}
         }} }});"
    );
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js"}"#;
    let (folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", &code)], "{}");
    (folder, loaded(plugin).await.unwrap())
}

async fn call(set: &PluginSet, name: &str, budget: Duration) -> offers::tools::ToolAnswer {
    let tool = set.tools().find(|tool| tool.name() == name).unwrap();
    let arguments = serde_json::Map::new();
    let context = CallContext::default();
    let request = offers::tools::ToolRequest { id: "c1", arguments: &arguments, context: &context };
    tool.call(request, budget).await
}

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_tool_that_hangs_is_given_up_and_told() {
    let (_folder, set) = tools(
        "let aborted = 0;
         tool('waits', (id, params, signal) => new Promise(() => signal.addEventListener('abort', () => { aborted += 1; })));
         tool('spins', () => { for (;;); });
         tool('aborted', () => String(aborted));",
    )
    .await;
    let given_up =
        |answer: &offers::tools::ToolAnswer| answer.is_error && answer.text.contains("no answer within");
    let answer = call(&set, "waits", Duration::from_millis(300)).await;
    assert!(given_up(&answer), "{answer:?}");
    // Whoever does not wait any more drops the call, and the tool hears of it.
    let waiting = call(&set, "waits", PATIENCE);
    assert!(tokio::time::timeout(Duration::from_millis(100), waiting).await.is_err());
    let told = async { while call(&set, "aborted", PATIENCE).await.text != "2" {} };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
    let answer = call(&set, "spins", Duration::from_millis(300)).await;
    assert!(given_up(&answer), "{answer:?}");
}

#[tokio::test]
async fn a_tool_outlives_the_set_that_it_was_taken_from_and_dies_with_its_last_user() {
    let (_folder, set) = tools("tool('works', async () => 'yes');").await;
    let tool = set.tools().next().unwrap().clone();
    set.shut_down().await;
    drop(set);
    let (arguments, context) = (serde_json::Map::new(), CallContext::default());
    let request = offers::tools::ToolRequest { id: "c1", arguments: &arguments, context: &context };
    assert_eq!(tool.call(request, PATIENCE).await.text, "yes");
}

#[tokio::test]
async fn a_tool_that_the_manifest_does_not_name_is_an_error() {
    let code = "export default { id: 'mine', register(api) {
        api.registerTool({ name: 'other', description: '', parameters: {}, execute() {} }); } };";
    let manifest = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "a.js", "contracts": {"tools": ["named"]}}"#;
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", manifest), ("a.js", code)], "{}");
    let error = loaded(plugin).await.unwrap_err();
    assert!(error.contains("`other`") && error.contains("contracts.tools"), "{error}");
}

#[tokio::test]
async fn what_no_host_takes_is_said_at_load_one_by_one() {
    let (_folder, set) = tools(
        "api.registerHttpRoute({ path: '/mine', handler() {} });
         api.registerGatewayMethod('mine.status', () => {});",
    )
    .await;
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let seated = set.seat(&mut snapshot).unwrap();
    let left_out: Vec<_> = seated[0].1.left_out.iter().map(|left| left.what.as_str()).collect();
    assert_eq!(left_out, ["route `/mine`", "method `mine.status`"]);
}

const SERVES: &str = r#"{"id": "serves", "version": "1", "kind": "script", "entry": "index.mjs", "api": "openclaw",
    "permissions": {"files": {"write": ["${data}"]}}}"#;
/// Two services, the first of which starts only once, and a hook that takes all memory when it is told to. What the second writes
/// says that the first is done with: one that is stopped while it starts is stopped.
const SERVICES: &str = r#"
    import fs from "node:fs"; import path from "node:path";
    export default { id: "serves", register(api) {
        const at = (name) => path.join(api.runtime.state.resolveStateDir(), name);
        const write = (line) => fs.appendFileSync(at("log"), line + "\n");
        api.registerService({ id: "once", start: () => {
            if (fs.existsSync(at("once"))) throw new Error("only once");
            fs.writeFileSync(at("once"), "");
        }, stop: () => write("never") });
        api.registerService({ id: "beat", start: () => write("start"), stop: () => write("stop") });
        api.on("before_tool_call", (event) => {
            const kept = [];
            while (event.params.boom) kept.push(new Array(10000).fill(kept.length));
        });
    } };"#;

/// Waits until a file has these lines.
async fn until_lines(log: &Path, lines: &[&str]) {
    let end = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let written = fs::read_to_string(log).unwrap_or_default();
        if written.lines().eq(lines.iter().copied()) {
            return;
        }
        assert!(tokio::time::Instant::now() < end, "{written} is not {lines:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn passes(engine: &Engine, params: Value) -> bool {
    let event = ToolCallEvent::new("exec", Params::from_value(params).unwrap());
    engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await.permit.is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn services_whose_runtime_is_lost_are_started_again_in_the_next_one_and_stopped_once() {
    let files = [("backstop.plugin.json", SERVES), ("index.mjs", SERVICES)];
    let (_folder, plugin) = wanted(&files, r#"{"files": {"write": ["${data}"]}}"#);
    let log = plugin.installed.data.join("log");
    let set = loaded(plugin).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    // Nobody's service is started again where none was started.
    assert!(!passes(&engine, serde_json::json!({ "boom": true })).await);
    assert!(passes(&engine, serde_json::json!({})).await && !log.exists());
    assert_eq!(set.start_services().await, []);
    until_lines(&log, &["start"]).await;
    let mut lines = vec!["start"];
    for _ in 0..2 {
        assert!(!passes(&engine, serde_json::json!({ "boom": true })).await, "a gate that failed blocks");
        lines.push("start");
        // Nobody has asked anything of it meanwhile.
        until_lines(&log, &lines).await;
    }
    assert_eq!(set.stop_services().await, []);
    lines.push("stop");
    until_lines(&log, &lines).await;
    // What was stopped stays so.
    let _ = passes(&engine, serde_json::json!({ "boom": true })).await;
    assert_eq!(set.stop_services().await, []);
    until_lines(&log, &lines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn services_under_node_are_started_again_where_its_process_died() {
    let boom = "while (event.params.boom) kept.push(new Array(10000).fill(kept.length));";
    let dies = SERVICES.replace(boom, "if (event.params.boom) process.exit(1);");
    assert_ne!(dies, SERVICES);
    let files = [("backstop.plugin.json", SERVES), ("index.mjs", dies.as_str())];
    let (_folder, plugin) = wanted(&files, r#"{"files": {"write": ["${data}"]}}"#);
    let log = plugin.installed.data.join("log");
    let set = loaded(Wanted { runtime: RunsIn::Node, ..plugin }).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    assert_eq!(set.start_services().await, []);
    until_lines(&log, &["start"]).await;
    assert!(!passes(&engine, serde_json::json!({ "boom": true })).await, "a gate that failed blocks");
    until_lines(&log, &["start", "start"]).await;
    assert_eq!(set.stop_services().await, []);
    until_lines(&log, &["start", "start", "stop"]).await;
    set.shut_down().await;
}

const SCRIPT: &str = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "./index.ts", "points": [{"point": "before_tool_call"}],
    "permissions": {"env": ["GIVEN"]}}"#;
const UNDER_NODE: &str = r#"
    import { definePluginEntry } from "backstop/plugin-sdk";
    import { connect } from "node:http2";
    export default definePluginEntry({ id: "mine", register(api) {
        api.on("before_tool_call", async (event: { params: { command: string } }) => {
            if (event.params.command === "die") process.exit(0);
            return { block: true, blockReason: `${typeof connect} ${process.env.GIVEN} ${process.env.KEPT} ${process.pid}` };
        });
    } });
"#;

/// The reason, or the failure, of a call with this command.
async fn told(engine: &Engine, command: &str) -> String {
    let params = Params::from_value(serde_json::json!({ "command": command })).unwrap();
    let event = ToolCallEvent::new("exec", params);
    let verdict = engine.permit_tool_call(event, &CallContext::default(), &Attendance::Nobody).await;
    let failure = verdict.receipt.steps.iter().find_map(|step| step.failure.as_ref());
    let failure = failure.map(|failure| failure.message.to_string());
    failure.unwrap_or_else(|| verdict.permit.unwrap_err().reason.unwrap().text().as_str().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_runs_under_node_where_the_operator_says_so_and_what_was_looked_at_is_what_runs() {
    let (_folder, plugin) = wanted(
        &[("backstop.plugin.json", SCRIPT), ("index.ts", UNDER_NODE)],
        r#"{"env": ["GIVEN", "KEPT"]}"#,
    );
    let entry = plugin.installed.root.join("index.ts");
    let set = loaded(Wanted { runtime: RunsIn::Node, ..plugin }).await.unwrap();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    set.seat(&mut snapshot).unwrap();
    let engine = Engine::builder().snapshot(snapshot).build();
    let said = told(&engine, "ls").await;
    assert!(said.starts_with("function given undefined "), "{said}");
    // What was trusted is what is started again; the other is not.
    fs::write(&entry, format!("{UNDER_NODE}// more")).unwrap();
    told(&engine, "die").await;
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    loop {
        let said = told(&engine, "ls").await;
        assert!(!said.starts_with("function"), "changed code ran: {said}");
        if said.contains("plugins trust") {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{said}");
    }
    set.shut_down().await;
}

#[tokio::test]
async fn other_runtimes_are_for_scripts_and_have_to_be_there() {
    let (_folder, plugin) =
        wanted(&[("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")], r#"{"env": ["GIVEN"]}"#);
    let said = loaded(Wanted { runtime: RunsIn::Node, ..plugin.clone() }).await.unwrap_err();
    assert!(said.contains("`runtime: node` is for") && said.contains("command"), "{said}");
    let said = loaded(Wanted { runtime: RunsIn::Apart, ..plugin }).await.unwrap_err();
    assert!(said.contains("`runtime: process` is for") && said.contains("command"), "{said}");
    let (_folder, plugin) = wanted(&[("backstop.plugin.json", SCRIPT), ("index.ts", UNDER_NODE)], "{}");
    // A program that would not know what it is started for is not started as a plugin's process.
    let apart = Wanted { runtime: RunsIn::Apart, ..plugin.clone() };
    let said = loaded(apart).await.unwrap_err();
    assert!(said.contains("`mine`: this program can't run plugins in processes of their own"), "{said}");
    let none = || Err("none is in `PATH`".to_owned());
    let surroundings = Surroundings { node: &none, ..surroundings() };
    let wanted = Wanted { runtime: RunsIn::Node, ..plugin };
    let said = PluginSet::load(vec![wanted], &surroundings).await.unwrap_err().to_string();
    assert!(said.contains("`mine`: there is no Node.js to run it under: none is in `PATH`"), "{said}");
}

const STARTS: &str = r#"{"id": "mine", "version": "1", "kind": "script", "entry": "index.js",
    "permissions": {"programs": ["tool"]}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn law_12_a_program_is_never_one_that_lies_where_the_agent_or_the_plugin_writes() {
    use std::os::unix::fs::PermissionsExt as _;

    let code = "export default { register(api) { api.registerTool({ name: \"start\", description: \"d\", async execute() { \
        const { execFile } = await import(\"node:child_process\"); \
        return new Promise((done) => { try { execFile(\"tool\", [], (error, stdout) => done({ text: error?.message ?? stdout })); } \
        catch (error) { done({ text: error.code }); } }); } }); } };";
    let place = tempfile::tempdir().unwrap();
    let folder = |name: &str| {
        let folder = place.path().join(name);
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("tool");
        fs::write(&file, format!("#!/bin/sh\necho {name}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        folder
    };
    let (agents, systems) = (folder("agents"), folder("systems"));
    let linked = place.path().join("linked");
    fs::create_dir(&linked).unwrap();
    std::os::unix::fs::symlink(agents.join("tool"), linked.join("tool")).unwrap();
    for (path, found) in [
        (vec![&agents, &linked, &systems], true),
        (vec![&systems, &agents], true),
        (vec![&agents, &linked], false),
    ] {
        let (_folder, plugin) =
            wanted(&[("backstop.plugin.json", STARTS), ("index.js", code)], r#"{"programs": ["tool"]}"#);
        let path = std::env::join_paths(path).unwrap().into_string().unwrap();
        let environment = |name: &str| (name == "PATH").then(|| path.clone());
        let surroundings =
            Surroundings { environment: &environment, workspace: Some(agents.clone()), ..surroundings() };
        let set = PluginSet::load(vec![plugin], &surroundings).await.unwrap();
        let script = set.0[0].script.as_ref().unwrap();
        let none = backstop_script::Arguments::default();
        let answer = script.call(&script.offers[0], "execute", &none, SERVER_PATIENCE);
        let said: Value = answer.await.unwrap().unwrap().json.read().unwrap();
        let seated = set.seat(&mut Snapshot::empty(OperatorSettings::default())).unwrap();
        let left_out = &seated[0].1.left_out;
        let text = said["text"].as_str().unwrap();
        assert!(text.starts_with(if found { "systems\n" } else { "EACCES" }), "{text} {left_out:?}");
        assert_eq!(
            left_out.iter().any(|it| it.what == "start `tool`" && it.why.contains("writes")),
            !found,
            "{left_out:?}"
        );
        assert_eq!(set.denials().len(), usize::from(!found));
    }
}
