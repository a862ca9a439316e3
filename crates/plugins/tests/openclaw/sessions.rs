use std::sync::Arc;

use backstop_hooks::{CallContext, OwnerId};
use backstop_plugins::openclaw::Dialect::OpenClaw;
use backstop_plugins::openclaw::{Answering, EventSession, Extensions, Services, StoreServices};
use backstop_store::{Expected, ExtensionKey, Session, SqliteStore, Store, Timestamp};
use serde_json::{Value, json};

use crate::support::{Asked, Plugins, call, context, engine, trusting};

async fn services() -> (StoreServices, Arc<dyn Store>) {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
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

/// A conversation that a plugin was asked about.
fn session(key: &str) -> EventSession {
    let answering = Answering::default();
    let _open = answering.open(Some(&key.into()));
    answering.session(key).unwrap()
}

fn owner(id: &str) -> OwnerId {
    OwnerId::new(id)
}

#[tokio::test]
async fn a_text_for_the_next_turn_is_queued_once_for_each_key() {
    let (services, store) = services().await;
    let memo = owner("memo");
    let text = json!({ "sessionKey": "chat", "text": " note ", "idempotencyKey": "k", "placement": "append_context" });
    let first = services.inject(&memo, &session("chat"), text.clone()).await.unwrap();
    assert_eq!(first, json!({ "enqueued": true, "id": "k", "sessionKey": "chat" }));
    let again = services.inject(&memo, &session("chat"), text).await.unwrap();
    assert_eq!(again["enqueued"], false);
    let taken = store
        .take_injections(&"chat".into(), &"r".into(), &["memo".into()].into(), Timestamp::now())
        .await
        .unwrap();
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
        let key = bad["sessionKey"].as_str().unwrap();
        assert!(services.inject(&owner(owner_id), &session(key), bad.clone()).await.is_err(), "{bad}");
    }
    let text = json!({ "sessionKey": "chat", "text": "note" });
    assert!(
        services.inject(&memo, &session("other"), text.clone()).await.is_err(),
        "it was asked about another"
    );
    assert_eq!(services.no_injections(&memo), None);
    assert!(services.no_injections(&owner("muted")).unwrap().contains("muted.hooks.allowPromptInjection"));
}

#[tokio::test]
async fn metadata_of_a_text_is_kept_within_the_limits_of_a_value() {
    let (services, store) = services().await;
    let with = async |metadata: Value| {
        let text = json!({ "sessionKey": "chat", "text": "note", "metadata": metadata });
        services.inject(&owner("memo"), &session("chat"), text).await
    };
    let deep = |levels: usize| (1..levels).fold(json!(1), |value, _| json!([value]));
    with(json!({ "kind": "approval" })).await.unwrap();
    with(deep(32)).await.unwrap();
    let refused = with(deep(33)).await.unwrap_err().to_string();
    assert!(refused.contains("`metadata` of an injection") && refused.contains("32 levels"), "{refused}");
    assert!(with(json!("x".repeat(65_537))).await.is_err());
    let large: Vec<String> = (0..5).map(|_| "x".repeat(60_000)).collect();
    assert!(with(json!(large)).await.is_err(), "all of it has a limit as well");
    let taken = store
        .take_injections(&"chat".into(), &"r".into(), &["memo".into()].into(), Timestamp::now())
        .await
        .unwrap();
    assert_eq!(taken.len(), 2);
    assert_eq!(taken[0].metadata.as_ref().unwrap().to_value(), json!({ "kind": "approval" }));
}

#[tokio::test]
async fn nothing_is_stored_for_a_plugin_that_was_closed() {
    let (services, store) = services().await;
    services.close(&owner("memo")).await;
    let text = json!({ "sessionKey": "chat", "text": "note" });
    let patch = json!({ "sessionKey": "chat", "namespace": "n", "value": 1 });
    for id in ["memo", "other"] {
        let injected = services.inject(&owner(id), &session("chat"), text.clone()).await;
        let patched = services.patch(&owner(id), &session("chat"), patch.clone()).await;
        assert_eq!((injected.is_err(), patched.is_err()), (id == "memo", id == "memo"), "{id}");
    }
    let stored = store.extensions(&"chat".into()).await.unwrap();
    assert!(stored.len() == 1 && stored[0].key.owner == owner("other"));
}

