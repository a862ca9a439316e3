use std::time::{Duration, Instant};

use backstop_agent::tools::Limits;
use backstop_hooks::Params;
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

fn write(id: &str, data: &str) -> Value {
    json!({"action": "write", "id": id, "data": data})
}

/// Starts a program that only copies what it reads into a file.
async fn recorder(bench: &Bench) -> String {
    start(bench, "cat > read; echo end > done").await
}

async fn recorded(bench: &Bench, id: &str) -> String {
    bench.ok("process", json!({"action": "write", "id": id, "data": "", "eof": true})).await;
    eventually("the recorder must end", || bench.wrote("done")).await;
    bench.get("read")
}

#[tokio::test]
async fn a_write_is_judged_as_the_line_that_will_be_read() {
    let bench = Bench::new();
    let id = recorder(&bench).await;
    bench.ok("process", write(&id, "one\ncat ~/.s")).await;
    let event = bench.complete("process", write(&id, "sh/id_x\n")).await;
    assert_eq!(event.tool_kind.as_deref(), Some("typed-terminal"));
    let args = event.params.to_value();
    assert_eq!(args["data"], "cat ~/.ssh/id_x\n");
    assert_eq!(args["unfinished"], "cat ~/.s");
    assert_eq!(args["typed"], "one\n");
    assert_eq!(args["program"], "cat > read; echo end > done");
    assert!(args["workdir"].as_str().unwrap().ends_with("/root"));
    // It is the line that is judged, and the rest of it that is sent.
    let permit = bench.permit(event).await;
    assert!(!bench.tools.run(permit, &bench.cx).await.is_error);
    assert_eq!(recorded(&bench, &id).await, "one\ncat ~/.ssh/id_x\n");
}

#[tokio::test]
async fn law_04_of_two_writes_judged_against_one_line_only_the_first_is_sent() {
    let bench = Bench::new();
    let id = recorder(&bench).await;
    bench.ok("process", write(&id, "cat ~/.s")).await;
    let first = bench.permit(bench.complete("process", write(&id, "ervices\n")).await).await;
    let second = bench.permit(bench.complete("process", write(&id, "sh/id_x\n")).await).await;
    assert!(!bench.tools.run(first, &bench.cx).await.is_error);
    let late = bench.tools.run(second, &bench.cx).await;
    assert!(late.is_error && late.content.contains("nothing was sent"), "{}", late.content);
    assert_eq!(recorded(&bench, &id).await, "cat ~/.services\n");
}

#[tokio::test]
async fn law_04_a_write_that_was_judged_without_what_is_there_is_not_sent() {
    let bench = Bench::new();
    let id = recorder(&bench).await;
    bench.ok("process", write(&id, "echo ")).await;
    let whole = bench.complete("process", write(&id, "b\n")).await;
    for (key, value) in [
        ("unfinished", json!("")),
        ("unfinished", json!("rm ")),
        ("typed", json!("echo\n")),
        ("typed", Value::Null),
        ("program", json!("bash")),
        ("data", json!("rm b\n")),
    ] {
        let mut event = whole.clone();
        event.params.make_mut().insert(key.to_owned(), value);
        let output = bench.tools.run(bench.permit(event).await, &bench.cx).await;
        assert!(output.is_error && output.content.contains("nothing was sent"), "{key}: {}", output.content);
    }
    // What a model says about them is replaced by what is so.
    let mut lies = write(&id, "b\n");
    lies["unfinished"] = "x".into();
    lies["program"] = "bash".into();
    assert_eq!(bench.complete("process", lies).await.params, whole.params);
    assert_eq!(recorded(&bench, &id).await, "echo ");
}

#[tokio::test]
async fn what_was_not_sent_is_no_part_of_the_line() {
    let bench = Bench::new();
    let id = recorder(&bench).await;
    bench.ok("process", write(&id, "echo ")).await;
    // A call that was judged and blocked never comes to the tool.
    bench.complete("process", write(&id, "never")).await;
    assert_eq!(bench.complete("process", write(&id, "a")).await.params.to_value()["data"], "echo a");
}

#[tokio::test]
async fn after_a_write_that_was_taken_in_part_what_was_typed_is_not_known() {
    let bench = Bench::new();
    // It reads nothing, so that a pipe is full before all is written.
    let id = start(&bench, "sleep 300").await;
    bench.ok("process", write(&id, "one\n")).await;
    let error = bench.fails("process", write(&id, &"x".repeat(1 << 20))).await;
    assert!(error.contains("did not take all of the input"), "{error}");
    let args = bench.complete("process", write(&id, "two\n")).await.params.to_value();
    assert_eq!((&args["typed"], &args["data"]), (&Value::Null, &json!("two\n")));
}

#[tokio::test]
async fn more_than_is_kept_of_what_was_typed_is_not_known() {
    let bench = Bench::new();
    let id = recorder(&bench).await;
    for _ in 0..4 {
        bench.ok("process", write(&id, &"y\n".repeat(10_000))).await;
    }
    let args = bench.complete("process", write(&id, "y\n")).await.params.to_value();
    assert_eq!(args["typed"], Value::Null);
    assert_eq!(recorded(&bench, &id).await.len(), 80_000);
}

#[tokio::test]
async fn what_is_kept_for_others_to_read_has_placeholders() {
    let mut bench = Bench::new();
    let shown = json!({"command": "cat > read; echo end > done; : <KEY>", "background": true});
    bench.cx.shown = Params::from_value(shown);
    let id = start(&bench, "cat > read; echo end > done; : hunter2").await;
    let mut event = bench.complete("process", write(&id, "say <KEY>\n")).await;
    bench.cx.shown = Some(event.params.clone());
    event.params.make_mut().insert("data".to_owned(), "say hunter2\n".into());
    assert!(!bench.tools.run(bench.permit(event).await, &bench.cx).await.is_error);
    let args = bench.complete("process", write(&id, "b")).await.params.to_value();
    assert_eq!(args["typed"], "say <KEY>\n");
    bench.cx.shown = None;
    let list = bench.ok("process", json!({"action": "list"})).await;
    assert!(!args.to_string().contains("hunter2") && !list.contains("hunter2"), "{args} {list}");
    assert_eq!(recorded(&bench, &id).await, "say hunter2\n");
}
