//! Which modules are found, what they are called, and what is refused.

use backstop_script::{FilesSeen, Provided, ScriptError, ScriptSource};
use serde_json::{Value, json};

use crate::common::{Script, ask, write};

async fn answer(files: &[(&str, &str)], entry: &str) -> Result<Option<Value>, ScriptError> {
    let script = Script::new(files);
    let loaded = script.load(entry).await?;
    ask(&loaded, "default", &Value::Null).await
}

#[tokio::test]
async fn a_path_finds_its_typescript_form_its_ending_and_the_index_of_a_folder() {
    let found = answer(
        &[
            ("src/main.ts", "import { a } from './a.js'; import { b } from './b'; import { c } from '../lib'; import d from './d.json';\nexport default () => [a, b, c, d];"),
            ("src/a.ts", "export const a: string = 'a.ts';"),
            ("src/b.mjs", "export const b = 'b.mjs';"),
            ("lib/index.ts", "export * from './deep/../c.js';"),
            ("lib/c.js", "export const c = 'c.js';"),
            ("src/d.json", "{\"__proto__\": 1, \"x\": [2]}"),
        ],
        "src/main.ts",
    )
    .await;
    assert_eq!(found.unwrap(), Some(json!(["a.ts", "b.mjs", "c.js", {"__proto__": 1, "x": [2]}])));
}

#[tokio::test]
async fn a_package_is_read_by_its_exports_with_what_is_for_browsers_before_node() {
    let package = r##"{"name": "pkg", "type": "module", "main": "./wrong.js",
        "exports": {
            ".": {"node": "./node.js", "browser": {"import": "./browser.js"}, "default": "./wrong.js"},
            "./only-node": {"node": "./node.js"},
            "./parts/*": "./parts/*.js", "./parts/hidden/*": null
        },
        "imports": {"#inner": "./inner.js"},
        "browser": {"./inner.js": "./inner-browser.js", "zlib": false}}"##;
    let files: &[(&str, &str)] = &[
        (
            "main.js",
            "import a from 'pkg'; import b from 'pkg/only-node'; import c from 'pkg/parts/one'; import { inner, empty } from 'pkg/parts/two';\n\
            const refused = async (name) => { try { await import(name); return 'found'; } catch (error) { return error.message.split('\\n')[0]; } };\n\
            export default async () => [a, b, c, inner, empty, await refused('pkg/parts/hidden/x'), await refused('pkg/inner.js')];",
        ),
        ("node_modules/pkg/package.json", package),
        ("node_modules/pkg/browser.js", "export default 'browser';"),
        ("node_modules/pkg/node.js", "export default 'node';"),
        ("node_modules/pkg/parts/one.js", "export { default } from 'pkg';"),
        (
            "node_modules/pkg/parts/two.js",
            "export { inner } from '#inner'; import z from 'zlib'; export const empty = Object.keys(z).length;",
        ),
        ("node_modules/pkg/inner.js", "export const inner = 'wrong';"),
        ("node_modules/pkg/inner-browser.js", "export const inner = 'inner-browser';"),
    ];
    let found = answer(files, "main.js").await.unwrap().unwrap();
    assert_eq!(
        found,
        json!([
            "browser",
            "node",
            "browser",
            "inner-browser",
            0,
            "cannot load `pkg/parts/hidden/x`, imported by main.js: node_modules/pkg/package.json does not export `./parts/hidden/x`",
            "cannot load `pkg/inner.js`, imported by main.js: node_modules/pkg/package.json does not export `./inner.js`",
        ])
    );
}

