use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_agent::tools::Limits;
use serde_json::{Value, json};

use crate::{Bench, eventually};

/// Whether a process with this number is there and not just a remainder.
pub(crate) fn runs(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.trim()));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
}

/// A command that starts a grandchild in its own way and stores its number in the file `pid`.
fn sleeper(prefix: &str) -> String {
    format!("{prefix} sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 300' &")
}

fn peak_memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn output_and_errors_come_in_order_and_input_is_empty() {
    let bench = Bench::new();
    let output = bench.run("exec", json!({"command": "cat; echo a; echo b >&2; echo c"})).await;
    assert_eq!(output.content, "a\nb\nc\n");
    assert_eq!(output.details["exitCode"], json!(0));
    assert_eq!(bench.ok("exec", json!({"command": "true"})).await, "[no output]");
}

#[tokio::test]
async fn variables_that_are_withheld_are_not_inherited() {
    let mut bench = Bench::new();
    let command = json!({"command": "echo \"[${HOME-none}] [${PATH:+path}]\""});
    assert!(!bench.ok("exec", command.clone()).await.contains("[none]"));
    bench.cx.withheld = Arc::new(["HOME".to_owned()].into());
    assert_eq!(bench.ok("exec", command).await, "[none] [path]\n");
}

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    let bench = Bench::new();
    let failed = bench.run("exec", json!({"command": "echo no; exit 3"})).await;
    assert!(failed.is_error);
    assert_eq!(failed.content, "no\n[exit code 3]");
    assert_eq!(failed.details["exitCode"], json!(3));
    let killed = bench.run("exec", json!({"command": "kill -KILL $$"})).await;
    assert!(killed.is_error && killed.content.contains("killed by signal 9"), "{}", killed.content);
    assert_eq!(killed.details["exitSignal"], json!(9));
}

#[tokio::test]
async fn fifty_megabytes_of_output_are_bounded() {
    let bench = Bench::new();
    let before = peak_memory_kb();
    let command = "echo FIRST; head -c 52428800 /dev/zero | tr '\\0' x; echo LAST";
    let output = bench.run("exec", json!({"command": command})).await;
    assert!(!output.is_error);
    assert!(output.content.len() <= bench.cx.limits.output_bytes, "{}", output.content.len());
    assert!(output.content.starts_with("FIRST\n") && output.content.ends_with("LAST\n"));
    assert!(output.content.contains("bytes of output were dropped here"));
    assert_eq!(output.details["outputBytes"], json!(52_428_811));
    assert!(output.details["droppedBytes"].as_u64().unwrap() > 52_000_000);
    assert!(peak_memory_kb() - before < 20_000, "{} KB more", peak_memory_kb() - before);
}

#[tokio::test]
async fn invalid_utf8_is_shown_and_noted() {
    let bench = Bench::new();
    let output = bench.run("exec", json!({"command": "printf 'a\\377b\\303'"})).await;
    assert!(output.content.starts_with("a\u{FFFD}b\u{FFFD}\n[the output is not UTF-8"), "{}", output.content);
    assert_eq!(output.details["lossy"], json!(true));
}

#[tokio::test]
async fn timeout_kills_grandchildren() {
    let bench = Bench::new();
    let command = format!("echo started; {} wait", sleeper(""));
    let started = Instant::now();
    let output = bench.run("exec", json!({"command": command, "timeout_ms": 500})).await;
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(output.is_error && output.content.starts_with("started\n[timed out after"), "{}", output.content);
    assert_eq!(output.details["timedOut"], json!(true));
    assert!(!runs(&bench.get("pid")));
}

