//! What is deleted is gone, is said, and is nobody's who still works with it.

use std::time::Duration;

use backstop_hooks::Decision;
use backstop_store::{
    AUDIT_PRUNED, ApprovalFilter, AuditBound, AuditFilter, DeleteError, Deletion, DeletionCause, Expected,
    ExtensionKey, LeaseHolder, NewAuditEntry, NewInjection, PrunableAudit, SESSION_DELETED, SqliteStore,
    Store, TRANSCRIPT_DELETED,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::erasure::found_in_files;
use crate::support::{at, entry, over_all_forms, question, session};

over_all_forms!(
    a_deleted_session_leaves_nothing_but_the_entry_that_says_so,
    a_session_that_a_process_works_in_is_not_deleted,
    a_deleted_transcript_leaves_its_session,
    sessions_are_listed_by_age_with_their_size,
    settled_approvals_go_by_age_and_by_number_and_open_ones_stay,
    the_trail_goes_from_its_beginning_by_age_and_by_number,
    decisions_outlive_what_passed_and_old_heads_hold,
    what_is_kept_longer_holds_up_nothing_that_goes,
);

fn why(cause: DeletionCause) -> Deletion {
    Deletion { cause, by: "tester".to_owned(), at: at(9_000) }
}

async fn fill(store: &dyn Store) {
    for (id, key, created) in [("s1", "chat", 1), ("s2", "chat", 2), ("s3", "other", 3)] {
        store.create_session(session(id, key, created)).await.unwrap();
        let texts = [entry("m1", &format!("first of {id}")), entry("m2", "second")];
        let holder = LeaseHolder::new("p");
        store.lease_session(&id.into(), &holder, Duration::from_millis(10), at(5)).await.unwrap();
        append(store, id, texts.to_vec(), &holder).await;
        store.release_lease(&id.into(), &holder).await.unwrap();
        store.start_run(&id.into(), &"r1".into(), at(5)).await.unwrap();
    }
    let asked = store.create_approval(question("make")).await.unwrap();
    store.resolve_approval(&asked.id, Decision::Deny, "me", at(1_500)).await.unwrap();
}

async fn append(store: &dyn Store, id: &str, texts: Vec<backstop_store::NewEntry>, holder: &LeaseHolder) {
    store.append(&id.into(), holder, texts).await.unwrap();
}

async fn said(store: &dyn Store, kind: &str) -> Vec<Value> {
    let filter = AuditFilter { kind: Some(kind.to_owned()), ..AuditFilter::default() };
    store.audit(&filter, 0, 100).await.unwrap().into_iter().map(|entry| entry.body.to_value()).collect()
}

async fn a_deleted_session_leaves_nothing_but_the_entry_that_says_so(store: &dyn Store) {
    fill(store).await;
    let queued = NewInjection {
        session_key: "other".into(),
        owner: "me".into(),
        text: "later".into(),
        placement: backstop_hooks::points::Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    };
    store.enqueue_injection(queued, at(1)).await.unwrap();
    let extension =
        ExtensionKey { session_key: "other".into(), owner: "me".into(), namespace: "state".to_owned() };
    store.put_extension(&extension, &json!(1).into(), Expected::Any, at(1)).await.unwrap();
    let deleted = store.delete_session(&"s1".into(), why(DeletionCause::Asked)).await.unwrap();
    assert_eq!((deleted.messages, deleted.approvals), (2, 1));
    assert_eq!(deleted.session.id.as_str(), "s1");
    assert!(store.session(&"s1".into()).await.unwrap().is_none());
    assert!(store.transcript(&"s1".into()).await.unwrap().is_empty());
    assert!(store.open_runs(&"s1".into()).await.unwrap().is_empty());
    assert!(store.approvals(ApprovalFilter::All, 9).await.unwrap().is_empty());
    assert_eq!(store.transcript(&"s2".into()).await.unwrap().len(), 2, "others stay");
    let entries = said(store, SESSION_DELETED).await;
    assert_eq!(
        entries,
        [json!({
            "cause": "asked", "by": "tester", "sessionKey": "chat", "agent": "main", "messages": 2, "approvals": 1,
        })]
    );
    store.delete_session(&"s3".into(), why(DeletionCause::Age)).await.unwrap();
    let waiting =
        store.take_injections(&"other".into(), &"r".into(), &["me".into()].into(), at(2)).await.unwrap();
    assert!(waiting.is_empty(), "what was queued for a conversation goes with its last session");
    assert!(store.extension(&extension).await.unwrap().is_none(), "and so does what plugins keep with it");
    let again = store.delete_session(&"s1".into(), why(DeletionCause::Asked)).await;
    assert!(matches!(again, Err(DeleteError::Unknown(_))));
    assert_eq!(said(store, SESSION_DELETED).await.len(), 2, "nothing is said that was not done");
    assert!(verified(store).await);
}

async fn verified(store: &dyn Store) -> bool {
    store.verify_audit(None).await.is_ok()
}

async fn a_session_that_a_process_works_in_is_not_deleted(store: &dyn Store) {
    fill(store).await;
    let holder = LeaseHolder::unique();
    store.lease_session(&"s1".into(), &holder, Duration::from_secs(10), at(8_000)).await.unwrap();
    for refused in [
        store.delete_session(&"s1".into(), why(DeletionCause::Age)).await,
        store.delete_transcript(&"s1".into(), why(DeletionCause::Age)).await,
    ] {
        assert!(matches!(refused, Err(DeleteError::InUse { .. })), "{refused:?}");
    }
    assert_eq!(store.transcript(&"s1".into()).await.unwrap().len(), 2);
    assert!(said(store, SESSION_DELETED).await.is_empty());
    let later = Deletion { at: at(19_000), ..why(DeletionCause::Age) };
    assert!(store.delete_session(&"s1".into(), later).await.is_ok(), "the claim has run out");
}

async fn a_deleted_transcript_leaves_its_session(store: &dyn Store) {
    fill(store).await;
    let deleted = store.delete_transcript(&"s1".into(), why(DeletionCause::Size)).await.unwrap();
    assert_eq!((deleted.messages, deleted.approvals), (2, 1));
    assert!(store.transcript(&"s1".into()).await.unwrap().is_empty());
    assert!(store.session(&"s1".into()).await.unwrap().is_some());
    assert_eq!(said(store, TRANSCRIPT_DELETED).await[0]["cause"], "size");
    assert_eq!(store.stored_size().await.unwrap().sessions, 3);
}

async fn sessions_are_listed_by_age_with_their_size(store: &dyn Store) {
    fill(store).await;
    store.touch_session(&"s1".into(), at(50)).await.unwrap();
    store.create_session(session("empty", "chat", 4)).await.unwrap();
    let ids = |stored: Vec<backstop_store::StoredSession>| {
        stored.into_iter().map(|stored| stored.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(ids(store.stored_sessions(at(100), true, 9).await.unwrap()), ["s2", "s3", "empty", "s1"]);
    assert_eq!(ids(store.stored_sessions(at(100), false, 9).await.unwrap()), ["s2", "s3", "s1"]);
    assert_eq!(ids(store.stored_sessions(at(3), true, 9).await.unwrap()), ["s2"]);
    assert_eq!(ids(store.stored_sessions(at(100), true, 2).await.unwrap()), ["s2", "s3"]);
    let stored = store.stored_sessions(at(100), false, 9).await.unwrap();
    let size = store.stored_size().await.unwrap();
    assert!(stored[0].bytes > 20 && stored[0].messages == 2, "{stored:?}");
    assert_eq!(size.transcript_bytes, stored.iter().map(|stored| stored.bytes).sum::<u64>());
    assert_eq!(size.sessions, 4);
}

async fn settled_approvals_go_by_age_and_by_number_and_open_ones_stay(store: &dyn Store) {
    let mut ids = Vec::new();
    for n in 0..6 {
        let asked = store.create_approval(question(&format!("make {n}"))).await.unwrap();
        if n != 1 {
            store.resolve_approval(&asked.id, Decision::Deny, "me", at(1_500)).await.unwrap();
        }
        ids.push(asked.id);
    }
    let left = async || store.approvals(ApprovalFilter::All, 9).await.unwrap().len();
    let none = store.delete_approvals(Some(at(2_000)), None, 9, why(DeletionCause::Age)).await.unwrap();
    assert_eq!((none, left().await), (0, 6), "their deadline was not before");
    let surplus = store.delete_approvals(None, Some(4), 9, why(DeletionCause::Size)).await.unwrap();
    assert_eq!((surplus, left().await), (1, 5), "of the two oldest, one is open");
    assert!(store.approval(&ids[1]).await.unwrap().is_some());
    let few = store.delete_approvals(Some(at(2_001)), None, 2, why(DeletionCause::Age)).await.unwrap();
    assert_eq!((few, left().await), (2, 3));
    let rest = store.delete_approvals(Some(at(2_001)), None, 9, why(DeletionCause::Age)).await.unwrap();
    assert_eq!((rest, left().await), (2, 1));
    let entries = said(store, backstop_store::APPROVALS_DELETED).await;
    let counts: Vec<&Value> = entries.iter().map(|entry| &entry["approvals"]).collect();
    assert_eq!(counts, [1, 2, 2]);
}

async fn the_trail_goes_from_its_beginning_by_age_and_by_number(store: &dyn Store) {
    let none = AuditBound { most: Some(1), ..AuditBound::default() };
    assert_eq!(store.prunable_audit(none, 9).await.unwrap(), PrunableAudit::default(), "an empty trail");
    for n in 1..=10 {
        store.append_audit(passed(n * 100)).await.unwrap();
    }
    let ask = async |since: Option<i64>, most, limit| {
        let bound = AuditBound { since: since.map(at), most, ..AuditBound::default() };
        let due = store.prunable_audit(bound, limit).await.unwrap();
        assert_eq!((due.decisions, due.first), (0, u64::from(due.entries > 0)));
        (due.last, due.entries)
    };
    assert_eq!(ask(Some(400), None, 99).await, (3, 3));
    assert_eq!(ask(Some(100), None, 99).await, (0, 0));
    assert_eq!(ask(Some(99_999), None, 99).await, (9, 9), "the newest stays");
    assert_eq!(ask(None, Some(10), 99).await, (0, 0));
    assert_eq!(ask(None, Some(4), 99).await, (6, 6));
    assert_eq!(ask(None, Some(4), 5).await, (5, 5), "bounded");
    assert_eq!(ask(Some(300), Some(4), 99).await, (6, 6), "whichever lets more go");
    assert_eq!(ask(Some(900), Some(4), 99).await, (8, 8));
    assert_eq!(ask(None, None, 99).await, (0, 0));
}

/// A receipt of something that passed.
fn passed(millis: i64) -> NewAuditEntry {
    told(millis, "receipt", json!({ "verdict": "pass", "at": millis }))
}

fn told(millis: i64, kind: &str, body: Value) -> NewAuditEntry {
    NewAuditEntry { at: at(millis), kind: kind.to_owned(), session: None, run: None, body: body.into() }
}

async fn decisions_outlive_what_passed_and_old_heads_hold(store: &dyn Store) {
    let decisions = [
        told(2, "receipt", json!({ "verdict": "block" })),
        told(4, "receipt", json!({ "verdict": "pass", "approval": { "resolution": "allow-once" } })),
        told(5, "grant.given", json!({ "by": "ann" })),
        told(6, "unheard.of", json!({})),
        told(7, "receipt", json!({ "verdict": "unheard-of" })),
        told(8, "receipt", json!({})),
        told(9, "receipt", json!({ "verdict": "dropped" })),
        told(9, "receipt", json!({ "verdict": "pass", "steps": [{}, { "passedDespiteFailure": true }] })),
        told(9, "receipt", json!({ "verdict": "pass", "stepsOmitted": 9 })),
    ];
    let others = [passed(1), passed(3), told(5, "heartbeat", json!({}))];
    for other in others {
        store.append_audit(other).await.unwrap();
    }
    for decision in decisions.clone() {
        store.append_audit(decision).await.unwrap();
    }
    for verdict in ["modify", "handled", "observed"] {
        let steps = json!([{ "passedDespiteFailure": false }]);
        let receipt = told(9, "receipt", json!({ "verdict": verdict, "steps": steps }));
        store.append_audit(receipt).await.unwrap();
    }
    store.append_audit(passed(1_000)).await.unwrap();
    let head = store.audit_head().await.unwrap();
    let bound = AuditBound { since: Some(at(100)), decisions_since: Some(at(5)), ..AuditBound::default() };
    let due = store.prunable_audit(bound, 99).await.unwrap();
    assert_eq!((due.entries, due.decisions, due.first, due.last), (8, 2, 1, 15));
    assert_eq!(store.prune_audit(bound, 2, at(2_000), "ann").await.unwrap(), 2, "the oldest first");
    assert_eq!(store.prune_audit(bound, 99, at(2_000), "ann").await.unwrap(), 6);
    assert_eq!(store.prune_audit(bound, 99, at(2_000), "ann").await.unwrap(), 0);
    let left = store.audit(&AuditFilter::default(), 0, 99).await.unwrap();
    let left: Vec<_> = left.iter().filter(|entry| entry.kind != AUDIT_PRUNED).collect();
    let kept = decisions.iter().skip(2).map(|decision| (decision.at, decision.kind.as_str()));
    let expected: Vec<_> = kept.chain([(at(1_000), "receipt")]).collect();
    assert_eq!(left.iter().map(|entry| (entry.at, entry.kind.as_str())).collect::<Vec<_>>(), expected);
    let report = store.verify_audit(Some(head)).await.unwrap();
    assert_eq!((report.pruned, report.missing), (8, 0));
    // Without a bound of their own they stay for good.
    let bound = AuditBound { since: Some(at(99_999)), ..AuditBound::default() };
    assert_eq!(store.prunable_audit(bound, 99).await.unwrap().decisions, 0);
}

async fn what_is_kept_longer_holds_up_nothing_that_goes(store: &dyn Store) {
    for _ in 0..20 {
        store.append_audit(told(1, "grant.given", json!({}))).await.unwrap();
    }
    for _ in 0..5 {
        store.append_audit(passed(1)).await.unwrap();
    }
    store.append_audit(passed(1_000)).await.unwrap();
    // Fewer at a time than there are that stay.
    let bound = AuditBound { since: Some(at(100)), most: Some(1_000), ..AuditBound::default() };
    assert_eq!(store.prune_audit(bound, 3, at(2_000), "ann").await.unwrap(), 3);
    assert_eq!(store.prune_audit(bound, 3, at(2_000), "ann").await.unwrap(), 2);
}

#[tokio::test]
async fn what_was_deleted_is_wiped_from_the_files() {
    const MARK: &str = "unforgettable-7731";
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::new(folder.path().join("state.db"));
    let store: &dyn Store = &store;
    for id in ["s1", "s2"] {
        store.create_session(session(id, "chat", 1)).await.unwrap();
        let holder = LeaseHolder::new("p");
        store.lease_session(&id.into(), &holder, Duration::from_secs(9), at(1)).await.unwrap();
        append(store, id, vec![entry("m1", MARK)], &holder).await;
        store.release_lease(&id.into(), &holder).await.unwrap();
    }
    store.create_approval(question(MARK)).await.unwrap();
    assert!(found_in_files(folder.path(), MARK));
    store.delete_session(&"s1".into(), why(DeletionCause::Asked)).await.unwrap();
    assert!(found_in_files(folder.path(), MARK));
    store.delete_transcript(&"s2".into(), why(DeletionCause::Asked)).await.unwrap();
    assert!(!found_in_files(folder.path(), MARK));
}
