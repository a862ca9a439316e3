//! The audit trail under the worst of ends. The other process is this test binary, run for the one test [`task`].

#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use backstop::engine::{Attendance, HookOptions};
use backstop::hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop::hooks::{ApprovalRequest, CallContext, OwnerId, Params, hook_fn};
use backstop::store::{AuditFilter, AuditStore as _, SqliteStore, Store};
use backstop::{Backstop, Cause};
use serde_json::json;
use tempfile::TempDir;

const TASK: &str = "BACKSTOP_TRAIL_TASK";
const PATH: &str = "BACKSTOP_TRAIL_PATH";

/// Judges one call, says what came of it, and goes on living.
#[test]
fn task() {
    let (Ok(task), Ok(path)) = (std::env::var(TASK), std::env::var(PATH)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let backstop = Backstop::builder().store(Arc::new(SqliteStore::new(path))).build().await.unwrap();
        println!("ANSWER {}", is_permitted(&backstop, task).await);
        std::future::pending::<()>().await;
    });
}

/// Has one call judged by a hook that blocks it, or asks about it where nobody can be asked.
async fn is_permitted(backstop: &Backstop, task: String) -> bool {
    let hook = hook_fn::<BeforeToolCall, _>(move |_, _| {
        Ok(Some(match task.as_str() {
            "block" => ToolCallOutcome::block("no"),
            _ => ToolCallOutcome::ask(ApprovalRequest::cut("sure?", "")),
        }))
    });
    let options = HookOptions::new(OwnerId::new("test")).id("gate");
    backstop.engine().registry().on(hook, options).unwrap();
    let params = Params::from_value(json!({ "command": "ls" })).unwrap();
    let event = ToolCallEvent::new("exec", params);
    let call = CallContext::default();
    backstop.engine().permit_tool_call(event, &call, &Attendance::Nobody).await.permit.is_ok()
}

fn killed_at_its_answer(task: &str) -> Vec<serde_json::Value> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "task", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(PATH, &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let answer = lines.map(Result::unwrap).find_map(|line| Some(line.split_once("ANSWER ")?.1.to_owned()));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.as_deref(), Some("false"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let entries = runtime.block_on(SqliteStore::new(path).audit(&AuditFilter::default(), 0, 9)).unwrap();
    let (policy, rest) = entries.split_first().unwrap();
    assert_eq!(policy.kind, "configuration.read", "the policy by which is judged comes first");
    rest.iter().map(|entry| (*entry.body).clone()).collect()
}

#[test]
fn a_block_is_in_the_trail_of_a_process_that_is_killed_when_its_answer_is_seen() {
    let entries = killed_at_its_answer("block");
    let verdicts: Vec<_> = entries.iter().map(|body| &body["verdict"]).collect();
    assert_eq!(verdicts, ["block"]);
}

#[test]
fn an_ask_is_in_the_trail_of_a_process_that_is_killed_when_its_answer_is_seen() {
    let entries = killed_at_its_answer("ask");
    let [question, receipt] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(question["unattended"], true);
    assert_eq!(receipt["approval"]["resolution"], "cancelled");
    assert_eq!(question["approval"], receipt["approval"]["id"]);
}

/// What a killed process has written outlives it in any case; what a power failure leaves, only the disk says.
#[tokio::test]
async fn a_block_an_ask_and_a_configuration_wait_for_the_disk() {
    for task in ["block", "ask", "configuration"] {
        let folder = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("state.db")));
        let backstop = Backstop::builder().store(Arc::clone(&store)).build().await.unwrap();
        if task == "configuration" {
            backstop.announce_configuration(Cause { what: "a test", by: None }).await.unwrap();
        } else {
            assert!(!is_permitted(&backstop, task.to_owned()).await);
        }
        let entries = store.audit_head().await.unwrap().seq;
        assert!(entries > 0, "{task}");
        assert_eq!(store.audit_kept(), entries, "{task}");
    }
}
