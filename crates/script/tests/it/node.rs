//! The Node surface, as scripts use it.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::{Value, json};

use crate::common::{Script, ask, run};

/// What an expression comes to in a script that imported what it needs.
async fn value(body: &str) -> Value {
    run(body).await.unwrap().unwrap_or(Value::Null)
}

/// Every module of the surface, and a name that programs take from it.
const NAMES: &[(&str, &str)] = &[
    ("assert", "deepStrictEqual"),
    ("assert/strict", "equal"),
    ("buffer", "Buffer"),
    ("events", "EventEmitter"),
    ("path", "join"),
    ("path/posix", "join"),
    ("perf_hooks", "performance"),
    ("punycode", "toASCII"),
    ("querystring", "parse"),
    ("string_decoder", "StringDecoder"),
    ("timers", "setTimeout"),
    ("timers/promises", "setTimeout"),
    ("url", "fileURLToPath"),
    ("util", "inspect"),
    ("util/types", "isMap"),
];

#[tokio::test]
async fn every_module_is_imported_by_name_by_default_and_as_a_namespace() {
    for (module, name) in NAMES {
        let body = format!(
            "const a = await import('node:{module}'), b = await import('{module}');
             return [a.default !== undefined, a.{name} !== undefined, a.default === b.default, a.{name} === a.default.{name}]"
        );
        assert_eq!(value(&body).await, json!([true, true, true, true]), "{module}");
    }
}

#[tokio::test]
async fn globals_are_there() {
    let body = "return Object.fromEntries(['URL','URLSearchParams','TextEncoder','TextDecoder','atob','btoa','structuredClone','Buffer','performance'].map((name) => [name, typeof globalThis[name]]))";
    let found = value(body).await;
    assert!(
        found.as_object().unwrap().values().all(|kind| kind == "function" || kind == "object"),
        "{found}"
    );
}

#[tokio::test]
async fn structured_clones_share_nothing_and_keep_cycles() {
    let body = "const a = { list: [1, new Date(5)], map: new Map([[1, { b: 2 }]]), bytes: new Uint8Array([1, 2]) }; a.self = a;
        const b = structuredClone(a); b.map.get(1).b = 3; b.bytes[0] = 9;
        let refused; try { structuredClone({ f() {} }) } catch (error) { refused = error.name }
        return [b.self === b, b.list[1].getTime(), a.map.get(1).b, a.bytes[0], refused]";
    assert_eq!(value(body).await, json!([true, 5, 2, 1, "DataCloneError"]));
}

/// What the installed Node exports: the names of each module, and what kind of thing each is.
fn exports_of_node() -> BTreeMap<String, BTreeMap<String, String>> {
    let program = "const all = {};
        for (const name of require('node:module').builtinModules.filter((name) => !name.startsWith('_'))) {
          const it = require(`node:${name}`);
          all[name] = {};
          for (const key of Object.keys(it)) all[name][key] = typeof it[key];
        }
        process.stdout.write(JSON.stringify(all));";
    let output = Command::new("node").args(["--no-warnings", "-e", program]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What imports the names of a module: says what kind of thing each is, and which of them say that they are not provided.
fn importing(module: &str, names: &[&String]) -> String {
    let imports = names.iter().map(|name| format!("{name} as _{name}")).collect::<Vec<_>>().join(", ");
    let list = names.iter().map(|name| format!("{name}: _{name}")).collect::<Vec<_>>().join(", ");
    format!(
        "import {{ {imports} }} from 'node:{module}';
         const all = {{ __proto__: null, {list} }};
         const refuses = async (name) => {{
           try {{ await Promise.race([all[name](), Promise.resolve().then(() => {{}}).then(() => {{}})]); }}
           catch (error) {{ return error?.code === 'ERR_METHOD_NOT_IMPLEMENTED' || error?.permission === `process.${{name}} cannot be granted`; }}
           return false;
         }};
         export default async () => {{
           const kinds = {{}}, refused = [];
           for (const name in all) {{
             kinds[name] = typeof all[name];
             if (typeof all[name] === 'function' && (await refuses(name))) refused.push(name);
           }}
           return [kinds, refused];
         }};"
    )
}

#[tokio::test]
async fn every_name_that_node_exports_can_be_imported_and_is_there_or_told_to_be_absent() {
    let is_name = |name: &&String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$');
    let mut gaps = Vec::new();
    let ours: Vec<String> =
        serde_json::from_value(value("return (await import('node:module')).builtinModules").await).unwrap();
    for (module, exports) in exports_of_node() {
        if !ours.contains(&module) {
            gaps.push(format!("{module} can't be imported"));
            continue;
        }
        let names: Vec<&String> = exports.keys().filter(is_name).filter(|name| *name != "default").collect();
        let script = Script::new(&[("main.js", &importing(&module, &names))]);
        let loaded = script.load("main.js").await.unwrap_or_else(|error| panic!("{module}: {error}"));
        let told: BTreeSet<String> =
            script.bridge.absent.lock().unwrap().drain(..).flat_map(|(_, names)| names).collect();
        let said = ask(&loaded, "default", &Value::Null).await.unwrap().unwrap();
        let (kinds, refused): (BTreeMap<String, String>, BTreeSet<String>) =
            serde_json::from_value(said).unwrap();
        for name in told.symmetric_difference(&refused) {
            let is_told = told.contains(name);
            gaps.push(format!("{module}.{name} is told to be absent: {is_told}; it refuses: {}", !is_told));
        }
        for name in names.into_iter().filter(|name| !told.contains(*name)) {
            if kinds[name] != exports[name] {
                gaps.push(format!("{module}.{name} is {} and not {}", kinds[name], exports[name]));
            }
        }
    }
    assert!(gaps.is_empty(), "{gaps:#?}");
}
