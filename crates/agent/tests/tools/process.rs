use std::time::{Duration, Instant};

use backstop_agent::tools::Limits;
use serde_json::{Value, json};

use crate::exec::runs;
use crate::{Bench, eventually};

async fn start(bench: &Bench, command: &str) -> String {
    let output = bench.run("exec", json!({"command": command, "background": true})).await;
    assert!(!output.is_error, "{}", output.content);
    output.details.get("sessionId").and_then(Value::as_str).unwrap().to_owned()
}

async fn poll(bench: &Bench, id: &str) -> String {
    bench.ok("process", json!({"action": "poll", "id": id, "wait_ms": 10_000})).await
}

#[tokio::test]
async fn a_background_process_is_polled_written_to_and_ends() {
    let bench = Bench::new();
    let id = start(&bench, "echo ready; read line; echo \"got $line\"; cat; exit 4").await;
    assert!(poll(&bench, &id).await.starts_with("ready\n[running"));
    bench.ok("process", json!({"action": "write", "id": id, "data": "hello\n"})).await;
    assert!(poll(&bench, &id).await.starts_with("got hello\n"));
    bench.ok("process", json!({"action": "write", "id": id, "data": "bye\n", "eof": true})).await;
    let mut last = String::new();
    while !last.contains("[exit code 4]") {
        last.push_str(&poll(&bench, &id).await);
    }
    assert!(last.starts_with("bye\n"), "{last}");
    let log = bench.run("process", json!({"action": "log", "id": id})).await;
    assert_eq!(log.content, "ready\ngot hello\nbye\n[exit code 4]");
    assert_eq!(log.details["exitCode"], json!(4));
    assert!(bench.ok("process", json!({"action": "list"})).await.starts_with("p1  exit code 4  echo ready"));
    let error = bench.fails("process", json!({"action": "write", "id": id, "data": "x"})).await;
    assert!(error.contains("has ended"), "{error}");
}

#[tokio::test]
async fn kill_ends_the_whole_group() {
    let bench = Bench::new();
    let id = start(&bench, "sh -c 'echo $$ > pid; exec sleep 300' & wait").await;
    eventually("the command must start", || bench.wrote("pid")).await;
    bench.ok("process", json!({"action": "kill", "id": id})).await;
    eventually("the process in the group must die", || !runs(&bench.get("pid"))).await;
    assert!(bench.fails("process", json!({"action": "kill", "id": id})).await.contains("has ended"));
}

#[tokio::test]
async fn everything_dies_with_the_table() {
    let bench = Bench::new();
    start(&bench, "sh -c 'echo $$ > a; exec sleep 300' & wait").await;
    start(&bench, "setsid sh -c 'echo $$ > b; exec sleep 300' & while [ ! -e b ]; do sleep 0.05; done").await;
    eventually("both must start", || bench.wrote("a") && bench.wrote("b")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let (first, second) = (bench.get("a"), bench.get("b"));
    drop(bench);
    eventually("the process in the group must die", || !runs(&first)).await;
    eventually("the process that left the group must die", || !runs(&second)).await;
}

#[tokio::test]
async fn log_keeps_the_last_output_in_bounded_memory() {
    let bench = Bench::with(Limits { output_bytes: 4000, ..Limits::default() });
    let id = start(&bench, "head -c 1000000 /dev/zero | tr '\\0' x; echo LAST").await;
    let mut last = String::new();
    while !last.contains("[exit code 0]") {
        last = poll(&bench, &id).await;
    }
    let log = bench.run("process", json!({"action": "log", "id": id})).await;
    assert!(log.content.len() <= 4000 && log.content.contains("LAST\n"), "{}", log.content);
    assert_eq!(log.details["outputBytes"], json!(1_000_005));
}

#[tokio::test]
async fn a_lifetime_ends_a_background_process() {
    let bench = Bench::new();
    bench.ok("exec", json!({"command": "sleep 300", "background": true, "timeout_ms": 200})).await;
    let started = Instant::now();
    let output = bench.run("process", json!({"action": "poll", "id": "p1", "wait_ms": 20_000})).await;
    assert!(started.elapsed() < Duration::from_secs(10) && output.details["timedOut"] == Value::Bool(true));
}

#[tokio::test]
async fn too_many_processes_and_unknown_ones_are_refused() {
    let bench = Bench::new();
    for _ in 0..16 {
        start(&bench, "sleep 300").await;
    }
    let error = bench.fails("exec", json!({"command": "sleep 300", "background": true})).await;
    assert!(error.contains("16 background processes"), "{error}");
    let error = bench.fails("process", json!({"action": "poll", "id": "q1"})).await;
    assert!(error.contains("no background process `q1`"), "{error}");
    assert!(bench.fails("process", json!({"action": "poll"})).await.contains("needs the argument `id`"));
}
