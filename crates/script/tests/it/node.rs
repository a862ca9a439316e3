//! The Node surface, as scripts use it.

use serde_json::{Value, json};

use crate::common::run;

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
