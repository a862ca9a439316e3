//! Scripts that do not end, take what they can, or answer what is no data.
//!
//! Budgets are small: what can be interrupted is, and the native code that can't is of a length that ends by itself.

use std::time::Duration;

use backstop_script::{Ended, Limits, Loaded, ScriptError, WorkerSettings, Workers};
use serde_json::{Value, json};

use crate::common::{LONG, SHORT, Script, ask, json as arguments, module, run};

/// Calls `name` with a short budget.
async fn hurry(script: &Loaded, name: &str) -> Result<Option<Value>, ScriptError> {
    hurry_for(script, name, SHORT).await
}

async fn hurry_for(script: &Loaded, name: &str, budget: Duration) -> Result<Option<Value>, ScriptError> {
    let answer = script.call_export(name, &arguments(&Value::Null), budget).await?;
    Ok(answer.map(|answer| answer.json.read().unwrap()))
}

fn is_late(result: &Result<Option<Value>, ScriptError>) -> bool {
    matches!(result, Err(ScriptError::TimedOut { .. }))
}

#[tokio::test]
async fn loops_in_code_are_interrupted_and_the_script_can_be_asked_again() {
    let script = module(
        "export const plain = () => { for (;;); };
         export const caught = () => { for (;;) try { for (;;); } catch {} finally { for (;;); } };
         export const generator = () => [...(function* () { for (;;) yield; })()];
         export const later = async () => { await null; for (;;); };
         export const getter = () => ({ get a() { for (;;); } }).a;
         export const regex = () => /^(a+)+$/.test('a'.repeat(40) + '!');
         export const thrown = () => { throw { get message() { for (;;); }, get name() { for (;;); } }; };
         export const thrownError = () => { throw Object.defineProperty(new Error('x'), 'message', { get() { for (;;); } }); };
         export const sorted = () => [3, 2, 1].sort(() => { for (;;); });
         export const proxied = () => new Proxy({}, { ownKeys() { for (;;); } });
         export const fine = () => 'still here';",
    )
    .await;
    for name in ["plain", "caught", "generator", "getter", "regex", "thrownError", "sorted"] {
        assert!(is_late(&hurry(&script, name).await), "{name}");
        assert_eq!(ask(&script, "fine", &Value::Null).await.unwrap(), Some(json!("still here")), "{name}");
    }
    // Nothing of an answer or of what is thrown runs while it is read.
    assert!(matches!(ask(&script, "proxied", &Value::Null).await, Err(ScriptError::Malformed { .. })));
    assert!(matches!(ask(&script, "thrown", &Value::Null).await, Err(ScriptError::Thrown { .. })));
    assert_eq!(ask(&script, "fine", &Value::Null).await.unwrap(), Some(json!("still here")));
}

#[tokio::test]
async fn a_loop_while_loading_is_the_end_of_the_load() {
    let mut script = Script::new(&[("main.js", "for (;;);"), ("wait.mjs", "await new Promise(() => {});")]);
    script.limits.load = SHORT;
    for (entry, place) in [("main.js", Some(("main.js", 1))), ("wait.mjs", None)] {
        let error = script.load(entry).await.unwrap_err();
        let ScriptError::TimedOut { budget: SHORT, at } = &error else { panic!("{entry}: {error}") };
        assert_eq!(at.as_ref().map(|at| (at.file.as_str(), at.line)), place, "{entry}: {error}");
    }
}

#[tokio::test]
async fn microtasks_without_an_end_are_the_end_of_the_runtime_which_is_made_anew() {
    let mut script = Script::new(&[(
        "main.js",
        "let calls = 0;
         export const endless = () => { const again = () => Promise.resolve().then(again); again(); return new Promise(() => {}); };
         export const count = () => ++calls; export const idle = () => 0;",
    )]);
    script.limits.slice = SHORT;
    let loaded = script.load("main.js").await.unwrap();
    assert_eq!(ask(&loaded, "count", &Value::Null).await.unwrap(), Some(json!(1)));
    let ended = ask(&loaded, "endless", &Value::Null).await.unwrap_err();
    assert!(
        matches!(ended, ScriptError::Ended { why: Ended::EndlessJobs { within: SHORT }, .. }),
        "{ended:?}"
    );
    // What it knew is gone with it.
    assert_eq!(ask(&loaded, "count", &Value::Null).await.unwrap(), Some(json!(1)));
}