#[tokio::test]
async fn timeout_kills_what_ignores_the_request_to_end() {
    let bench = Bench::new();
    let command = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
    bench.fails("exec", json!({"command": command, "timeout_ms": 300})).await;
    assert!(!runs(&bench.get("pid")));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn timeout_kills_what_left_the_group() {
    let bench = Bench::new();
    let command = format!("{} sleep 300", sleeper("setsid"));
    bench.fails("exec", json!({"command": command, "timeout_ms": 700})).await;
    let process = bench.get("pid");
    eventually("a process that left its group must be killed", || !runs(&process)).await;
}

#[tokio::test]
async fn cancel_kills() {
    let bench = Bench::new();
    let command = format!("{} wait", sleeper(""));
    let args = json!({"command": command});
    let cancel = async {
        eventually("the command must start", || bench.wrote("pid")).await;
        bench.cx.cancel.cancel();
    };
    let (output, ()) = tokio::join!(bench.run("exec", args), cancel);
    assert!(output.is_error && output.content.contains("cancelled"), "{}", output.content);
    assert_eq!(output.details["cancelled"], json!(true));
    assert!(!runs(&bench.get("pid")));
}

#[tokio::test]
async fn dropping_the_call_kills() {
    let bench = Bench::new();
    let command = format!("{} wait", sleeper(""));
    tokio::select! {
        output = bench.run("exec", json!({"command": command})) => panic!("{}", output.content),
        () = eventually("the command must start", || bench.wrote("pid")) => {}
    }
    let process = bench.get("pid");
    eventually("the grandchild must die", || !runs(&process)).await;
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_and_told() {
    let bench = Bench::new();
    let command = format!("{} while [ ! -e pid ]; do sleep 0.05; done; echo done", sleeper(""));
    let output = bench.run("exec", json!({"command": command})).await;
    assert!(
        output.content.starts_with("done\n[processes that the command left running"),
        "{}",
        output.content
    );
    assert!(!output.is_error);
    assert_eq!(output.details["leftovers"], json!(true));
    assert!(!runs(&bench.get("pid")));
}

#[tokio::test]
async fn environment_is_filtered_and_layered() {
    let mut bench = Bench::new();
    bench.cx.exec_env.insert("BOTH".to_owned(), "hook".to_owned());
    let env = json!({"MINE": "m", "BOTH": "model"});
    let shown = bench
        .ok("exec", json!({"command": "echo \"$MINE $BOTH ${PATH:+path} ${HOME:+home}\"", "env": env}))
        .await;
    assert_eq!(shown, "m hook path home\n");
    let error = bench
        .fails(
            "exec",
            json!({"command": "touch ran", "env": {"LD_PRELOAD": "x.so", "PATH": "/tmp", "OK": "1"}}),
        )
        .await;
    assert!(error.contains("`LD_PRELOAD`") && error.contains("`PATH`") && !error.contains("`OK`"), "{error}");
    assert!(bench.names().is_empty());
}

#[tokio::test]
async fn a_variable_that_is_withheld_is_handed_to_no_command() {
    let mut bench = Bench::new();
    let command = "echo \"${PATH:+path} ${CARGO_PKG_NAME:+package}\"";
    assert_eq!(bench.ok("exec", json!({"command": command})).await, "path package\n");
    // Nothing in its name says that it holds a secret.
    bench.cx.withheld = Arc::new(BTreeSet::from(["CARGO_PKG_NAME".to_owned()]));
    assert_eq!(bench.ok("exec", json!({"command": command})).await, "path \n");
}

#[tokio::test]
async fn working_directory_is_the_workspace_or_below() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("d")).unwrap();
    bench.put("f", "");
    bench.ok("exec", json!({"command": "touch here"})).await;
    bench.ok("exec", json!({"command": "touch there", "workdir": "d"})).await;
    assert!(bench.path("here").exists() && bench.path("d/there").exists());
    for (workdir, word) in [("..", "outside"), ("f", "not a directory"), ("none", "not a directory")] {
        let error = bench.fails("exec", json!({"command": "true", "workdir": workdir})).await;
        assert!(error.contains(word), "{workdir}: {error}");
    }
    for command in ["", "  ", "a\0b"] {
        assert!(bench.fails("exec", json!({"command": command})).await.contains("empty or holds a NUL"));
    }
}

#[tokio::test]
async fn limit_of_the_session_beats_what_the_model_asks_for() {
    let bench = Bench::with(Limits { time: Duration::from_millis(300), ..Limits::default() });
    let output = bench.run("exec", json!({"command": "sleep 300", "timeout_ms": 600_000})).await;
    assert_eq!(output.details["timedOut"], Value::Bool(true));
}

#[tokio::test]
async fn secrets_of_a_session_are_not_in_its_debug_text() {
    let mut bench = Bench::new();
    let secret = ["to", "ken"].concat().repeat(3);
    bench.cx.exec_env.insert("NAME".to_owned(), secret.clone());
    let command = format!("echo {secret}; sleep 300");
    bench.ok("exec", json!({"command": command, "background": true})).await;
    let shown = format!("{:?} {:?}", bench.cx, bench.tools);
    assert!(shown.contains("NAME") && shown.contains("p1") && !shown.contains(&secret), "{shown}");
}
