//! Several processes on one database. The other processes are this test binary, run for the one test
//! [`task`] with a task in its environment.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backstop_hooks::{ApprovalId, Decision};
use backstop_store::{
    APPROVAL_ANSWERED, APPROVAL_ASKED, APPROVAL_ENDED, APPROVAL_VOTED, ApprovalFilter, ApprovalStatus,
    ApprovalStore as _, AskingLimits, AuditFilter, AuditStore as _, BudgetStore as _, Charge, Deletion,
    DeletionCause, NewAuditEntry, PersonsAnswer, ReservationId, ReserveError, RetentionStore as _,
    SessionStore as _, SqliteStore, Store, Timestamp, TranscriptStore as _,
};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::support::{at, begun, block_on, entry, me, question, session};
use crate::votes::{by, everybody, routed};

const TASK: &str = "BACKSTOP_STORE_TASK";
const PATH: &str = "BACKSTOP_STORE_PATH";
const UNATTENDED: &str = "BACKSTOP_STORE_UNATTENDED";
const ENTRIES: u64 = 40;
const REQUESTS: u64 = 60;

fn spawn(task: &str, path: &Path) -> Child {
    command(&std::env::current_exe().unwrap(), task, path).spawn().unwrap()
}

fn command(program: &Path, task: &str, path: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--exact", "processes::task", "--nocapture", "--test-threads=1"])
        .env(TASK, task)
        .env(PATH, path)
        .stdout(Stdio::piped());
    command
}

/// Ends a process however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What another process does. Run by itself, it does a small task of its own.
#[test]
fn task() {
    let Ok(path) = std::env::var(PATH) else {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::new(folder.path().join("state.db"));
        block_on(append_audit(&store, 2));
        assert_eq!(block_on(store.audit_head()).unwrap().seq, 2);
        return;
    };
    let store = SqliteStore::new(path);
    match std::env::var(TASK).unwrap().as_str() {
        "audit" => block_on(append_audit(&store, ENTRIES)),
        "answer" => block_on(answer_all(&store)),
        "ann" | "bob" | "carl" => block_on(vote_all(&store, &std::env::var(TASK).unwrap())),
        "spend" => block_on(spend_all(&store)),
        "write" => block_on(write_forever(&store)),
        "ask and die" => block_on(ask_and_die(&store, &PathBuf::from(std::env::var(PATH).unwrap()))),
        "fail" => {
            let error = block_on(store.create_session(session("s1", "chat", 1))).unwrap_err();
            println!("FAILED {}", error.to_string().replace('\n', " "));
        }
        other => panic!("no such task: {other}"),
    }
}

async fn append_audit(store: &SqliteStore, entries: u64) {
    for n in 0..entries {
        let body = json!({"n": n, "process": std::process::id()}).into();
        let entry =
            NewAuditEntry { at: Timestamp::now(), kind: "test".to_owned(), session: None, run: None, body };
        store.append_audit(entry).await.unwrap();
    }
}

async fn answer_all(store: &SqliteStore) {
    let (by, mut first, mut used) = (format!("process {}", std::process::id()), 0, 0);
    for asked in store.approvals(ApprovalFilter::All, 99).await.unwrap() {
        let answer = store.resolve_approval(&asked.id, Decision::AllowOnce, &by, at(1_500)).await.unwrap();
        first += u32::from(answer.first);
        used += u32::from(store.consume_approval(&asked.id, &asked.request.digest, at(1_500)).await.is_ok());
    }
    println!("RESULT {first} {used}");
}

async fn vote_all(store: &SqliteStore, user: &str) {
    let mut carried = 0;
    for asked in store.approvals(ApprovalFilter::All, 99).await.unwrap() {
        let answer = PersonsAnswer::new(Decision::AllowOnce, by(&everybody(), user), at(1_500));
        let voted = store.answer_approval(&asked.id, answer).await.unwrap();
        carried += u32::from(voted.first && voted.record.state.status() == ApprovalStatus::Allowed);
    }
    println!("RESULT {carried} 0");
}

/// Spends one request at a time until there is no room. Of three, one is not settled.
async fn spend_all(store: &SqliteStore) {
    let mut spent = 0;
    loop {
        let id = ReservationId::new(format!("{}-{spent}", std::process::id()));
        let charge =
            Charge { counter: "requests".into(), since: at(0), until: None, amount: 1, limit: REQUESTS };
        match store.reserve(&id, vec![charge]).await {
            Ok(()) => spent += 1,
            Err(ReserveError::Exceeded(_)) => break,
            Err(other) => panic!("{other}"),
        }
        if spent % 3 != 0 {
            assert!(store.settle(&id, vec![("requests".into(), 1)]).await.unwrap());
        }
    }
    println!("RESULT {spent}");
}

async fn write_forever(store: &SqliteStore) {
    let s1 = "s1".into();
    for n in 0_u64.. {
        let text = "x".repeat(3_000);
        let pair = vec![entry(&format!("a{n}"), &text), entry(&format!("b{n}"), &text)];
        store.append(&s1, &me(), pair).await.unwrap();
        append_audit(store, 1).await;
        println!("WROTE {n}");
    }
}

