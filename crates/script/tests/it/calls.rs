//! Loading a plain module, calling its exports, and what they answer.

use backstop_script::{Argument, Arguments, LogLevel, ScriptError};
use serde_json::json;

use crate::common::{LONG, SHORT, Script, ask, module, run};

#[tokio::test]
async fn an_export_is_called_with_data_and_answers_data() {
    let script =
        module("export function greet(given) { return { hello: given.name, list: [1, 2.5, true, null] }; }")
            .await;
    let answer = ask(&script, "greet", &json!({"name": "Ada \"x\" \u{1f600}"})).await.unwrap();
    assert_eq!(answer, Some(json!({"hello": "Ada \"x\" \u{1f600}", "list": [1, 2.5, true, null]})));
}

#[tokio::test]
async fn promises_timers_and_microtasks_are_awaited() {
    let answer = run("
        const order = [];
        setTimeout(() => order.push('timer'), 1);
        queueMicrotask(() => order.push('microtask'));
        order.push('now');
        await null;
        await new Promise((done) => setTimeout(done, 5));
        return order;
    ")
    .await;
    assert_eq!(answer.unwrap(), Some(json!(["now", "microtask", "timer"])));
}

#[tokio::test]
async fn nothing_and_null_are_no_answer() {
    let script = module(
        "export const a = () => undefined; export const b = async () => null; export const c = () => false;",
    )
    .await;
    assert_eq!(ask(&script, "a", &json!(1)).await.unwrap(), None);
    assert_eq!(ask(&script, "b", &json!(1)).await.unwrap(), None);
    assert_eq!(ask(&script, "c", &json!(1)).await.unwrap(), Some(json!(false)));
}

#[tokio::test]
async fn modules_of_the_folder_and_of_the_node_surface_are_imported() {
    let script = Script::new(&[
        (
            "main.js",
            "import { two } from './lib/two.js'; import path from 'node:path'; import { join } from 'path';\n\
             export default (given) => [two, path.basename('/a/b.txt'), join('a', '..', 'c')];",
        ),
        ("lib/two.js", "export const two = 2;"),
    ]);
    let loaded = script.load("main.js").await.unwrap();
    assert_eq!(ask(&loaded, "default", &json!(1)).await.unwrap(), Some(json!([2, "b.txt", "c"])));
}

#[tokio::test]
async fn what_is_thrown_names_its_place_in_the_folder() {
    let script = Script::new(&[
        ("main.js", "import { fail } from './lib/fail.js';\nexport function main() {\n  fail();\n}"),
        ("lib/fail.js", "export function fail() {\n  throw new TypeError('no such thing');\n}"),
    ]);
    let loaded = script.load("main.js").await.unwrap();
    let error = ask(&loaded, "main", &json!(1)).await.unwrap_err();
    assert!(error.to_string().starts_with("lib/fail.js:2:"), "{error}");
    let ScriptError::Thrown { message, stack, .. } = error else { panic!("{error}") };
    assert_eq!(message, "TypeError: no such thing");
    assert!(stack.contains("main.js:3:"), "{stack}");
}

#[tokio::test]
async fn a_missing_export_is_said() {
    let script = module("export const a = 1;").await;
    let error = script.call_export("b", &crate::common::json(&json!(1)), LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "the script has no function `b` among its exports");
}

#[tokio::test]
async fn an_answer_that_does_not_come_is_decided_in_time_and_the_script_is_told() {
    let script = Script::new(&[(
        "main.js",
        "let why = null;
         export const wait = (signal) => new Promise(() => signal.addEventListener('abort', () => { why = signal.reason.name; }));
         export const told = () => why;",
    )]);
    let loaded = script.load("main.js").await.unwrap();
    let error = loaded.call_export("wait", &Arguments::new([Argument::Signal]), SHORT).await.unwrap_err();
    assert_eq!(error, ScriptError::TimedOut { budget: SHORT, at: None });
    // Messages of one thread keep their order, so the script has been told by now.
    assert_eq!(ask(&loaded, "told", &json!(1)).await.unwrap(), Some(json!("AbortError")));
}

#[tokio::test]
async fn a_script_logs_through_the_bridge_in_bounded_lines() {
    let mut script = Script::new(&[(
        "main.js",
        "export function main() {
           console.warn('hello', { a: [1, 'b'], get c() { return 1; } });
           console.log('x'.repeat(1000));
           for (let i = 0; i < 100; i++) console.error(i);
         }",
    )]);
    script.limits.log_bytes = 100;
    script.limits.log_lines = 10;
    let loaded = script.load("main.js").await.unwrap();
    assert_eq!(ask(&loaded, "main", &json!(1)).await.unwrap(), None);
    let lines = script.bridge.lines();
    assert_eq!(
        lines.first().unwrap(),
        &(LogLevel::Warn, "hello { a: [ 1, \"b\" ], c: [Getter] }".to_owned())
    );
    assert!(lines[1].1.ends_with("... (900 bytes left out)"), "{lines:?}");
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert_eq!(lines[10].1, "more than 10 lines in a second; the rest is left out");
}
