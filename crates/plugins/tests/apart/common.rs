//! A folder with files, and a script of it in a process of its own: what the ways out are tried with.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_plugins::openclaw::load_apart;
use backstop_script::{
    Argument, Arguments, Bridge, CallScope, HostError, JsonText, Loaded, Permissions, ProgramOutput,
    ProgramRequest, ScriptError, ScriptSource,
};
use serde_json::Value;

/// Enough for anything that works.
const LONG: Duration = Duration::from_secs(20);

/// A script's folder, and what it is loaded with.
pub(crate) struct Script {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) permissions: Permissions,
    pub(crate) bridge: Arc<Recorder>,
}

impl Script {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        Self { folder, permissions: Permissions::default(), bridge: Arc::default() }
    }

    pub(crate) async fn load(&self, entry: &str) -> Result<Loaded, ScriptError> {
        let bridge: Arc<dyn Bridge> = Arc::<Recorder>::clone(&self.bridge);
        let source = ScriptSource::new("test", self.folder.path(), entry);
        load_apart(source, &self.permissions, bridge, crate::apart()).await
    }
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What an export answers.
pub(crate) async fn ask(script: &Loaded, name: &str, value: &Value) -> Result<Option<Value>, ScriptError> {
    let arguments = Arguments::new([Argument::Json(JsonText::of(value).unwrap())]);
    let answer = script.call_export(name, &arguments, LONG).await?;
    Ok(answer.map(|answer| answer.json.read().unwrap()))
}

/// A bridge that keeps what is denied and what is to be started.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) denied: Mutex<Vec<String>>,
    pub(crate) programs: Mutex<Vec<ProgramRequest>>,
}

#[async_trait]
impl Bridge for Recorder {
    async fn run_program(&self, _: CallScope, request: ProgramRequest) -> Result<ProgramOutput, HostError> {
        self.programs.lock().unwrap().push(request.clone());
        match request.program.file_name().and_then(|name| name.to_str()) {
            Some("echo") => Ok(ProgramOutput {
                code: Some(0),
                stdout: [request.arguments.join(" ").as_bytes(), &request.input].concat(),
                ..ProgramOutput::default()
            }),
            Some("sleep") => std::future::pending().await,
            _ => Ok(ProgramOutput { code: Some(3), stderr: b"no".to_vec(), ..ProgramOutput::default() }),
        }
    }

    fn denied(&self, _: &CallScope, grant: &str) {
        self.denied.lock().unwrap().push(grant.to_owned());
    }
}