/// Asks, with no room left in the database's log: the kernel ends the process where it writes there, as `kill -9` would, and that is in the commit.
async fn ask_and_die(store: &SqliteStore, path: &Path) {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let most = fs::metadata(path.with_extension("db-wal")).unwrap().len();
    setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: Some(most) }).unwrap();
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    let unattended = std::env::var(UNATTENDED).is_ok();
    let asked = store.file_approval(question("ls"), unattended, &AskingLimits::default()).await;
    println!("ASKED {}", asked.is_ok());
}

/// The numbers that the process reported.
fn result(child: Child) -> Vec<u32> {
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find_map(|line| line.split_once("RESULT ")).unwrap();
    line.1.split(' ').map(|number| number.parse().unwrap()).collect()
}

#[test]
fn two_processes_never_spend_more_than_there_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let children = [spawn("spend", &path), spawn("spend", &path)];
    let spent: u32 = children.into_iter().map(|child| result(child)[0]).sum();
    assert_eq!(u64::from(spent), REQUESTS);
    let uses = block_on(SqliteStore::new(&path).budgets(9)).unwrap();
    assert_eq!(uses[0].spent, REQUESTS, "what nobody settled is spent");
    assert!(uses[0].reserved > 0);
}

#[test]
fn appends_of_two_processes_stay_one_chain() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let children = [spawn("audit", &path), spawn("audit", &path)];
    let store = SqliteStore::new(&path);
    block_on(append_audit(&store, ENTRIES));
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    assert_eq!(block_on(store.verify_audit(None)).unwrap().head.seq, 3 * ENTRIES);
}

#[test]
fn two_processes_agree_about_each_answer() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    block_on(async {
        for _ in 0..ENTRIES {
            store.create_approval(question("ls")).await.unwrap();
        }
    });
    let (one, other) = (spawn("answer", &path), spawn("answer", &path));
    let (one, other) = (result(one), result(other));
    assert_eq!(u64::from(one[0] + other[0]), ENTRIES, "each has one first answer");
    assert_eq!(u64::from(one[1] + other[1]), ENTRIES, "each was used once");
}

#[test]
fn processes_agree_about_which_vote_carried() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    block_on(async {
        for _ in 0..ENTRIES {
            store.create_approval(routed(2)).await.unwrap();
        }
    });
    let voting = ["ann", "bob", "carl"].map(|user| spawn(user, &path));
    let carried: u64 = voting.map(|child| u64::from(result(child)[0])).iter().sum();
    assert_eq!(carried, ENTRIES, "each was carried by one vote");
    block_on(async {
        for asked in store.approvals(ApprovalFilter::All, 99).await.unwrap() {
            assert_eq!((asked.state.status(), asked.votes.len()), (ApprovalStatus::Allowed, 2));
        }
        let said = store.audit(&AuditFilter::default(), 0, 999).await.unwrap();
        let of = |kind: &str| u64::try_from(said.iter().filter(|entry| entry.kind == kind).count()).unwrap();
        assert_eq!((of(APPROVAL_ANSWERED), of(APPROVAL_VOTED)), (ENTRIES, 2 * ENTRIES));
    });
}

#[test]
fn an_answer_of_another_process_ends_the_wait() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store = SqliteStore::new(&path);
    let start = Instant::now();
    let (asked, answered) = block_on(async {
        let asked = store.create_approval(question("ls")).await.unwrap();
        let child = spawn("answer", &path);
        let until = Timestamp::now().after(Duration::from_secs(30));
        let answered = store.wait_approval(&asked.id, until).await.unwrap().unwrap();
        result(child);
        (asked, answered)
    });
    assert_eq!(answered.id, asked.id);
    assert_ne!(answered.state.status(), ApprovalStatus::Pending);
    assert!(start.elapsed() < Duration::from_secs(30));
}

