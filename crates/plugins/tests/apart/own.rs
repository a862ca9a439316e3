//! What is true of a process of its own alone: it can really be killed, and the system holds it, too.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use backstop_engine::FailureKind;
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use backstop_plugins::openclaw::Runtime;
use backstop_plugins::package::Seal;
use backstop_script::{FileAccess, FileGrant};
use serde_json::json;

use crate::HOST;
use crate::asking::{PATIENCE, answers_again, exists, judging, said, until};
use crate::support::{Plugins, engine, facts};

/// The processes of plugins that this one has started and that run.
fn hosts() -> BTreeSet<String> {
    let own = std::process::id().to_string();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let at = Path::new("/proc").join(pid);
        let stat = std::fs::read_to_string(at.join("stat")).unwrap_or_default();
        let after = stat.rsplit(") ").next().unwrap_or_default();
        let mut fields = after.split(' ');
        let is_dead = matches!(fields.next(), Some("Z" | "X"));
        let is_child = fields.next() == Some(own.as_str());
        let words = std::fs::read(at.join("cmdline")).unwrap_or_default();
        is_child && !is_dead && String::from_utf8_lossy(&words).contains("plugin-host\0")
    })
    .collect()
}

fn host() -> String {
    let all = hosts();
    assert_eq!(all.len(), 1, "{all:?}");
    all.into_iter().next().unwrap()
}

/// A builtin of the engine that never looks at the clock: it sorts the marks of one letter, for hours.
const HOURS: &str = r#"("a" + "\u0301\u0316".repeat(2 ** 20)).normalize("NFD").length"#;

