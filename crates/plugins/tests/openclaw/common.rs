//! A folder with files, and a plugin of it as plugins are loaded, with its `api`: what the ways out are tried with.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backstop_plugins::openclaw::{Batches, Dialect, LoadError, NoServices, Scripted, load};
use backstop_plugins::registration::OfferKind;
use backstop_script::{Argument, Arguments, JsonText, Permissions, ScriptError, WorkerSettings, Workers};
use serde_json::{Value, json};

use crate::support::facts;

/// Enough for anything that works.
const LONG: Duration = Duration::from_secs(20);

/// The plugin around a module: its exports are called as tools are, and it has laid its `api` open to its own code.
const ENTRY: &str = "
    import * as it from './MODULE';
    export default { id: 'test', name: 'Test', register(api) {
        globalThis.api = api;
        for (const name of Object.keys(it)) {
            api.registerTool({ name, description: name, parameters: { type: 'object' }, execute: (id, { given }) => it[name](given) });
        }
    } };";

/// A plugin's folder, and what it is loaded with.
pub(crate) struct Script {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) permissions: Permissions,
    pub(crate) bridge: Recorder,
    workers: Workers,
}

impl Script {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        let workers = Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current());
        Self { folder, permissions: Permissions::default(), bridge: Recorder::default(), workers }
    }

    pub(crate) async fn load(&self, module: &str) -> Result<Loaded, LoadError> {
        write(self.folder.path(), "entry.mjs", &ENTRY.replace("MODULE", module));
        let facts = facts("test", self.folder.path(), "entry.mjs", Dialect::OpenClaw, json!({}));
        let runtime = crate::runtime(self.folder.path(), &self.workers).await;
        let batches = Arc::<Batches>::default();
        let plugin = load(facts, self.permissions.clone(), runtime, &batches, Arc::new(NoServices)).await?;
        Ok(Loaded { plugin, denied: Arc::clone(&self.bridge.denied) })
    }
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// A plugin that is loaded.
pub(crate) struct Loaded {
    plugin: Scripted,
    denied: Arc<Mutex<Vec<String>>>,
}

/// What an export answers.
pub(crate) async fn ask(loaded: &Loaded, name: &str, value: &Value) -> Result<Option<Value>, ScriptError> {
    let tools = loaded.plugin.offers.iter().filter(|offered| offered.offer.kind == OfferKind::Tool);
    let tool = tools.into_iter().find(|offered| offered.offer.name == name).unwrap();
    let arguments = [json!("call-1"), json!({ "given": value })]
        .map(|value| Argument::Json(JsonText::of(&value).unwrap()));
    let answer = loaded.plugin.call(tool, "execute", &Arguments::new(arguments), LONG).await?;
    let denials = loaded.plugin.denials().into_iter();
    let each = denials.flat_map(|(grant, times)| std::iter::repeat_n(grant, usize::try_from(times).unwrap()));
    *loaded.denied.lock().unwrap() = each.collect();
    Ok(answer.map(|answer| answer.json.read().unwrap()))
}

/// What was denied until it answered last, sorted.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) denied: Arc<Mutex<Vec<String>>>,
}
