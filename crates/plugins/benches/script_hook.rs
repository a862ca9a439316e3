//! What hooks of plugins in JavaScript cost through the engine: the event is encoded for each call, handed to the workers, and the answers
//! are merged.
//!
//! The event is a `before_tool_call` of about 1 KB of JSON, another one in each call. `one` is a plugin alone; `hundred` are as many plugins,
//! each with a hook of its own at the point. `without_plugins` is the same call where nothing stands.

#![expect(clippy::unwrap_used, reason = "a bench may fail loudly")]

use std::path::Path;
use std::sync::Arc;

use backstop_engine::{Attendance, Engine, OperatorSettings, Snapshot};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, Params};
use backstop_plugins::openclaw::{Batches, Dialect, Facts, NoServices, Runtime, Scripted, load};
use backstop_script::{FileAccess, FileGrant, Permissions, WorkerSettings, Workers};
use serde_json::json;
use tempfile::TempDir;

/// What a handler does, by the name of its row.
const HANDLERS: &[(&str, &str)] = &[
    ("reads", "(event) => { if (event.toolName === 'nothing') return { block: true }; }"),
    ("parses", "(event) => { if (/rm -rf/.test(event.params.command)) return { block: true }; }"),
    ("later", "async (event) => { if (event.toolName === 'nothing') return { block: true }; }"),
];

fn main() {
    divan::main();
}

/// An engine with plugins, and what they live in.
struct Scene {
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    _plugins: Vec<Scripted>,
    _workers: Workers,
    _folder: TempDir,
}

fn scene(plugins: usize, dialect: Dialect, handler: &str) -> Scene {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let workers =
        Workers::start(WorkerSettings { fill: 128, ..WorkerSettings::default() }, runtime.handle().clone());
    let batches = Arc::default();
    let mut snapshot = Snapshot::empty(OperatorSettings::default());
    let mut loaded = Vec::with_capacity(plugins);
    for number in 0..plugins {
        let id = format!("p{number}");
        let plugin = runtime.block_on(plugin(folder.path(), &id, dialect, handler, &workers, &batches));
        plugin.registration.seat(&mut snapshot).unwrap();
        loaded.push(plugin);
    }
    let engine = Engine::builder().snapshot(snapshot).build();
    Scene { runtime, engine, _plugins: loaded, _workers: workers, _folder: folder }
}

async fn plugin(
    folder: &Path,
    id: &str,
    dialect: Dialect,
    handler: &str,
    workers: &Workers,
    batches: &Arc<Batches>,
) -> Scripted {
    let sdk = match dialect {
        Dialect::OpenClaw => "openclaw/plugin-sdk/plugin-entry",
        Dialect::Backstop => "backstop/plugin-sdk",
    };
    let root = folder.join(id);
    std::fs::create_dir(&root).unwrap();
    let source = format!(
        "import {{ definePluginEntry }} from \"{sdk}\";\n\
         export default definePluginEntry({{ id: \"{id}\", register(api) {{ api.on(\"before_tool_call\", {handler}); }} }});\n"
    );
    std::fs::write(root.join("index.js"), source).unwrap();
    let facts = Facts {
        id: id.to_owned(),
        name: id.to_owned(),
        version: None,
        description: None,
        root: root.clone(),
        entry: "index.js".to_owned(),
        dialect,
        config: json!({}),
        workspace: None,
        state: None,
        tools: vec!["exec".to_owned()],
        seal: None,
    };
    let mut permissions = Permissions::default();
    permissions.files.push(FileGrant { root, access: FileAccess::Read });
    load(facts, permissions, Runtime::Here(workers), batches, Arc::new(NoServices)).await.unwrap()
}

/// About 1 KB, different each time: nothing of it was encoded before.
fn event(number: usize) -> ToolCallEvent {
    let params = json!({
        "command": "cargo test --workspace --all-features -- --nocapture", "cwd": "/home/someone/project", "number": number,
        "env": { "RUST_LOG": "debug", "CI": "1" }, "note": "x".repeat(700), "list": [1, 2, 3, 4, 5, 6, 7, 8],
    });
    ToolCallEvent::new("exec", Params::from_value(params).unwrap_or_default())
}

fn context() -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("agent:main:main".into()),
        session_id: Some("b".repeat(36).as_str().into()),
        run_id: Some("r-1".into()),
        ..CallContext::default()
    }
}

fn ask(bencher: divan::Bencher<'_, '_>, scene: &Scene) {
    let context = context();
    let mut number = 0;
    bencher
        .with_inputs(|| {
            number += 1;
            event(number)
        })
        .bench_local_values(|event| {
            let verdict = scene.engine.permit_tool_call(event, &context, &Attendance::Nobody);
            assert!(scene.runtime.block_on(verdict).permit.is_ok());
        });
}

fn handler(name: &str) -> &'static str {
    HANDLERS.iter().find(|(known, _)| *known == name).map(|(_, code)| *code).unwrap()
}

#[divan::bench(sample_count = 2000, sample_size = 1)]
fn without_plugins(bencher: divan::Bencher<'_, '_>) {
    ask(bencher, &scene(0, Dialect::Backstop, ""));
}

#[divan::bench(args = ["reads", "parses", "later"], sample_count = 2000, sample_size = 1)]
fn one(bencher: divan::Bencher<'_, '_>, name: &str) {
    ask(bencher, &scene(1, Dialect::Backstop, handler(name)));
}

#[divan::bench(args = ["reads", "parses", "later"], sample_count = 2000, sample_size = 1)]
fn one_of_openclaw(bencher: divan::Bencher<'_, '_>, name: &str) {
    ask(bencher, &scene(1, Dialect::OpenClaw, handler(name)));
}

#[divan::bench(args = ["reads", "parses", "later"], sample_count = 300, sample_size = 1)]
fn hundred(bencher: divan::Bencher<'_, '_>, name: &str) {
    ask(bencher, &scene(100, Dialect::Backstop, handler(name)));
}

#[divan::bench(args = ["reads", "parses", "later"], sample_count = 300, sample_size = 1)]
fn hundred_of_openclaw(bencher: divan::Bencher<'_, '_>, name: &str) {
    ask(bencher, &scene(100, Dialect::OpenClaw, handler(name)));
}
