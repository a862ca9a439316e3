//! Plugins that others published, unchanged: they load, register, and their hooks and tools work as far as they are let.
//!
//! `cargo xtask test` installs them from a locked list. Nothing of theirs is copied: one is under the AGPL.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests may fail loudly"
)]

mod granted;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::{Engine, OperatorSettings, OwnerSettings, Snapshot, Verdict};
use backstop_hooks::points::{
    AfterToolCall, AfterToolCallEvent, AgentEnd, AgentEndEvent, BeforePromptBuild, MessageReceived,
    PromptBuildEvent, SessionStart, ToolCallEvent,
};
use backstop_hooks::{CallContext, ObservePoint};
use backstop_plugins::install::Source;
use backstop_plugins::openclaw::{
    Apart, Batches, Dialect, Facts, NoServices, Node, Runtime, Scripted, Services, UnderNode, load,
};
use backstop_plugins::registration::{LeftOut, OfferKind, Seated};
use backstop_plugins::trust::{Home, Purpose, Staged};
use backstop_script::{
    Argument, Arguments, FileAccess, FileGrant, JsonText, Permissions, WorkerSettings, Workers,
};
use serde_json::{Value, json};

/// Enough for anything that works, on a machine that is busy.
const LONG: Duration = Duration::from_secs(30);

struct Loaded {
    plugin: Scripted,
    engine: Engine,
    seated: Seated,
    _workers: Workers,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| {
        panic!("{}: {error}; `cargo xtask test` installs the plugins", path.display())
    });
    serde_json::from_str(&text).unwrap()
}

/// Loads a package as an installed plugin is: its own folder in one with all that it needs.
async fn plugin(package: &str, config: Value, permissions: Permissions) -> Loaded {
    plugin_in(package, config, permissions, Place::Here).await
}

/// Loads it under the machine's Node.
async fn under_node(package: &str, config: Value) -> Loaded {
    let home = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let program = std::env::split_paths(&path).map(|folder| folder.join("node")).find(|file| file.is_file());
    let node = Node::at(program.unwrap().canonicalize().unwrap()).await.unwrap();
    let under = UnderNode { node, environment: BTreeMap::new(), home: home.path().to_owned() };
    let own = FileGrant { root: folder(), access: FileAccess::Read };
    let permissions = Permissions { files: vec![own], ..Permissions::default() };
    plugin_in(package, config, permissions, Place::Node(under)).await
}

/// Loads it in a process of its own.
async fn apart(package: &str, config: Value) -> Loaded {
    let program = env!("CARGO_BIN_EXE_backstop-plugin-host-for-tests").into();
    let apart = Apart { program, arguments: vec!["plugin-host".into()], environment: BTreeMap::new() };
    plugin_in(package, config, Permissions::default(), Place::Apart(apart)).await
}

/// Where it runs.
enum Place {
    Here,
    Apart(Apart),
    Node(UnderNode),
}

async fn plugin_in(package: &str, config: Value, permissions: Permissions, place: Place) -> Loaded {
    plugin_for(package, config, permissions, place, Arc::new(NoServices)).await
}

async fn plugin_for(
    package: &str,
    config: Value,
    permissions: Permissions,
    place: Place,
    services: Arc<dyn Services>,
) -> Loaded {
    let root = folder();
    let at = PathBuf::from("node_modules").join(package);
    let (manifest, about) =
        (read(&root.join(&at).join("openclaw.plugin.json")), read(&root.join(&at).join("package.json")));
    let id = manifest["id"].as_str().unwrap().to_owned();
    let entry = at.join(about["openclaw"]["extensions"][0].as_str().unwrap());
    let facts = Facts {
        id: id.clone(),
        name: manifest["name"].as_str().unwrap().to_owned(),
        version: about["version"].as_str().map(str::to_owned),
        description: None,
        root,
        entry: entry.to_str().unwrap().to_owned(),
        dialect: Dialect::OpenClaw,
        config,
        workspace: None,
        state: None,
        tools: vec!["exec".to_owned(), "read".to_owned()],
        seal: None,
    };
    let workers = Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current());
    let batches = Arc::<Batches>::default();
    let runtime = match place {
        Place::Here => Runtime::Here(&workers),
        Place::Apart(apart) => Runtime::Apart(apart, &workers),
        Place::Node(under) => Runtime::Node(under, &workers),
    };
    let plugin = load(facts, permissions, runtime, &batches, services).await;
    let plugin = plugin.unwrap_or_else(|error| panic!("{error}"));
    let owner = OwnerSettings { allow_conversation_access: Some(true), ..OwnerSettings::default() };
    let mut snapshot = Snapshot::empty(OperatorSettings {
        owners: BTreeMap::from([(id.as_str().into(), owner)]),
        ..OperatorSettings::default()
    });
    let seated = plugin.registration.seat(&mut snapshot).unwrap();
    Loaded { plugin, engine: Engine::builder().snapshot(snapshot).build(), seated, _workers: workers }
}

