//! A folder with files, and workers.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use backstop_script::{
    Argument, Arguments, Bridge, CallScope, HostError, JsonText, Limits, Loaded, LogLevel, Permissions,
    ProgramOutput, ProgramRequest, Provided, ScriptError, ScriptSource, WorkerSettings, Workers,
};
use serde_json::Value;

/// Enough for anything that works.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// Enough to see that something does not end.
pub(crate) const SHORT: Duration = Duration::from_millis(60);

/// A script's folder, and what it is loaded with.
pub(crate) struct Script {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) workers: Workers,
    pub(crate) limits: Limits,
    pub(crate) permissions: Permissions,
    pub(crate) bridge: Arc<Recorder>,
}

impl Script {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        Self::on(workers(), files)
    }

    pub(crate) fn on(workers: Workers, files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        let limits = Limits { load: LONG, slice: LONG, ..Limits::default() };
        Self { folder, workers, limits, permissions: Permissions::default(), bridge: Arc::default() }
    }

    pub(crate) fn source(&self, entry: &str) -> ScriptSource {
        ScriptSource::new("test", self.folder.path(), entry)
    }

    pub(crate) async fn load(&self, entry: &str) -> Result<Loaded, ScriptError> {
        self.load_source(self.source(entry)).await
    }

    pub(crate) async fn load_source(&self, source: ScriptSource) -> Result<Loaded, ScriptError> {
        let bridge: Arc<dyn Bridge> = Arc::<Recorder>::clone(&self.bridge);
        self.workers.load(source, self.permissions.clone(), self.limits, bridge).await
    }
}

pub(crate) fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(crate) fn workers() -> Workers {
    Workers::start(WorkerSettings::default(), tokio::runtime::Handle::current())
}

/// One module, loaded.
pub(crate) async fn module(source: &str) -> Loaded {
    Script::new(&[("main.js", source)]).load("main.js").await.unwrap()
}

pub(crate) fn json(value: &Value) -> Arguments {
    Arguments::new([Argument::Json(JsonText::of(value).unwrap())])
}

/// What an export answers.
pub(crate) async fn ask(script: &Loaded, name: &str, value: &Value) -> Result<Option<Value>, ScriptError> {
    let answer = script.call_export(name, &json(value), LONG).await?;
    Ok(answer.map(|answer| answer.json.read().unwrap()))
}

/// What one expression comes to, as the body of a function.
pub(crate) async fn run(body: &str) -> Result<Option<Value>, ScriptError> {
    let script = module(&format!("export async function main(given) {{ {body} }}")).await;
    ask(&script, "main", &Value::Null).await
}

/// A bridge that keeps what is logged, answers `echo`, and counts how often it is asked `times`.
#[derive(Default)]
pub(crate) struct Recorder {
    pub(crate) lines: Mutex<Vec<(LogLevel, String)>>,
    pub(crate) modules: Mutex<Vec<(String, Provided)>>,
    pub(crate) times: Mutex<u32>,
    pub(crate) denied: Mutex<Vec<String>>,
    pub(crate) absent: Mutex<Vec<(String, Vec<String>)>>,
    pub(crate) programs: Mutex<Vec<ProgramRequest>>,
}

impl Recorder {
    pub(crate) fn lines(&self) -> Vec<(LogLevel, String)> {
        self.lines.lock().unwrap().clone()
    }
}

#[async_trait]
impl Bridge for Recorder {
    fn module(&self, specifier: &str) -> Option<Provided> {
        let modules = self.modules.lock().unwrap();
        modules.iter().find(|(name, _)| name == specifier).map(|(_, module)| module.clone())
    }

    fn absent(&self, module: &str, names: &BTreeSet<String>) {
        self.absent.lock().unwrap().push((module.to_owned(), names.iter().cloned().collect()));
    }

    fn call(&self, _: &CallScope, name: &str, arguments: JsonText) -> Result<JsonText, HostError> {
        match name {
            "echo" => Ok(arguments),
            "times" => {
                let mut times = self.times.lock().unwrap();
                *times += 1;
                Ok(JsonText::of(&*times).unwrap())
            }
            _ => Err(HostError::new("ENOSYS", format!("no `{name}`")).with("syscall", name)),
        }
    }

    async fn request(&self, _: CallScope, name: String, arguments: JsonText) -> Result<JsonText, HostError> {
        match name.as_str() {
            "echo" => Ok(arguments),
            "never" => std::future::pending().await,
            _ => Err(HostError::new("ENOSYS", format!("no `{name}`"))),
        }
    }

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

    fn log(&self, _: &CallScope, level: LogLevel, line: &str) {
        self.lines.lock().unwrap().push((level, line.to_owned()));
    }
}