#[tokio::test(flavor = "multi_thread")]
async fn law_05_native_code_without_an_end_fails_in_time_and_is_really_killed() {
    let plugins = Plugins::new();
    let expression = format!(
        r#"(command === "stick" ? {HOURS} : command === "spin" ? (() => {{ for (;;); }})() : command === "wait" ? new Promise(() => {{}}) : `asked ${{asked += 1}}`)"#
    );
    let (_plugin, engine) = judging(&plugins, "let asked = 0;", &expression).await;
    assert_eq!(said(&engine, "").await.unwrap(), "asked 1");
    let pid = host();
    // Who waits lets go of the thread when nobody waits any more.
    said(&engine, "wait").await.unwrap_err();
    assert_eq!(said(&engine, "").await.unwrap(), "asked 2");
    assert_eq!(host(), pid);
    // Whom the engine can interrupt loses its runtime, as inside, and its process with that.
    said(&engine, "spin").await.unwrap_err();
    assert_eq!(answers_again(&engine, "").await, "asked 1");
    let pid = host();
    let (kind, words) = said(&engine, "stick").await.unwrap_err();
    assert_eq!(kind, FailureKind::TimedOut, "{words}");
    until("the stuck process is killed, and its thread with it", || !exists(&pid)).await;
    assert_eq!(answers_again(&engine, "").await, "asked 1", "it began anew");
    assert_ne!(host(), pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn native_code_without_an_end_that_nobody_asked_for_ends_with_its_process_as_well() {
    let plugins = Plugins::new();
    let before = format!("let began = 0; setTimeout(() => {{ began = 1; {HOURS}; }}, 200);");
    let (_plugin, engine) = judging(&plugins, &before, "began").await;
    let pid = host();
    assert_eq!(said(&engine, "").await.unwrap(), "0");
    until("it is seen that its thread is not free", || !exists(&pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_one_that_is_killed_under_way_fails_what_it_was_asked_and_comes_back() {
    let plugins = Plugins::new();
    let expression = r#"command === "wait" ? new Promise(() => {}) : "here""#;
    let (_plugin, engine) = judging(&plugins, "", expression).await;
    let pid = host();
    let (waited, ()) = tokio::join!(said(&engine, "wait"), async {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    });
    assert_eq!(waited.unwrap_err().0, FailureKind::Unreachable);
    assert_eq!(answers_again(&engine, "").await, "here");
    assert_ne!(host(), pid);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_runs_out_of_memory_goes_with_its_process_and_says_why() {
    let plugins = Plugins::new();
    let expression = r#"(command === "fill" ? (() => { const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1)); })() : `asked ${asked += 1}`)"#;
    let (_plugin, engine) = judging(&plugins, "let asked = 0;", expression).await;
    assert_eq!(said(&engine, "").await.unwrap(), "asked 1");
    let pid = host();
    let (kind, words) = said(&engine, "fill").await.unwrap_err();
    assert_eq!(kind, FailureKind::Unreachable);
    assert!(words.contains("ran out of its 64 MB of memory"), "{words}");
    until("it ends", || !exists(&pid)).await;
    assert_eq!(answers_again(&engine, "").await, "asked 1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_life_that_registers_others_is_not_asked() {
    let plugins = Plugins::new();
    let body = r#"api.on("before_tool_call", () => undefined, { registrationId: `hook-${Math.random()}` });"#;
    let plugin = plugins.register("mine", Backstop, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    assert_eq!(said(&engine, "").await.unwrap(), "");
    let pid = rustix::process::Pid::from_raw(host().parse().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        match said(&engine, "").await {
            Err((_, words)) if words.contains("registered other functions") => break,
            other => assert!(std::time::Instant::now() < end, "{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_dies_with_the_last_that_holds_it() {
    let plugins = Plugins::new();
    let (plugin, engine) = judging(&plugins, "setInterval(() => {}, 10);", "1").await;
    let pid = host();
    assert_eq!(said(&engine, "").await.unwrap(), "1");
    drop((plugin, engine, plugins));
    until("nobody holds it", || !exists(&pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_given_no_environment_no_open_files_and_bounds() {
    let _kept = std::fs::File::open("/dev/null").unwrap();
    let plugins = Plugins::new();
    let (_plugin, engine) = judging(&plugins, "", "JSON.stringify(process.env)").await;
    assert_eq!(said(&engine, "").await.unwrap(), "{}");
    let at = Path::new("/proc").join(host());
    let environment = std::fs::read(at.join("environ")).unwrap();
    let names: Vec<_> = environment
        .split(|byte| *byte == 0)
        .filter(|pair| !pair.is_empty())
        .map(|pair| String::from_utf8_lossy(pair).split('=').next().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["BACKSTOP_PLUGIN_ID"]);
    // What this process itself was given to hand on, and no shell can name, goes on.
    let handed_on: BTreeSet<_> = std::fs::read_dir("/proc/self/fd")
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|number| number.parse::<u32>().unwrap() > 9)
        .collect();
    for entry in std::fs::read_dir(at.join("fd")).unwrap() {
        let at = entry.unwrap().path();
        if handed_on.contains(at.file_name().unwrap().to_str().unwrap()) {
            continue;
        }
        let to = std::fs::read_link(&at).unwrap_or_default();
        let to = to.to_string_lossy().into_owned();
        let is_its_own = ["pipe:", "anon_inode:", "socket:"].iter().any(|kind| to.starts_with(kind));
        assert!(is_its_own || to.contains(&plugins_root(&plugins)), "{at:?} {to}");
    }
    let limits = std::fs::read_to_string(at.join("limits")).unwrap();
    let limit = |name: &str| limits.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
    assert!(limit("Max core file size").split_whitespace().nth(4) == Some("0"), "{limits}");
    assert!(limit("Max data size").contains(&(512_u64 << 20).to_string()), "{limits}");
    assert_eq!(std::fs::read_to_string(at.join("status")).unwrap().matches("NoNewPrivs:\t1").count(), 1);
}

fn plugins_root(plugins: &Plugins) -> String {
    let root = plugins.write("mine", "probe.txt", "");
    root.parent().unwrap().canonicalize().unwrap().display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_are_held_against_the_look_of_the_host() {
    let plugins = Plugins::new();
    let source = r#"export default { register(api) { api.on("before_tool_call", async ({ params: { command } }) => {
        const late = await import(`./${command}.js`).then((it) => it.default, (error) => error.message);
        return { block: true, blockReason: late };
    }); } };"#;
    let root = plugins.write("mine", "index.js", source);
    for name in ["same.js", "changed.js"] {
        plugins.write("mine", name, "export default 'loaded';");
    }
    let seal = Arc::new(Seal::of(&root).unwrap());
    plugins.write("mine", "changed.js", "export default 'changed';");
    plugins.write("mine", "new.js", "export default 'new';");
    let mut facts = facts("mine", &root, "index.js", OpenClaw, json!({}));
    facts.seal = Some(seal);
    let runtime = crate::runtime(&root, &plugins.workers).await;
    let plugin = plugins.load_in(facts, runtime).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    assert_eq!(said(&engine, "same").await.unwrap(), "loaded");
    for name in ["changed", "new"] {
        let words = said(&engine, name).await.unwrap();
        assert!(words.contains("is not what was looked at"), "{name}: {words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_denied_is_counted_and_floods_nobody() {
    let plugins = Plugins::new();
    let before = "import { readFileSync } from 'node:fs';";
    let expression = r#"(() => { for (let i = 0; i < 5000; i++) { try { readFileSync(`/etc/${i < 4000 ? "passwd" : i}`); } catch {} } return "done"; })()"#;
    let (plugin, engine) = judging(&plugins, before, expression).await;
    let pid = host();
    assert_eq!(said(&engine, "").await.unwrap(), "done");
    assert_eq!(host(), pid);
    let denials = plugin.denials();
    let times = |grant: &str| denials.iter().find(|(word, _)| word == grant).map(|(_, times)| *times);
    assert_eq!(times("files: read /etc/passwd"), Some(4000), "{denials:?}");
    assert_eq!(denials.iter().map(|(_, times)| times).sum::<u64>(), 5000);
    assert!(denials.len() < 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_read_and_changed_as_inside_also_where_a_link_leads_there() {
    let outside = tempfile::tempdir().unwrap();
    let at = |name: &str| outside.path().join(name);
    for name in ["write", "read", "beside"] {
        std::fs::create_dir(at(name)).unwrap();
        std::fs::write(at(name).join("file"), name).unwrap();
    }
    std::os::unix::fs::symlink(at("write"), at("link")).unwrap();
    let grant = |name: &str, access| FileGrant { root: at(name), access };
    let mut plugins = Plugins::new();
    plugins.permissions.files = vec![
        grant("link", FileAccess::Write),
        grant("read", FileAccess::Read),
        grant("not-there", FileAccess::Read),
    ];
    let before = r#"
        import * as fs from "node:fs";
        const tried = (act) => { try { return act() ?? "done"; } catch (error) { return error.code; } };
    "#;
    let expression = r#"((at) => [
        tried(() => fs.writeFileSync(`${at}/link/made`, "one")), tried(() => fs.appendFileSync(`${at}/link/made`, " two")), tried(() => fs.mkdirSync(`${at}/link/a/b`, { recursive: true }) && "made"),
        tried(() => fs.renameSync(`${at}/link/made`, `${at}/link/a/b/moved`)), tried(() => fs.readFileSync(`${at}/link/a/b/moved`, "utf8")), tried(() => fs.truncateSync(`${at}/link/file`, 2)),
        tried(() => fs.readFileSync(`${at}/link/file`, "utf8")), tried(() => fs.rmSync(`${at}/link/a`, { recursive: true })), tried(() => fs.readdirSync(`${at}/link`).join("+")),
        tried(() => fs.readFileSync(`${at}/read/file`, "utf8")), tried(() => fs.writeFileSync(`${at}/read/file`, "x")), tried(() => fs.readFileSync(`${at}/beside/file`)),
        tried(() => fs.readFileSync(`${at}/not-there/file`)), new Date(2026, 6, 1).getTimezoneOffset(),
    ].join(","))(command)"#;
    let mut said_by = Vec::new();
    for place in ["inside", "apart"] {
        std::fs::write(at("write/file"), "write").unwrap();
        let source = format!(
            "{before}\nexport default {{ register(api) {{ api.on(\"before_tool_call\", ({{ params: {{ command }} }}) => ({{ block: true, blockReason: {expression} }})); }} }};"
        );
        let root = plugins.write("mine", "index.js", &source);
        let facts = facts("mine", &root, "index.js", OpenClaw, json!({}));
        let runtime = match place {
            "inside" => Runtime::Here(&plugins.workers),
            _ => crate::runtime(&root, &plugins.workers).await,
        };
        let plugin = plugins.load_in(facts, runtime).await.unwrap();
        let (engine, _) = engine(&[&plugin]);
        said_by.push(said(&engine, outside.path().to_str().unwrap()).await.unwrap());
    }
    let expected = "done,done,made,done,one two,done,wr,done,file,read,EACCES,EACCES,ENOENT,";
    assert!(said_by[0].starts_with(expected), "{}", said_by[0]);
    assert_eq!(said_by[1], said_by[0]);
}

#[test]
fn the_system_holds_the_process_to_what_is_granted_as_well() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("own"), "own").unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let pid = std::process::id().to_string();
    let tried = |fill: bool| {
        let mut command = Command::new(HOST);
        command.arg("try").arg(folder.path()).args([&port, &pid]);
        if fill {
            command.env("FILL", "1");
        }
        let output = command.output().unwrap();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (is_well, told) = tried(false);
    assert!(is_well && told.contains("filled 1048576"), "{told}");
    let gaps: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("gap ")).collect();
    let did: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("did ")).collect();
    assert!(did.contains(&"own"), "{told}");
    for (word, gap) in [
        ("change", "files"),
        ("passwd", "files"),
        ("environment", "files"),
        ("list", "files"),
        ("make", "files"),
        ("start", "files"),
        ("connect", "connections"),
        ("send", "the network"),
        ("signal", "signals"),
    ] {
        let is_open = gaps.iter().any(|told| told.starts_with(gap));
        assert!(is_open || !did.contains(&word), "{word}: {told}");
    }
    let (is_well, told) = tried(true);
    assert!(!is_well && !told.contains("filled"), "{told}");
}

#[test]
fn nobody_else_starts_one_and_learns_anything() {
    let ran = |input: &str| {
        let mut child = Command::new(HOST)
            .arg("plugin-host")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(ran(""), (true, String::new()), "whoever has nothing to say has it ended");
    for input in [
        "x\n",
        "{}\n",
        "{\"id\":1,\"method\":\"call\",\"params\":{}}\n",
        "{\"id\":1,\"method\":\"initialize\"}\n",
    ] {
        let (is_well, told) = ran(input);
        assert!(!is_well && told.contains("is started by Backstop"), "{input}: {told}");
    }
}