#[tokio::test]
async fn timers_that_do_not_end_are_the_end_of_the_runtime() {
    let mut script = Script::new(&[(
        "main.js",
        "let calls = 0;
         export const start = () => { calls++; setTimeout(() => { for (;;); }, 1); return new Promise(() => {}); };
         export const count = () => calls;",
    )]);
    script.limits.slice = SHORT;
    let loaded = script.load("main.js").await.unwrap();
    let ended = ask(&loaded, "start", &Value::Null).await.unwrap_err();
    assert!(
        matches!(ended, ScriptError::Ended { why: Ended::SliceOver { within: SHORT, at: Some(_) }, .. }),
        "{ended:?}"
    );
    assert_eq!(ask(&loaded, "count", &Value::Null).await.unwrap(), Some(json!(0)));
}

#[tokio::test]
async fn memory_without_an_end_is_the_end_of_the_runtime_and_pauses_grow() {
    let mut script = Script::new(&[(
        "main.js",
        "const kept = [];
         export const take = () => { for (;;) kept.push(new Array(10000).fill(kept.length)); };
         export const catching = () => { for (;;) try { kept.push('x'.repeat(1 << 16) + kept.length); } catch {} };
         export const huge = () => new ArrayBuffer(1e9).byteLength;
         export const fine = () => kept.length;",
    )]);
    script.limits.memory = 8 << 20;
    let loaded = script.load("main.js").await.unwrap();
    let ended = ask(&loaded, "take", &Value::Null).await.unwrap_err();
    assert!(
        matches!(ended, ScriptError::Ended { why: Ended::OutOfMemory { most: 8_388_608, .. }, .. }),
        "{ended:?}"
    );
    assert_eq!(ask(&loaded, "fine", &Value::Null).await.unwrap(), Some(json!(0)));
    // The second time in a row, calls fail for a while without a try.
    assert!(ask(&loaded, "take", &Value::Null).await.is_err());
    let pausing = ask(&loaded, "fine", &Value::Null).await.unwrap_err();
    assert!(
        matches!(pausing, ScriptError::Ended { why: Ended::OutOfMemory { .. }, again_in } if !again_in.is_zero()),
        "{pausing:?}"
    );

    let other = script.load("main.js").await.unwrap();
    assert!(is_late(&hurry(&other, "catching").await));
}

#[tokio::test]
async fn recursion_is_an_error_that_a_script_can_catch() {
    let script = module(
        "const deep = (n) => { let v = 0; for (let i = 0; i < n; i++) v = [v]; return v; };
         const run = { calls: () => { const f = () => f() + 1; return f(); }, getters: () => ({ get a() { return this.a; } }).a,
           json: () => JSON.parse('['.repeat(200000)), source: () => eval('('.repeat(200000)), toJSON: () => JSON.stringify({ toJSON() { return JSON.stringify(this); } }),
           flat: () => deep(100000).flat(Infinity), regex: () => new RegExp('('.repeat(100000)), proxy: () => { let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); return p.x; } };
         export default () => Object.entries(run).map(([name, f]) => { try { f(); return name + ' ended'; } catch (error) { return error instanceof Error; } });",
    )
    .await;
    let answer = ask(&script, "default", &Value::Null).await.unwrap().unwrap();
    assert_eq!(answer, json!([true, true, true, true, true, true, true, true]));
    // Answers deeper than the bound are malformed, and so are those without an end.
    let script = module(
        "export const deep = () => { let v = 0; for (let i = 0; i < 100000; i++) v = { v }; return v; };
         export const large = () => 'x'.repeat(3 << 20); export const wide = () => new Array(300).fill('x'.repeat(10000));",
    )
    .await;
    for (name, why) in [("deep", "deeper than"), ("large", "larger than"), ("wide", "larger than")] {
        let error = ask(&script, name, &Value::Null).await.unwrap_err().to_string();
        assert!(error.contains(why), "{name}: {error}");
    }
}

