use std::collections::BTreeSet;
use std::time::Duration;

use backstop_hooks::points::Placement;
use backstop_hooks::{Json, RunId, SessionKey};
use backstop_store::{
    EnqueueError, Enqueued, MAX_EXTENSION_BYTES, MAX_IDEMPOTENCY_KEY_CHARS, MAX_INJECTION_CHARS,
    MAX_QUEUED_INJECTIONS, NewInjection, Store,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{at, block_on, memory, over_all_forms, sqlite};

over_all_forms!(
    limits_are_kept,
    a_key_is_queued_once_while_it_waits,
    a_turn_that_fails_loses_nothing,
    what_has_expired_is_dropped,
    metadata_is_kept_as_it_was_within_its_limit,
    what_is_of_others_waits_for_whoever_speaks_for_them,
);

async fn what_is_of_others_waits_for_whoever_speaks_for_them(store: &dyn Store) {
    store.enqueue_injection(note("mine"), at(1)).await.unwrap();
    let theirs = NewInjection { owner: "it's \"other\"".into(), ..note("theirs") };
    store.enqueue_injection(theirs, at(1)).await.unwrap();
    assert_eq!(take(store, "r1", 2).await, ["mine"]);
    assert_eq!(take(store, "r2", 2).await, Vec::<String>::new());
    let owners = BTreeSet::from(["it's \"other\"".into()]);
    let taken = store.take_injections(&"chat".into(), &"r3".into(), &owners, at(2)).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(store.take_injections(&"chat".into(), &"r4".into(), &owners, at(2)).await.unwrap(), []);
    assert_eq!(store.give_back_injections(&"r3".into()).await.unwrap(), 1);
    let nobody = BTreeSet::new();
    assert_eq!(store.take_injections(&"chat".into(), &"r4".into(), &nobody, at(2)).await.unwrap(), []);
}

fn note(text: &str) -> NewInjection {
    NewInjection {
        session_key: "chat".into(),
        owner: "memo".into(),
        text: text.into(),
        placement: Placement::PrependContext,
        idempotency_key: None,
        ttl: None,
        metadata: None,
    }
}

async fn take(store: &dyn Store, run: &str, now: i64) -> Vec<String> {
    let owners = BTreeSet::from(["memo".into()]);
    let taken = store.take_injections(&"chat".into(), &run.into(), &owners, at(now)).await.unwrap();
    taken.iter().map(|injection| injection.text.to_string()).collect()
}

async fn limits_are_kept(store: &dyn Store) {
    let enqueue = async |injection| store.enqueue_injection(injection, at(1)).await;
    assert!(matches!(enqueue(note(" \n ")).await, Err(EnqueueError::Empty)));
    let longest = "é".repeat(MAX_INJECTION_CHARS);
    assert!(matches!(enqueue(note(&format!("{longest}é"))).await, Err(EnqueueError::TooLong(32_769))));
    assert!(enqueue(note(&format!(" {longest} "))).await.is_ok(), "white space around it does not count");
    for bad in [" ".to_owned(), "k".repeat(MAX_IDEMPOTENCY_KEY_CHARS + 1)] {
        let keyed = NewInjection { idempotency_key: Some(bad), ..note("x") };
        assert!(matches!(enqueue(keyed).await, Err(EnqueueError::BadKey)));
    }
    for _ in 1..MAX_QUEUED_INJECTIONS {
        enqueue(note("more")).await.unwrap();
    }
    assert!(matches!(enqueue(note("one too many")).await, Err(EnqueueError::Full { .. })));
    assert!(enqueue(NewInjection { owner: "other".into(), ..note("fits") }).await.is_ok());
    assert!(enqueue(NewInjection { session_key: "other".into(), ..note("fits") }).await.is_ok());
}

async fn a_key_is_queued_once_while_it_waits(store: &dyn Store) {
    let keyed = |owner: &str, ttl| NewInjection {
        owner: owner.into(),
        idempotency_key: Some("k".to_owned()),
        ttl,
        ..note("once")
    };
    let ttl = Some(Duration::from_millis(10));
    let Enqueued::Queued(first) = store.enqueue_injection(keyed("memo", ttl), at(0)).await.unwrap() else {
        panic!("nothing waited");
    };
    let again = store.enqueue_injection(keyed("memo", ttl), at(10)).await.unwrap();
    assert_eq!(again, Enqueued::Duplicate(first));
    let other = store.enqueue_injection(keyed("other", ttl), at(10)).await.unwrap();
    assert!(matches!(other, Enqueued::Queued(_)), "keys of two owners have nothing to do with each other");
    let expired = store.enqueue_injection(keyed("memo", None), at(11)).await.unwrap();
    assert!(matches!(expired, Enqueued::Queued(_)), "the first one waits no more");
}

async fn a_turn_that_fails_loses_nothing(store: &dyn Store) {
    let last = NewInjection { placement: Placement::AppendContext, ..note("two") };
    store.enqueue_injection(note("one"), at(1)).await.unwrap();
    store.enqueue_injection(last, at(2)).await.unwrap();
    assert_eq!(take(store, "r1", 3).await, ["one", "two"]);
    assert!(take(store, "r2", 3).await.is_empty(), "another run has them");
    assert_eq!(take(store, "r1", 3).await, ["one", "two"], "a retry of the same run");
    assert_eq!(store.give_back_injections(&"r1".into()).await.unwrap(), 2);
    assert_eq!(take(store, "r2", 4).await, ["one", "two"]);
    assert_eq!(store.confirm_injections(&"r1".into()).await.unwrap(), 0, "no longer that run's");
    assert_eq!(store.confirm_injections(&"r2".into()).await.unwrap(), 2);
    assert_eq!(store.give_back_injections(&"r2".into()).await.unwrap(), 0);
    assert!(take(store, "r3", 5).await.is_empty());
}

async fn what_has_expired_is_dropped(store: &dyn Store) {
    let short = NewInjection { ttl: Some(Duration::from_millis(10)), ..note("short") };
    store.enqueue_injection(short.clone(), at(0)).await.unwrap();
    store.enqueue_injection(note("long"), at(0)).await.unwrap();
    assert_eq!(take(store, "r1", 11).await, ["long"]);
    store.enqueue_injection(short, at(20)).await.unwrap();
    assert_eq!(take(store, "r2", 30).await, ["short"], "the last moment counts");
}

async fn metadata_is_kept_as_it_was_within_its_limit(store: &dyn Store) {
    let with = |metadata| NewInjection { metadata: Some(Json::new(metadata)), ..note("x") };
    let values = [json!(null), json!({ "a": [1, "b"] }), json!("x".repeat(MAX_EXTENSION_BYTES - 2))];
    for value in &values {
        store.enqueue_injection(with(value.clone()), at(5)).await.unwrap();
    }
    let large = with(json!("x".repeat(MAX_EXTENSION_BYTES - 1)));
    let refused = store.enqueue_injection(large, at(5)).await;
    assert!(
        matches!(refused, Err(EnqueueError::MetadataTooLarge(bytes)) if bytes == MAX_EXTENSION_BYTES + 1)
    );
    let ttl = Some(Duration::from_millis(30));
    store.enqueue_injection(NewInjection { ttl, ..note("bare") }, at(6)).await.unwrap();
    let owners = BTreeSet::from(["memo".into()]);
    let taken = store.take_injections(&"chat".into(), &"r1".into(), &owners, at(7)).await.unwrap();
    let metadata: Vec<_> = taken.iter().map(|one| one.metadata.as_ref().map(Json::to_value)).collect();
    let [null, object, text] = values.map(Some);
    assert_eq!(metadata, [null, object, text, None]);
    let last = taken.last().unwrap();
    assert_eq!((last.created_at, last.ttl()), (at(6), ttl));
    assert_eq!(taken[0].ttl(), None);
}

#[derive(Clone, Copy, Debug)]
enum Act {
    Enqueue,
    Take(u8),
    Confirm(u8),
    GiveBack(u8),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => Just(Act::Enqueue),
        2 => (0..3_u8).prop_map(Act::Take),
        1 => (0..3_u8).prop_map(Act::Confirm),
        1 => (0..3_u8).prop_map(Act::GiveBack),
    ]
}

