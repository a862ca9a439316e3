//! Which policy entries name, whoever writes them, and what the trail says of it.

use std::sync::Arc;

use backstop_hooks::Digest;
use backstop_store::{
    AUDIT_PRUNED, AuditBody, AuditBound, AuditEntry, AuditFilter, AuditStore as _, CONFIGURATION_READ,
    Deletion, DeletionCause, DigestKey, Durability, GRANT_REVOKED, MAX_AUDIT_BYTES, NewAuditEntry,
    PolicyInForce, PolicyStore as _, PolicyVersion, SqliteStore, Store,
};
use serde_json::json;
use tempfile::TempDir;

use crate::access_tokens::made;
use crate::grants::{grant, of_call};
use crate::support::{at, over_all_forms, question, session};
use crate::votes::{by, everybody, routed};

over_all_forms! {
    every_entry_names_the_policy_of_whoever_wrote_it,
    what_is_said_by_itself_names_the_policy_too,
    a_policy_is_told_of_once_and_before_whatever_names_it,
    what_tells_of_a_policy_stays_as_long_as_an_entry_names_it,
    entries_are_found_by_the_beginning_of_their_policy,
}

fn version(name: &str) -> PolicyVersion {
    PolicyVersion::new(Digest::of_text("policy", name), json!({ "name": name }).into())
}

fn event(millis: i64) -> NewAuditEntry {
    NewAuditEntry { at: at(millis), kind: "a".to_owned(), session: None, run: None, body: json!({}).into() }
}

async fn entries(store: &dyn Store) -> Vec<AuditEntry> {
    store.audit(&AuditFilter::default(), 0, 1_000).await.unwrap()
}

/// What a transaction can say, of each kind.
async fn all_that_transactions_say(store: &dyn Store) {
    use backstop_hooks::Decision;
    use backstop_store::PersonsAnswer;

    let asked = store.create_approval(question("ls")).await.unwrap();
    store.resolve_approval(&asked.id, Decision::AllowOnce, "ann", at(1_500)).await.unwrap();
    let several = store.create_approval(routed(2)).await.unwrap();
    let people = everybody();
    let vote = PersonsAnswer::new(Decision::AllowOnce, by(&people, "ann"), at(1_500));
    store.answer_approval(&several.id, vote).await.unwrap();
    store.add_grant(grant(of_call())).await.unwrap();
    let all = store.grants(9).await.unwrap();
    store.revoke_grant(&all.first().unwrap().id, "ann", at(2_000)).await.unwrap();
    store.add_access_token(made("agent")).await.unwrap();
    store.create_session(session("s1", "chat", 1)).await.unwrap();
    let why = Deletion { cause: DeletionCause::Age, by: "ann".to_owned(), at: at(2_000) };
    store.delete_session(&"s1".into(), why).await.unwrap();
}

async fn every_entry_names_the_policy_of_whoever_wrote_it(store: &dyn Store) {
    let v1 = version("v1");
    all_that_transactions_say(store.under(v1.clone().into()).as_ref()).await;
    let all = entries(store).await;
    let kinds: Vec<_> = all.iter().map(|entry| entry.kind.as_str()).collect();
    assert!(kinds.len() > 5 && kinds.contains(&GRANT_REVOKED), "{kinds:?}");
    for entry in &all {
        assert_eq!(entry.policy.as_deref(), Some(v1.as_str()), "{entry:?}");
    }
    let told: Vec<_> = all.iter().filter(|entry| entry.kind == CONFIGURATION_READ).collect();
    assert_eq!(told.iter().map(|entry| entry.body.to_value()).collect::<Vec<_>>(), [json!({ "name": "v1" })]);
    assert_eq!(all.first().map(|entry| entry.kind.as_str()), Some(CONFIGURATION_READ));
    // Whoever has no policy names none.
    let asked = store.create_approval(question("rm")).await.unwrap();
    store.cancel_approval(&asked.id, at(1_600)).await.unwrap();
    let unbound = entries(store).await.split_off(all.len());
    assert!(!unbound.is_empty() && unbound.iter().all(|entry| entry.policy.is_none()), "{unbound:?}");
    store.verify_audit(None).await.unwrap();
}

