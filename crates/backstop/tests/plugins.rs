//! Sets of plugins in a host: which hosts let their hooks stand, and that one set takes the place of another whole.

#![cfg(feature = "plugins")]
#![expect(clippy::unwrap_used, reason = "helpers of tests may fail loudly")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use backstop::Backstop;
use backstop::engine::{Engine, RegisterError, Snapshot};
use backstop::hooks::points::ToolCallEvent;
use backstop::hooks::{CallContext, Params};
use backstop::plugins::Home;
use backstop::store::{Session, SqliteStore, Store, Timestamp};
use serde_json::json;

/// Installs a plugin of the reference's dialect in place of what has its id.
fn install(home: &Path, id: &str, register: &str) {
    let source = tempfile::tempdir().unwrap();
    let manifest = json!({ "id": id, "version": "1", "kind": "script", "entry": "a.js", "api": "openclaw" });
    std::fs::write(source.path().join("backstop.plugin.json"), manifest.to_string()).unwrap();
    let code = format!("export default {{ id: '{id}', register(api) {{ {register} }} }};");
    std::fs::write(source.path().join("a.js"), code).unwrap();
    let home = Home::new(home);
    let staged = home.stage(source.path()).unwrap();
    let hash = staged.package.hash;
    home.install(staged, hash, "a test", 1).unwrap();
}

/// Two hooks that write down which code they are, and one that takes its time between them.
fn marks(version: usize) -> String {
    format!(
        "const mark = (name) => (event) => ({{ params: {{ ...event.params, [name]: {version} }} }});
         api.on('before_tool_call', mark('first'), {{ priority: 9 }});
         api.on('before_tool_call', () => new Promise((done) => setTimeout(done, 3)), {{ priority: 5 }});
         api.on('before_tool_call', mark('last'), {{ priority: 1 }});
         api.registerTool({{ name: 'tool_{version}', description: '', parameters: {{}}, execute: () => 'x' }});"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_is_judged_by_exactly_one_set_while_sets_change() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "marks", &marks(0));
    let mut backstop = Backstop::builder().plugins(folder.path()).build().await.unwrap();
    let (over, judged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let (engine, over, judged) = (backstop.engine().clone(), Arc::clone(&over), Arc::clone(&judged));
            tokio::spawn(async move {
                let mut latest = 0;
                while !over.load(Ordering::Acquire) {
                    let event = ToolCallEvent::new("exec", Params::default());
                    let reviewed = engine.review_tool_call(event, &CallContext::default(), false).await;
                    assert!(reviewed.blocked.is_none(), "{:?}", reviewed.blocked);
                    let params = reviewed.event.params;
                    assert_eq!(params.len(), 2, "hooks were lost or doubled: {params:?}");
                    let marks =
                        ["first", "last"].map(|mark| params.get(mark).and_then(serde_json::Value::as_u64));
                    assert_eq!(marks[0], marks[1], "two sets judged one call");
                    // A caller never goes back to a set that it has seen the end of.
                    assert!(marks[0].unwrap() >= latest);
                    latest = marks[0].unwrap();
                    judged.fetch_add(1, Ordering::AcqRel);
                }
                latest
            })
        })
        .collect();
    for version in 1..=5 {
        let enough = judged.load(Ordering::Acquire) + 8;
        while judged.load(Ordering::Acquire) < enough {
            tokio::task::yield_now().await;
        }
        install(folder.path(), "marks", &marks(version));
        assert_eq!(backstop.reload_plugins().await.unwrap(), []);
        let tools = backstop.toolbox();
        assert!(tools.definition(&format!("tool_{version}")).is_some());
        assert!(tools.definition(&format!("tool_{}", version - 1)).is_none(), "it is gone");
        // What can't be had changes nothing.
        install(folder.path(), "bad", "api.on('no_such_point', () => {});");
        assert!(backstop.reload_plugins().await.is_err());
        assert!(backstop.toolbox().definition(&format!("tool_{version}")).is_some());
        let home = Home::new(folder.path());
        home.remove(&home.find("bad").unwrap().id).unwrap();
    }
    let enough = judged.load(Ordering::Acquire) + 8;
    while judged.load(Ordering::Acquire) < enough {
        tokio::task::yield_now().await;
    }
    over.store(true, Ordering::Release);
    for caller in callers {
        assert_eq!(caller.await.unwrap(), 5, "the last set is in place");
    }
    assert_eq!(
        backstop.engine().registry().list().iter().filter(|meta| meta.owner.as_str() == "marks").count(),
        3
    );
    backstop.shut_down().await;
}

/// Stores a value with each conversation that a call is of, and a text for its next turn; writes down why it was to clean up.
const KEEPS: &str = "
    let reasons = [], kept;
    const told = (who) => (why) => void reasons.push([who, why.reason, why.sessionKey].join(' '));
    api.registerSessionExtension({ namespace: 'n', description: 'd', cleanup: told('extension') });
    api.registerRuntimeLifecycle({ id: 'l', cleanup: (why) => { told('lifecycle')(why); if (why.reason === 'delete') throw new Error('no'); } });
    api.on('before_tool_call', async (event, { sessionKey }) => {
        if (event.toolName === `reasons_${api.id}`) return { block: true, blockReason: reasons.join() };
        await api.session.state.patchSessionExtension({ sessionKey, namespace: 'n', value: event.params.value });
        await api.enqueueNextTurnInjection({ sessionKey, text: `a text of ${sessionKey}` });
    });";

