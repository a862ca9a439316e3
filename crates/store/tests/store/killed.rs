//! A process that is killed at a step of a question, or finds the disk full: in the commit, when the trail has the entry about it already. The law: the
//! step has not happened, the trail is sound, and whoever comes next takes it, once.
//!
//! The other process is this test binary, run for the one test [`step`]. The kernel ends it where it writes to the database's log, as `kill -9`
//! would, since it gives the log no more room. Where it is told to ignore that signal, writing fails, as it does on a full disk.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use backstop_hooks::{ApprovalId, Decision, Severity};
use backstop_store::{
    APPROVAL_ANSWERED, ApprovalFilter, ApprovalRecord, ApprovalStatus, ApprovalStore as _, Asked,
    AuditFilter, AuditStore as _, GrantPlace, GrantStore as _, GrantTarget, NewGrant, PersonsAnswer,
    ResolveError, SqliteStore,
};
use rusqlite::Connection;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;

use crate::support::{at, block_on, question};
use crate::votes::{by, everybody, routed};

const STEP: &str = "BACKSTOP_STORE_STEP";
const PATH: &str = "BACKSTOP_STORE_PATH";

/// What becomes of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Allow,
    Deny,
    Vote,
    AllowFromNowOn,
    Use,
    Withdraw,
}

const STEPS: [(Step, &str); 6] = [
    (Step::Allow, "allow"),
    (Step::Deny, "deny"),
    (Step::Vote, "vote"),
    (Step::AllowFromNowOn, "allow from now on"),
    (Step::Use, "use"),
    (Step::Withdraw, "withdraw"),
];

impl Step {
    /// How the question stands before the step, and after it.
    fn around(self) -> [ApprovalStatus; 2] {
        match self {
            Self::Allow | Self::AllowFromNowOn => [ApprovalStatus::Pending, ApprovalStatus::Allowed],
            Self::Deny => [ApprovalStatus::Pending, ApprovalStatus::Denied],
            // One of two.
            Self::Vote => [ApprovalStatus::Pending, ApprovalStatus::Pending],
            Self::Use => [ApprovalStatus::Allowed, ApprovalStatus::Used],
            Self::Withdraw => [ApprovalStatus::Pending, ApprovalStatus::Cancelled],
        }
    }

    /// Has somebody ask, and brings the question to where the step can be taken.
    async fn prepare(self, store: &SqliteStore) -> ApprovalId {
        let asked = if self == Self::Vote { routed(2) } else { question("ls") };
        let id = store.create_approval(asked).await.unwrap().id;
        if self == Self::Use {
            store.resolve_approval(&id, Decision::AllowOnce, "ann", at(1_400)).await.unwrap();
        }
        id
    }

    async fn take(self, store: &SqliteStore, id: &ApprovalId) -> Result<ApprovalRecord, String> {
        let answer = |decision| PersonsAnswer::new(decision, by(&everybody(), "ann"), at(1_500));
        let taken: Result<ApprovalRecord, ResolveError> = match self {
            Self::Allow | Self::Vote => {
                store.answer_approval(id, answer(Decision::AllowOnce)).await.map(|taken| taken.record)
            }
            Self::Deny => store.answer_approval(id, answer(Decision::Deny)).await.map(|taken| taken.record),
            Self::AllowFromNowOn => {
                let answer = answer(Decision::AllowAlways);
                store.answer_with_grants(id, answer, vec![granted()]).await.map(|(taken, _)| taken.record)
            }
            Self::Use => {
                let used = store.consume_approval(id, &question("ls").digest, at(1_500)).await;
                return used.map_err(|error| error.to_string());
            }
            Self::Withdraw => store.cancel_approval(id, at(1_500)).await,
        };
        taken.map_err(|error| error.to_string())
    }
}

fn granted() -> NewGrant {
    NewGrant {
        agent: "main".into(),
        tool_name: "exec".into(),
        place: GrantPlace::default(),
        question: Asked {
            owner: "builtin".into(),
            hook: "guard".into(),
            severity: Severity::Critical,
            rules: ["git.push".into()].into(),
            title: "Run this?".into(),
        },
        target: GrantTarget::Program { words: vec!["ls".to_owned()] },
        origin: None,
        title: "Run this?".into(),
        created_by: "ann".to_owned(),
        person: None,
        created_at: at(1_500),
        expires_at: at(9_000),
        most_uses: None,
    }
}

