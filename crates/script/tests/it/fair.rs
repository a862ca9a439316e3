//! Scripts that are busy with themselves, beside others that are asked.

use backstop_script::{Limits, LogLevel};
use serde_json::{Value, json};

use crate::common::{LONG, Script, ask};

/// How many things the busy script has to do by itself; far more than are done while the other one is asked.
const THINGS: usize = 200;

/// Has `busy` begin what takes its thread again and again, and then asks another script on that thread. How often
/// the busy one had its turn before the other one was asked.
async fn turns_before_the_other(busy: &str) -> usize {
    let boot = "import { start } from 'script:entry';
         const { request } = import.meta.host;
         const burn = (ms) => { const until = Date.now() + ms; while (Date.now() < until); };
         export const main = () => { start({ request, mine: () => { burn(20); console.log('mine'); } }); burn(60); };";
    let mut script =
        Script::new(&[("busy.js", busy), ("asked.js", "export const main = () => console.log('asked');")]);
    script.limits = Limits { log_lines: 10_000, ..script.limits };
    let source = script.source("busy.js").boot(boot);
    let busy = script.load_source(source).await.unwrap();
    let other = script.load("asked.js").await.unwrap();
    let none = Value::Null;
    // What is to be done is due when the first one ends.
    ask(&busy, "main", &none).await.unwrap();
    ask(&other, "main", &none).await.unwrap();
    let said: Vec<(LogLevel, String)> = script.bridge.lines();
    said.iter().position(|(_, line)| line == "asked").unwrap()
}

#[tokio::test]
async fn timers_that_are_due_do_not_go_before_what_somebody_asks() {
    let busy = format!(
        "export const start = ({{ mine }}) => {{ for (let i = 0; i < {THINGS}; i++) setTimeout(mine, 1); }};"
    );
    let turns = turns_before_the_other(&busy).await;
    assert!(turns < THINGS / 4, "{turns} timers fired before");
}

#[tokio::test]
async fn answers_that_are_there_do_not_go_before_what_somebody_asks() {
    let busy = format!(
        "export const start = ({{ request, mine }}) => {{ for (let i = 0; i < {THINGS}; i++) request('echo', i).then(mine); }};"
    );
    let turns = turns_before_the_other(&busy).await;
    assert!(turns < THINGS / 4, "{turns} answers were taken before");
}

#[tokio::test]
async fn all_that_is_due_has_its_turn_in_its_order() {
    let script = Script::new(&[(
        "main.js",
        "const fired = [];
         export const start = () => { for (const ms of [30, 10, 20, 10]) setTimeout(() => fired.push(ms), ms); const again = setInterval(() => fired.push('i') && clearInterval(again), 1); };
         export const all = () => new Promise((ok) => { const look = () => fired.length === 5 ? ok(fired) : setTimeout(look, 1); look(); });",
    )]);
    let loaded = script.load("main.js").await.unwrap();
    loaded.call_export("start", &crate::common::json(&Value::Null), LONG).await.unwrap();
    let all = ask(&loaded, "all", &Value::Null).await.unwrap();
    assert_eq!(all, Some(json!(["i", 10, 10, 20, 30])));
}

#[tokio::test]
async fn who_asks_before_another_script_is_loaded_does_not_wait_for_it() {
    let script = Script::new(&[
        ("asked.js", "export const main = () => console.log('asked');"),
        ("late.js", "console.log('loaded');"),
    ]);
    let asked = script.load("asked.js").await.unwrap();
    let none = Value::Null;
    let (answered, loaded) = tokio::join!(ask(&asked, "main", &none), script.load("late.js"));
    answered.unwrap();
    loaded.unwrap();
    let said: Vec<String> = script.bridge.lines().into_iter().map(|(_, line)| line).collect();
    assert_eq!(said, ["asked", "loaded"]);
}
