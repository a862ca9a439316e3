//! What comes of people's answers: grants, words that are kept no longer, and answers for which nobody waits.

use std::path::Path;
use std::time::Duration;

use backstop_hooks::{Decision, Severity, Substitute};
use backstop_store::{
    ANSWERABLE, AllowanceScope, Always, AlwaysScope, ApprovalReason, ApprovalRecord, ApprovalState,
    ApprovalStatus, LeaseHolder, NewApproval, PersonsAnswer, Reach, ResolveError, SqliteStore, Store, Uptime,
    allow_always,
};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::open_questions::wide;
use crate::support::{at, digest, over_all_forms, question};
use crate::votes::{by, everybody, routed};

over_all_forms!(
    an_answer_that_holds_counts_by_the_clock_that_nobody_sets,
    of_what_is_over_no_words_are_kept,
    a_yes_that_nobody_waits_for_is_for_no_later_call,
    what_nobody_waits_for_has_nothing_in_its_place,
    those_who_vote_while_nobody_waits_vote_for_a_later_call,
);

const HOUR: Duration = Duration::from_hours(1);
const ALWAYS: Always = Always { scope: AlwaysScope::Call, ttl: None, times: None };

async fn ask(store: &dyn Store, question: NewApproval) -> ApprovalRecord {
    store.create_approval(question).await.unwrap()
}

async fn an_answer_that_holds_counts_by_the_clock_that_nobody_sets(store: &dyn Store) {
    let Some(now) = Uptime::now() else { return };
    let deadline = Some(now.after(HOUR));
    // The clock was set forward while it waits.
    let asked = ask(store, NewApproval { expires_at: at(2_000), deadline, ..wide("call") }).await;
    let (record, grants) = allow_always(store, &asked.id, &ALWAYS, &"ann".into()).await.unwrap();
    assert_eq!((record.state.status(), grants.len()), (ApprovalStatus::Allowed, 2));
    assert_eq!(store.grants(9).await.unwrap().len(), 2);
}

/// From now on, this column of questions can't be written.
fn spoil(database: &Path, column: &str) {
    let sql = format!(
        "CREATE TRIGGER spoilt BEFORE UPDATE OF {column} ON approvals BEGIN SELECT RAISE(ABORT, 'spoilt'); END"
    );
    Connection::open(database).unwrap().execute_batch(&sql).unwrap();
}

#[tokio::test]
async fn a_denial_counts_and_its_words_are_wiped_or_neither_happens() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store: &dyn Store = &SqliteStore::new(&path);
    let asked = ask(store, question("ls")).await;
    spoil(&path, "text");
    store.resolve_approval(&asked.id, Decision::Deny, "ann", at(1_500)).await.unwrap_err();
    let left = store.approval(&asked.id).await.unwrap().unwrap();
    assert_eq!(left.state, ApprovalState::Pending);
}

#[tokio::test]
async fn an_answer_that_holds_is_written_with_its_grants_or_not_at_all() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store: &dyn Store = &SqliteStore::new(&path);
    let asked = ask(store, wide("call")).await;
    spoil(&path, "status");
    allow_always(store, &asked.id, &ALWAYS, &"ann".into()).await.unwrap_err();
    assert!(store.grants(9).await.unwrap().is_empty());
    let left = store.approval(&asked.id).await.unwrap().unwrap();
    assert_eq!(left.state, ApprovalState::Pending);
}

async fn of_what_is_over_no_words_are_kept(store: &dyn Store) {
    let secret = |command: &str| NewApproval {
        title: "SECRET?".into(),
        reasons: vec![ApprovalReason {
            owner: "o".into(),
            hook: "h".into(),
            title: "SECRET title".into(),
            description: "SECRET why".into(),
            severity: Severity::Info,
            rules: ["a.rule".into()].into(),
            program: Some(vec!["SECRET".to_owned()]),
        }],
        ..question(&format!("SECRET {command}"))
    };
    let used = ask(store, secret("used")).await;
    let never_used = ask(store, secret("never used")).await;
    for asked in [&used, &never_used] {
        store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    }
    store.consume_approval(&used.id, &used.request.digest, at(1_600)).await.unwrap();
    let cancelled = ask(store, secret("cancelled")).await;
    store.cancel_approval(&cancelled.id, at(1_500)).await.unwrap();
    let erased = ask(store, secret("erased")).await;
    store.erase_preview(&erased.id).await.unwrap();
    store.cancel_approval(&erased.id, at(1_500)).await.unwrap();
    let unattended = store.create_unattended_approval(secret("unattended")).await.unwrap();
    let all = [used, never_used, cancelled, erased, unattended];
    store.expire_approvals(at(2_001).after(ANSWERABLE)).await.unwrap();
    for asked in all {
        let kept = store.approval(&asked.id).await.unwrap().unwrap();
        assert_eq!(kept.request.digest, asked.request.digest);
        assert_eq!(kept.request.reasons[0].rules, ["a.rule".into()].into());
        let kept = serde_json::to_string(&kept).unwrap();
        assert!(!kept.contains("SECRET") && !kept.contains("deletes things"), "{kept}");
    }
}

