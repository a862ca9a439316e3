use std::time::{Duration, Instant};

use backstop_script::{Arguments, Callee, RunItem, ScriptError};

use crate::common::{LONG, SHORT, Script};

#[tokio::test(flavor = "multi_thread")]
async fn each_function_of_a_run_has_its_own_time() {
    let script = Script::new(&[(
        "index.js",
        "export function quiet() {} export function hangs() { return new Promise(() => {}); }",
    )]);
    let loaded = script.load("index.js").await.unwrap();
    let item = |name: &str, budget: Duration| RunItem {
        script: &loaded,
        callee: Callee::Export(name.to_owned()),
        budget,
    };
    let items = [item("quiet", LONG), item("hangs", SHORT), item("quiet", LONG)];
    let begin = Instant::now();
    let outcome = script.workers.call_run(&items, &Arguments::default()).await;
    let (at, ended) = outcome.ended_at.unwrap();
    assert_eq!((at, ended.unwrap_err()), (1, ScriptError::TimedOut { budget: SHORT, at: None }));
    // It does not have the time of the one before it, too.
    assert!(begin.elapsed() < LONG);
}
