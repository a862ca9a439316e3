//! From an answer to the call that goes on. `cargo bench -p backstop-engine --bench resume`.
//!
//! Engines wait for an answer of another process of this machine, or of their own. Times begin when the answer is on disk, and
//! end when the call has its permit, which is one more wait for the disk: an allowance is used up before it counts. The last
//! lines are what waiting costs while nobody answers and another process writes all the time.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark prints, and may fail loudly")]

use std::io::{BufRead as _, BufReader, Lines, Write as _, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use backstop_engine::{Attendance, Engine, HookOptions};
use backstop_hooks::points::{BeforeToolCall, ToolCallEvent, ToolCallOutcome};
use backstop_hooks::{
    ApprovalId, ApprovalRequest, CallContext, Decision, OwnerId, Params, TimeoutBehavior, hook_fn,
};
use backstop_store::{
    ApprovalFilter, ApprovalStore as _, AuditStore as _, NewAuditEntry, SqliteStore, Store, Timestamp,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

/// Names the database to the other process.
const DATABASE: &str = "BACKSTOP_BENCH_DATABASE";
const ROUNDS: usize = 200;
const MANY: usize = 1_000;
const IDLE: Duration = Duration::from_secs(5);

#[tokio::main]
async fn main() {
    if let Ok(path) = std::env::var(DATABASE) {
        return other_process(Path::new(&path)).await;
    }
    // Test runners list and run what they find; only `cargo bench` says this.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    println!("from the answer on disk to the permit, {ROUNDS} rounds");
    println!("{:<44} {:>9} {:>9} {:>9}", "answered by", "median", "p99", "longest");
    for waiting in [1, MANY] {
        let house = House::new();
        let _crowd = house.crowd(waiting - 1).await;
        house.report(&format!("this process, {waiting} waiting"), |id| house.answer_here(id)).await;
        let house = House::new();
        let _crowd = house.crowd(waiting - 1).await;
        let other = std::cell::RefCell::new(Other::start(&house.path()));
        let answer = async |id: ApprovalId| other.borrow_mut().answer(&id);
        house.report(&format!("another process, {waiting} waiting"), answer).await;
    }
    for waiting in [1, MANY] {
        let house = House::new();
        let _crowd = house.crowd(waiting).await;
        let mut other = Other::start(&house.path());
        other.write_for(IDLE);
        let before = processor_time();
        tokio::time::sleep(IDLE).await;
        let spent = processor_time() - before;
        println!(
            "{waiting} waiting for {} s, {} commits of another process: {} ms of processor time",
            IDLE.as_secs(),
            other.line(),
            spent.as_millis()
        );
    }
}

/// An engine whose one hook asks about every call.
struct House {
    folder: TempDir,
    store: Arc<dyn Store>,
    engine: Engine,
}

impl House {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("state.db")));
        let engine = Engine::builder().store(Arc::clone(&store)).build();
        let request = ApprovalRequest::cut("may it run?", "it says so");
        let request = request.timeout(Duration::from_secs(600), TimeoutBehavior::Deny).unwrap();
        let hook = hook_fn::<BeforeToolCall, _>(move |_, _| Ok(Some(ToolCallOutcome::ask(request.clone()))));
        engine.registry().on(hook, HookOptions::new(OwnerId::operator())).unwrap();
        Self { folder, store, engine }
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("state.db")
    }

    /// A call that waits, and the id of its question.
    async fn waits(&self, n: usize) -> (ApprovalId, JoinHandle<SystemTime>) {
        let (engine, before) = (self.engine.clone(), self.newest().await);
        let call = tokio::spawn(async move {
            let params: Params = serde_json::from_value(json!({ "command": format!("ls {n}") })).unwrap();
            let call = CallContext { session_id: Some("session".into()), ..CallContext::default() };
            let verdict =
                engine.permit_tool_call(ToolCallEvent::new("exec", params), &call, &Attendance::Queue).await;
            let resumed = SystemTime::now();
            verdict.permit.unwrap();
            resumed
        });
        loop {
            match self.newest().await {
                Some(id) if Some(&id) != before.as_ref() => return (id, call),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }

    async fn newest(&self) -> Option<ApprovalId> {
        self.store.approvals(ApprovalFilter::All, 1).await.unwrap().pop().map(|record| record.id)
    }

    async fn crowd(&self, size: usize) -> Vec<JoinHandle<SystemTime>> {
        let mut crowd = Vec::new();
        for n in 0..size {
            crowd.push(self.waits(n).await.1);
        }
        crowd
    }

    async fn answer_here(&self, id: ApprovalId) -> SystemTime {
        self.store.resolve_approval(&id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
        SystemTime::now()
    }

    async fn report(&self, what: &str, answer: impl AsyncFn(ApprovalId) -> SystemTime) {
        let mut times = Vec::new();
        for n in 0..ROUNDS {
            let (id, call) = self.waits(MANY + n).await;
            // Whoever waits has sat down.
            tokio::time::sleep(Duration::from_millis(7)).await;
            let answered = answer(id).await;
            times.push(call.await.unwrap().duration_since(answered).unwrap_or_default());
        }
        times.sort();
        let at = |percent: usize| {
            let place = (ROUNDS * percent / 100).min(ROUNDS - 1);
            format!("{:.2} ms", times.get(place).unwrap().as_secs_f64() * 1_000.0)
        };
        println!("{what:<44} {:>9} {:>9} {:>9}", at(50), at(99), at(100));
    }
}

/// This program once more, as whoever answers.
struct Other {
    process: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Other {
    fn start(path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(DATABASE, path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, to, from: BufReader::new(from).lines() }
    }

    fn line(&mut self) -> String {
        self.from.next().unwrap().unwrap()
    }

    /// Returns when the answer was on disk.
    fn answer(&mut self, id: &ApprovalId) -> SystemTime {
        writeln!(self.to, "answer {id}").unwrap();
        SystemTime::UNIX_EPOCH + Duration::from_nanos(self.line().parse().unwrap())
    }

    fn write_for(&mut self, span: Duration) {
        writeln!(self.to, "write {}", span.as_millis()).unwrap();
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn other_process(path: &Path) {
    let store = SqliteStore::new(path);
    for line in stdin().lines() {
        let line = line.unwrap();
        match line.split_once(' ').unwrap() {
            ("answer", id) => {
                let id = ApprovalId::from(id);
                store.resolve_approval(&id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                println!("{}", now.as_nanos());
            }
            (_, millis) => {
                let end = SystemTime::now() + Duration::from_millis(millis.parse().unwrap());
                let mut written = 0;
                while SystemTime::now() < end {
                    let (at, kind) = (Timestamp::now(), "bench".to_owned());
                    let entry = NewAuditEntry { at, kind, session: None, run: None, body: json!({}).into() };
                    store.append_audit(entry).await.unwrap();
                    written += 1;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                println!("{written}");
            }
        }
    }
}

/// What this process used of the processors; zero where the system does not say.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |field: Option<&&str>| field.and_then(|field| field.parse::<u64>().ok()).unwrap_or_default();
    Duration::from_millis(10 * (ticks(fields.get(11)) + ticks(fields.get(12))))
}