/// A process that is killed between the entry about a question and the commit of its row leaves an entry about a question that nobody can find.
#[test]
fn a_question_whose_process_was_killed_before_it_counted_allows_nothing_and_is_said_to_have_ended() {
    for unattended in [false, true] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("state.db");
        let store = SqliteStore::new(&path);
        // What waits, what was answered, and what was deleted since are none of those.
        let (waits, denied) = block_on(async {
            let waits = store.create_approval(question("waits")).await.unwrap();
            let denied = store.create_approval(question("denied")).await.unwrap();
            store.resolve_approval(&denied.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
            let why = Deletion { cause: DeletionCause::Age, by: "tester".to_owned(), at: at(1_600) };
            assert_eq!(store.delete_approvals(Some(at(9_000)), None, 9, why).await.unwrap(), 1);
            (waits.id, denied.id)
        });
        // The log of the database stays, and is longer than what is written to the trail.
        let held = Connection::open(&path).unwrap();
        held.execute("INSERT INTO texts (body) VALUES (zeroblob(400000))", []).unwrap();
        let mut child = command(&std::env::current_exe().unwrap(), "ask and die", &path);
        if unattended {
            child.env(UNATTENDED, "1");
        }
        let output = child.output().unwrap();
        let status = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(status, Some(rustix::process::Signal::XFSZ.as_raw()), "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("ASKED"));

        let store = SqliteStore::new(&path);
        block_on(async {
            let asked = entries(&store, APPROVAL_ASKED).await;
            let lost = asked.last().unwrap();
            assert_eq!(asked.len(), 3);
            assert!(*lost != waits.as_str() && *lost != denied.as_str());
            let id = ApprovalId::new(lost.as_str());
            assert!(store.approval(&id).await.unwrap().is_none());
            let filed = store.approvals(ApprovalFilter::All, 9).await.unwrap();
            assert_eq!(filed.iter().map(|record| &record.id).collect::<Vec<_>>(), [&waits]);
            let digest = question("ls").digest;
            assert!(store.consume_approval(&id, &digest, at(1_500)).await.is_err());
            assert!(store.resolve_approval(&id, Decision::AllowOnce, "ann", at(1_500)).await.is_err());
            store.verify_audit(None).await.unwrap();
            assert!(!entries(&store, APPROVAL_ENDED).await.contains(lost));
            // Who starts next says what became of it, once.
            assert_eq!(store.end_lost_approvals(at(3_000)).await.unwrap(), 1);
            assert_eq!(entries(&store, APPROVAL_ENDED).await, std::slice::from_ref(lost));
            assert_eq!(store.end_lost_approvals(at(3_000)).await.unwrap(), 0);
            store.verify_audit(None).await.unwrap();
        });
    }
}

/// The questions that entries of a kind are about, in their order.
async fn entries(store: &SqliteStore, kind: &str) -> Vec<String> {
    let all = store.audit(&AuditFilter::default(), 0, 999).await.unwrap();
    let of_kind = all.into_iter().filter(|entry| entry.kind == kind);
    of_kind.map(|entry| entry.body["approval"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_process_keeps_in_its_memory_is_not_said_to_be_lost() {
    let folder = TempDir::new().unwrap();
    let trail: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("state.db")));
    block_on(async {
        let store = SqliteStore::for_answers(Arc::clone(&trail));
        store.file_approval(question("ls"), false, &AskingLimits::default()).await.unwrap();
        assert_eq!(trail.end_lost_approvals(at(1_500)).await.unwrap(), 0);
        assert_eq!(store.end_lost_approvals(at(1_500)).await.unwrap(), 0);
    });
}

#[test]
fn a_process_killed_while_it_writes_leaves_a_whole_database() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    block_on(begun(&SqliteStore::new(&path)));
    let mut reported: u64 = 0;
    for round in 0..3 {
        let rows = rows(&path);
        let mut child = Killed(spawn("write", &path));
        let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
        let mut wrote = lines.filter(|line| line.as_ref().unwrap().contains("WROTE"));
        for _ in 0..5 + round * 7 {
            wrote.next().unwrap().unwrap();
            reported += 1;
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        reported += u64::try_from(wrote.count()).unwrap();
        assert!(self::rows(&path) > rows);
        // The next round writes other messages.
        block_on(async {
            let store = SqliteStore::new(&path);
            let entries = store.transcript(&"s1".into()).await.unwrap();
            assert_eq!(entries.len() % 2, 0, "each pair is whole or absent");
            assert!(entries.iter().enumerate().all(|(n, entry)| entry.seq == u64::try_from(n).unwrap() + 1));
            let renamed = Connection::open(&path).unwrap();
            renamed.execute("UPDATE entries SET id = ?1 || id", [format!("{round}-")]).unwrap();
            assert!(
                store.verify_audit(None).await.unwrap().head.seq >= reported,
                "what was reported is there"
            );
        });
    }
    let check: String =
        Connection::open(&path).unwrap().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

#[cfg(unix)]
#[test]
fn a_folder_of_somebody_else_is_an_error() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::os::unix::process::CommandExt as _;
    let folder = TempDir::new().unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    let (program, existing) = (folder.path().join("program"), folder.path().join("state.db"));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    block_on(SqliteStore::new(&existing).sessions(1)).unwrap();
    mode(&existing, 0o444);
    mode(&program, 0o555);
    mode(folder.path(), 0o555);
    let root = fs::metadata(folder.path()).unwrap().uid() == 0;
    for path in [folder.path().join("new.db"), folder.path().join("new/state.db"), existing] {
        let mut command = command(&program, "fail", &path);
        if root {
            // Permissions mean nothing to root.
            command.uid(65_534).gid(65_534);
        }
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, error) = text.split_once("FAILED ").unwrap();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains("can't be written") && error.contains("hint: make the file"), "{error}");
    }
    mode(folder.path(), 0o755);
}

fn rows(path: &Path) -> i64 {
    Connection::open(path).unwrap().query_row("SELECT count(*) FROM entries", [], |row| row.get(0)).unwrap()
}