/// What the other process does. Run by itself, it takes a step that nobody ends.
#[test]
fn step() {
    let Ok(path) = std::env::var(PATH) else {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::new(folder.path().join("state.db"));
        block_on(async {
            let id = Step::Allow.prepare(&store).await;
            Step::Allow.take(&store, &id).await.unwrap();
        });
        return;
    };
    let Ok(wanted) = std::env::var(STEP) else { return };
    let (step, _) = STEPS.into_iter().find(|(_, name)| *name == wanted).unwrap();
    let store = SqliteStore::new(&path);
    block_on(async {
        let id = store.approvals(ApprovalFilter::All, 1).await.unwrap().remove(0).id;
        let most = fs::metadata(Path::new(&path).with_extension("db-wal")).unwrap().len();
        let room = getrlimit(Resource::Fsize);
        setrlimit(Resource::Fsize, Rlimit { current: Some(most), ..room }).unwrap();
        setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
        println!("TAKEN {}", step.take(&store, &id).await.is_ok());
        setrlimit(Resource::Fsize, room).unwrap();
        println!("TAKEN THEN {}", step.take(&store, &id).await.is_ok());
    });
}

/// A store in which the step can be taken, and whose log stays and is longer than what is written to the trail.
fn prepared(step: Step) -> (TempDir, Connection, ApprovalId) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let id = block_on(step.prepare(&SqliteStore::new(&path)));
    let held = Connection::open(&path).unwrap();
    held.execute("INSERT INTO texts (body) VALUES (zeroblob(400000))", []).unwrap();
    (folder, held, id)
}

fn told(mut command: Command, name: &str, folder: &TempDir) -> Output {
    let test = ["--exact", "killed::step", "--nocapture", "--test-threads=1"];
    command.args(test).env(STEP, name).env(PATH, folder.path().join("state.db")).output().unwrap()
}

#[test]
fn a_step_that_finds_the_disk_full_has_not_happened_and_is_taken_once_there_is_room() {
    for (step, name) in STEPS {
        let (folder, _held, id) = prepared(step);
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]).arg(std::env::current_exe().unwrap());
        let output = told(shell, name, &folder);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(said.contains("TAKEN false") && said.contains("TAKEN THEN true"), "{name}: {output:?}");
        let store = SqliteStore::new(folder.path().join("state.db"));
        block_on(async {
            let found = store.approval(&id).await.unwrap().unwrap();
            assert_eq!(found.state.status(), step.around()[1], "{name}");
            assert_eq!(
                store.grants(9).await.unwrap().len(),
                usize::from(step == Step::AllowFromNowOn),
                "{name}"
            );
            store.verify_audit(None).await.unwrap();
        });
    }
}

#[test]
fn a_step_in_which_a_process_is_killed_has_not_happened_and_can_be_taken() {
    for (step, name) in STEPS {
        let (folder, _held, id) = prepared(step);
        let output = told(Command::new(std::env::current_exe().unwrap()), name, &folder);
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(Signal::XFSZ.as_raw()), "{name}: {output:?}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("TAKEN"), "{name}");

        let store = SqliteStore::new(folder.path().join("state.db"));
        block_on(async {
            let [before, after] = step.around();
            let found = store.approval(&id).await.unwrap().unwrap();
            assert_eq!(found.state.status(), before, "{name}");
            assert!(found.votes.is_empty() && store.grants(9).await.unwrap().is_empty(), "{name}");
            // What people say is in the trail before it counts, so here it is said of what does not.
            let said = async || {
                let all = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
                all.iter().filter(|entry| entry.kind == APPROVAL_ANSWERED).count()
            };
            let lost =
                usize::from(matches!(step, Step::Allow | Step::Deny | Step::AllowFromNowOn | Step::Use));
            assert_eq!(said().await, lost, "{name}");
            store.verify_audit(None).await.unwrap();

            let taken = step.take(&store, &id).await.unwrap();
            assert_eq!(taken.state.status(), after, "{name}");
            assert_eq!(taken.votes.len(), usize::from(step == Step::Vote), "{name}");
            assert_eq!(
                store.grants(9).await.unwrap().len(),
                usize::from(step == Step::AllowFromNowOn),
                "{name}"
            );
            let again = step.take(&store, &id).await;
            assert_eq!(again.is_err(), step == Step::Use, "{name}: what was allowed once is used once");
            assert_eq!(
                store.grants(9).await.unwrap().len(),
                usize::from(step == Step::AllowFromNowOn),
                "{name}"
            );
            store.verify_audit(None).await.unwrap();
        });
    }
}
