//! `hooks.at` for programs that embed: what stands, what waits, and what ends.

#![expect(clippy::unwrap_used, reason = "tests fail loudly, helpers of tests too")]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use backstop::config::{LayerKind, Loaded, Source};
use backstop::engine::{HookMeta, Style};
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, FailurePolicy, HostProfile, Params, PointId, ToolName};
use backstop::{Backstop, Builder, HookTypes};

/// A configuration whose file lies in `folder`.
fn loaded(folder: &Path, text: &str) -> Loaded {
    let mut source = Source::new(LayerKind::Operator, "backstop.yaml", text);
    source.folder = Some(folder.to_owned());
    let environment = |_: &str| Some("x".to_owned());
    backstop::load_sources(&[source], &HookTypes::built_in(&[]), &environment).unwrap()
}

fn builder(folder: &Path, text: &str) -> Builder {
    Backstop::builder().config(loaded(folder, text))
}

fn put(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

async fn blocked(backstop: &Backstop, context: &CallContext) -> bool {
    let event = ToolCallEvent::new(ToolName::new("canvas"), Params::default());
    backstop.engine().review_tool_call(event, context, false).await.blocked.is_some()
}

#[tokio::test]
async fn the_examples_of_the_pages_can_be_built() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join("gate.sh"), "#!/bin/sh\n");
    fs::write(folder.path().join("authorization"), "Bearer x").unwrap();
    for (page, examples) in [("configuration", 1), ("plugins", 1)] {
        let page = fs::read_to_string(format!("{root}/docs/{page}.md")).unwrap();
        let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| Some(rest.split_once("\n```")?.0));
        let blocks: Vec<&str> = blocks.filter(|block| block.starts_with("hooks:\n  at:\n")).collect();
        assert_eq!(blocks.len(), examples);
        for block in blocks {
            // A variable of this process can't be set here.
            let text = block.replace("{env: HOOKS_AUTHORIZATION}", "{file: authorization}");
            builder(folder.path(), &text).build().await.unwrap().shut_down().await;
        }
    }
}

#[tokio::test]
async fn an_entry_stands_as_it_says() {
    let folder = tempfile::tempdir().unwrap();
    put(&folder.path().join("gate.sh"), "#!/bin/sh\nexit 2\n");
    let text = "
hooks:
  at:
    before_tool_call:
      - {type: command, command: [./gate.sh], id: mine, priority: 50, timeoutMs: 700, matcher: [canvas], config: {level: 3}}
      - {type: http, url: 'https://hooks.example.com', on_failure: allow, fail_open: true}
      - {type: http, url: 'https://hooks.example.com', fail_open: true, matcher: exec}
  on_failure: {'hooks.at.before_tool_call[2]': block}
";
    let backstop = builder(folder.path(), text).build().await.unwrap();
    let hooks = backstop.engine().registry().list();
    let hook = |id: &str| hooks.iter().find(|meta| meta.id.as_str() == id).unwrap();
    let meta: &HookMeta = hook("mine");
    assert_eq!((meta.priority, meta.budget.as_millis(), meta.style), (50, 700, Style::Foreign));
    assert_eq!((meta.owner.as_str(), meta.on_failure), ("operator", FailurePolicy::Closed));
    assert!(!meta.judges_values);
    assert_eq!(hook("hooks.at.before_tool_call[1]").on_failure, FailurePolicy::OpenIfUnreachable);
    assert_eq!(hook("hooks.at.before_tool_call[2]").on_failure, FailurePolicy::Closed);
    assert!(blocked(&backstop, &CallContext::default()).await);
    backstop.shut_down().await;
}

#[tokio::test]
async fn law_07_a_gate_that_nobody_fires_is_an_error_and_one_of_other_hosts_waits() {
    let folder = tempfile::tempdir().unwrap();
    // It would end at once, and is not started.
    put(&folder.path().join("gate.sh"), "#!/bin/sh\nexit 1\n");
    let at = |point: &str| format!("hooks: {{at: {{{point}: [{{type: process, command: [./gate.sh]}}]}}}}");
    let tiny = || [HostProfile::new("tiny", "a tiny host").fires([PointId::SessionStart])];
    let waits = builder(folder.path(), &at("before_tool_call")).hosts(tiny()).build().await.unwrap();
    assert_eq!(waits.waiting().iter().map(|hook| hook.point).collect::<Vec<_>>(), [PointId::BeforeToolCall]);
    waits.shut_down().await;
    let nobodys = PointId::ALL.iter().find(|point| {
        let is_fired = backstop::all_hosts().iter().any(|host| host.does_fire(**point));
        !is_fired && point.info().failure != FailurePolicy::Open
    });
    let nobodys = nobodys.unwrap();
    let error =
        builder(folder.path(), &at(nobodys.name())).hosts(tiny()).build().await.unwrap_err().to_string();
    assert!(error.contains(nobodys.name()) && error.contains("backstop.yaml:1:"), "{error}");
    // Only the points that are fired have anything started.
    let other = builder(folder.path(), &at("before_tool_call")).only_points([PointId::SessionStart]);
    other.build().await.unwrap().shut_down().await;
    assert!(builder(folder.path(), &at("before_tool_call")).build().await.is_err());
}

