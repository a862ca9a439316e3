//! First answer wins, an allowance is used once, and nothing allows by failing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use backstop_engine::{AskFuture, Asker, Attendance, tool_call_digest};
use backstop_hooks::{Decision, Resolution, TimeoutBehavior};
use backstop_store::{ApprovalFilter, ApprovalRecord, ConsumeError, SqliteStore, Store, Timestamp};

use crate::support::*;

over_both_stores! {
    the_first_answer_wins,
    one_code_lets_one_of_many_parallel_calls_run,
    an_answer_is_for_the_call_that_was_shown,
    an_answer_after_the_deadline_allows_nothing,
}

async fn the_first_answer_wins(store: Arc<dyn Store>) {
    for round in 0..8 {
        let (engine, heard) = asking(Arc::clone(&store), request());
        let call = tokio::spawn(async move { permit(&engine, "ls", &Attendance::Queue).await });
        let row = pending(&store).await;
        let answer = |decision, by: &'static str| {
            let (store, id) = (Arc::clone(&store), row.id.clone());
            tokio::spawn(async move { store.resolve_approval(&id, decision, by, Timestamp::now()).await })
        };
        let (one, other) = if round % 2 == 0 {
            (answer(Decision::Deny, "a"), answer(Decision::AllowOnce, "b"))
        } else {
            (answer(Decision::AllowOnce, "b"), answer(Decision::Deny, "a"))
        };
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert_ne!(one.is_ok(), other.is_ok());
        let verdict = call.await.unwrap();
        let won = one.or(other).unwrap().record;
        let denied = matches!(won.state, backstop_store::ApprovalState::Denied { .. });
        assert_eq!(verdict.permit.is_err(), denied);
        assert_eq!(told(&heard), [if denied { Resolution::Deny } else { Resolution::AllowOnce }]);
    }
}

async fn one_code_lets_one_of_many_parallel_calls_run(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    permit(&engine, "ls", &Attendance::Nobody).await.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    store.allow_later(&row.id, &"me".into(), Duration::from_secs(60), Timestamp::now()).await.unwrap();
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let engine = engine.clone();
            tokio::spawn(async move { permit(&engine, "ls", &Attendance::Nobody).await.permit.is_ok() })
        })
        .collect();
    let mut ran = 0;
    for call in calls {
        ran += u32::from(call.await.unwrap());
    }
    assert_eq!(ran, 1);
}

async fn an_answer_is_for_the_call_that_was_shown(store: Arc<dyn Store>) {
    let (engine, _) = asking(Arc::clone(&store), request());
    let call = tokio::spawn(async move { permit(&engine, "ls", &Human::stares()).await });
    let row = pending(&store).await;
    assert_eq!(row.request.digest, tool_call_digest(&exec("ls")));
    store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.unwrap();
    let other = store.consume_approval(&row.id, &tool_call_digest(&exec("rm")), Timestamp::now()).await;
    assert!(matches!(other, Err(ConsumeError::OtherCall { .. })));
    call.await.unwrap().permit.unwrap();
    let again = store.consume_approval(&row.id, &row.request.digest, Timestamp::now()).await;
    assert!(matches!(again, Err(ConsumeError::NotAllowed { .. })));
}

async fn an_answer_after_the_deadline_allows_nothing(store: Arc<dyn Store>) {
    let (engine, heard) = asking(Arc::clone(&store), waiting(15, TimeoutBehavior::Deny));
    let verdict = permit(&engine, "ls", &Attendance::Queue).await;
    verdict.permit.unwrap_err();
    let row = rows(&store).await.remove(0);
    assert!(store.resolve_approval(&row.id, Decision::AllowOnce, "me", Timestamp::now()).await.is_err());
    assert_eq!(told(&heard), [Resolution::Timeout]);
    assert!(store.approvals(ApprovalFilter::Pending, 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_that_fails_denies() {
    // A folder where the database should be: every operation on it fails.
    let folder = tempfile::TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path()));
    let attendances = [Attendance::Nobody, Attendance::Queue, Human::says(Decision::AllowAlways)];
    for attendance in attendances {
        let (engine, heard) = asking(Arc::clone(&store), waiting(20, TimeoutBehavior::Allow));
        let verdict = permit(&engine, "ls", &attendance).await;
        let said = reason(&verdict);
        assert!(said.contains("could not be asked for"), "{said}");
        // Whoever called is told what failed, and not where it is.
        assert!(!said.contains(folder.path().to_str().unwrap()) && !said.contains('`'), "{said}");
        assert!(verdict.permit.unwrap_err().is_unavailable(), "that is no decision");
        assert_eq!(told(&heard), [Resolution::Cancelled]);
    }
}

#[tokio::test]
async fn a_question_that_can_not_be_recorded_is_asked_of_nobody() {
    struct Asked(AtomicBool);
    impl Asker for Asked {
        fn ask<'a>(&'a self, _: &'a ApprovalRecord) -> AskFuture<'a> {
            self.0.store(true, Ordering::Release);
            Box::pin(std::future::ready(Some(Decision::AllowAlways)))
        }
        fn name(&self) -> &str {
            "asked"
        }
    }
    // A file where the folder of the trail should be.
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    std::fs::write(SqliteStore::trail_of(&path), "no folder").unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(path));
    let asker = Arc::new(Asked(AtomicBool::new(false)));
    let here = Attendance::Present(Arc::clone(&asker) as Arc<dyn Asker>);
    for attendance in [Attendance::Nobody, Attendance::Queue, here] {
        let (engine, heard) = asking(Arc::clone(&store), waiting(20, TimeoutBehavior::Allow));
        let verdict = permit(&engine, "ls", &attendance).await;
        assert!(reason(&verdict).contains("could not be asked for"), "{}", reason(&verdict));
        assert!(verdict.permit.unwrap_err().is_unavailable(), "that is no decision");
        assert_eq!(told(&heard), [Resolution::Cancelled]);
    }
    assert!(!asker.0.load(Ordering::Acquire) && rows(&store).await.is_empty());
}

#[tokio::test]
async fn a_store_that_fails_denies_what_only_it_knows() {
    let folder = tempfile::TempDir::new().unwrap();
    let store: Arc<dyn Store> = Arc::new(SqliteStore::new(folder.path()));
    let engine = backstop_engine::Engine::builder().store(store).shared_decisions(true).build();
    let verdict = permit(&engine, "ls", &Attendance::Nobody).await;
    let said = reason(&verdict);
    assert!(said.contains("can't be read"), "{said}");
    assert!(!said.contains(folder.path().to_str().unwrap()), "{said}");
}
