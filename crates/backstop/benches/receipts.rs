//! How many receipts a second reach the audit trail. `cargo bench -p backstop --bench receipts`.
//!
//! Tool calls pass the guards that are on by default, over a database in a file, from several tasks at once; a round ends when the trail
//! has the receipt of each call and the disk has the trail. The trail of a round is as new as its database.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and tells loudly")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop::Backstop;
use backstop::engine::Attendance;
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Params};
use backstop::store::{AuditStore as _, SqliteStore};
use serde_json::json;
use tempfile::TempDir;

/// How many calls a round has.
const CALLS: usize = 50_000;
/// How many tasks judge at once.
const TASKS: usize = 16;
const ROUNDS: usize = 5;
/// From how many receipts on that wait to be written nobody judges more.
const MOST_WAITING: usize = 4_000;

fn main() {
    // Test runners list what they find; only `cargo bench` says this.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    for what in ["ls -la src", "git status && cargo build 2>&1 | tail -3"] {
        let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| runtime.block_on(round(what))).collect();
        rounds.sort_unstable();
        let median = rounds.get(ROUNDS / 2).copied().unwrap_or_default();
        println!(
            "`{what}`: {:.0} receipts a second (median of {ROUNDS} rounds)",
            CALLS as f64 / median.as_secs_f64()
        );
    }
}

/// Judges all calls, and returns how long it took until all are in the trail.
async fn round(command: &'static str) -> Duration {
    let folder = TempDir::new().unwrap();
    let store = Arc::new(SqliteStore::new(folder.path().join("state.db")));
    let backstop =
        Arc::new(Backstop::builder().store(Arc::<SqliteStore>::clone(&store)).build().await.unwrap());
    let start = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let backstop = Arc::clone(&backstop);
            tokio::spawn(async move {
                let call =
                    CallContext { session_id: Some(format!("s-{task}").into()), ..CallContext::default() };
                for _ in 0..CALLS / TASKS {
                    let params = Params::from_value(json!({ "command": command })).unwrap();
                    let event = ToolCallEvent::new("exec", params);
                    let judged = backstop.engine().permit_tool_call(event, &call, &Attendance::Nobody).await;
                    assert!(judged.permit.is_ok());
                    // What does not fit into the queue is lost, and a round without all of them measures nothing.
                    while backstop.audit().unwrap().backlog().waiting > MOST_WAITING {
                        tokio::time::sleep(Duration::from_micros(200)).await;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(backstop.audit().unwrap().flush().await, "some receipts were lost");
    let took = start.elapsed();
    let entries = usize::try_from(store.audit_head().await.unwrap().seq).unwrap();
    assert!(entries >= CALLS, "{entries} entries");
    took
}
