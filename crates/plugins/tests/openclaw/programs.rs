//! Programs that a script starts: what was granted runs, bounded and alone, and nothing else does.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use backstop_plugins::openclaw::Dialect::OpenClaw;
use backstop_plugins::openclaw::Scripted;
use backstop_script::{Argument, Arguments, FileAccess, FileGrant, JsonText, Permissions};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::Plugins;

/// A tool that starts what its parameters say, and tells what came of it.
const STARTS: &str = r#"
    const cut = (text) => (typeof text === "string" ? text.slice(0, 4000) : undefined);
    const told = ({ message, code, signal, killed, stdout, stderr }) =>
        ({ message: cut(message), code, signal, killed, stdout: cut(stdout), stderr: cut(stderr) });
    api.registerTool({ name: "start", description: "Starts.", async execute(id, { file, args, options, shell, wait }) {
        const { execFile, exec, spawn } = await import("node:child_process");
        if (wait === false) return void execFile(file, args ?? [], options ?? {}, () => {});
        return await new Promise((done) => {
            const back = (error, stdout, stderr) => done(error ? told(error) : { stdout, stderr });
            try {
                if (shell) exec(shell, back); else execFile(file, args ?? [], options ?? {}, back);
            } catch (error) { done(told(error)); }
        });
    } });
"#;

struct Bench {
    folder: TempDir,
    plugins: Plugins,
}