#[tokio::test]
async fn a_plugin_reads_and_writes_its_own_state_only() {
    let (services, _) = services().await;
    let read = async |id: &str| services.extensions(&owner(id), &"chat".into()).await.unwrap();
    let patch = json!({ "sessionKey": "chat", "namespace": "walls", "value": { "strikes": 2 } });
    services.patch(&owner("memo"), &session("chat"), patch).await.unwrap();
    assert_eq!(read("memo").await, Extensions::from([("walls".to_owned(), json!({ "strikes": 2 }))]));
    assert_eq!(read("other").await, Extensions::new());
    let unset = json!({ "sessionKey": "chat", "namespace": "walls", "unset": true });
    services.patch(&owner("memo"), &session("chat"), unset).await.unwrap();
    assert_eq!(read("memo").await, Extensions::new());
}

#[tokio::test]
async fn values_are_bounded() {
    let (services, _) = services().await;
    let deep = |levels: usize| (1..levels).fold(json!(1), |value, _| json!([value]));
    let put = async |value: Value| {
        let patch = json!({ "sessionKey": "chat", "namespace": "n", "value": value });
        services.patch(&owner("memo"), &session("chat"), patch).await
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
        json!({ "sessionKey": "other", "namespace": "n", "value": 1 }),
        json!({ "sessionKey": "chat", "namespace": " ", "value": 1 }),
    ] {
        assert!(services.patch(&owner("memo"), &session("chat"), bad.clone()).await.is_err(), "{bad}");
    }
}

/// A plugin that asks for something of the session that its event names in `params`, in each way that there is.
const ASKS: &str = r#"
    api.registerSessionExtension({ namespace: "n", description: "Counts." });
    const asked = [];
    const ask = (sessionKey, wait) => {
        const all = [
            api.enqueueNextTurnInjection({ sessionKey, text: "note" }),
            api.session.workflow.enqueueNextTurnInjection({ sessionKey, text: "note" }),
            api.runtime.system.enqueueSystemEvent("note", { sessionKey }),
            api.session.state.patchSessionExtension({ sessionKey, namespace: "n", value: 1 }),
            api.session.state.patchSessionExtension({ key: sessionKey, namespace: "n", value: 1 }),
        ].map((one) => one.then(() => "done", (error) => error.message));
        return wait ? Promise.all(all) : undefined;
    };
    api.on("before_tool_call", async ({ params: { session, wait } }) => {
        const told = await ask(session, wait);
        return told && { block: true, blockReason: told.join() };
    });
"#;

#[tokio::test(flavor = "multi_thread")]
async fn law_11_a_plugin_touches_the_session_of_the_event_that_it_answers_and_no_other() {
    let asked = Arc::new(Asked::default());
    let plugins = Plugins::with(Arc::<Asked>::clone(&asked));
    let (mine, other) = (
        plugins.register("mine", OpenClaw, ASKS).await.unwrap(),
        plugins.register("other", OpenClaw, ASKS).await.unwrap(),
    );
    let (engine, _) = engine(&[&mine, &other]);
    let tell = async |session: &str, wait: bool| {
        let event = call("exec", json!({ "session": session, "wait": wait }));
        let reviewed = engine.review_tool_call(event, &context(), false).await;
        reviewed
            .blocked
            .and_then(|blocked| blocked.reason)
            .map(|reason| reason.to_string())
            .unwrap_or_default()
    };
    let done = tell("chat", true).await;
    assert_eq!(done.matches("done").count(), 5, "{done}");
    assert_eq!(asked.0.lock().unwrap().len(), 5);
    for stranger in ["elsewhere", "", "Chat", "chat ", "session-1"] {
        let said = tell(stranger, true).await;
        assert_eq!(said.matches("is not that of an event").count(), 5, "{stranger}: {said}");
        assert_eq!(tell(stranger, false).await, "");
    }
    assert_eq!(asked.0.lock().unwrap().len(), 5, "and nothing was asked of the host");
    // What nobody waits for is done as well.
    assert_eq!(tell("chat", false).await, "");
    while asked.0.lock().unwrap().len() < 15 {
        tokio::task::yield_now().await;
    }
    // Nothing is open any more.
    assert!(mine.answering.session("chat").is_none() && other.answering.session("chat").is_none());
}

