//! A process that is killed in the middle of a turn. It is this test binary, run for the one test [`child`]
//! with a folder in its environment.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use backstop_agent::tools::CancelToken;
use backstop_agent::{AgentError, SessionChoice, TurnInput};
use backstop_hooks::hook_fn;
use backstop_hooks::points::{Placement, ToolAfter, ToolAfterEvent};
use backstop_store::{LeaseError, NewInjection, RunOutcome, SqliteStore, Store, Timestamp};
use serde_json::json;

use crate::support::{Bench, answered, assert_whole, roles, says};

const FOLDER: &str = "BACKSTOP_AGENT_TEST_FOLDER";

fn store(folder: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::new(folder.join("state.db")))
}

/// Ends a process however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The turn that is killed. Run by itself, it comes to its end.
#[tokio::test]
async fn child() {
    let folder = std::env::var_os(FOLDER).map(PathBuf::from);
    let own = tempfile::tempdir().unwrap();
    let (path, seconds) = match &folder {
        Some(path) => (path.as_path(), 60),
        None => (own.path(), 0),
    };
    let started = path.join("started");
    let turns = [
        json!({ "text": "Working.", "tool_calls": [
            { "id": "a", "name": "exec", "arguments": { "command": "echo first" } },
            { "id": "b", "name": "exec", "arguments": {
                "command": format!("touch '{}'; sleep {seconds}", started.display()),
            } },
            { "id": "c", "name": "exec", "arguments": { "command": "echo third" } },
        ] }),
        says("done"),
    ];
    let bench = Bench::with(turns, |setup| {
        setup.store = Some(store(path));
        setup.settings.lease = Duration::from_secs(3);
    });
    let session = bench.session().await;
    assert_eq!(bench.say(&session, "go").await.outcome, answered("done"));
    assert!(started.exists());
    assert_whole(&bench.transcript(&session).await);
}

#[tokio::test]
async fn a_session_goes_on_after_its_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let db = store(folder.path());
    let injection = NewInjection {
        session_key: "main".into(),
        owner: "operator".into(),
        text: "REMEMBER".into(),
        placement: Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    db.enqueue_injection(injection, Timestamp::now()).await.unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
        .env(FOLDER, folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut child = Killed(child.unwrap());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !folder.path().join("started").exists() {
        assert!(child.0.try_wait().unwrap().is_none(), "the child ended too early");
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    child.0.kill().unwrap();
    child.0.wait().unwrap();

    let bench = Bench::with([says("going on")], |setup| setup.store = Some(Arc::clone(&db)));
    let session = loop {
        match bench.agent.open_session(SessionChoice::LatestOf("main".into())).await {
            Ok(session) => break session,
            // The dead process's claim runs out by itself.
            Err(AgentError::Lease(LeaseError::Held { .. })) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uattt");
    assert_whole(&messages);
    let results: Vec<String> =
        messages[2..].iter().map(|message| message.tool_results().next().unwrap().visible_text()).collect();
    assert!(results[0].contains("first"));
    assert!(results[1].contains("interrupted") && results[2].contains("interrupted"), "{results:?}");
    let left = messages[1].run_id.clone().unwrap();
    assert!(messages[4].run_id.as_ref() == Some(&left), "results belong to the run that made the calls");
    let run = db.run(session.id(), &left).await.unwrap().unwrap();
    assert_eq!(run.ended.unwrap().outcome, RunOutcome::Interrupted);
    assert_eq!(bench.say(&session, "and now?").await.outcome, answered("going on"));
    // The killed turn's model had read it, so it is not delivered twice.
    assert!(!bench.last_request().contains("REMEMBER"));
}

#[tokio::test]
async fn a_locked_database_ends_the_turn_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let db: Arc<dyn Store> = Arc::new(SqliteStore::with_busy_timeout(&path, Duration::from_millis(100)));
    let write = json!({ "tool_calls": [
        { "name": "write", "arguments": { "path": "a.txt", "content": "x" } },
        { "name": "write", "arguments": { "path": "b.txt", "content": "x" } },
    ] });
    let bench = Bench::with([write, says("going on")], |setup| {
        setup.store = Some(Arc::clone(&db));
        setup.settings.lease = Duration::from_secs(3);
    });
    let session = bench.session().await;
    let lock = Arc::new(Mutex::new(None));
    let holder = Arc::clone(&lock);
    let hook = bench.on::<ToolAfter>(hook_fn(move |_: &ToolAfterEvent, _| {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        *holder.lock().unwrap() = Some(connection);
        Ok(None)
    }));
    let error = bench.agent.turn(&session, TurnInput::user("go"), &CancelToken::new()).await.unwrap_err();
    assert!(error.to_string().contains("is locked") && error.to_string().contains("hint:"), "{error}");
    bench.engine.registry().remove(&hook);
    lock.lock().unwrap().take();

    let deadline = Instant::now() + Duration::from_secs(60);
    let session = loop {
        match bench.agent.open_session(SessionChoice::Resume(session.id().clone())).await {
            Ok(session) => break session,
            Err(AgentError::Lease(_)) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let messages = bench.transcript(&session).await;
    assert_eq!(roles(&messages), "uatt");
    assert_whole(&messages);
    assert!(!bench.folder.path().join("b.txt").exists(), "no tool ran that could not be written down");
    assert_eq!(bench.say(&session, "and now?").await.outcome, answered("going on"));
}