#[tokio::test]
async fn native_code_that_never_looks_at_the_clock_is_refused_its_lengths() {
    let ways = [
        "Array(2 ** 32 - 1).join()",
        "String(Array(2 ** 32 - 1))",
        "Array(2 ** 31).toLocaleString()",
        "const a = []; a.length = 1e9; a[1] = 1; a.sort()",
        "[].reverse.call({ length: 2 ** 53 - 1 })",
        "[].copyWithin.call({ length: 2 ** 53 - 1 }, 1, 0)",
        "[].concat(Array(2 ** 32 - 1))",
        "Array(2 ** 32 - 1).concat()",
        "[].splice.call({ length: 2 ** 53 - 1 }, 0, 1)",
        "[].shift.call({ length: 2 ** 53 - 1 })",
        "[].unshift.call({ length: 2 ** 53 - 2 }, 1)",
        "[].slice.call({ length: 2 ** 53 - 1 })",
        "String.raw({ raw: { length: 2 ** 53 - 1 } })",
        "Array.from({ length: 2 ** 32 })",
        "Array(2 ** 32 - 1).indexOf(1)",
        "[].toSorted.call({ length: 2 ** 32 - 1 })",
        "JSON.stringify({}, Array(2 ** 32 - 1))",
        "Array(2 ** 32 - 1).values().drop(2 ** 32 - 1).next()",
        "'a'.repeat(1 << 20).indexOf('a'.repeat(1 << 19) + 'b')",
        "'a'.repeat(1 << 20).split('a'.repeat(1 << 19) + 'b')",
        "[].fill.call({ length: 2 ** 53 - 1 }, 0)",
    ];
    let bodies: Vec<String> = ways.iter().map(|way| format!("() => {{ {way}; }}")).collect();
    let script = module(&format!(
        "const ways = [{}]; export default () => ways.map((way) => {{ try {{ way(); return 'ended'; }} catch (error) {{ return error.name; }} }});",
        bodies.join(",")
    ))
    .await;
    let answer = ask(&script, "default", &Value::Null).await.unwrap().unwrap();
    for (way, outcome) in ways.iter().zip(answer.as_array().unwrap()) {
        assert_eq!(outcome, &json!("RangeError"), "{way}");
    }
    // These go on in code that looks at the clock.
    let script = module(
        "export const flat = () => [Array(2 ** 32 - 1)].flat(); export const map = () => [1].flatMap(() => Array(2 ** 32 - 1));
         export const each = () => [].forEach.call({ length: 2 ** 53 - 1 }, () => {}); export const fine = () => [[1, [2]], 3].flat().length;
         let looks = 0;
         export const getter = () => [].reverse.call({ get length() { return looks++ ? 2 ** 53 - 1 : 1; } });
         export const proxy = () => { let n = 0; return [].reverse.call(new Proxy({}, { get: (t, k) => (k === 'length' ? (n++ ? 2 ** 53 - 1 : 1) : undefined), set: () => true })); };
         export const proxied = () => {
           const p = new Proxy([3, 1, 2], {});
           const sorted = p.sort() === p;
           return [sorted, [...p], p.join('-'), p.slice(1), p.splice(0, 1), p.length, p.push(9), p.shift(), p.concat([4], new Proxy([5], {})), p.includes(9), p.reverse() === p, [...p]];
         };
         export const ordinary = () => [[1, , 3].concat([4]), 'a-b'.split('-'), 'aXbX'.replaceAll('X', 'y'), 'abc'.replace(/b/, 'x'), 'aXb'.split(/X/), 'abc'.indexOf('c'), 'null'.includes(null),
           [].join.call('abc', '-'), Array.from('ab'), String.raw`a\\n${1}`, [3, 10, 2].sort(), [3, 10, 2].sort((a, b) => a - b), Array.prototype.slice.length, [].slice.name,
           (function () { return [].slice.call(arguments, 1); })(1, 2, 3), [1, 2, 3].values().drop(1).toArray(), [1, [2, [3]]].flat(Infinity)].map((x) => Array.isArray(x) ? [...x].map((y) => y ?? null) : x);",
    )
    .await;
    assert_eq!(
        ask(&script, "proxied", &Value::Null).await.unwrap(),
        Some(json!([true, [1, 2, 3], "1-2-3", [2, 3], [1], 2, 3, 2, [3, 9, 4, 5], true, true, [9, 3]]))
    );
    assert_eq!(
        ask(&script, "ordinary", &Value::Null).await.unwrap(),
        Some(json!([
            [1, null, 3, 4],
            ["a", "b"],
            "ayby",
            "axc",
            ["a", "b"],
            2,
            true,
            "a-b-c",
            ["a", "b"],
            "a\\n1",
            [10, 2, 3],
            [2, 3, 10],
            2,
            "slice",
            [2, 3],
            [2, 3],
            [1, 2, 3]
        ]))
    );
    for name in ["getter", "proxy"] {
        // One look, so the length is 1; and what is written back ends, or is refused.
        let ended = hurry_for(&script, name, Duration::from_secs(5)).await;
        assert!(!is_late(&ended), "{name}: {ended:?}");
    }
    for name in ["flat", "map", "each"] {
        assert!(is_late(&hurry(&script, name).await), "{name}");
    }
    assert_eq!(ask(&script, "fine", &Value::Null).await.unwrap(), Some(json!(3)));
}