#[tokio::test]
async fn commonjs_and_modules_import_each_other() {
    let found = answer(
        &[
            ("package.json", r#"{"name": "own", "version": "1.2.3"}"#),
            ("main.mjs", "import { createRequire } from 'node:module'; import whole, { named } from './lib/a.cjs'; import old from 'old';\n\
                const require = createRequire(import.meta.url);\n\
                export default () => [named, whole.same === require('./lib/a.cjs').same, require('./package.json').version, old(2), whole.file];"),
            ("lib/a.cjs", "#!/usr/bin/env node\nconst path = require('path'); const { esm } = require('./b.mjs');\n\
                exports.named = esm + require('./data.json').n; module.exports.same = {}; exports.file = path.basename(__filename) + (this === exports) + typeof undefinedName;"),
            ("lib/b.mjs", "export const esm = 40;"),
            ("lib/data.json", "{\"n\": 2}"),
            ("node_modules/old/package.json", r#"{"name": "old", "main": "lib"}"#),
            ("node_modules/old/lib/index.js", "module.exports = function (x) { return x * require('../factor') };"),
            ("node_modules/old/factor.js", "module.exports = 21"),
        ],
        "main.mjs",
    )
    .await;
    assert_eq!(found.unwrap(), Some(json!([42, true, "1.2.3", 42, "a.cjstrueundefined"])));
}

#[tokio::test]
async fn cyclic_imports_and_requires_end_and_a_module_has_one_name() {
    let found = answer(
        &[
            ("main.js", "import { a } from './x/../x/a.js'; import * as again from './x/a.js'; import one from './c/one.cjs';\nexport default () => [a(), again.count, one.done, one.two];"),
            ("x/a.js", "import { b } from '../x/b.js'; export let count = 0; count++; export const a = () => 'a' + b();"),
            ("x/b.js", "import { a } from './../x/a.js'; export const b = () => 'b' + typeof a;"),
            ("c/one.cjs", "exports.early = 1; exports.two = require('./two.cjs').sees; exports.done = true;"),
            ("c/two.cjs", "exports.sees = Object.keys(require('../c/one.cjs'));"),
        ],
        "main.js",
    )
    .await;
    assert_eq!(found.unwrap(), Some(json!(["abfunction", 1, true, ["early"]])));
}

#[tokio::test]
async fn import_meta_says_where_a_module_is_and_dynamic_imports_are_relative_to_it() {
    let script = Script::new(&[
        (
            "main.js",
            "export default async () => [(await import('./lib/a b.js')).url, typeof import.meta.host];",
        ),
        ("lib/a b.js", "export const url = import.meta.url;"),
    ]);
    let loaded = script.load("main.js").await.unwrap();
    let found = ask(&loaded, "default", &Value::Null).await.unwrap().unwrap();
    let root = script.folder.path().canonicalize().unwrap();
    assert_eq!(found, json!([format!("file://{}/lib/a%20b.js", root.display()), "undefined"]));
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_outside_of_the_folder_is_loaded_not_through_links_either() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "secret.js", "export default () => 'out';");
    write(outside.path(), "secret.json", "{}");
    write(outside.path(), "pkg/index.js", "export default 'out';");
    write(outside.path(), "pkg/package.json", "{}");
    let script = Script::new(&[("main.js", "import { createRequire } from 'module';
        const require = createRequire(import.meta.url);
        const ways = [(n) => import(n), async (n) => require(n), async (n) => createRequire('/')(n), async (n) => createRequire('file:///')(n),
          async (n) => createRequire(import.meta.dirname + '/backstop:require/x.js')(n),
          async (n) => createRequire(import.meta.dirname + '/./backstop:require/x.js')(n),
          async (n) => createRequire('file://' + import.meta.dirname + '/a/../backstop:require/x.js')(n)];
        export default async (names) => {
          const found = [];
          for (const name of names) for (const way of ways) try { await way(name); found.push(name); } catch (error) {
            if (!/outside|no such file|begins with no file|no package|link out|no name of a package/.test(error.message)) found.push(error.message);
          }
          return found;
        };")]);
    let folder = script.folder.path();
    let far = outside.path().display();
    for (link, to) in [
        ("link.js", "secret.js"),
        ("folder", ""),
        ("link.json", "secret.json"),
        ("node_modules/linked", "pkg"),
    ] {
        std::fs::create_dir_all(folder.join("node_modules")).unwrap();
        std::os::unix::fs::symlink(outside.path().join(to), folder.join(link)).unwrap();
    }
    let up = "../".repeat(20);
    let loaded = script.load("main.js").await.unwrap();
    let names = json!([
        "./link.js",
        "./link",
        "./folder/secret.js",
        "./folder/secret",
        "./folder",
        "./folder/pkg",
        "./link.json",
        "linked",
        "linked/index.js",
        format!("{far}/secret.js"),
        format!("file://{far}/secret.js"),
        format!("{up}{far}/secret.js"),
        format!("./{up}{far}/secret.json"),
        format!(
            "file://{}/%2e%2e/{}/secret.js",
            folder.canonicalize().unwrap().display(),
            outside.path().file_name().unwrap().to_str().unwrap()
        ),
        "../x",
        "..",
        "/",
        "/etc/hostname",
        "@x/../../y",
        "linked/../../../secret.js",
    ]);
    assert_eq!(ask(&loaded, "default", &names).await.unwrap(), Some(json!([])));
    let error = script.load("link.js").await.unwrap_err();
    assert!(error.to_string().contains("outside of the script's folder"), "{error}");
}

#[tokio::test]
async fn what_is_not_found_names_importer_specifier_and_the_next_step() {
    let error =
        answer(&[("main.js", "import './lib/a.js';"), ("lib/a.js", "import x from 'left-pad';")], "main.js")
            .await
            .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot load `left-pad`, imported by lib/a.js:1:15: there is no package `left-pad` in the script's folder, and no module of that name here\n  \
         hint: install it into the folder's `node_modules`, or bundle it"
    );
    let error = answer(&[("main.js", "import 'node:nothing';")], "main.js").await.unwrap_err();
    assert!(
        error.to_string().starts_with(
            "cannot load `node:nothing`, imported by main.js:1:8: Node's module `nothing` is not provided"
        ),
        "{error}"
    );
    let error =
        answer(&[("main.js", "import { nope } from './b.js';"), ("b.js", "export const a = 1;")], "main.js")
            .await
            .unwrap_err();
    assert!(error.to_string().contains("nope"), "{error}");
    let error = answer(&[("main.js", "import './b.json';"), ("b.json", "{\n \"a\": nope\n}")], "main.js")
        .await
        .unwrap_err();
    assert!(error.to_string().starts_with("b.json:2:"), "{error}");
    let error = answer(&[("main.js", "import './b.cjs';"), ("b.cjs", "let a;\nlet b = = 1;")], "main.js")
        .await
        .unwrap_err();
    assert!(error.to_string().starts_with("b.cjs:2:"), "{error}");
}

#[tokio::test]
async fn what_is_wrong_with_an_import_names_who_imports_it_where_and_what_would_be_right() {
    let files = [
        ("ns.tsx", "export const a = 1;"),
        ("folder/readme.md", "a"),
        ("data.txt", "a"),
        ("lib.js", "export const word = 1, other = 2;"),
        ("nothing.js", "globalThis.a = 1;\nexport {};"),
        ("passing.ts", "\nimport type { T } from './lib';\nexport { word, gone } from './lib';"),
        ("api.js", "export default { on() {} };"),
    ];
    for (import, said) in [
        (
            "import './nse';",
            &[
                "cannot load `./nse`, imported by main.ts:2:8: there is no such file",
                "hint: tried were `nse`, that with `.ts`, `.js`, ",
            ][..],
        ),
        ("import './ns';", &["`./ns`, imported by main.ts:2:8: there is no such file", "`ns.tsx` is JSX"]),
        (
            "import './folder';",
            &["imported by main.ts:2:8: it is a folder that begins with no file", "needs `index`"],
        ),
        (
            "import * as a from './data.txt'; a;",
            &["cannot load `./data.txt`, imported by main.ts:2:20: its ending is not one of code"],
        ),
        ("export * from './data.txt';", &["cannot load `./data.txt`, imported by main.ts:2:15: its ending"]),
        (
            "import a from 'data:text/javascript,export%20default%201'; a;",
            &["imported by main.ts:2:15: modules are files of the script's folder", "(`data:`)"],
        ),
        ("import 'https://example.org/a.js';", &["none comes from an address (`https:`)"]),
        ("import './%2e%2e/%2e%2e/etc/hostname';", &["imported by main.ts:2:8: there is no such file"]),
        (
            "import { wort } from './lib'; wort;",
            &["main.ts:2:22: `./lib` does not export `wort`", "hint: it exports `other`, `word`"],
        ),
        (
            "import { wort } from './nothing'; wort;",
            &["main.ts:2:22: `./nothing` does not export `wort`", "exports nothing by name"],
        ),
        ("import './passing';", &["passing.ts:3:28: `./lib` does not export `gone`"]),
        (
            "import api from './api'; const of = { api };\nof.api.onn(1);",
            &["main.ts:3:8: TypeError: `onn` is not a function"],
        ),
        ("const made = 1;\nmade();", &["main.ts:3:", "`made` is not a function"]),
    ] {
        let main = format!("// first\n{import}\n");
        let files: Vec<_> = files.iter().copied().chain([("main.ts", main.as_str())]).collect();
        let error = answer(&files, "main.ts").await.unwrap_err().to_string();
        for said in said {
            assert!(error.contains(said), "{import}\n{said}\n{error}");
        }
    }
}

/// What an import of something outside says is the same whether it is there or not: a script learns nothing of the machine by it.
#[tokio::test]
async fn an_import_does_not_tell_what_there_is_outside() {
    let outside = tempfile::tempdir().unwrap();
    write(outside.path(), "there.js", "export default 1;");
    write(outside.path(), "folder/package.json", "{\"main\": \"a.js\"}");
    let script = Script::new(&[(
        "main.js",
        "import { createRequire } from 'node:module';
         const require = createRequire(import.meta.url);
         const ways = [(n) => import(n), async (n) => require(n), async (n) => require.resolve(n), async (n) => createRequire(n + '/x')('./x')];
         export const main = async (names) => {
             const said = [];
             for (const name of names) for (const way of ways) await way(name).catch((error) => said.push(error.message.replaceAll(name, 'NAME')));
             return said;
         };",
    )]);
    let loaded = script.load("main.js").await.unwrap();
    let far = outside.path().canonicalize().unwrap().display().to_string();
    let up = "../".repeat(20);
    let asked = |there: bool| {
        let names = if there {
            ["there", "there.js", "folder", "folder/a"]
        } else {
            ["here", "here.js", "nothing", "nothing/a"]
        };
        let all = names.iter().flat_map(|name| {
            [
                format!("{far}/{name}"),
                format!("file://{far}/{name}"),
                format!("./{up}{far}/{name}"),
                format!("pkg/{up}{far}/{name}"),
            ]
        });
        json!(all.collect::<Vec<_>>())
    };
    let there = ask(&loaded, "main", &asked(true)).await.unwrap();
    assert_eq!(there.as_ref().and_then(|said| said.as_array()).map(Vec::len), Some(4 * 4 * 4));
    assert_eq!(there, ask(&loaded, "main", &asked(false)).await.unwrap());
}

/// A stack is a text that a script writes: it has no words of files read out that are no modules of the script.
#[tokio::test]
async fn a_stack_that_a_script_wrote_reads_no_file() {
    let script = Script::new(&[
        (
            "main.js",
            "export default (file) => { throw Object.assign(new TypeError('not a function'), { stack: `    at x (${file}:1:1)` }); };",
        ),
        ("secret.txt", "hunter2"),
    ]);
    let loaded = script.load("main.js").await.unwrap();
    for file in ["secret.txt", "./secret.txt", "../secret.txt", "/etc/hostname", "backstop:api"] {
        let error = ask(&loaded, "default", &json!(file)).await.unwrap_err().to_string();
        assert!(error.ends_with("TypeError: not a function"), "{error}");
    }
}

#[tokio::test]
async fn modules_of_the_bridge_reach_the_host_and_those_of_a_script_do_not() {
    let script = Script::new(&[(
        "main.ts",
        "import { echo } from 'sdk'; import { gone, type T } from 'sdk/absent';
         const caught = (run: () => unknown) => { try { return run(); } catch (error) { return (error as Error).message; } };
         export default async () => [await echo({ a: 1 }), caught(() => gone.x), caught(() => gone())];",
    )]);
    {
        let mut modules = script.bridge.modules.lock().unwrap();
        modules.push((
            "sdk".to_owned(),
            Provided::Source(
                "const { call, request } = import.meta.host;
                 export const echo = async (value) => {
                   const failed = (error) => [error.code, error.syscall ?? null, error.message];
                   const sync = (() => { try { call('nope'); } catch (error) { return failed(error); } })();
                   return [call('echo', value), await request('echo', value), sync, await request('nope').catch(failed)];
                 };"
                .into(),
            ),
        ));
        modules.push(("sdk/absent".to_owned(), Provided::Absent("a later issue".to_owned())));
    }
    let loaded = script.load("main.ts").await.unwrap();
    assert_eq!(
        ask(&loaded, "default", &Value::Null).await.unwrap(),
        Some(json!([
            [{"a": 1}, {"a": 1}, ["ENOSYS", "nope", "no `nope`"], ["ENOSYS", null, "no `nope`"]],
            "gone of sdk/absent is not provided: a later issue",
            "gone of sdk/absent is not provided: a later issue",
        ]))
    );
}

#[tokio::test]
async fn what_a_module_of_ours_lacks_links_throws_by_name_and_is_told_when_it_is_imported() {
    let script = Script::new(&[
        (
            "main.ts",
            "import { join, nothingOfIt as wanted } from 'path'; import * as other from './other.js';
             import type { OnlyAType } from 'node:http'; import { AlsoAType, createServer } from 'node:http';
             import whole, { echo, later, Later, type T } from 'sdk'; import passedOn, { gone } from 'sdk/passing';
             const caught = (run: () => unknown) => { try { return run(); } catch (error) { const { message, code } = error as any; return [message.split('\\n')[0], code]; } };
             const typed: AlsoAType | undefined = undefined;
             class Below extends Later {}
             export default () => [join('a', 'b'), caught(() => wanted.x), caught(() => wanted()), caught(() => new Below()), caught(() => createServer()),
               other.default === join, other.answer, echo(5), caught(() => later()), caught(() => whole.x()), {} instanceof Later, passedOn, caught(() => gone())];",
        ),
        ("other.js", "import path from 'node:path'; export const answer = 'other'; export default path.join; export { nothing } from 'node:os';"),
    ]);
    {
        let mut modules = script.bridge.modules.lock().unwrap();
        let mut source =
            |name: &str, text: &str| modules.push((name.to_owned(), Provided::Source(text.into())));
        source("sdk", "export const echo = (value) => value;");
        source("sdk/passing", "export * from 'sdk/inner'; export default 7;");
        source("sdk/inner", "export const { kept } = { kept: 1 };");
    }
    let loaded = script.load("main.ts").await.unwrap();
    let told = std::mem::take(&mut *script.bridge.absent.lock().unwrap());
    let code = "ERR_METHOD_NOT_IMPLEMENTED";
    let absent = |name: &str, module: &str| json!([format!("{name} of {module} is not provided here"), code]);
    assert_eq!(
        ask(&loaded, "default", &Value::Null).await.unwrap().unwrap(),
        json!([
            "a/b",
            absent("nothingOfIt", "node:path"),
            absent("nothingOfIt", "node:path"),
            absent("Later", "sdk"),
            ["http.createServer is not provided to scripts", code],
            true,
            "other",
            5,
            absent("later", "sdk"),
            absent("x", "sdk"),
            false,
            7,
            absent("gone", "sdk/passing"),
        ])
    );
    let mut told: Vec<_> = told.iter().map(|(module, names)| (module.as_str(), names.join(" "))).collect();
    told.sort();
    let expected = [
        ("node:http", "createServer"),
        ("node:os", "nothing"),
        ("node:path", "nothingOfIt"),
        ("sdk", "Later default later"),
        ("sdk/passing", "gone"),
    ];
    assert_eq!(told, expected.map(|(module, names)| (module, names.to_owned())));
    assert!(script.bridge.absent.lock().unwrap().is_empty(), "it is told when it is imported");
}

#[tokio::test]
async fn the_place_of_an_error_about_what_is_not_provided_is_where_it_is_used() {
    let script = Script::new(&[(
        "main.js",
        "import { nothing } from 'node:path';\n\nexport default () => {\n  nothing();\n};",
    )]);
    let loaded = script.load("main.js").await.unwrap();
    let error = ask(&loaded, "default", &Value::Null).await.unwrap_err();
    let ScriptError::Thrown { place: Some(place), .. } = &error else { panic!("{error:?}") };
    assert_eq!((place.file.as_str(), place.line), ("main.js", 4), "{error}");
}

#[tokio::test]
async fn a_boot_module_imports_the_entry_and_hands_over_functions() {
    let script = Script::new(&[("plugin.js", "export default (api) => api.on((x) => ({ seen: x }));")]);
    let source: ScriptSource = script.source("plugin.js").boot(
        "import register from 'script:entry';
         const { keep } = import.meta.host;
         const kept = [];
         register({ on: (handler) => kept.push(keep(handler, `on ${kept.length}`)) });
         export const registered = () => kept;",
    );
    let loaded = script.load_source(source).await.unwrap();
    let kept: Vec<u32> =
        serde_json::from_value(ask(&loaded, "registered", &Value::Null).await.unwrap().unwrap()).unwrap();
    let id = backstop_script::FunctionId::new(kept[0]);
    let answer =
        loaded.call(id, &crate::common::json(&json!(5)), crate::common::LONG).await.unwrap().unwrap();
    assert_eq!(answer.json.as_str(), "{\"seen\":5}");
}

#[tokio::test]
async fn chains_of_modules_and_of_requires_are_bounded_by_the_stack_and_not_by_luck() {
    let files: Vec<(String, String)> = (0..3_000)
        .flat_map(|i| {
            let next = i + 1;
            [
                (format!("m{i}.mjs"), format!("import './m{next}.mjs';")),
                (
                    format!("c{i}.cjs"),
                    format!("const down = (n) => n ? down(n - 1) : require('./c{next}.cjs'); down(50);"),
                ),
            ]
        })
        .chain([("m3000.mjs".to_owned(), String::new()), ("c3000.cjs".to_owned(), String::new())])
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let script = Script::new(&files);
    for entry in ["m0.mjs", "c0.cjs"] {
        let error = script.load(entry).await.unwrap_err().to_string();
        assert!(error.contains("in a row") || error.contains("stack"), "{error}");
    }
    assert!(script.load("m2800.mjs").await.is_ok());
}

/// What was seen of a folder: names and bytes.
#[derive(Debug)]
struct Seen(Vec<(&'static str, &'static str)>);

impl FilesSeen for Seen {
    fn holds(&self, name: &str, bytes: &[u8]) -> bool {
        self.0.iter().any(|(seen, text)| *seen == name && text.as_bytes() == bytes)
    }
}

#[tokio::test]
async fn what_was_not_seen_before_is_not_loaded_however_it_is_asked_for() {
    const MAIN: &str = "import { createRequire } from 'node:module';
         const require = createRequire(import.meta.url);
         export const main = async (how) => {
             try {
                 if (how === 'import') await import('./late.js');
                 if (how === 'require') require('./late.cjs');
                 if (how === 'json') require('./late.json');
                 if (how === 'package') await import('late');
                 if (how === 'folder') require('./folder');
                 return 'loaded';
             } catch (error) { return error.message; }
         };";
    const FILES: [(&str, &str); 8] = [
        ("main.js", MAIN),
        ("package.json", "{\"type\":\"module\"}"),
        ("late.js", "export default 1;"),
        ("late.cjs", "module.exports = 1;"),
        ("late.json", "{\"a\":1}"),
        ("node_modules/late/package.json", "{\"main\":\"a.js\"}"),
        ("node_modules/late/a.js", "module.exports = 1;"),
        ("folder/index.cjs", "module.exports = 1;"),
    ];
    for (how, file) in [
        ("import", "late.js"),
        ("require", "late.cjs"),
        ("json", "late.json"),
        ("package", "node_modules/late/a.js"),
        ("package", "node_modules/late/package.json"),
        ("folder", "folder/package.json"),
        ("folder", "folder/index.cjs"),
    ] {
        let script = Script::new(&FILES);
        let source = || script.source("main.js").seen(std::sync::Arc::new(Seen(FILES.to_vec())));
        let same = script.load_source(source()).await.unwrap();
        assert_eq!(ask(&same, "main", &json!(how)).await.unwrap(), Some(json!("loaded")), "{how} {file}");
        let loaded = script.load_source(source()).await.unwrap();
        // It was looked at, and loaded; and only then somebody writes.
        write(script.folder.path(), file, " ");
        let said = ask(&loaded, "main", &json!(how)).await.unwrap().unwrap();
        assert!(said.as_str().unwrap().contains("not what was looked at"), "{how} {file}: {said}");
    }
    let script = Script::new(&FILES);
    let source = script.source("main.js").seen(std::sync::Arc::new(Seen(Vec::new())));
    let error = script.load_source(source).await.unwrap_err().to_string();
    assert!(error.contains("looked at"), "{error}");
}

/// Whoever looks at a package before it is trusted takes these files for prose and media.
#[tokio::test]
async fn what_is_called_prose_or_media_is_not_run() {
    const CODE: &str = "export const it = 1; export default () => 'ran';";
    for ending in ["md", "txt", "png", "svg", "css", "map", "snap", "JS", "es6", "node", "js.txt", "wasm"] {
        let file = format!("notes.{ending}");
        let importing = format!(
            "import {{ createRequire }} from 'node:module';\n\
             const said = []; const name = './{file}';\n\
             for (const get of [() => import(name), () => createRequire(import.meta.url)(name)])\n\
               try {{ await get(); said.push('ran'); }} catch (error) {{ said.push(error.message); }}\n\
             export default () => said;"
        );
        let said = answer(&[("main.mjs", &importing), (&file, CODE)], "main.mjs").await.unwrap().unwrap();
        for said in said.as_array().unwrap() {
            let said = said.as_str().unwrap();
            assert!(
                said.contains("ending is not one of code") || said.contains("native code"),
                "{ending}: {said}"
            );
        }
        let entry = answer(&[(&file, CODE)], &file).await.unwrap_err().to_string();
        assert!(
            entry.contains("ending is not one of code") || entry.contains("native code"),
            "{ending}: {entry}"
        );
    }
    // One without an ending says nothing else than code.
    assert_eq!(answer(&[("main", CODE)], "main").await.unwrap(), Some(json!("ran")));
}