/// A tool call in a conversation; why it was blocked.
async fn called(engine: &Engine, session: &str, tool: &str) -> Option<String> {
    let params: Params = serde_json::from_value(json!({ "value": 7 })).unwrap();
    let call = CallContext { session_key: Some(session.into()), ..CallContext::default() };
    let reviewed = engine.review_tool_call(ToolCallEvent::new(tool, params), &call, false).await;
    reviewed.blocked.map(|blocked| blocked.reason.unwrap().to_string())
}

/// What plugins keep with a conversation: values, and texts for its next turn.
async fn kept(store: &Arc<dyn Store>, session: &str) -> (usize, usize) {
    let (key, run) = (session.into(), "somebody else".into());
    let values = store.extensions(&key).await.unwrap().len();
    let owners = ["told".into(), "stays".into()].into();
    let texts = store.take_injections(&key, &run, &owners, Timestamp::now()).await.unwrap().len();
    store.give_back_injections(&run).await.unwrap();
    (values, texts)
}

/// A store with these conversations.
async fn conversations(keys: &[&str]) -> Arc<dyn Store> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::in_memory());
    for key in keys {
        let now = Timestamp::now();
        let session = Session {
            id: format!("session of {key}").into(),
            key: (*key).into(),
            agent: "main".into(),
            workspace: "/work".to_owned(),
            created_at: now,
            updated_at: now,
            ended: None,
            resumed_from: None,
            meta: json!({}).into(),
        };
        store.create_session(session).await.unwrap();
    }
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_keeps_with_a_conversation_goes_with_it() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "told", KEEPS);
    let store = conversations(&["reset", "other"]).await;
    let backstop =
        Backstop::builder().plugins(folder.path()).store(Arc::clone(&store)).build().await.unwrap();
    for session in ["reset", "other"] {
        assert_eq!(called(backstop.engine(), session, "exec").await, None);
        assert_eq!(kept(&store, session).await, (1, 1));
    }
    use backstop::plugins::CleanupReason::{Delete, Reset};
    assert_eq!(backstop.clean_up_session(Reset, &"reset".into()).await, []);
    assert_eq!(kept(&store, "reset").await, (0, 0), "what it kept is gone");
    assert_eq!(kept(&store, "other").await, (1, 1), "with this conversation, and no other");
    let faults = backstop.clean_up_session(Delete, &"other".into()).await;
    assert!(
        faults.len() == 1
            && faults[0].to_string().contains("lifecycle `l` of plugin `told` did not clean up")
    );
    let reasons = called(backstop.engine(), "other", "reasons_told").await.unwrap();
    let each = [
        "extension reset reset",
        "lifecycle reset reset",
        "extension delete other",
        "lifecycle delete other",
    ];
    assert!(reasons.contains(&each.join(",")), "{reasons}");
    backstop.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_plugin_keeps_is_deleted_when_it_is_switched_off_for_every_host_and_nothing_is_written_after()
{
    for by_configuration in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        install(folder.path(), "told", KEEPS);
        install(folder.path(), "stays", KEEPS);
        let store = conversations(&["chat"]).await;
        let build = |config: &str| {
            let types = backstop::HookTypes::built_in(&[]);
            let source =
                backstop::config::Source::new(backstop::config::LayerKind::Operator, "a.yaml", config);
            let loaded = backstop::load_sources(&[source], &types, &|_| None).unwrap();
            Backstop::builder().config(loaded).plugins(folder.path()).store(Arc::clone(&store)).build()
        };
        let mut old = build("{}").await.unwrap();
        old.start_plugins().await;
        assert_eq!(called(old.engine(), "chat", "exec").await, None);
        assert_eq!(kept(&store, "chat").await, (2, 2));
        // The next set is in place, and somebody still asks the old code.
        let asked = old.engine().clone();
        let snapshot = asked.registry().snapshot();
        let next = if by_configuration {
            let mut next = build("plugins: {entries: {told: {enabled: false}}}").await.unwrap();
            assert_eq!(old.hand_over(&mut next).await, []);
            next
        } else {
            let home = Home::new(folder.path());
            home.enable(&home.find("told").unwrap().id, false).unwrap();
            assert_eq!(old.reload_plugins().await.unwrap(), []);
            build("{}").await.unwrap()
        };
        // Another host may have a plugin loaded that only this configuration switches off, and use the same store.
        let stays = if by_configuration { 2 } else { 1 };
        assert_eq!(kept(&store, "chat").await, (stays, stays), "by configuration: {by_configuration}");
        let reason = if by_configuration { "restart" } else { "disable" };
        let back = |registry: &mut Snapshot| {
            *registry = Snapshot::clone(&snapshot);
            Ok::<_, RegisterError>(())
        };
        asked.registry().update(back).unwrap();
        let told_values = || async {
            let values = store.extensions(&"chat".into()).await.unwrap();
            values.into_iter().filter(|value| value.key.owner.as_str() == "told").collect::<Vec<_>>()
        };
        let values = told_values().await;
        assert_eq!(values.len(), stays - 1);
        let told = called(&asked, "chat", "reasons_told").await.unwrap();
        assert!(told.contains(&format!("lifecycle {reason}")), "{told}");
        let refused = called(&asked, "chat", "exec").await.unwrap();
        assert!(refused.contains("told"), "its gate fails, and failing is not passing: {refused}");
        assert_eq!(kept(&store, "chat").await.0, stays, "the old code writes nothing any more");
        assert_eq!(told_values().await, values, "by configuration: {by_configuration}");
        old.shut_down().await;
        next.shut_down().await;
    }
}