/// A host function that holds its thread stands for native code that never looks at the clock: it ends when the
/// test says so, and no core burns.
mod held {
    use std::sync::{Arc, Condvar, Mutex};

    use async_trait::async_trait;
    use backstop_script::{Bridge, CallScope, HostError, JsonText, Provided, ScriptError};

    #[derive(Default)]
    pub(super) struct Holder {
        open: Mutex<bool>,
        changed: Condvar,
        /// The runtimes of which it was told that they are gone, and why.
        pub(super) ended: Mutex<Vec<(u32, ScriptError)>>,
    }

    impl Holder {
        pub(super) fn open(&self) {
            *self.open.lock().unwrap() = true;
            self.changed.notify_all();
        }
    }

    pub(super) struct Held(pub(super) Arc<Holder>);

    #[async_trait]
    impl Bridge for Held {
        fn module(&self, specifier: &str) -> Option<Provided> {
            (specifier == "held").then(|| {
                Provided::Source(
                    "const { call } = import.meta.host; export const hold = () => call('hold');".into(),
                )
            })
        }

        fn call(&self, _: &CallScope, _: &str, _: JsonText) -> Result<JsonText, HostError> {
            let mut open = self.0.open.lock().unwrap();
            while !*open {
                open = self.0.changed.wait(open).unwrap();
            }
            Ok(JsonText::null())
        }

        fn ended(&self, scope: &CallScope, why: &ScriptError) {
            self.0.ended.lock().unwrap().push((scope.generation, why.clone()));
        }
    }
}

#[tokio::test]
async fn a_thread_that_is_held_is_given_up_its_script_is_off_and_the_others_go_on() {
    let settings = WorkerSettings {
        threads: 1,
        grace: Duration::from_millis(20),
        most_given_up: 1,
        ..WorkerSettings::default()
    };
    let workers = Workers::start(settings, tokio::runtime::Handle::current());
    let folder = tempfile::tempdir().unwrap();
    crate::common::write(
        folder.path(),
        "main.js",
        "import { hold } from 'held'; let calls = 0; export const stuck = () => hold(); export const count = () => ++calls;",
    );
    let holder = std::sync::Arc::new(held::Holder::default());
    let limits = Limits { slice: SHORT, load: LONG, ..Limits::default() };
    let load = || {
        let source = backstop_script::ScriptSource::new("held", folder.path(), "main.js").boot(
            "import * as entry from 'script:entry'; import.meta.host.keep(entry.count, 'count'); export const { stuck, count, idle } = entry;",
        );
        let bridge = std::sync::Arc::new(held::Held(std::sync::Arc::clone(&holder)));
        workers.load(source, backstop_script::Permissions::default(), limits, bridge)
    };
    let (bad, good) = (load().await.unwrap(), load().await.unwrap());
    assert_eq!(ask(&good, "count", &Value::Null).await.unwrap(), Some(json!(1)));

    // The verdict comes in time, and says nothing else than that.
    assert!(is_late(&hurry(&bad, "stuck").await));
    // The thread gets its grace; until then its other scripts may have to wait for it.
    while workers.given_up() == 0 {
        // It counts nothing: it may be the first that another thread hears.
        let _ = hurry(&good, "idle").await;
    }
    assert_eq!(
        ask(&good, "count", &Value::Null).await.unwrap(),
        Some(json!(1)),
        "loaded again on another thread"
    );
    let kept =
        good.call(backstop_script::FunctionId::new(1), &backstop_script::Arguments::default(), LONG).await;
    assert_eq!(
        kept.unwrap().unwrap().json.as_str(),
        "2",
        "what it kept when it was loaded first is found there"
    );
    let mut ended = std::mem::take(&mut *holder.ended.lock().unwrap());
    ended.sort_by_key(|(_, why)| *why != ScriptError::Stuck);
    assert_eq!(ended, [(1, ScriptError::Stuck), (1, ScriptError::Gone)], "their hosts were told");
    assert_eq!(ask(&bad, "count", &Value::Null).await.unwrap_err(), ScriptError::Stuck);
    let again = load().await.unwrap();
    assert_eq!(
        ask(&again, "count", &Value::Null).await.unwrap(),
        Some(json!(1)),
        "loaded anew, it is asked again"
    );

    // One more than may be given up, and nothing is replaced any more.
    assert!(is_late(&hurry(&again, "stuck").await));
    while workers.given_up() == 1 {
        let _ = hurry(&good, "count").await;
    }
    let refused = ask(&good, "count", &Value::Null).await.unwrap_err();
    assert_eq!(refused, ScriptError::TooManyStuck { given_up: 2 });

    // Threads end when what held them lets go, and then there is room again.
    holder.open();
    while workers.given_up() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ask(&good, "count", &Value::Null).await.unwrap(), Some(json!(1)));
}

