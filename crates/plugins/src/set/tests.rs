use std::fs;

use backstop_engine::{Attendance, Engine, Hosts, OperatorSettings};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, HostProfile, Params, PointId};
use serde_json::{Value, json};

use std::path::Path;

use super::*;
use crate::permissions::Words;
use crate::trust::Home;

mod points;
mod programs;
mod runtimes;
mod scripts;
mod services;
mod tools;

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
        machine: &InPath,
    }
}

/// The first that is found in `PATH`; where a program of the operator's is looked for, its folder counts.
struct InPath;

static PATH: std::sync::LazyLock<std::ffi::OsString> =
    std::sync::LazyLock::new(|| std::env::var_os("PATH").unwrap_or_default());

impl Machine for InPath {
    fn program(&self, name: &str) -> Result<FoundProgram, String> {
        let mut files = std::env::split_paths(&*PATH).map(|folder| folder.join(name));
        files.find(|file| file.is_file()).map(found).ok_or_else(|| "none is in `PATH`".to_owned())
    }

    fn path(&self) -> &std::ffi::OsStr {
        &PATH
    }
}

/// What is held no further.
fn found(file: PathBuf) -> FoundProgram {
    FoundProgram { file, held: Arc::new(machine::All(Vec::new())), beside: Arc::new(|_: &Path| Ok(())) }
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
