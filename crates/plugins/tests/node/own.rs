//! What Node adds: more of its modules, a process that can be killed, walls that are Node's.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use backstop_engine::FailureKind;
use backstop_plugins::openclaw::Dialect::{Backstop, OpenClaw};
use backstop_plugins::openclaw::Node;
use backstop_script::{FileAccess, FileGrant, Permissions};

use crate::asking::{PATIENCE, answers_again, exists, judging, said, until};
use crate::support::{Plugins, engine};

#[tokio::test(flavor = "multi_thread")]
async fn modules_that_only_node_has_are_there_and_ours_are_those_of_here() {
    let plugins = Plugins::new();
    plugins.file(
        "mine",
        "package.json",
        r##"{"type": "module", "imports": {"#own": "./own.ts", "#http": "node:http2"}}"##,
    );
    plugins.file(
        "mine",
        "own.ts",
        "export enum Kind { One = 41 }\nexport const add = (n: number): number => n + 1;\n",
    );
    plugins.file("mine", "data.json", r#"{"name": "data"}"#);
    plugins.file("mine", "old.cjs", "exports.word = require('./data.json').name; exports.dir = __dirname; exports.sdk = typeof require('backstop/plugin-sdk').jsonResult;");
    let both = r#"{"exports": {"browser": "./browser.js", "node": {"import": "./node.mjs", "require": "./node.cjs"}}}"#;
    plugins.file("mine", "node_modules/both/package.json", both);
    plugins.file("mine", "node_modules/both/browser.js", "throw new Error('for browsers');");
    plugins.file("mine", "node_modules/both/node.mjs", "export default 'import';");
    plugins.file("mine", "node_modules/both/node.cjs", "module.exports = 'require';");
    let before = r##"
        import dgram from "node:dgram";
        import { connect } from "node:http2";
        import { createRequire } from "node:module";
        import { Kind, add } from "./own.js";
        import { add as again } from "#own";
        import http from "#http";
        import { word, dir, sdk } from "./old.cjs";
        import both from "both";
        import data from "./data.json" with { type: "json" };
        import { jsonResult } from "openclaw/plugin-sdk";
        const require = createRequire(import.meta.url);
    "##;
    let expression = r#"[
        typeof dgram.createSocket, typeof connect, http.connect === connect, add(Kind.One), again === add, word, dir === import.meta.dirname, sdk, both,
        require("both"), data.name, (await import("./old.cjs")).default.word, typeof jsonResult, require("./data.json") === require("./data.json"),
        await import("./none.js").catch((error) => error.code), import.meta.url.startsWith("file:"),
    ].join(" ")"#;
    let (_plugin, engine) = judging(&plugins, before, expression).await;
    let expected = "function function true 42 true data true function import require data data function true MODULE_NOT_FOUND true";
    assert_eq!(said(&engine, "").await.unwrap(), expected);
}