/// Policies as they are written for the other system: what they keep is there when they ask for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_reads_what_its_plugin_keeps_without_waiting() {
    let (services, store) = services().await;
    let plugins = Plugins::with(Arc::new(services));
    let body = r#"
        api.session.state.registerSessionExtension({ namespace: "workflow", description: "State of the workflow." });
        api.registerTrustedToolPolicy({ id: "gate", description: "Stops where the state says so.", evaluate(event, ctx) {
            const policyState = ctx.getSessionExtension("workflow");
            if (policyState?.block) return { block: true, blockReason: policyState.reason };
            if (ctx.getSessionExtension("nothing") !== undefined) return { block: true, blockReason: "of nobody" };
            return undefined;
        }});
    "#;
    let (mine, other) = (
        plugins.register("mine", OpenClaw, body).await.unwrap(),
        plugins.register("other", OpenClaw, body).await.unwrap(),
    );
    let engine = trusting(&[&mine, &other]);
    let judged = async |key: &str| {
        let context = CallContext { session_key: Some(key.into()), ..context() };
        let reviewed = engine.review_tool_call(call("exec", json!({})), &context, false).await;
        let blocked = reviewed.blocked?;
        Some((blocked.owner.unwrap().to_string(), blocked.reason.unwrap().to_string()))
    };
    assert_eq!(judged("chat").await, None);
    for (id, others) in [("other", "mine"), ("mine", "other")] {
        let key = |owner: &str| ExtensionKey {
            session_key: "chat".into(),
            owner: OwnerId::new(owner),
            namespace: "workflow".to_owned(),
        };
        let value = json!({ "block": true, "reason": "locked" }).into();
        store.put_extension(&key(id), &value, Expected::Any, Timestamp::now()).await.unwrap();
        store.remove_extension(&key(others)).await.unwrap();
        assert_eq!(judged("chat").await, Some((id.to_owned(), "locked".to_owned())));
        assert_eq!(judged("elsewhere").await, None);
    }
    assert_eq!(judged("chat").await.unwrap().0, "mine");
    let context = CallContext { session_key: None, ..context() };
    let reviewed = engine.review_tool_call(call("exec", json!({})), &context, false).await;
    assert!(reviewed.blocked.is_none(), "a call of no conversation has nothing kept with it");
}

#[tokio::test(flavor = "multi_thread")]
async fn law_05_a_policy_that_can_not_read_what_it_keeps_has_failed() {
    // The host keeps nothing: only policies that read it fail.
    for (body, blocks) in [
        ("ctx.getSessionExtension(\"n\"); return undefined;", true),
        ("return undefined;", false),
        ("return Promise.resolve().then(() => { ctx.getSessionExtension(\"n\"); });", true),
    ] {
        let plugins = Plugins::new();
        let body = format!(
            "api.registerTrustedToolPolicy({{ id: \"gate\", description: \"d\", evaluate(event, ctx) {{ {body} }} }});"
        );
        let plugin = plugins.register("mine", OpenClaw, &body).await.unwrap();
        let engine = trusting(&[&plugin]);
        let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
        assert_eq!(reviewed.blocked.is_some(), blocks, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_policy_writes_it_reads_and_what_is_over_reads_nothing() {
    let (services, _) = services().await;
    let plugins = Plugins::with(Arc::new(services));
    let body = r#"
        api.registerSessionExtension({ namespace: "n", description: "Counts." });
        let before;
        api.registerTrustedToolPolicy({ id: "gate", description: "d", async evaluate(event, ctx) {
            let over = "nothing";
            try { before?.("n"); } catch (error) { over = error.message; }
            before = ctx.getSessionExtension;
            const was = await ctx.getSessionExtension("n");
            await api.session.state.patchSessionExtension({ sessionKey: ctx.sessionKey, namespace: "n", value: (was ?? 0) + 1 });
            return { block: true, blockReason: `${was} ${ctx.getSessionExtension("n")} ${over}` };
        }});
    "#;
    let plugin = plugins.register("mine", OpenClaw, body).await.unwrap();
    let engine = trusting(&[&plugin]);
    let said = async || {
        let reviewed = engine.review_tool_call(call("exec", json!({})), &context(), false).await;
        reviewed.blocked.unwrap().reason.unwrap().to_string()
    };
    assert_eq!(said().await, "undefined 1 nothing");
    let again = said().await;
    assert!(again.starts_with("1 2 ") && again.contains("after the policy had answered"), "{again}");
}
