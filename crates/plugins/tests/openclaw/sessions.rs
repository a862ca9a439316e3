use std::sync::Arc;

use backstop_hooks::OwnerId;
use backstop_plugins::openclaw::{Services, StoreServices};
use backstop_store::{MemoryStore, Session, Store, Timestamp};
use serde_json::{Value, json};

async fn services() -> (StoreServices, Arc<dyn Store>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let now = Timestamp::from_millis(1);
    let session = Session {
        id: "s1".into(),
        key: "chat".into(),
        agent: "main".into(),
        workspace: "/work".to_owned(),
        created_at: now,
        updated_at: now,
        ended: None,
        resumed_from: None,
        meta: json!({}).into(),
    };
    store.create_session(session).await.unwrap();
    let services = StoreServices::new(Arc::clone(&store), |owner| owner.as_str() != "muted");
    (services, store)
}

fn owner(id: &str) -> OwnerId {
    OwnerId::new(id)
}

#[tokio::test]
async fn a_text_for_the_next_turn_is_queued_once_for_each_key() {
    let (services, store) = services().await;
    let memo = owner("memo");
    let text = json!({ "sessionKey": "chat", "text": " note ", "idempotencyKey": "k", "placement": "append_context" });
    let first = services.inject(&memo, text.clone()).await.unwrap();
    assert_eq!(first, json!({ "enqueued": true, "id": "k", "sessionKey": "chat" }));
    let again = services.inject(&memo, text).await.unwrap();
    assert_eq!(again["enqueued"], false);
    let taken = store.take_injections(&"chat".into(), &"r".into(), Timestamp::now()).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].owner, memo);
    for (owner_id, bad) in [
        ("memo", json!({ "sessionKey": "nowhere", "text": "note" })),
        ("memo", json!({ "sessionKey": "chat", "text": " " })),
        ("memo", json!({ "sessionKey": "chat" })),
        ("memo", json!({ "sessionKey": "chat", "text": "note", "ttlMs": -1 })),
        ("memo", json!({ "sessionKey": "chat", "text": "note", "placement": "anywhere" })),
        ("muted", json!({ "sessionKey": "chat", "text": "note" })),
    ] {
        assert!(services.inject(&owner(owner_id), bad.clone()).await.is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_plugin_reads_and_writes_its_own_state_only() {
    let (services, _) = services().await;
    let which = json!({ "sessionKey": "chat", "namespace": "walls" });
    let patch = json!({ "sessionKey": "chat", "namespace": "walls", "value": { "strikes": 2 } });
    services.patch(&owner("memo"), patch).await.unwrap();
    assert_eq!(services.extension(&owner("memo"), which.clone()).await.unwrap(), json!({ "strikes": 2 }));
    assert_eq!(services.extension(&owner("other"), which.clone()).await.unwrap(), Value::Null);
    let unset = json!({ "sessionKey": "chat", "namespace": "walls", "unset": true });
    services.patch(&owner("memo"), unset).await.unwrap();
    assert_eq!(services.extension(&owner("memo"), which).await.unwrap(), Value::Null);
}

#[tokio::test]
async fn values_are_bounded() {
    let (services, _) = services().await;
    let deep = |levels: usize| (1..levels).fold(json!(1), |value, _| json!([value]));
    let put = async |value: Value| {
        let patch = json!({ "sessionKey": "chat", "namespace": "n", "value": value });
        services.patch(&owner("memo"), patch).await
    };
    assert!(put(deep(32)).await.is_ok());
    assert!(put(deep(33)).await.is_err());
    assert!(put(json!("x".repeat(65_536))).await.is_ok());
    assert!(put(json!("x".repeat(65_537))).await.is_err());
    assert!(put(json!(vec![0; 4_095])).await.is_ok());
    assert!(put(json!(vec![0; 4_096])).await.is_err());
    let keys: serde_json::Map<_, _> = (0..513).map(|n| (n.to_string(), json!(0))).collect();
    assert!(put(Value::Object(keys)).await.is_err());
    assert!(put(Value::Null).await.is_ok(), "null is a value");
    for bad in [
        json!({ "sessionKey": "chat", "namespace": "n" }),
        json!({ "sessionKey": "chat", "namespace": "n", "value": 1, "unset": true }),
        json!({ "sessionKey": "nowhere", "namespace": "n", "value": 1 }),
        json!({ "sessionKey": "chat", "namespace": " ", "value": 1 }),
    ] {
        assert!(services.patch(&owner("memo"), bad.clone()).await.is_err(), "{bad}");
    }
}