impl Loaded {
    fn names(&self, kind: OfferKind) -> Vec<&str> {
        let offers = self.plugin.offers.iter().filter(|offered| offered.offer.kind == kind);
        offers.map(|offered| offered.offer.name.as_str()).collect()
    }

    fn points(&self) -> Vec<&str> {
        self.plugin.registration.hooks().map(|spec| spec.point.name()).collect()
    }

    /// What a tool says. It may be that it was not let; then it says that.
    async fn tool(&self, name: &str, params: Value) -> String {
        let tools = self.plugin.offers.iter().filter(|offered| offered.offer.kind == OfferKind::Tool);
        let tool = tools.into_iter().find(|offered| offered.offer.name == name).unwrap();
        let session = json!({ "agentId": "main", "sessionKey": "agent:main:main", "sessionId": "s1" });
        let [id, params, session] =
            [json!("call-1"), params, session].map(|value| Argument::Json(JsonText::of(&value).unwrap()));
        let arguments = Arguments::new([id, params, Argument::Signal, session]);
        match self.plugin.call(tool, "execute", &arguments, LONG).await {
            Ok(answer) => answer.map(|answer| answer.json.as_str().to_owned()).unwrap_or_default(),
            Err(error) => error.to_string(),
        }
    }

    /// Takes a turn past all hooks of the plugin. No call may be blocked because one of them broke.
    async fn turn(&self) {
        let context = CallContext {
            agent_id: Some("main".into()),
            session_key: Some("agent:main:main".into()),
            session_id: Some("s1".into()),
            run_id: Some("r1".into()),
            ..CallContext::default()
        };
        self.watch::<SessionStart>(json!({ "sessionId": "s1" }), &context).await;
        self.watch::<MessageReceived>(json!({ "from": "me", "content": "hello" }), &context).await;
        let prompt: PromptBuildEvent =
            serde_json::from_value(json!({ "prompt": "hello", "messages": [] })).unwrap();
        let built = self.engine.decide::<BeforePromptBuild>(prompt, &context).await;
        no_failures(&built.receipt().steps);
        let call: ToolCallEvent = serde_json::from_value(
            json!({ "toolName": "exec", "params": { "command": "true" }, "runId": "r1", "toolCallId": "c1" }),
        )
        .unwrap();
        let reviewed = self.engine.review_tool_call(call, &context, false).await;
        assert_ne!(reviewed.receipt.verdict, Verdict::Block, "{:?}", reviewed.blocked);
        let after = json!({
            "toolName": "exec", "params": { "command": "true" }, "toolCallId": "c1", "durationMs": 1,
            "result": { "toolCallId": "c1", "content": [{ "type": "text", "text": "ok" }], "isError": false },
        });
        let _: AfterToolCallEvent = serde_json::from_value(after.clone()).unwrap();
        self.watch::<AfterToolCall>(after, &context).await;
        let end = json!({ "runId": "r1", "success": true, "durationMs": 3, "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "hello" }] },
            { "role": "assistant", "content": [{ "type": "text", "text": "hi" }] },
        ]});
        let _: AgentEndEvent = serde_json::from_value(end.clone()).unwrap();
        self.watch::<AgentEnd>(end, &context).await;
    }

    async fn watch<P: ObservePoint>(&self, event: Value, context: &CallContext) {
        let event: P::Event = serde_json::from_value(event).unwrap();
        let receipt = self.engine.observe::<P>(&event, context).await;
        no_failures(&receipt.steps);
    }
}