#[tokio::test]
async fn what_a_plugin_keeps_that_was_switched_off_while_no_host_ran_is_deleted_by_the_next_host() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "told", KEEPS);
    let store = conversations(&["chat"]).await;
    let configured = |config: &str| {
        let types = backstop::HookTypes::built_in(&[]);
        let source = backstop::config::Source::new(backstop::config::LayerKind::Operator, "a.yaml", config);
        let loaded = backstop::load_sources(&[source], &types, &|_| None).unwrap();
        Backstop::builder().config(loaded).plugins(folder.path()).store(Arc::clone(&store)).build()
    };
    let build = || configured("{}");
    let host = build().await.unwrap();
    called(host.engine(), "chat", "exec").await;
    host.shut_down().await;
    let mut host = build().await.unwrap();
    host.start_plugins().await;
    host.shut_down().await;
    assert_eq!(kept(&store, "chat").await, (1, 1), "a plugin that is on keeps what it has across a restart");
    let injects = |host: &Backstop| host.engine().registry().snapshot().injecting_owners().contains("told");
    let mut host = configured("plugins: {entries: {told: {enabled: false}}}").await.unwrap();
    host.start_plugins().await;
    assert!(!injects(&host), "what it left is not handed to the model by a host in which it is off");
    host.shut_down().await;
    assert_eq!(kept(&store, "chat").await, (1, 1), "a host with another configuration may have it loaded");
    let other = build().await.unwrap();
    assert!(injects(&other));
    other.shut_down().await;
    let home = Home::new(folder.path());
    home.enable(&home.find("told").unwrap().id, false).unwrap();
    let mut host = build().await.unwrap();
    assert_eq!(kept(&store, "chat").await, (1, 1), "a program that only judges deletes nothing");
    host.start_plugins().await;
    assert_eq!(kept(&store, "chat").await, (0, 0));
    host.shut_down().await;
}

/// A gate at a point that no host of this build fires is an error that names both. One that only hosts of other
/// processes fire guards them there, and waits here like one that watches.
#[tokio::test]
async fn law_07_a_gate_that_nobody_fires_is_an_error_and_one_of_another_host_waits() {
    let agent = || vec![backstop::agent::host_profile()];
    let server = || backstop::server_hosts(&backstop::gateway::inspect::HookSettings::default(), false);
    let daemon = || backstop::server_hosts(&backstop::gateway::inspect::HookSettings::default(), true);
    for (host, hosts, unfired, waiting) in [
        ("agent", agent(), "message_sending", "gateway_start"),
        ("gateway", server(), "reply_payload_sending", "before_agent_run"),
        ("gateway", server(), "message_sending", "before_reset"),
        ("daemon", daemon(), "reply_payload_sending", "before_reset"),
    ] {
        for (point, is_unfired) in [(unfired, true), (waiting, false)] {
            let folder = tempfile::tempdir().unwrap();
            install(folder.path(), "mine", &format!("api.on('{point}', () => undefined);"));
            let config = "plugins: {entries: {mine: {hooks: {allowConversationAccess: true}}}}";
            let types = backstop::HookTypes::built_in(&[]);
            let source =
                backstop::config::Source::new(backstop::config::LayerKind::Operator, "a.yaml", config);
            let loaded = backstop::load_sources(&[source], &types, &|_| None).unwrap();
            let built =
                Backstop::builder().config(loaded).hosts(hosts.clone()).plugins(folder.path()).build().await;
            match (is_unfired, built) {
                (true, Err(error)) => {
                    let said = error.to_string();
                    assert!(said.contains("`mine`") && said.contains(point), "{host}: {said}");
                }
                (false, Ok(backstop)) => {
                    let (_, seated) = &backstop.plugins()[0];
                    assert!(seated.hooks.is_empty(), "{host}");
                    assert_eq!(seated.waiting[0].point.name(), point, "{host}");
                    backstop.shut_down().await;
                }
                (_, built) => panic!("{host} at {point}: {:?}", built.map(drop)),
            }
        }
    }
}
