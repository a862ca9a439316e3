//! What appending and verifying cost, and what a caller pays.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark fails and tells loudly")]

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use backstop_trail::{Body, Draft, Log, Options, Reader, Trust, Writer, verify};
use divan::Bencher;
use serde_json::json;
use tempfile::TempDir;

/// The entries of a large log.
const MILLION: u64 = 1_000_000;

/// An entry of about 600 bytes, as receipts are.
fn draft() -> Draft {
    let body = json!({
        "point": "before_tool_call", "verdict": "pass", "tool": "exec", "calledAs": "Bash", "took": 412,
        "receipt": "0199c0de-0000-7000-8000-000000000000", "hookSet": "x".repeat(64),
        "digest": { "before": "b".repeat(64), "after": "a".repeat(64) }, "silent": "0-7,9", "agent": "main",
        "steps": [{ "hook": "command-safety", "owner": "builtin:guards", "said": "nothing", "took": 31 }],
    });
    let mut draft = Draft::new(backstop_trail::now(), "receipt", Body::of(&body).unwrap());
    draft.labels.insert("session".to_owned(), "agent:main:main".to_owned());
    draft
}

fn options(folder: &TempDir) -> Options {
    Options::new(folder.path().join("log"), folder.path().join("key"))
}

fn main() {
    // Test runners list what they find; only `cargo bench` says this.
    if std::env::args().any(|arg| arg == "--bench") {
        callers_share();
    }
    divan::main();
}

/// The time that handing over takes, while as much is written as can be.
fn callers_share() {
    let folder = TempDir::new().unwrap();
    let writer = Writer::new(options(&folder));
    let mut took: Vec<Duration> = Vec::new();
    let begun = Instant::now();
    for _ in 0..50_000_u64 {
        let draft = draft();
        let start = Instant::now();
        writer.push(draft).unwrap();
        took.push(start.elapsed());
        // Ten thousand a second.
        let due = Duration::from_micros(100) * u32::try_from(took.len()).unwrap();
        while begun.elapsed() < due {
            std::thread::yield_now();
        }
    }
    writer.append(Vec::new(), true).unwrap().wait().unwrap();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 1000).copied().unwrap_or_default();
    println!(
        "a caller's share at 10 000 a second: median {:?}, p99 {:?}, p99.9 {:?}",
        at(500),
        at(990),
        at(999)
    );
}

#[divan::bench]
fn body(bencher: Bencher<'_, '_>) {
    bencher.bench(draft);
}

#[divan::bench(args = [1, 8, 64, 512, 1024], sample_count = 50)]
fn append(bencher: Bencher<'_, '_>, group: usize) {
    let folder = TempDir::new().unwrap();
    let mut log = Log::open(options(&folder)).unwrap();
    let drafts: Vec<Draft> = std::iter::repeat_with(draft).take(group).collect();
    bencher.counter(group).bench_local(|| log.append(&drafts).unwrap());
}

#[divan::bench(args = [1, 64, 512], sample_count = 50)]
fn append_and_sync(bencher: Bencher<'_, '_>, group: usize) {
    let folder = TempDir::new().unwrap();
    let mut log = Log::open(options(&folder)).unwrap();
    let drafts: Vec<Draft> = std::iter::repeat_with(draft).take(group).collect();
    bencher.counter(group).bench_local(|| {
        log.append(&drafts).unwrap();
        log.sync().unwrap();
    });
}

/// What a short process pays: it opens the log, adds an entry, and ends.
#[divan::bench]
fn open_and_append(bencher: Bencher<'_, '_>) {
    let folder = TempDir::new().unwrap();
    let mut log = Log::open(options(&folder)).unwrap();
    log.append(&std::iter::repeat_with(draft).take(1000).collect::<Vec<_>>()).unwrap();
    let drafts = [draft()];
    bencher.bench_local(|| Log::open(options(&folder)).unwrap().append(&drafts).unwrap());
}

static LARGE: LazyLock<TempDir> = LazyLock::new(|| {
    let folder = TempDir::new().unwrap();
    let mut log = Log::open(options(&folder)).unwrap();
    let drafts: Vec<Draft> = std::iter::repeat_with(draft).take(1000).collect();
    for _ in 0..MILLION / 1000 {
        log.append(&drafts).unwrap();
    }
    log.checkpoint().unwrap();
    folder
});

#[divan::bench(sample_count = 3, sample_size = 1)]
fn verify_a_million(bencher: Bencher<'_, '_>) {
    let folder = &*LARGE;
    let log = Reader::new(&folder.path().join("log"));
    let key = backstop_trail::SigningKey::open(&folder.path().join("key")).unwrap();
    let key = key.verifier(&log.origin().unwrap().unwrap());
    bencher.bench_local(|| {
        let report = verify(&log, &Trust { key: key.clone(), ..Trust::default() }).unwrap();
        assert_eq!(report.size, MILLION);
    });
}

#[divan::bench(sample_count = 20)]
fn prove_one_of_a_million(bencher: Bencher<'_, '_>) {
    let log = Reader::new(&LARGE.path().join("log"));
    bencher.bench_local(|| log.prove(777_777).unwrap());
}