/// Each injection is delivered exactly once, whatever happens before.
async fn drain_is_exact(store: &dyn Store, acts: &[Act]) -> Result<(), TestCaseError> {
    let key = SessionKey::new("chat");
    let run = |n: u8| RunId::new(format!("r{n}"));
    let mut queued = BTreeSet::new();
    let mut held: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); 4];
    let mut delivered = BTreeSet::new();
    for act in acts.iter().copied().chain((0..3).map(Act::GiveBack)).chain([Act::Take(3), Act::Confirm(3)]) {
        match act {
            Act::Enqueue => match store.enqueue_injection(note("x"), at(1)).await {
                Ok(Enqueued::Queued(seq)) => prop_assert!(queued.insert(seq)),
                Ok(Enqueued::Duplicate(_)) => prop_assert!(false, "it has no key"),
                Err(error) => prop_assert!(matches!(error, EnqueueError::Full { .. }), "{error}"),
            },
            Act::Take(n) => {
                let owners = BTreeSet::from(["memo".into()]);
                let taken = store.take_injections(&key, &run(n), &owners, at(2)).await.unwrap();
                held[usize::from(n)].extend(taken.iter().map(|injection| injection.seq));
            }
            Act::Confirm(n) => {
                let confirmed = store.confirm_injections(&run(n)).await.unwrap();
                let mine = std::mem::take(&mut held[usize::from(n)]);
                prop_assert_eq!(confirmed, mine.len());
                for seq in mine {
                    prop_assert!(delivered.insert(seq), "delivered twice");
                }
            }
            Act::GiveBack(n) => {
                let given = store.give_back_injections(&run(n)).await.unwrap();
                prop_assert_eq!(given, std::mem::take(&mut held[usize::from(n)]).len());
            }
        }
    }
    prop_assert_eq!(delivered, queued, "lost");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn drain_never_loses_nor_doubles(acts in prop::collection::vec(act(), 0..40)) {
        block_on(async {
            drain_is_exact(&*memory().store, &acts).await?;
            drain_is_exact(&*sqlite().store, &acts).await
        })?;
    }
}
