//! What listing ten thousand questions that wait costs, and how soon whoever waits hears of an answer that was written elsewhere: in memory, in a file, and, with
//! the feature `postgres`, on the server that `BACKSTOP_TEST_POSTGRES` names, in a schema `bench_…` that it leaves there.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and tells loudly")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use backstop_hooks::{Decision, Digest, Severity, TimeoutBehavior};
use backstop_store::{ApprovalFilter, GrantPlace, NewApproval, SqliteStore, Store, Timestamp, preview};
use divan::Bencher;
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// How many questions wait.
const MANY: usize = 10_000;
/// How many answers are waited for.
const ANSWERS: usize = 200;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});
static FOLDER: LazyLock<TempDir> = LazyLock::new(|| TempDir::new().unwrap());
static MEMORY: LazyLock<Arc<dyn Store>> = LazyLock::new(|| filled(Arc::new(SqliteStore::in_memory())));
static FILE: LazyLock<Arc<dyn Store>> =
    LazyLock::new(|| filled(Arc::new(SqliteStore::new(FOLDER.path().join("many.db")))));

fn question(n: usize, now: Timestamp) -> NewApproval {
    let arguments = json!({ "command": format!("git push origin feature/{n} --force-with-lease") });
    NewApproval {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: Some("/home/ann/shop".into()),
        session: "s1".into(),
        run: Some("r1".into()),
        host: None,
        client: None,
        call: format!("c{n}").as_str().into(),
        tool_name: "exec".into(),
        digest: Digest::of_text("tool_call", &n.to_string()),
        facts: None,
        title: "Run this?".into(),
        description: "It rewrites a branch that others may have.".into(),
        severity: Severity::Warning,
        reasons: Vec::new(),
        place: GrantPlace::default(),
        preview: preview(&arguments).shown,
        whole: None,
        unseen: false,
        masked: 0,
        masked_at: Vec::new(),
        starts: None,
        amounts: Vec::new(),
        allowed_decisions: vec![Decision::AllowOnce, Decision::Deny],
        substitutes: Vec::new(),
        edited_from: None,
        given: None,
        created_at: now,
        expires_at: now.after(Duration::from_hours(1)),
        deadline: None,
        timeout_behavior: TimeoutBehavior::Deny,
        route: None,
        waiter: None,
    }
}

fn filled(store: Arc<dyn Store>) -> Arc<dyn Store> {
    RUNTIME.block_on(async {
        let now = Timestamp::now();
        for n in 0..MANY {
            store.create_approval(question(n, now)).await.unwrap();
        }
    });
    store
}

fn listed(bencher: Bencher<'_, '_>, store: &Arc<dyn Store>) {
    bencher.bench_local(|| {
        let listed = RUNTIME.block_on(store.approvals(ApprovalFilter::Pending, MANY)).unwrap();
        assert_eq!(listed.len(), MANY);
        listed
    });
}

fn first_page(bencher: Bencher<'_, '_>, store: &Arc<dyn Store>) {
    bencher.bench_local(|| RUNTIME.block_on(store.open_approvals(Timestamp::now(), 0, 50)).unwrap());
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn ten_thousand_in_memory(bencher: Bencher<'_, '_>) {
    listed(bencher, &MEMORY);
}

#[divan::bench(sample_count = 20, sample_size = 1)]
fn ten_thousand_in_a_file(bencher: Bencher<'_, '_>) {
    listed(bencher, &FILE);
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn the_first_fifty_in_memory(bencher: Bencher<'_, '_>) {
    first_page(bencher, &MEMORY);
}

#[divan::bench(sample_count = 50, sample_size = 1)]
fn the_first_fifty_in_a_file(bencher: Bencher<'_, '_>) {
    first_page(bencher, &FILE);
}

#[cfg(feature = "postgres")]
mod postgres {
    use backstop_store::{PostgresOptions, PostgresStore};

    use super::{Arc, Bencher, FOLDER, LazyLock, Store, filled, first_page, heard, listed};

    /// A store on the server that is named, in a schema of this process.
    fn store(name: &str) -> Option<Arc<PostgresStore>> {
        let url = std::env::var("BACKSTOP_TEST_POSTGRES").ok()?;
        let schema = format!("bench_{}", std::process::id());
        let options = PostgresOptions::from_url(&url).unwrap().schema(&schema).unwrap();
        let path = |kind: &str| FOLDER.path().join(format!("{name}.{kind}"));
        Some(Arc::new(PostgresStore::new(options, path("trail"), path("key"))))
    }

    static SERVER: LazyLock<Option<Arc<dyn Store>>> = LazyLock::new(|| Some(filled(store("many")?)));

    #[divan::bench(sample_count = 20, sample_size = 1)]
    fn ten_thousand_on_a_server(bencher: Bencher<'_, '_>) {
        if let Some(store) = &*SERVER {
            listed(bencher, store);
        }
    }

    #[divan::bench(sample_count = 50, sample_size = 1)]
    fn the_first_fifty_on_a_server(bencher: Bencher<'_, '_>) {
        if let Some(store) = &*SERVER {
            first_page(bencher, store);
        }
    }

    pub(super) fn answers() {
        if let (Some(here), Some(there)) = (store("here"), store("there")) {
            heard("on a server", here, there);
        }
    }
}

/// How long it takes from when an answer is asked to be kept by one store until whoever waits at another one has it.
fn heard(what: &str, here: Arc<dyn Store>, there: Arc<dyn Store>) {
    let mut times: Vec<Duration> = RUNTIME.block_on(async {
        let mut times = Vec::with_capacity(ANSWERS);
        for n in 0..ANSWERS {
            let now = Timestamp::now();
            let asked = here.create_approval(question(MANY + n, now)).await.unwrap();
            let (store, id, until) = (Arc::clone(&here), asked.id.clone(), asked.request.expires_at);
            let waiting = tokio::spawn(async move {
                store.wait_approval(&id, until).await.unwrap();
                Instant::now()
            });
            tokio::time::sleep(Duration::from_millis(30)).await;
            there.resolve_approval(&asked.id, Decision::AllowOnce, "ann", now).await.unwrap();
            let written = Instant::now();
            times.push(waiting.await.unwrap().saturating_duration_since(written));
        }
        times
    });
    times.sort_unstable();
    let (median, most) =
        (times.get(ANSWERS / 2).copied().unwrap_or_default(), times.last().copied().unwrap_or_default());
    println!(
        "{what}: whoever waits hears {median:?} after an answer was written elsewhere, at most {most:?}"
    );
}

fn main() {
    // Test runners list what they find; only `cargo bench` measures.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let file = || Arc::new(SqliteStore::new(FOLDER.path().join("answers.db")));
    heard("in a file", file(), file());
    #[cfg(feature = "postgres")]
    postgres::answers();
    divan::main();
}