async fn what_is_said_by_itself_names_the_policy_too(store: &dyn Store) {
    let (v1, v2) = (version("v1"), version("v2"));
    let (first, second) = (store.under(v1.clone().into()), store.under(v2.clone().into()));
    let one = first.append_audit(event(1)).await.unwrap();
    assert_eq!((one.kind.as_str(), one.policy.as_deref()), ("a", Some(v1.as_str())));
    second.append_audit_all(vec![event(2), event(3)], Durability::Soon).await.unwrap();
    // Calls that the former configuration still judges.
    let late = first.append_audit(event(4)).await.unwrap();
    assert_eq!((late.kind.as_str(), late.policy.as_deref()), ("a", Some(v1.as_str())));
    let none = store.append_audit(event(5)).await.unwrap();
    assert_eq!(none.policy, None);
    let found: Vec<_> = entries(store).await.into_iter().map(|entry| (entry.kind, entry.policy)).collect();
    let of = |kind: &str, version: &PolicyVersion| (kind.to_owned(), Some(version.as_str().to_owned()));
    let told = CONFIGURATION_READ;
    let expected = vec![
        of(told, &v1),
        of("a", &v1),
        of(told, &v2),
        of("a", &v2),
        of("a", &v2),
        of("a", &v1),
        ("a".to_owned(), None),
    ];
    assert_eq!(found, expected);
    // The store of a store's is that of the last policy that was said.
    let again = first.under(v2.clone().into()).append_audit(event(6)).await.unwrap();
    assert_eq!(again.policy.as_deref(), Some(v2.as_str()));
}

async fn a_policy_is_told_of_once_and_before_whatever_names_it(store: &dyn Store) {
    let v1 = version("v1");
    let bound = store.under(v1.clone().into());
    let body: AuditBody = json!({ "name": "v1", "cause": "the start" }).into();
    let announced = NewAuditEntry { kind: CONFIGURATION_READ.to_owned(), body, ..event(1) };
    let written = bound.append_audit(announced).await.unwrap();
    assert_eq!((written.seq, written.policy.as_deref()), (1, Some(v1.as_str())));
    for n in 2..6 {
        assert_eq!(bound.append_audit(event(n)).await.unwrap().seq, u64::try_from(n).unwrap());
    }
    bound.append_audit_all(Vec::new(), Durability::Soon).await.unwrap();
    assert_eq!(entries(store).await.len(), 5);
}

async fn what_tells_of_a_policy_stays_as_long_as_an_entry_names_it(store: &dyn Store) {
    let (v1, v2) = (store.under(version("v1").into()), store.under(version("v2").into()));
    for n in 1..4 {
        v1.append_audit(event(n)).await.unwrap();
    }
    v2.append_audit(event(10)).await.unwrap();
    let told = NewAuditEntry { kind: CONFIGURATION_READ.to_owned(), ..event(11) };
    v1.append_audit(told.clone()).await.unwrap();
    v1.append_audit(NewAuditEntry { at: at(12), ..told }).await.unwrap();
    v1.append_audit(event(100)).await.unwrap();
    store.append_audit(event(100)).await.unwrap();
    let before = |millis| AuditBound { decisions_since: Some(at(millis)), ..AuditBound::default() };
    store.prune_audit(before(50), 99, at(200), "ann").await.unwrap();
    let left = |entries: Vec<AuditEntry>| -> Vec<_> {
        let left = entries.into_iter().filter(|entry| entry.kind != AUDIT_PRUNED);
        left.map(|entry| (entry.kind, entry.at.as_millis() - at(0).as_millis())).collect()
    };
    let expected = [(CONFIGURATION_READ.to_owned(), 12), ("a".to_owned(), 100), ("a".to_owned(), 100)];
    assert_eq!(left(entries(store).await), expected, "the newest of the one that is named");
    store.prune_audit(before(150), 99, at(200), "ann").await.unwrap();
    assert_eq!(left(entries(store).await), [], "nothing names it any more");
    store.verify_audit(None).await.unwrap();
}

async fn entries_are_found_by_the_beginning_of_their_policy(store: &dyn Store) {
    let (v1, v2) = (version("v1"), version("v2"));
    store.under(v1.clone().into()).append_audit(event(1)).await.unwrap();
    store.under(v2.into()).append_audit(event(2)).await.unwrap();
    let text = NewAuditEntry { body: json!({ "policy": v1.as_str() }).into(), ..event(3) };
    store.append_audit(text).await.unwrap();
    let digits = v1.as_str().strip_prefix("sha256:").unwrap();
    let of = |text: &str, from: usize, count: usize| text.chars().skip(from).take(count).collect::<String>();
    let begins = [of(v1.as_str(), 0, 99), of(v1.as_str(), 0, 12), of(digits, 0, 99), of(digits, 0, 8)];
    for begin in begins.iter().cloned().chain([of(digits, 0, 8).to_uppercase()]) {
        let filter = AuditFilter { policy: Some(begin.clone()), ..AuditFilter::default() };
        let found: Vec<_> =
            store.audit(&filter, 0, 9).await.unwrap().into_iter().map(|entry| entry.seq).collect();
        assert_eq!(found, [1, 2], "{begin}");
        let page = store.audit_page(&filter, backstop_store::AuditPlace::END, 9).await.unwrap();
        assert_eq!(page.entries.len(), 2);
    }
    for other in ["sha256:0000000", "x", &of(digits, 1, 99), "sha256:sha256:"] {
        let filter = AuditFilter { policy: Some(other.to_owned()), ..AuditFilter::default() };
        assert_eq!(store.audit(&filter, 0, 9).await.unwrap(), [], "{other}");
    }
}