#[tokio::test]
async fn law_14_what_is_started_is_what_was_chosen_and_lies_where_nobody_is_judged() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for name in ["bin", "config", "other"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let (gate, other) = (root.join("bin/gate.sh"), root.join("other/gate.sh"));
    put(&gate, "#!/bin/sh\n");
    put(&other, "#!/bin/sh\n");
    symlink(&gate, root.join("config/gate.sh")).unwrap();
    for command in ["[./gate.sh]", "[sh, ./gate.sh]"] {
        let text = format!("hooks: {{at: {{before_tool_call: [{{type: command, command: {command}}}]}}}}");
        let backstop = builder(&root.join("config"), &text).build().await.unwrap();
        let here = |name: &str| CallContext {
            workspace_dir: Some(root.join(name).display().to_string()),
            ..CallContext::default()
        };
        assert!(!blocked(&backstop, &CallContext::default()).await);
        assert!(!blocked(&backstop, &here("other")).await);
        // Where it lies, and where the name is by which it is started.
        assert!(blocked(&backstop, &here("bin")).await);
        assert!(blocked(&backstop, &here("config")).await);
        // What is in it may change, since only the operator can have changed it.
        put(&gate, "#!/bin/sh\n# the same\n");
        assert!(!blocked(&backstop, &CallContext::default()).await);
        fs::remove_file(root.join("config/gate.sh")).unwrap();
        symlink(&other, root.join("config/gate.sh")).unwrap();
        assert!(blocked(&backstop, &CallContext::default()).await, "another file than was chosen");
        fs::remove_file(root.join("config/gate.sh")).unwrap();
        symlink(&gate, root.join("config/gate.sh")).unwrap();
        fs::set_permissions(&gate, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(blocked(&backstop, &CallContext::default()).await, "others may write it now");
        fs::set_permissions(&gate, fs::Permissions::from_mode(0o755)).unwrap();
        backstop.shut_down().await;
    }
}

#[test]
fn what_chooses_a_judge_is_listed_for_walls() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    put(&root.join("real.sh"), "#!/bin/sh\n");
    symlink(root.join("real.sh"), root.join("gate.sh")).unwrap();
    put(&root.join("hook.py"), "");
    let environment = |name: &str| (name == "PATH").then(|| "/usr/bin:/bin:relative".to_owned());
    let places = |text: &str| backstop::hook_places(&loaded(&root, text), &environment);
    let (files, folders) = places(
        "hooks: {at: {llm_output: [{type: command, command: [./gate.sh]}, {type: process, command: [sh, ./hook.py]}]}}",
    );
    for name in ["real.sh", "gate.sh", "hook.py"] {
        assert!(files.contains(&root.join(name)), "{name}: {files:?}");
    }
    assert!(files.iter().any(|file| file.ends_with("sh")), "{files:?}");
    assert!(folders.contains(&root) && folders.iter().any(|folder| folder.ends_with("bin")), "{folders:?}");
    assert!(folders.iter().all(|folder| folder.is_absolute()), "{folders:?}");
    // A server has no files, and nothing costs nothing.
    for text in ["{}", "hooks: {at: {llm_output: [{type: http, url: 'https://x.example'}]}}"] {
        assert_eq!(places(text), Default::default());
    }
}

/// Whether a process is there. One that nobody has asked for how it ended is not.
fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

#[tokio::test]
async fn a_program_that_stays_ends_with_its_tree() {
    let folder = tempfile::tempdir().unwrap();
    let script = r#"
import json, os, subprocess, sys
child = subprocess.Popen(["sleep", "600"])
with open("pids", "w") as pids:
    pids.write("%d %d" % (os.getpid(), child.pid))
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        hooks = [{"id": name, "point": "before_tool_call", "priority": 7} for name in ("one", "two")]
        answer = {"protocol": 1, "hooks": hooks}
    elif message.get("method") == "event":
        answer = {"block": True} if message["params"]["hook"] == "two" else None
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}), flush=True)
"#;
    put(&folder.path().join("hook.py"), script);
    let text = "hooks: {at: {before_tool_call: [{type: process, command: [python3, ./hook.py], id: mine}]}, on_failure: {mine/two: block}}";
    let backstop = builder(folder.path(), text).build().await.unwrap();
    let ids: Vec<String> =
        backstop.engine().registry().list().iter().map(|meta| meta.id.to_string()).collect();
    assert!(["mine/one", "mine/two"].iter().all(|id| ids.iter().any(|known| known == id)), "{ids:?}");
    assert!(blocked(&backstop, &CallContext::default()).await);
    let pids = fs::read_to_string(folder.path().join("pids")).unwrap();
    assert!(pids.split(' ').all(lives));
    backstop.shut_down().await;
    for _ in 0..1_000 {
        // What was killed takes a moment to be gone.
        if !pids.split(' ').any(lives) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(!pids.split(' ').any(lives), "{pids}");
    // A hook that it has is known also where it was not started.
    let elsewhere = builder(folder.path(), text).only_points([PointId::SessionStart]).build().await.unwrap();
    elsewhere.shut_down().await;
}
