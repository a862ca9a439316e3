use std::collections::BTreeSet;

use backstop_hooks::points::Placement;
use backstop_store::{
    Enqueued, Expected, ExtensionError, ExtensionKey, Forget, Forgotten, MAX_EXTENSION_BYTES, MAX_EXTENSIONS,
    MAX_NAMESPACE_CHARS, NewInjection, Store,
};
use serde_json::json;

use crate::support::{at, over_all_forms};

over_all_forms!(
    limits_of_extensions_are_kept,
    a_value_belongs_to_its_owner,
    no_change_is_lost,
    revisions_are_never_used_twice,
    an_owner_is_forgotten_with_what_waits,
);

fn key(session: &str, owner: &str, namespace: &str) -> ExtensionKey {
    ExtensionKey { session_key: session.into(), owner: owner.into(), namespace: namespace.to_owned() }
}

async fn limits_of_extensions_are_kept(store: &dyn Store) {
    let any = Expected::Any;
    for bad in [" ".to_owned(), String::new(), "n".repeat(MAX_NAMESPACE_CHARS + 1)] {
        let refused = store.put_extension(&key("chat", "memo", &bad), &json!(1).into(), any, at(1)).await;
        assert!(matches!(refused, Err(ExtensionError::BadNamespace)));
    }
    let longest = "x".repeat(MAX_EXTENSION_BYTES - 2);
    store.put_extension(&key("chat", "memo", "n0"), &json!(longest).into(), any, at(1)).await.unwrap();
    let longer = json!(format!("{longest}x")).into();
    let refused = store.put_extension(&key("chat", "memo", "n0"), &longer, any, at(1)).await;
    assert!(matches!(refused, Err(ExtensionError::TooLarge(_))));
    for number in 1..MAX_EXTENSIONS {
        store
            .put_extension(&key("chat", "memo", &format!("n{number}")), &json!(1).into(), any, at(1))
            .await
            .unwrap();
    }
    let refused = store.put_extension(&key("chat", "memo", "more"), &json!(1).into(), any, at(1)).await;
    assert!(matches!(refused, Err(ExtensionError::Full { .. })));
    store.put_extension(&key("chat", "memo", "n1"), &json!(2).into(), any, at(1)).await.unwrap();
    store.put_extension(&key("chat", "other", "more"), &json!(1).into(), any, at(1)).await.unwrap();
    store.put_extension(&key("other", "memo", "more"), &json!(1).into(), any, at(1)).await.unwrap();
}

async fn a_value_belongs_to_its_owner(store: &dyn Store) {
    for (owner, value) in [("memo", 1), ("other", 2)] {
        let value = json!({ "n": value }).into();
        store.put_extension(&key("chat", owner, "state"), &value, Expected::Any, at(3)).await.unwrap();
    }
    let found = store.extension(&key("chat", "memo", "state")).await.unwrap().unwrap();
    assert_eq!((found.value.to_value(), found.updated_at), (json!({ "n": 1 }), at(3)));
    assert!(store.extension(&key("chat", "memo", "State")).await.unwrap().is_none());
    let all = store.extensions(&"chat".into()).await.unwrap();
    let owners: Vec<_> = all.iter().map(|extension| extension.key.owner.to_string()).collect();
    assert_eq!(owners, ["memo", "other"]);
    assert!(store.remove_extension(&key("chat", "memo", "state")).await.unwrap());
    assert!(!store.remove_extension(&key("chat", "memo", "state")).await.unwrap());
    assert!(store.extension(&key("chat", "other", "state")).await.unwrap().is_some());
}

async fn no_change_is_lost(store: &dyn Store) {
    let key = key("chat", "memo", "state");
    let put =
        async |value: i32, expected| store.put_extension(&key, &json!(value).into(), expected, at(1)).await;
    let first = put(1, Expected::Absent).await.unwrap();
    let Err(ExtensionError::Conflict { revision, .. }) = put(2, Expected::Absent).await else {
        panic!("there was a value");
    };
    assert_eq!(revision, Some(first));
    let second = put(2, Expected::Revision(first)).await.unwrap();
    assert!(matches!(put(3, Expected::Revision(first)).await, Err(ExtensionError::Conflict { .. })));
    assert!(second > first);
    assert_eq!(store.extension(&key).await.unwrap().unwrap().value.to_value(), json!(2));
}

async fn revisions_are_never_used_twice(store: &dyn Store) {
    let key = key("chat", "memo", "state");
    let mut seen = BTreeSet::new();
    for _ in 0..3 {
        let revision = store.put_extension(&key, &json!(1).into(), Expected::Any, at(1)).await.unwrap();
        assert!(seen.insert(revision));
        store.remove_extension(&key).await.unwrap();
    }
}

async fn an_owner_is_forgotten_with_what_waits(store: &dyn Store) {
    for (session, owner) in [("chat", "memo"), ("room", "memo"), ("chat", "other")] {
        store.put_extension(&key(session, owner, "s"), &json!(1).into(), Expected::Any, at(1)).await.unwrap();
        let queued = store.enqueue_injection(
            NewInjection {
                session_key: session.into(),
                owner: owner.into(),
                text: "note".into(),
                placement: Placement::PrependContext,
                idempotency_key: None,
                ttl: None,
                metadata: None,
            },
            at(1),
        );
        assert!(matches!(queued.await.unwrap(), Enqueued::Queued(_)));
    }
    let reset = store.forget_owner(&"memo".into(), &Forget::Session("chat".into())).await.unwrap();
    assert_eq!(reset, Forgotten { extensions: 1, injections: 1 });
    // What a run has taken that was killed would be given back.
    let owners = BTreeSet::from(["memo".into(), "other".into()]);
    store.take_injections(&"room".into(), &"killed".into(), &owners, at(2)).await.unwrap();
    let removed = store.forget_owner(&"memo".into(), &Forget::Everything).await.unwrap();
    assert_eq!(removed, Forgotten { extensions: 1, injections: 1 });
    assert_eq!(store.give_back_injections(&"killed".into()).await.unwrap(), 0);
    assert!(store.extension(&key("chat", "other", "s")).await.unwrap().is_some());
    assert_eq!(store.take_injections(&"chat".into(), &"run".into(), &owners, at(2)).await.unwrap().len(), 1);
}