impl Bench {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), plugins: Plugins::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A shell script that can be started.
    fn program(&self, name: &str, body: &str) -> PathBuf {
        let file = self.path(name);
        fs::write(&file, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    async fn script(&mut self, programs: &[&Path]) -> Scripted {
        self.plugins.permissions = Permissions {
            files: vec![FileGrant { root: self.folder.path().to_owned(), access: FileAccess::Read }],
            env: [("GIVEN".to_owned(), "given".to_owned())].into(),
            programs: programs.iter().map(|path| (*path).to_owned()).collect(),
            ..Permissions::default()
        };
        self.plugins.register("mine", OpenClaw, STARTS).await.unwrap()
    }
}

async fn start(script: &Scripted, what: Value) -> Value {
    let arguments = [json!("call-1"), what].map(|value| Argument::Json(JsonText::of(&value).unwrap()));
    let answer =
        script.call(&script.offers[0], "execute", &Arguments::new(arguments), Duration::from_secs(60)).await;
    answer.unwrap().map(|answer| answer.json.read::<Value>().unwrap()).unwrap_or_default()
}

async fn gone(pid: &str) {
    let process = PathBuf::from("/proc").join(pid.trim());
    while process.exists() && !fs::read_to_string(process.join("stat")).unwrap_or_default().contains(") Z ") {
        tokio::task::yield_now().await;
    }
}

async fn written(file: &Path) -> String {
    loop {
        match fs::read_to_string(file) {
            Ok(text) if text.ends_with('\n') => return text,
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_granted_program_runs_with_its_arguments_and_what_was_granted() {
    let mut bench = Bench::new();
    let program =
        bench.program("tool", "printf '%s|' \"$@\"; pwd; cat; env; echo wrong >&2; exit ${CODE:-0}");
    let script = bench.script(&[&program]).await;
    let folder = fs::canonicalize(bench.folder.path()).unwrap();
    for file in [json!("tool"), json!(program)] {
        let options = json!({ "cwd": folder, "input": "in\n" });
        let told = start(&script, json!({ "file": file, "args": ["a b", "$(c)"], "options": options })).await;
        let out = told["stdout"].as_str().unwrap();
        assert!(out.starts_with(&format!("a b|$(c)|{}\nin\n", folder.display())), "{out}");
        assert_eq!(told["stderr"], "wrong\n");
        let names = out.lines().skip(2).filter_map(|line| line.split_once('=')).map(|(name, _)| name);
        let unknown: Vec<_> = names
            .filter(|name| !["GIVEN", "PWD", "OLDPWD", "SHLVL", "_", "BACKSTOP_PLUGIN_ID"].contains(name))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
    let failing = bench.program("failing", "exit 3");
    let script = bench.script(&[&failing]).await;
    assert_eq!(start(&script, json!({ "file": "failing" })).await["code"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_11_what_is_not_granted_does_not_start_and_is_counted() {
    let mut bench = Bench::new();
    let marker = bench.path("marker");
    let touch = format!("echo > {}", marker.display());
    let (program, other) = (bench.program("tool", "true"), bench.program("other", &touch));
    let script = bench.script(&[&program]).await;
    let environment = json!({ "env": { "LD_PRELOAD": "x" } });
    for what in [
        json!({ "file": "other" }),
        json!({ "file": other }),
        json!({ "file": "./other", "options": { "cwd": bench.folder.path() } }),
        json!({ "file": format!("{}/tool/../other", bench.folder.path().display()) }),
        json!({ "file": "sh", "args": ["-c", touch] }),
        json!({ "file": "/bin/sh", "args": ["-c", touch] }),
        json!({ "shell": touch }),
        json!({ "file": "tool", "options": environment }),
        json!({ "file": "tool", "options": { "cwd": "/" } }),
        json!({ "file": "tool\u{0}other" }),
    ] {
        let told = start(&script, what.clone()).await;
        let code = told["code"].as_str().unwrap_or_default();
        assert!(matches!(code, "EACCES" | "ERR_ACCESS_DENIED"), "{what}: {told}");
    }
    assert!(!marker.exists());
    let denials = script.denials();
    assert!(denials.contains(&("programs: /bin/sh".to_owned(), 2)), "{denials:?}");
    assert!(denials.iter().any(|(grant, times)| grant == "env: LD_PRELOAD" && *times == 1), "{denials:?}");
    for number in 0..300 {
        start(&script, json!({ "file": format!("p{number}") })).await;
    }
    let denials = script.denials();
    assert!(denials.len() <= 129, "{}", denials.len());
    assert_eq!(denials.iter().map(|(_, times)| times).sum::<u64>(), 310);
}

#[tokio::test(flavor = "multi_thread")]
async fn law_12_a_program_that_was_replaced_is_not_started() {
    let mut bench = Bench::new();
    let marker = bench.path("marker");
    let bad = format!("echo > {}", marker.display());
    let program = bench.program("tool", "echo as it was");
    let link = bench.path("linked");
    std::os::unix::fs::symlink(&program, &link).unwrap();
    let script = bench.script(&[&program, &link]).await;
    for file in ["tool", "linked"] {
        assert_eq!(start(&script, json!({ "file": file })).await["stdout"], "as it was\n");
    }
    let other = bench.program("other", &bad);
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    bench.program("tool", &bad);
    for file in ["tool", "linked"] {
        let told = start(&script, json!({ "file": file })).await;
        assert!(told["message"].as_str().unwrap().contains("when the plugin was loaded"), "{told}");
    }
    let later = bench.path("later");
    let script = bench.script(&[&later]).await;
    bench.program("later", &bad);
    assert_eq!(start(&script, json!({ "file": "later" })).await["code"], "ENOENT");
    assert!(!marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_10_a_program_ends_with_its_tree_when_its_time_is_up_it_floods_or_the_plugin_goes() {
    let mut bench = Bench::new();
    let tree = format!("(trap '' TERM; sleep 1000 & echo $! > {}; wait) & wait", bench.path("pid").display());
    let (stays, floods) = (bench.program("stays", &tree), bench.program("floods", "yes"));
    let script = bench.script(&[&stays, &floods]).await;
    let late = start(&script, json!({ "file": "stays", "options": { "timeout": 300 } })).await;
    assert_eq!((&late["signal"], &late["code"]), (&json!("SIGTERM"), &Value::Null), "{late}");
    gone(&written(&bench.path("pid")).await).await;
    let flooding = start(&script, json!({ "file": "floods" })).await;
    assert_eq!(flooding["code"], "ERR_CHILD_PROCESS_STDIO_MAXBUFFER");
    fs::remove_file(bench.path("pid")).unwrap();
    assert_eq!(start(&script, json!({ "file": "stays", "wait": false })).await, Value::Null);
    let pid = written(&bench.path("pid")).await;
    drop(script);
    drop(bench.plugins);
    gone(&pid).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_runner_of_the_runtime_starts_what_is_granted_and_nothing_else() {
    let mut bench = Bench::new();
    let echo = bench.program("echo-all", "cat; echo \"$1 $GIVEN\"; echo problem >&2; exit 3");
    let slow = bench.program("slow", "exec sleep 600");
    let other = bench.program("other", "echo started");
    bench.script(&[&echo, &slow]).await;
    let body = r#"
        api.registerTool({ name: "run", description: "Runs.", execute: (id, { argv, options }) =>
            api.runtime.system.runCommandWithTimeout(argv, options).catch((error) => ({ failed: error.code })) });
    "#;
    let script = bench.plugins.register("runner", OpenClaw, body).await.unwrap();
    let run =
        async |argv: Value, options: Value| start(&script, json!({ "argv": argv, "options": options })).await;
    let told = run(json!([echo, "one; two"]), json!({ "timeoutMs": 60_000, "input": "in " })).await;
    let expected = json!({ "stdout": "in one; two given\n", "stderr": "problem\n", "code": 3, "signal": null, "killed": false, "termination": "exit" });
    assert_eq!(told, expected);
    let told = run(json!([slow]), json!(200)).await;
    assert_eq!(
        (&told["termination"], &told["killed"], &told["code"]),
        (&json!("timeout"), &json!(true), &Value::Null)
    );
    assert_eq!(run(json!([other]), json!(1_000)).await, json!({ "failed": "EACCES" }));
}