#[tokio::test]
async fn what_an_earlier_version_left_of_words_is_wiped() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    let store: Box<dyn Store> = Box::new(SqliteStore::new(&path));
    let asked = ask(store.as_ref(), NewApproval { title: "SECRET?".into(), ..question("ls") }).await;
    store.cancel_approval(&asked.id, at(1_500)).await.unwrap();
    drop(store);
    // It took the arguments for all that there is.
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE approvals SET has_arguments = 0; PRAGMA user_version = 13").unwrap();
    drop(db);
    let store: Box<dyn Store> = Box::new(SqliteStore::new(&path));
    store.expire_approvals(at(2_001).after(ANSWERABLE)).await.unwrap();
    let kept = store.approval(&asked.id).await.unwrap().unwrap();
    let kept = serde_json::to_string(&kept).unwrap();
    assert!(!kept.contains("SECRET") && !kept.contains("deletes things"), "{kept}");
    let left = "SELECT count(*) FROM approvals WHERE has_arguments = 1";
    let left: i64 = Connection::open(&path).unwrap().query_row(left, [], |row| row.get(0)).unwrap();
    assert_eq!(left, 0);
}

/// A process of this machine that has ended: the number of this one, which began at another time.
fn ended() -> Option<LeaseHolder> {
    let here = LeaseHolder::unique();
    let (process, _began) = here.as_str().rsplit_once(' ')?;
    Some(LeaseHolder::new(format!("{process} 1)"))).filter(LeaseHolder::is_gone)
}

fn scope(of: &str) -> AllowanceScope {
    AllowanceScope {
        agent: "main".into(),
        session_key: "chat".into(),
        workspace: None,
        tool_name: "exec".into(),
        digest: digest(of),
        asked: Vec::new(),
        facts: None,
        route: None,
    }
}

async fn a_yes_that_nobody_waits_for_is_for_no_later_call(store: &dyn Store) {
    let Some(waiter) = ended() else { return };
    for decision in [Decision::AllowOnce, Decision::AllowAlways] {
        let asked = ask(store, NewApproval { waiter: Some(waiter.clone()), ..question("ls") }).await;
        assert!(asked.is_abandoned());
        let refused = store.resolve_approval(&asked.id, decision, "ann", at(1_500)).await;
        assert!(matches!(refused, Err(ResolveError::Abandoned { .. })), "{refused:?}");
        assert_eq!(store.take_allowance(&scope("ls"), at(1_600)).await.unwrap(), None, "nobody said so");
        let record = store.allow_later(&asked.id, &"ann".into(), HOUR, at(1_500)).await.unwrap();
        let ApprovalState::Allowed(allowance) = record.state else { panic!() };
        let later = Reach::LaterCall { until: at(1_500).after(HOUR) };
        assert_eq!((allowance.decision, allowance.reach), (Decision::AllowOnce, later));
        let taken = store.take_allowance(&scope("ls"), at(1_600)).await.unwrap().unwrap();
        assert_eq!(taken.id, asked.id);
        assert_eq!(store.take_allowance(&scope("ls"), at(1_600)).await.unwrap(), None, "once");
    }
    let denied = ask(store, NewApproval { waiter: Some(waiter), ..question("ls") }).await;
    let denied = store.resolve_approval(&denied.id, Decision::Deny, "ann", at(1_500)).await.unwrap();
    assert_eq!(denied.record.state.status(), ApprovalStatus::Denied);
    let waits = ask(store, NewApproval { waiter: Some(LeaseHolder::unique()), ..question("ls") }).await;
    assert!(!waits.is_abandoned());
    store.resolve_approval(&waits.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    assert_eq!(
        store.take_allowance(&scope("ls"), at(1_600)).await.unwrap(),
        None,
        "it is the waiting call's"
    );
}

async fn what_nobody_waits_for_has_nothing_in_its_place(store: &dyn Store) {
    let Some(waiter) = ended() else { return };
    let substitutes = vec![Substitute::Respond];
    let asked = ask(store, NewApproval { waiter: Some(waiter), substitutes, ..question("ls") }).await;
    let answer = PersonsAnswer::respond("three files", "ann", at(1_500)).unwrap();
    let refused = store.answer_approval(&asked.id, answer).await;
    assert!(matches!(refused, Err(ResolveError::Abandoned { .. })), "{refused:?}");
    assert_eq!(store.approval(&asked.id).await.unwrap().unwrap().state, ApprovalState::Pending);
}

async fn those_who_vote_while_nobody_waits_vote_for_a_later_call(store: &dyn Store) {
    let Some(waiter) = ended() else { return };
    let all = everybody();
    let asked = ask(store, NewApproval { waiter: Some(waiter), ..routed(2) }).await;
    let vote = PersonsAnswer::new(Decision::AllowOnce, by(&all, "ann"), at(1_100));
    let refused = store.answer_approval(&asked.id, vote).await;
    assert!(matches!(refused, Err(ResolveError::Abandoned { .. })), "{refused:?}");
    let voted = store.allow_later(&asked.id, &by(&all, "ann"), HOUR, at(1_100)).await.unwrap();
    assert_eq!(voted.state, ApprovalState::TimedOut { at: at(1_100) });
    let allowed = store.allow_later(&asked.id, &by(&all, "bob"), HOUR, at(1_200)).await.unwrap();
    assert_eq!(allowed.state.by(), Some("ann and bob"));
    assert!(matches!(
        allowed.state,
        ApprovalState::Allowed(allowance) if allowance.reach == Reach::LaterCall { until: at(1_200).after(HOUR) }
    ));
}
