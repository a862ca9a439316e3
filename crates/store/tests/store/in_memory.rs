//! What holds of a store in memory alone.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use backstop_hooks::Decision;
use backstop_store::{
    APPROVAL_ANSWERED, AnswerStore, ApprovalState, ApprovalStatus, AuditFilter, AuditStore as _,
    ProveAuditError, SessionStore as _, SqliteStore, Store,
};
use tempfile::TempDir;

use crate::support::{at, question, session};

#[test]
fn it_needs_no_runtime_and_no_thread() {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let store = SqliteStore::in_memory();
    let mut created = pin!(store.create_session(session("s1", "chat", 1)));
    let done = created.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(done, Poll::Ready(Ok(_))), "it never waits: {done:?}");
    assert_eq!(threads(), before);
    assert_eq!((store.path(), store.trail()), (None, None));
}

#[tokio::test]
async fn each_store_is_one_of_its_own() {
    let (one, other) = (SqliteStore::in_memory(), SqliteStore::in_memory());
    one.create_session(session("s1", "chat", 1)).await.unwrap();
    assert_eq!(other.sessions(9).await.unwrap(), []);
    assert_eq!(other.audit(&AuditFilter::default(), 0, 9).await.unwrap(), []);
}

#[tokio::test]
async fn it_has_no_signed_checkpoints() {
    let store = SqliteStore::in_memory();
    store.check_writable().await.unwrap();
    assert!(matches!(store.audit_keys().await, Err(ProveAuditError::InMemory)));
}

/// An answer whose giver goes away before it is on record does not count, and nothing else waits for it.
#[tokio::test]
async fn an_answer_that_is_dropped_before_it_is_on_record_does_not_count() {
    let folder = TempDir::new().unwrap();
    let trail: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path().join("t.db")));
    let store: Arc<dyn AnswerStore> = Arc::new(SqliteStore::for_answers(Arc::clone(&trail)));
    // Mostly the first; the trail's thread may have been faster.
    let dropped = loop {
        let asked = store.create_approval(question("ls")).await.unwrap();
        let mut answer = store.resolve_approval(&asked.id, Decision::AllowOnce, "me", at(1_100));
        let polled = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(answer);
        if polled.is_pending() {
            break asked;
        }
    };
    let now = store.approval(&dropped.id).await.unwrap().unwrap();
    assert_eq!(now.state, ApprovalState::Pending);
    let answered = store.resolve_approval(&dropped.id, Decision::Deny, "me", at(1_100)).await.unwrap();
    assert!(answered.first);
    assert_eq!(answered.record.state.status(), ApprovalStatus::Denied);
    let last = trail.audit(&AuditFilter::default(), 0, 99).await.unwrap().pop().unwrap();
    assert_eq!((last.kind.as_str(), &last.body.to_value()["decision"]), (APPROVAL_ANSWERED, &"deny".into()));
}