#[tokio::test]
async fn answers_are_data_or_malformed_and_name_the_place() {
    for (answer, path) in [
        ("{ a: { get b() { return 1; } } }", "answer.a.b"),
        ("new Proxy({}, {})", "answer"),
        ("{ a: new Proxy([], {}) }", "answer.a"),
        ("[1, , 3]", "answer[1]"),
        ("{ f() {} }", "answer.f"),
        ("{ a: Symbol() }", "answer.a"),
        ("{ a: 1n }", "answer.a"),
        ("{ a: NaN }", "answer.a"),
        ("{ a: new Map([[1, 2]]) }", "answer.a"),
        ("{ a: new Date() }", "answer.a"),
        ("new Error('x')", "answer"),
        ("new Uint8Array(2)", "answer"),
        ("Object.create({ f() {} }, { a: { get: () => 1, enumerable: true } })", "answer.a"),
        ("Object.create({ set a(v) {} }, { a: { value: 1, enumerable: true } })", "answer"),
        // What is inherited would be lost without a word.
        ("new (class { get block() { return true; } })()", "answer"),
        ("Object.create({ block: true })", "answer"),
        ("Object.create(Object.create({ get block() { return true; } }))", "answer"),
        ("{ a: new (class { #b = true; toJSON() { return { b: this.#b }; } })() }", "answer.a"),
        ("Object.create({ [Symbol.for('x')]: 1 })", "answer"),
        ("{ a: '\\ud800' }", "answer.a"),
        ("(() => { const a = { b: {} }; a.b.c = a; return a; })()", "answer.b.c"),
        ("{ a: Promise.resolve(1) }", "answer.a"),
    ] {
        let error = run(&format!("return {answer};")).await.unwrap_err();
        let ScriptError::Malformed { path: at, .. } = &error else { panic!("{answer}: {error}") };
        assert_eq!(at, path, "{answer}: {error}");
    }
    for (answer, data) in [
        ("'yes'", json!("yes")),
        ("{ block: 'true' }", json!({"block": "true"})),
        (
            "{ a: undefined, b: null, ['__proto__']: 1, 'a b': -0.5, c: 1e21, d: 123456789012 }",
            json!({"b": null, "__proto__": 1, "a b": -0.5, "c": 1e21, "d": 123_456_789_012_i64}),
        ),
        ("new (class A extends (class { x = 1; f() {} }) { g() {} })()", json!({"x": 1})),
        (
            "Object.create({ f() {} }, { own: { value: 1, enumerable: true }, hidden: { value: 1 } })",
            json!({"own": 1}),
        ),
        ("(() => { const same = { a: 1 }; return [same, same]; })()", json!([{"a": 1}, {"a": 1}])),
    ] {
        assert_eq!(run(&format!("return {answer};")).await.unwrap(), Some(data), "{answer}");
    }
}

