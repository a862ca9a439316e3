//! What operations near the path of a tool call cost, in memory and in a file: looking for a grant, a decision of another process, a
//! reservation of a budget.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and tells loudly")]

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use backstop_hooks::{Digest, OwnerId, Severity};
use backstop_store::{
    Asked, BudgetStore as _, Charge, DecisionStore as _, GrantPlace, GrantQuery, GrantStore as _,
    ReservationId, SqliteStore, Timestamp,
};

/// How often each is done.
const TIMES: usize = 2_000;

fn query() -> GrantQuery {
    GrantQuery {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        question: Asked {
            owner: OwnerId::operator(),
            hook: "guard".into(),
            severity: Severity::Warning,
            rules: BTreeSet::new(),
            title: "Run it?".into(),
        },
        digest: Digest::of_text("tool_call", "ls"),
        facts: None,
        program: None,
        amounts: Vec::new(),
        route: None,
    }
}

async fn median<T>(mut work: impl AsyncFnMut() -> T) -> Duration {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let begun = Instant::now();
        work().await;
        times.push(begun.elapsed());
    }
    times.sort_unstable();
    times.get(TIMES / 2).copied().unwrap_or_default()
}

async fn measure(what: &str, store: &SqliteStore) {
    let now = Timestamp::from_millis(1);
    let begun = Instant::now();
    store.grants(1).await.unwrap();
    println!("{what}: the first operation, which makes the database: {:?}", begun.elapsed());
    let found = median(async || store.find_grant(&query(), now).await.unwrap()).await;
    println!("{what}: no grant: {found:?}");
    let decision =
        median(async || store.decision(&"s".into(), &"r".into(), &"c".into()).await.unwrap()).await;
    println!("{what}: no decision: {decision:?}");
    let id = ReservationId::new("one");
    let charge = Charge { counter: "tokens".into(), since: now, until: None, amount: 1, limit: u64::MAX };
    let reserved = median(async || store.reserve(&id, vec![charge.clone()]).await.unwrap()).await;
    println!("{what}: a reservation: {reserved:?}");
}

fn main() {
    // Test runners list what they find; only `cargo bench` measures.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        measure("in memory", &SqliteStore::in_memory()).await;
        measure("in a file", &SqliteStore::new(folder.path().join("backstop.db"))).await;
    });
}
