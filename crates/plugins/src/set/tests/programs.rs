//! Programs of plugins: which file is started, where, and with what.

use super::*;

#[test]
fn a_program_gets_what_is_granted_of_the_environment_and_what_it_needs_to_start() {
    let given = Permissions { env: ["GIVEN".to_owned()].into(), ..Permissions::default() };
    let names: Vec<_> = variables(&given, Path::new("/d"), &environment, &InPath).into_keys().collect();
    assert_eq!(names, ["GIVEN", "HOME", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"]);
}

#[test]
fn a_program_has_a_home_where_no_agent_writes_and_python_takes_no_code_from_any() {
    let told = |given: &Permissions, environment: &(dyn Fn(&str) -> Option<String> + Sync)| {
        let code = "import os, site; print(os.path.expanduser('~'), site.ENABLE_USER_SITE)";
        let mut program = std::process::Command::new("python3");
        program.args(["-c", code]).env_clear().envs(variables(
            given,
            Path::new("/d/own"),
            environment,
            &InPath,
        ));
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
    let with_home = move |name: &str| match name {
        "HOME" => Some("/home/ann".to_owned()),
        "PATH" => Some("bin:/a/repository/s".to_owned()),
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

/// A machine with the programs of one folder.
struct At(PathBuf);

impl Machine for At {
    fn program(&self, name: &str) -> Result<FoundProgram, String> {
        Ok(found(self.0.join(name)))
    }

    fn path(&self) -> &std::ffi::OsStr {
        self.0.as_os_str()
    }
}

#[tokio::test]
async fn law_14_a_program_is_the_one_that_the_machine_has_and_is_held_to_it() {
    #[derive(Debug)]
    struct Moved;
    impl crate::external::Held for Moved {
        fn check(&self) -> Result<(), String> {
            Err("it has moved".to_owned())
        }
    }
    struct Moving;
    impl Machine for Moving {
        fn program(&self, name: &str) -> Result<FoundProgram, String> {
            Ok(FoundProgram { held: Arc::new(Moved), ..found(Path::new("/bin").join(name)) })
        }
        fn path(&self) -> &std::ffi::OsStr {
            std::ffi::OsStr::new("/bin")
        }
    }
    struct Beside;
    impl Machine for Beside {
        fn program(&self, name: &str) -> Result<FoundProgram, String> {
            let beside = |folder: &Path| match folder == Path::new("/work") {
                true => Err("it lies there".to_owned()),
                false => Ok(()),
            };
            Ok(FoundProgram { beside: Arc::new(beside), ..found(Path::new("/bin").join(name)) })
        }
        fn path(&self) -> &std::ffi::OsStr {
            std::ffi::OsStr::new("/bin")
        }
    }
    let lure = tempfile::tempdir().unwrap();
    let marker = lure.path().join("marker");
    fs::write(lure.path().join("sh"), format!("#!/bin/sh\ntouch '{}'\n", marker.display())).unwrap();
    let lured = lure.path().display().to_string();
    let environment = move |name: &str| (name == "PATH").then(|| lured.clone());
    let files = [("backstop.plugin.json", COMMAND), ("hook.sh", "exit 0")];
    let judged = async |machine: &dyn Machine, session: &str| {
        let (_folder, plugin) = wanted(&files, "{}");
        let surroundings = Surroundings { environment: &environment, machine, ..surroundings() };
        let set = PluginSet::load(vec![plugin], &surroundings).await.map_err(|error| error.to_string())?;
        let mut snapshot = Snapshot::empty(OperatorSettings::default());
        set.seat(&mut snapshot).unwrap();
        let engine = Engine::builder().snapshot(snapshot).build();
        let context = CallContext { workspace_dir: Some(session.to_owned()), ..CallContext::default() };
        let event = ToolCallEvent::new("exec", Params::default());
        Ok::<_, String>(engine.permit_tool_call(event, &context, &Attendance::Nobody).await.permit.is_ok())
    };
    assert_eq!(judged(&At("/bin".into()), "/work").await, Ok(true));
    assert!(!marker.exists(), "`PATH` of the environment chose");
    assert_eq!(judged(&Moving, "/work").await, Ok(false), "what has moved is not started");
    assert_eq!(judged(&Beside, "/work").await, Ok(false), "it judges nobody who works where it lies");
    assert_eq!(judged(&Beside, "/elsewhere").await, Ok(true));
    let why = judged(&runtimes::Nothing, "/work").await.unwrap_err();
    assert!(why.contains("`mine`: its program `sh` can't be used: none is in `PATH`"), "{why}");
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
    for (folder, found) in [(&systems, true), (&agents, false), (&linked, false)] {
        let (_folder, plugin) =
            wanted(&[("backstop.plugin.json", STARTS), ("index.js", code)], r#"{"programs": ["tool"]}"#);
        let machine = At(folder.clone());
        let surroundings =
            Surroundings { machine: &machine, workspace: Some(agents.clone()), ..surroundings() };
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