/// CommonJS waits for nothing: whatever of the SDK it requires is there at once, or says that it is not when it is used.
#[tokio::test(flavor = "multi_thread")]
async fn commonjs_requires_every_part_of_the_sdk() {
    let plugins = Plugins::new();
    plugins.file(
        "mine",
        "old.cjs",
        "const all = {};
         for (const [part, name] of [['', 'jsonResult'], ['/core', 'textResult'], ['/plugin-entry', 'definePluginEntry'],
             ['/error-runtime', 'formatErrorMessage'], ['/string-coerce-runtime', 'isRecord'], ['/account-id', 'normalizeAccountId'],
             ['/number-runtime', 'parseStrictInteger'], ['/retry-runtime', 'retryAsync'],
             ['/keyed-async-queue', 'KeyedAsyncQueue'], ['/text-chunking', 'chunkItems']]) {
             for (const system of ['openclaw', 'backstop']) all[system + part] = typeof require(system + '/plugin-sdk' + part)[name];
         }
         const { loadConfig } = require('openclaw/plugin-sdk/config-runtime');
         exports.others = Object.entries(all).filter(([, type]) => type !== 'function').join();
         exports.use = () => { try { loadConfig(); } catch (error) { return error.message; } };",
    );
    let before = "import { others, use } from './old.cjs';";
    let (_plugin, engine) = judging(&plugins, before, "others + use()").await;
    let said = said(&engine, "").await.unwrap();
    assert!(said.starts_with("loadConfig of openclaw/plugin-sdk/config-runtime is not provided"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_grant_it_reaches_no_file_program_thread_and_variable() {
    let plugins = Plugins::new();
    let outside = tempfile::tempdir().unwrap();
    let marker = outside.path().join("marker");
    std::fs::write(&marker, "marker").unwrap();
    plugins.file("mine", "own.txt", "own");
    let before = r#"
        import * as fs from "node:fs";
        import { execFileSync, fork } from "node:child_process";
        import { Worker } from "node:worker_threads";
        import { createRequire } from "node:module";
        const refused = (act) => { try { act(); return "DONE"; } catch (error) { return error.code; } };
    "#;
    let marker_text = marker.display();
    let expression = format!(
        r#"[
        refused(() => fs.readFileSync("{marker_text}")), refused(() => fs.writeFileSync("{marker_text}", "x")), refused(() => fs.readdirSync("/")),
        refused(() => fs.readFileSync("/proc/self/environ")), refused(() => fs.symlinkSync("{marker_text}", new URL("link", import.meta.url))),
        refused(() => execFileSync("true")), refused(() => fork("x")), refused(() => new Worker("1", {{ eval: true }})),
        refused(() => process.dlopen({{}}, "x.node")), refused(() => createRequire(import.meta.url)("{marker_text}")),
        refused(() => fs.writeFileSync(new URL("own.txt", import.meta.url), "x")),
        fs.readFileSync(new URL("own.txt", import.meta.url), "utf8"), Object.keys(process.env).sort().join("+"),
    ].join(" ")"#
    );
    let (_plugin, engine) = judging(&plugins, before, &expression).await;
    let denied = "ERR_ACCESS_DENIED";
    let words = said(&engine, "").await.unwrap();
    let words: Vec<_> = words.split(' ').collect();
    for at in [0, 1, 2, 3, 4, 5, 6, 7, 10] {
        assert_eq!(words[at], denied, "{at}: {words:?}");
    }
    assert_eq!(words[8], "ERR_DLOPEN_DISABLED", "{words:?}");
    assert_eq!(words[9], "MODULE_NOT_FOUND", "{words:?}");
    assert_eq!(&words[11..], ["own", "BACKSTOP_PLUGIN_ID+HOME"]);
    assert_eq!(std::fs::read_to_string(&marker).unwrap(), "marker");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_granted_is_reached_and_nothing_beside_it() {
    let outside = tempfile::tempdir().unwrap();
    let (given, beside) = (outside.path().join("given"), outside.path().join("given-not"));
    for folder in [&given, &beside] {
        std::fs::create_dir(folder).unwrap();
        std::fs::write(folder.join("file"), "text").unwrap();
    }
    let permissions = Permissions {
        files: vec![FileGrant { root: given.clone(), access: FileAccess::Write }],
        env: [("GIVEN".to_owned(), "value".to_owned())].into(),
        ..Permissions::default()
    };
    let plugins = Plugins::granted(permissions);
    let before = r#"import * as fs from "node:fs"; const refused = (act) => { try { return act() ?? "done"; } catch (error) { return error.code; } };"#;
    let expression = format!(
        r#"[process.env.GIVEN, refused(() => fs.readFileSync("{0}/file", "utf8")), refused(() => fs.writeFileSync("{0}/new", "x")), refused(() => fs.readFileSync("{1}/file", "utf8"))].join(" ")"#,
        given.display(),
        beside.display()
    );
    let (_plugin, engine) = judging(&plugins, before, &expression).await;
    assert_eq!(said(&engine, "").await.unwrap(), "value text done ERR_ACCESS_DENIED");
    assert!(given.join("new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_one_that_is_stuck_fails_in_time_is_killed_and_started_again() {
    let plugins = Plugins::new();
    let before = "let asked = 0;";
    let expression = r#"(command === "spin" ? (() => { for (;;); })() : command === "wait" ? new Promise(() => {}) : `${process.pid} ${asked += 1}`)"#;
    let (_plugin, engine) = judging(&plugins, before, expression).await;
    let first = said(&engine, "").await.unwrap();
    let pid = first.split(' ').next().unwrap().to_owned();
    // Who only waits is not stuck: it takes the cancellation, and goes on.
    let (kind, _) = said(&engine, "wait").await.unwrap_err();
    assert_eq!(kind, FailureKind::TimedOut);
    assert_eq!(said(&engine, "").await.unwrap(), format!("{pid} 2"));
    let (kind, _) = said(&engine, "spin").await.unwrap_err();
    assert_eq!(kind, FailureKind::TimedOut);
    until("the stuck process is killed", || !exists(&pid)).await;
    let again = answers_again(&engine, "").await;
    assert_ne!(again.split(' ').next(), Some(pid.as_str()));
    assert!(again.ends_with(" 1"), "it began anew: {again}");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_one_that_dies_fails_what_it_was_asked_and_comes_back() {
    let plugins = Plugins::new();
    let before = "import { writeSync } from 'node:fs';";
    let expression = r#"({
        exit: () => process.exit(0), throw: () => { setTimeout(() => { throw new Error("late"); }); return new Promise(() => {}); },
        junk: () => { writeSync(1, "junk\n"); return new Promise(() => {}); },
        twice: () => { writeSync(1, JSON.stringify({ jsonrpc: "2.0", id: 4711, result: { none: true } }) + "\n"); return new Promise(() => {}); },
        print: () => { console.log("a line"); process.stdout.write("text\n"); console.table([1]); return "printed"; },
        reject: () => { Promise.reject(new Error("nobody")); return "rejected"; },
    }[command] ?? (() => process.pid))()"#;
    let (_plugin, engine) = judging(&plugins, before, expression).await;
    for (command, kind) in [
        ("exit", FailureKind::Unreachable),
        ("throw", FailureKind::Unreachable),
        ("junk", FailureKind::Malformed),
        ("twice", FailureKind::Malformed),
    ] {
        let pid = answers_again(&engine, "").await;
        let (failed, words) = said(&engine, command).await.unwrap_err();
        assert_eq!(failed, kind, "{command}: {words}");
        until("it ends", || !exists(&pid)).await;
    }
    let pid = answers_again(&engine, "").await;
    assert_eq!(said(&engine, "print").await.unwrap(), "printed");
    assert_eq!(said(&engine, "reject").await.unwrap(), "rejected");
    assert_eq!(said(&engine, "").await.unwrap(), pid, "none of this ends it");
}

#[tokio::test(flavor = "multi_thread")]
async fn it_dies_with_the_last_that_holds_it() {
    let plugins = Plugins::new();
    let (plugin, engine) = judging(&plugins, "", "process.pid").await;
    let pid = said(&engine, "").await.unwrap();
    assert!(exists(&pid));
    drop((plugin, engine, plugins));
    until("nobody holds it", || !exists(&pid)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_life_that_registers_others_is_not_asked() {
    let plugins = Plugins::new();
    let body = r#"
        api.on("before_tool_call", () => process.exit(0), { registrationId: `hook-${process.pid}` });
    "#;
    let plugin = plugins.register("mine", Backstop, body).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    assert_eq!(said(&engine, "").await.unwrap_err().0, FailureKind::Unreachable);
    let end = std::time::Instant::now() + PATIENCE;
    loop {
        let (_, words) = said(&engine, "").await.unwrap_err();
        if words.contains("registered other functions") {
            break;
        }
        assert!(std::time::Instant::now() < end, "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_is_bounded() {
    let plugins = Plugins::new();
    let expression = r#"command === "fill" ? (() => { const all = []; for (;;) all.push(new Array(1e5).fill(all.length)); })() : process.pid"#;
    let source = format!(
        "export default {{ register(api) {{ api.on(\"before_tool_call\", ({{ params: {{ command }} }}) => ({{ block: true, blockReason: String({expression}) }}), {{ timeoutMs: 60000 }}); }} }};"
    );
    let plugin = plugins.load("mine", OpenClaw, &source).await.unwrap();
    let (engine, _) = engine(&[&plugin]);
    let pid = said(&engine, "").await.unwrap();
    assert_eq!(said(&engine, "fill").await.unwrap_err().0, FailureKind::Unreachable);
    until("it ends", || !exists(&pid)).await;
}

fn program(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("node");
    std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    file
}

#[tokio::test]
async fn a_machine_without_node_or_with_an_old_one_is_said_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let none = Node::at(folder.path().join("none")).await.unwrap_err().to_string();
    assert!(none.contains("there is no Node.js") && none.contains("hint: "), "{none}");
    for (text, words) in [
        ("echo v18.19.1", "is Node.js 18.19, and plugins need"),
        ("echo hello", "it said something else"),
        ("exit 1", "it said something else"),
    ] {
        let said = Node::at(program(folder.path(), text)).await.unwrap_err().to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_answers_for_node_and_is_none_loads_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = program(
        folder.path(),
        r#"[ "$1" = --version ] && echo v22.15.0 || { echo "bad option" >&2; exit 9; }"#,
    );
    let node = Node::at(file.clone()).await.unwrap();
    let plugins = Plugins::new();
    let error =
        plugins.load_under("mine", "export default { register() {} };", node.clone()).await.unwrap_err();
    assert!(error.to_string().contains("bad option"), "{error}");
    std::fs::write(&file, "#!/bin/sh\necho v22.15.0\n").unwrap();
    let error = plugins.load_under("mine", "export default { register() {} };", node).await.unwrap_err();
    assert!(error.to_string().contains("is not the file that was looked up"), "{error}");
}
