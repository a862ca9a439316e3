//! The process in which a plugin runs alone: the other half of `runtime: process`.
//!
//! A program that wants to run plugins so calls [`main`] before all else. Started with [`WORD`] it is such a process: it is told which plugin
//! it is to be, shuts itself in, and then runs that by the same engine, with the same permissions, as one that runs inside. It speaks the
//! protocol of programs of plugins on its standard input and output, and asks its host for whatever lies beyond its own memory.
//!
//! The laws: *the walls stand before the first line of the plugin is read*. Files that are granted can be opened and no others, nothing can be
//! started, the network is there if a host is granted; what the system can't keep it from is said. *One runtime, one process*: where the
//! runtime is lost, so is the process, and the host begins another. *Whoever is not waited for is waited for*: a call that was cancelled
//! is answered once its code has let go of the thread; where it does not, the host kills the process.
//!
//! Limits: the system knows files and folders, and neither hosts nor sockets on the disk. A folder that is granted and not there yet is
//! not reached before the process is started again.

mod bridge;
mod pipe;
pub(crate) mod wire;

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use backstop_confine::{Opening, shut_in};
use backstop_script::{
    Answer, Argument, Arguments, Callee, FileAccess, FunctionId, JsonText, Limits, Loaded, Permissions,
    Placement, ScriptError, ScriptSource, WorkerSettings, Workers,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use self::bridge::{Far, Seen};
use self::pipe::Pipe;
use self::wire::Greeting;
use crate::openclaw::Wrong;

/// The word with which a program is started to be the process of a plugin. It is no command for people.
pub const WORD: &str = "plugin-host";

/// Whether this program can be started so.
pub(crate) static IS_HOST: AtomicBool = AtomicBool::new(false);

/// Bytes of memory that the process may write to: what a runtime may have, what it may have its host hold, and the program itself.
const MOST_MEMORY: u64 = 512 << 20;
/// Longer than any call: who asks decides when one is over.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// How often it is looked whether the plugin's thread is free, and how long that may take it.
const LOOK: Duration = Duration::from_secs(5);
/// How long calls that are under way may take to end when their runtime is gone.
const LAST_MOMENT: Duration = Duration::from_secs(1);
/// What is read although nothing is granted: what time it is here.
const TIME: [&str; 2] = ["/etc/localtime", "/usr/share/zoneinfo"];
/// What is read to connect to a host: how names are found, and whom to trust.
const NETWORK: [&str; 17] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/share/pki",
    "/run/systemd/resolve",
    "/etc/ld.so.cache",
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
];
/// Variables that say where else certificates are.
pub(crate) const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Why the process of a plugin has ended before its host wanted it to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApartError {
    /// It is not spoken to as it should be.
    #[error("`{WORD}` is started by Backstop for a plugin, and by nobody else")]
    Protocol,
    /// It could not be set up.
    #[error("the process of a plugin can't be set up: {0}")]
    System(#[from] std::io::Error),
    /// The plugin's runtime is gone.
    #[error("{0}")]
    Over(String),
}

/// Is the process of a plugin, if this one was started to be that; returns when it is done. Where it returns `None`, plugins can be run
/// in processes of their own from now on. This process must have one thread only.
pub fn main() -> Option<Result<(), ApartError>> {
    IS_HOST.store(true, Ordering::Release);
    if std::env::args_os().nth(1)? != WORD {
        return None;
    }
    Some(serve(std::io::BufReader::new(std::io::stdin()), std::io::stdout()))
}

/// Serves one plugin to a host at the other end of these, which must be the only thread of this process.
///
/// # Errors
///
/// [`ApartError`].
pub fn serve(
    mut input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), ApartError> {
    let Some(first) = Message::read(&mut input)? else { return Ok(()) };
    let (Some(id), Some("initialize")) = (first.id, first.method.as_deref()) else {
        return Err(ApartError::Protocol);
    };
    let greeting: Greeting = serde_json::from_value(first.params).map_err(|_| ApartError::Protocol)?;
    let (permissions, about) = (Permissions::from(greeting.reach), greeting.root.clone());
    let gaps = enclose(&permissions, &about)?;
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let (over, ended) = mpsc::channel();
    let pipe = Arc::new(Pipe::new(output));
    let bridge = Arc::new(Far::new(Arc::clone(&pipe)));
    let mut source =
        ScriptSource::new(greeting.name, greeting.root, greeting.entry).placed(Placement::Alone).once();
    source.boot = greeting.boot.map(Into::into);
    if greeting.sealed {
        source = source.seen(Arc::new(Seen(Arc::clone(&pipe))));
    }
    let plugin = Arc::new(Plugin {
        pipe: Arc::clone(&pipe),
        bridge: Arc::clone(&bridge),
        loaded: OnceLock::new(),
        calls: Mutex::default(),
        over: Mutex::new(over.clone()),
        handle: runtime.handle().clone(),
    });
    bridge.belongs_to(&plugin);
    runtime.spawn(Arc::clone(&plugin).begin(id, source, permissions, gaps));
    std::thread::Builder::new().name("host".to_owned()).spawn(move || {
        let end = read(&mut input, &plugin);
        // Who does not wait any more has its reason.
        let _ = over.send(end);
    })?;
    let end = ended.recv().unwrap_or(Ok(()));
    // What still runs goes with the process.
    runtime.shutdown_background();
    end
}

/// Shuts this process in around a plugin that may reach this. Says what of the walls this system can't build.
///
/// # Errors
///
/// Where one can't be built that the system has.
pub fn enclose(permissions: &Permissions, root: &std::path::Path) -> std::io::Result<Vec<String>> {
    let of = |access| {
        let grants = permissions.files.iter().filter(move |grant| grant.access == access);
        grants.map(|grant| grant.root.clone())
    };
    let network = !permissions.hosts.is_empty();
    let named = if network { NETWORK.as_slice() } else { &[] };
    let certificates = CERTIFICATES.into_iter().filter(|_| network).filter_map(std::env::var_os);
    let opening = Opening {
        read: of(FileAccess::Read)
            .chain([root.to_owned()])
            .chain(TIME.iter().chain(named).map(PathBuf::from))
            .chain(certificates.map(PathBuf::from))
            .collect(),
        write: of(FileAccess::Write).collect(),
        network,
        memory: Some(MOST_MEMORY),
    };
    Ok(shut_in(&opening)?.iter().map(ToString::to_string).collect())
}

/// A message of the host.
#[derive(Deserialize)]
struct Message {
    #[serde(default)]
    id: Option<u64>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<Failure>,
}

/// What the host says is wrong.
#[derive(Debug, Deserialize)]
struct Failure {
    message: String,
    #[serde(default)]
    data: Value,
}

impl Message {
    /// The next one, if there is one.
    fn read(input: &mut impl BufRead) -> Result<Option<Self>, ApartError> {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_slice(&line).map(Some).map_err(|_| ApartError::Protocol)
    }
}

/// Reads what the host says, until it has nothing more to say.
fn read(input: &mut impl BufRead, plugin: &Arc<Plugin>) -> Result<(), ApartError> {
    while let Some(message) = Message::read(input)? {
        let Message { id, method, params, result, error } = message;
        match (method.as_deref(), id) {
            (None, Some(id)) => plugin.pipe.answered(id, error.map_or(Ok(result), Err)),
            (Some("$/cancel"), _) => {
                let id = params.get("id").and_then(Value::as_u64).ok_or(ApartError::Protocol)?;
                // The call takes it; one that has ended needs none.
                drop(plugin.calls().remove(&id));
            }
            (Some("release"), _) => {
                let number = params.get("function").and_then(Value::as_u64);
                let number = number.and_then(|number| u32::try_from(number).ok());
                if let (Some(loaded), Some(number)) = (plugin.loaded.get(), number) {
                    loaded.release(FunctionId::of(number, 1));
                }
            }
            (Some("call"), Some(id)) => {
                let asked: Asked = serde_json::from_value(params).map_err(|_| ApartError::Protocol)?;
                let (keep, cancelled) = oneshot::channel();
                plugin.calls().insert(id, keep);
                plugin.handle.spawn(Arc::clone(plugin).call(id, asked, cancelled));
            }
            (Some("heap"), Some(id)) => {
                let plugin = Arc::clone(plugin);
                plugin.handle.clone().spawn(async move {
                    let bytes = match plugin.loaded.get() {
                        Some(loaded) => loaded.heap(LONGEST).await,
                        None => None,
                    };
                    plugin.answer(id, &json!({ "bytes": bytes }));
                });
            }
            (Some("shutdown"), Some(id)) => {
                plugin.answer(id, &Value::Null);
                return Ok(());
            }
            _ => return Err(ApartError::Protocol),
        }
    }
    Ok(())
}

/// What is called, with what.
#[derive(Deserialize)]
struct Asked {
    #[serde(default)]
    function: Option<u32>,
    #[serde(default)]
    export: Option<String>,
    arguments: Vec<Given>,
    #[serde(default)]
    keep: Vec<String>,
    /// How long its answer is waited for.
    #[serde(default)]
    millis: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Json { json: Value },
    Signal { signal: bool },
}

/// The plugin of this process.
struct Plugin {
    pipe: Arc<Pipe>,
    bridge: Arc<Far>,
    loaded: OnceLock<Loaded>,
    /// The calls that are under way; one that is taken out is cancelled.
    calls: Mutex<HashMap<u64, oneshot::Sender<()>>>,
    over: Mutex<mpsc::Sender<Result<(), ApartError>>>,
    handle: Handle,
}

impl Plugin {
    fn calls(&self) -> MutexGuard<'_, HashMap<u64, oneshot::Sender<()>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers the host, which knows by then of all that was denied.
    fn answer(&self, id: u64, result: &Value) {
        self.bridge.tell_denied();
        self.pipe.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    }

    /// Loads the plugin, and says what it keeps.
    async fn begin(
        self: Arc<Self>,
        id: u64,
        source: ScriptSource,
        permissions: Permissions,
        gaps: Vec<String>,
    ) {
        // Whether a thread has to be given up is for who kills the process.
        let settings =
            WorkerSettings { threads: 1, most_alone: 1, grace: LONGEST, ..WorkerSettings::default() };
        let workers = Workers::start(settings, self.handle.clone());
        let bridge = Arc::<Far>::clone(&self.bridge);
        // Nobody shares its thread, and the host is waited for on it.
        let limits = Limits { slice: Limits::default().load, ..Limits::default() };
        match workers.load(source, permissions, limits, bridge).await {
            Ok(loaded) => {
                let kept = loaded.kept();
                let loaded = self.loaded.get_or_init(|| loaded);
                self.answer(id, &json!({ "kept": kept, "gaps": gaps }));
                self.watch(loaded).await;
            }
            Err(error) => self.answer(id, &json!({ "error": Wrong::of(error) })),
        }
    }

    /// Returns only when the plugin's thread is not free for too long, which ends the process.
    async fn watch(&self, loaded: &Loaded) {
        while tokio::time::timeout(LOOK, loaded.heap(LONGEST)).await.is_ok() {
            tokio::time::sleep(LOOK).await;
        }
        self.end(format!("its code did not let go of its thread for {} s", LOOK.as_secs()));
    }

    fn end(&self, why: String) {
        // Who does not wait any more has its reason.
        let _ = self.over.lock().unwrap_or_else(PoisonError::into_inner).send(Err(ApartError::Over(why)));
    }

    /// The runtime is gone, and so is this process once those that called have been told.
    fn ended(self: Arc<Self>, why: String) {
        self.handle.clone().spawn(async move {
            let told = async {
                while !self.calls().is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let _ = tokio::time::timeout(LAST_MOMENT, told).await;
            self.end(why);
        });
    }

    async fn call(self: Arc<Self>, id: u64, asked: Asked, cancelled: oneshot::Receiver<()>) {
        let Some(loaded) = self.loaded.get() else { return self.answer(id, &json!({ "none": true })) };
        let said = tokio::select! {
            said = asked.of(loaded) => Some(said),
            _ = cancelled => None,
        };
        let said = match said {
            Some(said) => told(said),
            None => {
                // Its thread is free again when it says how much it holds.
                let _ = loaded.heap(LONGEST).await;
                json!({ "none": true })
            }
        };
        self.answer(id, &said);
        drop(self.calls().remove(&id));
    }
}

impl Asked {
    async fn of(self, loaded: &Loaded) -> Result<Option<Answer>, ScriptError> {
        let callee = match (self.function, self.export) {
            (Some(number), _) => Callee::Kept(FunctionId::of(number, 1)),
            (None, export) => Callee::Export(export.unwrap_or_default()),
        };
        let arguments = self.arguments.into_iter().map(|given| match given {
            Given::Json { json } => JsonText::of(&json).map(Argument::Json),
            Given::Signal { signal: true } => Ok(Argument::Signal),
            Given::Signal { signal: false } => Ok(Argument::Json(JsonText::null())),
        });
        let arguments: Vec<Argument> = arguments
            .collect::<Result<_, _>>()
            .map_err(|_| ScriptError::Runtime { reason: "an argument is no JSON".to_owned() })?;
        let budget = self.millis.map_or(LONGEST, Duration::from_millis);
        loaded.call(callee, &Arguments::new(arguments).keeping(self.keep), budget).await
    }
}

/// What came of a call, as it is said.
fn told(said: Result<Option<Answer>, ScriptError>) -> Value {
    match said {
        Ok(None) => json!({ "none": true }),
        Ok(Some(Answer { json, functions })) => match json.read::<Value>() {
            Ok(json) => {
                let kept: Vec<_> = functions.iter().map(|kept| (&kept.at, kept.id.number())).collect();
                json!({ "json": json, "functions": kept })
            }
            Err(_) => json!({ "error": Wrong::Other { reason: "its answer is no JSON".to_owned() } }),
        },
        Err(error) => json!({ "error": Wrong::of(error) }),
    }
}