#[tokio::test]
async fn what_is_put_in_force_is_named_from_then_on() {
    let store = SqliteStore::in_memory();
    let in_force = PolicyInForce::from(version("v1"));
    let bound = store.under(in_force.clone());
    assert_eq!(bound.append_audit(event(1)).await.unwrap().policy.as_deref(), Some(version("v1").as_str()));
    in_force.change(version("v2"));
    bound.create_approval(question("ls")).await.unwrap();
    assert_eq!(bound.append_audit(event(2)).await.unwrap().policy.as_deref(), Some(version("v2").as_str()));
    let named: Vec<_> = entries(&store).await.into_iter().map(|entry| entry.policy.unwrap()).collect();
    let (v1, v2) = (version("v1").as_str().to_owned(), version("v2").as_str().to_owned());
    assert_eq!(named, [v1.clone(), v1, v2.clone(), v2.clone(), v2]);
}

#[tokio::test]
async fn one_process_after_the_other_tells_of_a_policy_once() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("state.db");
    for n in 1..20 {
        let bound = SqliteStore::new(&path).under(version("v1").into());
        let written = bound.append_audit(event(n)).await.unwrap();
        assert_eq!(
            (written.kind.as_str(), written.at),
            ("a", at(n)),
            "what was handed over, whatever stands before it"
        );
    }
    let store = SqliteStore::new(&path);
    let told = AuditFilter { kind: Some(CONFIGURATION_READ.to_owned()), ..AuditFilter::default() };
    assert_eq!(store.audit(&told, 0, 99).await.unwrap().len(), 1);
}

#[tokio::test]
async fn answers_that_are_kept_elsewhere_name_the_policy_in_the_trail_of_the_store() {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    let answers: Arc<dyn backstop_store::AnswerStore> =
        Arc::new(SqliteStore::for_answers(Arc::clone(&store)));
    let v1 = version("v1");
    let bound = answers.answers_under(v1.clone().into());
    let asked = bound.create_approval(question("ls")).await.unwrap();
    let found = answers.approval(&asked.id).await.unwrap();
    assert!(found.is_some(), "they are the same questions");
    let all = entries(store.as_ref()).await;
    assert!(
        all.len() == 2 && all.iter().all(|entry| entry.policy.as_deref() == Some(v1.as_str())),
        "{all:?}"
    );
}

/// What tells of a policy says which key there is, and its own digests stay as they are.
#[tokio::test]
async fn the_version_stays_comparable_where_digests_are_keyed() {
    let folder = TempDir::new().unwrap();
    let key = Arc::new(DigestKey::create(&folder.path().join("digest.key")).unwrap());
    let store = SqliteStore::in_memory_with_digest_key(Some(Arc::clone(&key)));
    let (named, text) = (Digest::of_text("file", "a"), Digest::of_text("file", "b"));
    // Whoever tells it has keyed these, and the version is computed of them.
    let (text, variables) = (key.keyed(&text), key.keyed(&Digest::of_text("variables", "c")));
    let told = json!({
        "digest": named, "named": { "/a": named }, "plugins": [{ "hash": named }],
        "texts": { "/o.yaml": text }, "variables": variables, "digestKey": key.id(),
    });
    let version = PolicyVersion::new(named, told.clone().into());
    store.under(version.clone().into()).append_audit(event(1)).await.unwrap();
    let all = entries(&store).await;
    let [read, entry] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!(
        (read.policy.as_deref(), entry.policy.as_deref()),
        (Some(version.as_str()), Some(version.as_str()))
    );
    assert_eq!(read.body.to_value(), told);
}

/// Whatever is told of a policy, nothing is kept out by it.
#[tokio::test]
async fn a_policy_of_which_too_much_is_told_keeps_no_entry_out() {
    let folder = TempDir::new().unwrap();
    let large: AuditBody = json!("x".repeat(MAX_AUDIT_BYTES)).into();
    let version = PolicyVersion::new(Digest::of_text("policy", "large"), large);
    for store in [SqliteStore::in_memory(), SqliteStore::new(folder.path().join("state.db"))] {
        let bound = store.under(version.clone().into());
        bound.append_audit(event(1)).await.unwrap();
        bound.create_approval(question("ls")).await.unwrap();
        let last = entries(&store).await.pop().unwrap();
        assert_eq!(last.policy.as_deref(), Some(version.as_str()));
    }
}
