//! What the tests share: a plugin from its source, and an engine that asks it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use backstop_engine::{Engine, OperatorSettings, OwnerSettings, Snapshot};
use backstop_hooks::points::ToolCallEvent;
use backstop_hooks::{CallContext, OwnerId, Params, SessionKey};
use backstop_plugins::openclaw::{
    Batches, Dialect, EventSession, Extensions, Facts, LoadError, NoServices, Printed, Runtime, Scripted,
    ServiceError, Services, load,
};
use backstop_plugins::registration::Seated;
use backstop_script::{FileAccess, FileGrant, Permissions, WorkerSettings, Workers};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Plugins {
    pub(crate) workers: Workers,
    pub(crate) batches: Arc<Batches>,
    folder: TempDir,
    services: Arc<dyn Services>,
    pub(crate) permissions: Permissions,
}

impl Plugins {
    /// Workers of its own, in the test's runtime.
    pub(crate) fn new() -> Self {
        Self::with(Arc::new(NoServices))
    }

    pub(crate) fn with(services: Arc<dyn Services>) -> Self {
        let workers = Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current());
        let folder = TempDir::new().unwrap();
        Self { workers, batches: Arc::default(), folder, services, permissions: Permissions::default() }
    }

    pub(crate) async fn load(&self, id: &str, dialect: Dialect, source: &str) -> Result<Scripted, LoadError> {
        self.load_with(id, dialect, source, json!({})).await
    }

    pub(crate) async fn load_with(
        &self,
        id: &str,
        dialect: Dialect,
        source: &str,
        config: Value,
    ) -> Result<Scripted, LoadError> {
        let root = self.write(id, "index.js", source);
        self.load_facts(facts(id, &root, "index.js", dialect, config)).await
    }

    /// A plugin whose entry is TypeScript.
    pub(crate) async fn load_typescript(&self, id: &str, source: &str) -> Result<Scripted, LoadError> {
        let root = self.write(id, "index.ts", source);
        self.load_facts(facts(id, &root, "index.ts", Dialect::OpenClaw, json!({}))).await
    }

    pub(crate) fn write(&self, id: &str, entry: &str, source: &str) -> PathBuf {
        let root = self.folder.path().join(id);
        let file = root.join(entry);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, source).unwrap();
        root
    }

    async fn load_facts(&self, facts: Facts) -> Result<Scripted, LoadError> {
        let runtime = crate::runtime(self.folder.path(), &self.workers).await;
        self.load_in(facts, runtime).await
    }

    pub(crate) async fn load_in(&self, facts: Facts, runtime: Runtime<'_>) -> Result<Scripted, LoadError> {
        load(facts, self.permissions(), runtime, &self.batches, Arc::clone(&self.services)).await
    }

    /// What was granted, and the plugin's own files.
    fn permissions(&self) -> Permissions {
        let mut permissions = self.permissions.clone();
        let root = self.folder.path().to_owned();
        permissions.files.push(FileGrant { root, access: FileAccess::Read });
        permissions
    }

    /// A plugin whose `register` has this body.
    pub(crate) async fn register(
        &self,
        id: &str,
        dialect: Dialect,
        body: &str,
    ) -> Result<Scripted, LoadError> {
        let sdk = match dialect {
            Dialect::OpenClaw => "openclaw/plugin-sdk/plugin-entry",
            Dialect::Backstop => "backstop/plugin-sdk",
        };
        let source = format!(
            "import {{ definePluginEntry }} from \"{sdk}\";\n\
             export default definePluginEntry({{ id: \"{id}\", name: \"Test\", register(api) {{ {body} }} }});\n"
        );
        self.load(id, dialect, &source).await
    }
}

pub(crate) fn facts(id: &str, root: &Path, entry: &str, dialect: Dialect, config: Value) -> Facts {
    Facts {
        id: id.to_owned(),
        name: "Test".to_owned(),
        version: Some("1.0.0".to_owned()),
        description: None,
        root: root.to_owned(),
        entry: entry.to_owned(),
        dialect,
        config,
        workspace: None,
        state: None,
        tools: vec!["exec".to_owned(), "read".to_owned(), "web_search".to_owned()],
        seal: None,
    }
}

/// An engine with the hooks of these plugins, which may read the conversation.
pub(crate) fn engine(plugins: &[&Scripted]) -> (Engine, Vec<Seated>) {
    let owners: BTreeMap<_, _> = plugins
        .iter()
        .map(|plugin| {
            let settings =
                OwnerSettings { allow_conversation_access: Some(true), ..OwnerSettings::default() };
            (plugin.registration.owner().clone(), settings)
        })
        .collect();
    let mut snapshot = Snapshot::empty(OperatorSettings { owners, ..OperatorSettings::default() });
    let seated = plugins.iter().map(|plugin| plugin.registration.seat(&mut snapshot).unwrap()).collect();
    (Engine::builder().snapshot(snapshot).build(), seated)
}

/// An engine with the hooks of these plugins, whose policies the operator trusts.
pub(crate) fn trusting(plugins: &[&Scripted]) -> Engine {
    let mut settings = OperatorSettings::default();
    for plugin in plugins {
        let owner = OwnerSettings { allow_trusted_tool_policy: true, ..OwnerSettings::default() };
        settings.owners.insert(plugin.registration.owner().clone(), owner);
    }
    let mut snapshot = Snapshot::empty(settings);
    for plugin in plugins {
        plugin.registration.seat(&mut snapshot).unwrap();
    }
    Engine::builder().snapshot(snapshot).build()
}

pub(crate) fn call(tool: &str, arguments: Value) -> ToolCallEvent {
    let params: Params = serde_json::from_value(arguments).unwrap();
    ToolCallEvent::new(tool, params)
        .run_id(backstop_hooks::RunId::from("run-1"))
        .tool_call_id(backstop_hooks::ToolCallId::from("call-1"))
}

pub(crate) fn context() -> CallContext {
    CallContext {
        agent_id: Some("main".into()),
        session_key: Some("chat".into()),
        session_id: Some("session-1".into()),
        run_id: Some("run-1".into()),
        ..CallContext::default()
    }
}

/// Keeps what a plugin asks its host for.
#[derive(Default)]
pub(crate) struct Asked(pub(crate) Mutex<Vec<(String, Value)>>);

#[async_trait]
impl Services for Asked {
    async fn inject(
        &self,
        owner: &OwnerId,
        _: &EventSession,
        injection: Value,
    ) -> Result<Value, ServiceError> {
        self.0.lock().unwrap().push((format!("{owner} inject"), injection));
        Ok(json!({ "enqueued": true }))
    }

    async fn extensions(&self, owner: &OwnerId, session: &SessionKey) -> Result<Extensions, ServiceError> {
        self.0.lock().unwrap().push((format!("{owner} extensions"), json!(session)));
        Ok(Extensions::from([("walls".to_owned(), json!({ "strikes": 3, "block": true }))]))
    }

    async fn patch(&self, owner: &OwnerId, _: &EventSession, patch: Value) -> Result<Value, ServiceError> {
        self.0.lock().unwrap().push((format!("{owner} patch"), patch));
        Ok(json!({ "ok": true }))
    }

    fn print(&self, owner: &OwnerId, text: Printed<'_>) {
        self.0.lock().unwrap().push((format!("{owner} print"), Value::from(text.0)));
    }
}