#[tokio::test]
async fn polluted_prototypes_change_neither_answers_nor_the_runtime() {
    let answer = run("
        Object.prototype.block = false; Object.prototype.toJSON = () => ({ forged: true }); Object.prototype.value = 'forged';
        Object.prototype.get = () => 1; Object.prototype.then = undefined;
        Array.prototype.push = () => { throw 1; }; Array.prototype.toJSON = () => 'forged'; Array.prototype[Symbol.iterator] = null;
        JSON.stringify = () => 'forged'; JSON.parse = () => 'forged'; Object.getOwnPropertyDescriptor = () => ({ value: 'forged' });
        Reflect.apply = () => 'forged'; Reflect.ownKeys = () => []; Promise.prototype.then = Promise.prototype.then; globalThis.Promise = null;
        Function.prototype.call = Function.prototype.apply = () => 'forged';
        await null;
        return { reason: 'x', list: [1, { a: 2 }] };
    ")
    .await;
    assert_eq!(answer.unwrap(), Some(json!({"reason": "x", "list": [1, {"a": 2}]})));
}

#[tokio::test]
async fn scripts_of_one_thread_see_nothing_of_each_other() {
    let script = Script::new(&[
        (
            "a.js",
            "globalThis.shared = 1; Object.prototype.seen = 1; Array.prototype.map = () => 'forged'; export default () => globalThis.shared;",
        ),
        (
            "b.js",
            "export default () => [typeof globalThis.shared, typeof {}.seen, [1].map((x) => x + 1)[0]];",
        ),
    ]);
    let (a, b) = (script.load("a.js").await.unwrap(), script.load("b.js").await.unwrap());
    assert_eq!(ask(&a, "default", &Value::Null).await.unwrap(), Some(json!(1)));
    assert_eq!(ask(&b, "default", &Value::Null).await.unwrap(), Some(json!(["undefined", "undefined", 2])));
}

#[tokio::test]
async fn a_script_finds_nothing_of_the_machine_in_its_globals() {
    let answer = run("
        const names = new Set();
        for (let o = globalThis; o; o = Object.getPrototypeOf(o)) for (const name of Reflect.ownKeys(o)) names.add(String(name));
        return ['require', 'Deno', 'Bun', 'std', 'os', 'bjson', 'XMLHttpRequest', 'WebSocket', 'Worker', 'SharedArrayBuffer',
                'Atomics', 'scriptArgs', 'print', 'load', 'native', 'host'].filter((name) => names.has(name));
    ")
    .await;
    assert_eq!(answer.unwrap(), Some(json!([])));
    let answer = run("
        const found = [];
        for (const name of ['std', 'qjs:std', 'qjs:os', 'backstop:prelude', 'backstop:boot', 'backstop:require/node:module', 'script:entry/x'])
          try { await import(name); found.push(name); } catch {}
        return [found, typeof import.meta.host];
    ")
    .await;
    assert_eq!(answer.unwrap(), Some(json!([[], "undefined"])));
}

#[tokio::test]
async fn what_may_be_held_at_once_is_bounded() {
    let mut script = Script::new(&[(
        "main.js",
        "const caught = (run) => { try { for (let i = 0; i < 100; i++) run(); return 'none'; } catch (error) { return error.name; } };
         export const timers = () => { const set = []; const why = caught(() => set.push(setTimeout(() => {}, 1e6))); set.forEach(clearTimeout); return [set.length, why]; };
         export const wait = () => new Promise(() => {});",
    )]);
    script.limits.timers = 5;
    script.limits.pending = 2;
    let loaded = script.load("main.js").await.unwrap();
    for _ in 0..2 {
        assert_eq!(ask(&loaded, "timers", &Value::Null).await.unwrap(), Some(json!([5, "RangeError"])));
    }
    let (none, budget) = (arguments(&Value::Null), LONG);
    let (first, second) =
        (loaded.call_export("wait", &none, budget), loaded.call_export("wait", &none, budget));
    tokio::pin!(first, second);
    assert!(futures_poll(&mut first).await && futures_poll(&mut second).await);
    let busy = loaded.call_export("wait", &none, budget).await.unwrap_err();
    assert_eq!(busy, ScriptError::Busy { limit: 2 });
}

/// Polls once; whether it is still under way.
async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut *future).poll(context).is_pending())
    })
    .await
}

#[tokio::test]
async fn a_runtime_that_is_made_once_is_not_made_again() {
    let source = "let calls = 0; export const count = () => ++calls; export const fill = () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20)); };";
    let script = Script::new(&[("main.js", source)]);
    let once = script.load_source(script.source("main.js").once()).await.unwrap();
    let often = script.load("main.js").await.unwrap();
    for loaded in [&once, &often] {
        assert_eq!(ask(loaded, "count", &Value::Null).await.unwrap(), Some(json!(1)));
        assert!(ask(loaded, "fill", &Value::Null).await.is_err());
    }
    assert_eq!(ask(&often, "count", &Value::Null).await.unwrap(), Some(json!(1)), "it began anew");
    let over = ask(&once, "count", &Value::Null).await.unwrap_err();
    assert!(matches!(over, ScriptError::Ended { .. }), "{over}");
}
