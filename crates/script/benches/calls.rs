//! What asking scripts costs: one call and back from a thread that is awake, runs of many, and loading.
//!
//! The event is like that of `before_tool_call`, 1 KB of JSON. Figures of a run divided by the number of its functions
//! are the time in the worker, as the hand-over happens once for all of them.

#![expect(clippy::unwrap_used, reason = "a bench may fail loudly")]

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use backstop_script::{
    Argument, Arguments, Callee, JsonText, LazyEvent, Limits, Loaded, NoBridge, Permissions, RunItem,
    ScriptSource, WorkerSettings, Workers,
};
use tokio::runtime::Runtime;

const BUDGET: Duration = Duration::from_secs(10);

const SOURCE: &str = "
export const quiet = () => undefined;
export const reads = (event) => { if (event.toolName === 'nothing') return { block: true }; };
export const parses = (event) => { if (/rm -rf/.test(event.params.command)) return { block: true }; };
export const later = async (event) => { if (event.toolName === 'nothing') return { block: true }; };
export const rewrites = async (event) => ({ params: { ...event.params, command: event.params.command + ' --dry-run' } });
";

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap());

fn main() {
    divan::main();
}

fn folder(source: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.mjs"), source).unwrap();
    folder
}

fn workers(fill: usize) -> Workers {
    Workers::start(WorkerSettings { fill, ..WorkerSettings::default() }, RUNTIME.handle().clone())
}

async fn load(workers: &Workers, folder: &Path) -> Loaded {
    let source = ScriptSource::new("bench", folder, "main.mjs");
    workers.load(source, Permissions::default(), Limits::default(), Arc::new(NoBridge)).await.unwrap()
}

/// An event of about 1 KB, with the shape of `before_tool_call`.
fn event() -> Arguments {
    let names: Arc<[Arc<str>]> =
        ["toolName", "params", "runId", "toolCallId", "context"].map(Arc::from).to_vec().into();
    let params = serde_json::json!({
        "command": "cargo test --workspace --all-features -- --nocapture", "cwd": "/home/someone/project",
        "env": {"RUST_LOG": "debug", "CI": "1"}, "note": "x".repeat(500), "list": [1, 2, 3, 4, 5, 6, 7, 8],
    });
    let context = serde_json::json!({"sessionId": "b".repeat(36), "agentId": "main", "workspace": "/home/someone/project",
        "messages": [{"role": "user", "text": "please run the tests"}, {"role": "assistant", "text": "I run them now."}]});
    let texts =
        [serde_json::json!("exec"), params, serde_json::json!("r-1"), serde_json::json!("c-1"), context];
    let texts: Vec<JsonText> = texts.iter().map(|value| JsonText::of(value).unwrap()).collect();
    Arguments::new([Argument::Lazy(LazyEvent::new(names, texts).unwrap())])
}

/// One call and back, from a thread that is awake.
#[divan::bench(args = ["quiet", "reads", "parses", "later", "rewrites"], sample_count = 2000, sample_size = 1)]
fn call(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (folder, workers, event) = (folder(SOURCE), workers(64), event());
    let script = RUNTIME.block_on(load(&workers, folder.path()));
    bencher.bench_local(|| RUNTIME.block_on(script.call_export(name, &event, BUDGET)).unwrap());
}

/// A run of 1000 functions of one script, none of which answers: the time in the worker for one is a thousandth.
#[divan::bench(args = ["quiet", "reads", "parses", "later"], sample_count = 50, sample_size = 1)]
fn thousand_of_one(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (folder, workers, event) = (folder(SOURCE), workers(64), event());
    let script = RUNTIME.block_on(load(&workers, folder.path()));
    let item = RunItem { script: &script, callee: Callee::Export(name.to_owned()), budget: BUDGET };
    let items = vec![item; 1000];
    bencher.bench_local(|| assert!(RUNTIME.block_on(workers.call_run(&items, &event)).ended_at.is_none()));
}

/// One function of each of 100 scripts at one point.
#[divan::bench(args = ["reads", "parses", "later"], sample_count = 200, sample_size = 1)]
fn hundred_scripts(bencher: divan::Bencher<'_, '_>, name: &str) {
    let (folder, workers, event) = (folder(SOURCE), workers(128), event());
    let scripts: Vec<Loaded> = RUNTIME.block_on(async {
        let mut all = Vec::new();
        for _ in 0..100 {
            all.push(load(&workers, folder.path()).await);
        }
        all
    });
    let items: Vec<RunItem<'_>> = scripts
        .iter()
        .map(|script| RunItem { script, callee: Callee::Export(name.to_owned()), budget: BUDGET })
        .collect();
    bencher.bench_local(|| assert!(RUNTIME.block_on(workers.call_run(&items, &event)).ended_at.is_none()));
}

/// Loading 100 small scripts, one after another.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn load_hundred(bencher: divan::Bencher<'_, '_>) {
    let folder = folder(SOURCE);
    bencher.bench_local(|| {
        let workers = workers(64);
        RUNTIME.block_on(async {
            let mut all = Vec::new();
            for _ in 0..100 {
                all.push(load(&workers, folder.path()).await);
            }
            all
        })
    });
}