fn no_failures(steps: &[backstop_engine::Step]) {
    for step in steps {
        let words = step.failure.as_ref().map(|failure| failure.message.to_string());
        assert!(words.is_none(), "{}: {words:?}", step.hook.id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn projectavatar() {
    let loaded = plugin("@projectavatar/openclaw-avatar", json!({}), Permissions::default()).await;
    assert_eq!(loaded.names(OfferKind::Tool).len(), 2);
    for point in ["message_received", "before_tool_call", "after_tool_call", "agent_end", "session_end"] {
        assert!(loaded.points().contains(&point), "{point}: {:?}", loaded.points());
    }
    loaded.turn().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn graphiti() {
    let loaded = plugin("@robertogongora/graphiti", json!({}), Permissions::default()).await;
    assert_eq!(loaded.names(OfferKind::Tool).len(), 2);
    // Without a context engine it falls back to its hooks.
    for point in ["after_tool_call", "session_start", "before_compaction", "before_reset"] {
        assert!(loaded.points().contains(&point), "{point}: {:?}", loaded.points());
    }
    assert!(!loaded.names(OfferKind::Cli).is_empty());
    loaded.turn().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oh_my_openclaw() {
    let loaded = plugin("@happycastle/oh-my-openclaw", json!({}), Permissions::default()).await;
    assert_eq!(loaded.names(OfferKind::Tool).len(), 8);
    assert_eq!(loaded.names(OfferKind::Command).len(), 7);
    assert_eq!(loaded.names(OfferKind::Service).len(), 2);
    assert!(loaded.points().len() >= 10, "{:?}", loaded.points());
    let left_out: Vec<_> = loaded.seated.left_out.iter().map(|left_out| left_out.what.as_str()).collect();
    assert!(left_out.iter().any(|what| what.contains("agent:bootstrap")), "{left_out:?}");
    loaded.turn().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mem0_with_and_without_a_key() {
    let without = plugin("@mem0/openclaw-mem0", json!({}), Permissions::default()).await;
    assert!(without.names(OfferKind::Tool).is_empty());
    assert!(!without.names(OfferKind::Cli).is_empty());
    // Looks like a key and is none.
    let key = ["m0", "-test"].concat();
    let config = json!({ "apiKey": key, "userId": "me" });
    let with = plugin("@mem0/openclaw-mem0", config, Permissions::default()).await;
    assert_eq!(with.names(OfferKind::Tool).len(), 8);
    for point in ["before_prompt_build", "agent_end"] {
        assert!(with.points().contains(&point), "{point}: {:?}", with.points());
    }
    let said = with.tool("memory_search", json!({ "query": "rust" })).await;
    assert!(said.contains("hosts"), "it says which grant is missing: {said}");
    with.turn().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn under_node_and_apart_all_of_them_register_what_they_register_here_and_take_a_turn() {
    // Looks like a key and is none.
    let key = ["m0", "-test"].concat();
    for (package, config) in [
        ("@ollama/openclaw-web-search", json!({})),
        ("@projectavatar/openclaw-avatar", json!({})),
        ("@robertogongora/graphiti", json!({})),
        ("@happycastle/oh-my-openclaw", json!({})),
        ("@mem0/openclaw-mem0", json!({})),
        ("@mem0/openclaw-mem0", json!({ "apiKey": key, "userId": "me" })),
    ] {
        let here = plugin(package, config.clone(), Permissions::default()).await;
        for there in [under_node(package, config.clone()).await, apart(package, config).await] {
            assert_eq!(there.points(), here.points(), "{package}");
            for kind in [OfferKind::Tool, OfferKind::Command, OfferKind::Service, OfferKind::Cli] {
                assert_eq!(there.names(kind), here.names(kind), "{package}: {kind}");
            }
            // What a system can't wall off is left out there, too.
            let is_its = |left: &&LeftOut| !left.what.starts_with("the wall before");
            let left_out: Vec<_> = there.seated.left_out.iter().filter(is_its).collect();
            assert_eq!(left_out, here.seated.left_out.iter().collect::<Vec<_>>(), "{package}");
            if package.contains("happycastle") || package.contains("avatar") {
                there.turn().await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn under_node_a_tool_of_theirs_works() {
    let loaded = under_node("@happycastle/oh-my-openclaw", json!({})).await;
    let made = loaded.tool("omoc_todo_create", json!({ "content": "write it down" })).await;
    assert!(!made.contains("Error"), "{made}");
    let listed = loaded.tool("omoc_todo_list", json!({})).await;
    assert!(listed.contains("write it down"), "{listed}");
    // A file that nobody granted, from code of Node's that is not ours.
    let looked = loaded.tool("omoc_look_at", json!({ "file_path": "/etc/hostname", "goal": "see" })).await;
    assert!(looked.contains("restricted"), "{looked}");
}

/// From the registry itself, as the list of this suite is: the one test here that needs the network when it runs.
#[tokio::test]
async fn a_package_is_fetched_from_the_registry_with_what_it_depends_on_and_nothing_of_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().join("plugins"));
    let environment = |name: &str| std::env::var(name).ok();
    let locked = read(&folder_of("@happycastle/oh-my-openclaw").join("package.json"));
    let version = locked["version"].as_str().unwrap();
    let source: Source = format!("npm:@happycastle/oh-my-openclaw@{version}").parse().unwrap();
    let staged =
        home.fetch(&source, Purpose::Install, &environment).await.unwrap_or_else(|error| panic!("{error}"));
    let words = &staged.origin.words;
    assert!(words.starts_with(&format!("{source} (sha512-")), "{words}");
    assert_eq!(staged.manifest.version.as_deref(), Some(version));
    let inside = |name: &str| staged.folder().join("node_modules").join(name).exists();
    assert!(
        inside("json5/package.json") && inside("@sinclair/typebox/package.json"),
        "what it depends on is there"
    );
    assert!(!inside("openclaw") && !inside("typescript"), "peers and what is for development are not");
    let first = staged.package.hash;
    drop(staged);
    let again =
        home.fetch(&source, Purpose::Install, &environment).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.package.hash, first, "what was shown can be named by its hash");
    let none: Source = "npm:@happycastle/oh-my-openclaw@0.0.0-never".parse().unwrap();
    let error = again_without(again, &home, &none).await;
    assert!(error.contains("npm") && error.contains("hint: "), "{error}");
}

fn folder_of(package: &str) -> PathBuf {
    folder().join("node_modules").join(package)
}

/// What fetching something else says, when the first is put away.
async fn again_without(first: Staged, home: &Home, source: &Source) -> String {
    drop(first);
    let environment = |name: &str| std::env::var(name).ok();
    home.fetch(source, Purpose::Install, &environment).await.map(|_| ()).unwrap_err().to_string()
}
