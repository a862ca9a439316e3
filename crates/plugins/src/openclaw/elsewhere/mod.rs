//! Plugins in JavaScript that run in a program of their own: the same `api`, the same desk, the same shape of events and answers.
//!
//! What runs there speaks the protocol of programs (`external/process`), and may ask: for its modules and for what `api` needs. So all
//! that holds a program holds it as well: it is ended with its tree when it breaks the protocol or can't be interrupted, started again with
//! growing waits, and while it is not there its gates fail (law 5).
//!
//! The laws: *what was registered first stands*. A later life that keeps other functions under the numbers of the first is not asked for
//! them. *The verdict comes from outside*: a call ends at its time, and a program that does not take back what was cancelled is killed.
//! What it did by itself, its services among that, is lost with it, and the desk is told when the next life begins.
//!
//! There are two such programs: the machine's Node ([`node`]), and one of ours that holds a plugin alone as it is held inside ([`apart`]).

mod apart;
mod node;
pub(crate) mod told;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstop_hooks::{HookError, Json};
use backstop_script::{
    Answer, Argument, Arguments, Bridge, CallScope, Callee, Elsewhere, FunctionId, HostError, JsonText,
    Limits, Loaded, ModuleKind, Permissions, ScriptError, ScriptSource, Sources,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::AbortHandle;

pub(super) use self::apart::start as start_apart;
use self::apart::{Alone, Lines};
pub use self::apart::{Apart, NoHost, held_apart, load_apart};
pub use self::node::{Node, NodeError, unheld};
use super::desk::{PARTS, SDK};
use crate::external::Held;
use crate::external::process::life::{Life, Lives, Question};
use crate::external::process::{self, Fault, ProcessPlugin, ProcessSettings, wire};
use crate::package::Seal;

/// How many calls it works on at once. JavaScript works on one, and waits for the others.
const AT_ONCE: usize = 256;
/// How many questions may wait for the host.
const MOST_QUESTIONS: usize = 256;
/// How long it may take to start and to register.
const START: Duration = Duration::from_secs(20);
/// How long it may leave a cancelled call untaken, before it counts as stuck.
const STUCK: Duration = Duration::from_secs(1);
/// The longest line of it: the largest argument of a call of the host, with what JSON adds.
const MOST_LINE: usize = 8 << 20;

/// Where a plugin runs that does not run in this process.
#[derive(Clone, Debug)]
pub struct UnderNode {
    /// The machine's Node.
    pub node: Node,
    /// The environment that Node itself is started with. What the plugin sees is what it is granted.
    pub environment: BTreeMap<OsString, OsString>,
    /// What the plugin is told is the home, if it is granted no other.
    pub home: PathBuf,
}

/// Starts a plugin under Node, and has it register.
pub(super) async fn start(
    source: ScriptSource,
    permissions: &Permissions,
    bridge: Arc<dyn Bridge>,
    seal: Option<Arc<Seal>>,
    under: UnderNode,
) -> Result<(Loaded, ProcessPlugin), ScriptError> {
    let UnderNode { node, environment, home } = under;
    let limits = process::Limits {
        start: START,
        cancel_grace: STUCK,
        most_line: MOST_LINE,
        most_unasked: MOST_LINE,
        ..process::Limits::default()
    };
    let settings = ProcessSettings {
        plugin: source.name.to_string(),
        program: node.program().into(),
        arguments: node.arguments(permissions)?,
        directory: source.root.clone(),
        environment,
        config: Json::default(),
        limits,
        seal: seal.map(|seal| -> Arc<dyn Held> { seal }),
    };
    let mut variables = permissions.env.clone();
    variables.entry("HOME".to_owned()).or_insert_with(|| home.to_string_lossy().into_owned());
    let host = Host::new(source, bridge, Kind::Node { node, variables });
    let (loaded, process, _) = host.start(settings).await?;
    Ok((loaded, process))
}

/// What all lives of a plugin have in common.
struct Host {
    bridge: Arc<dyn Bridge>,
    source: ScriptSource,
    kind: Kind,
    lives: AtomicU32,
    kept: Mutex<Kept>,
    /// Why the last life could not register, exactly.
    failure: Mutex<Option<ScriptError>>,
    /// What of its walls can't be built, as the last life says.
    gaps: Mutex<Vec<String>>,
}

/// What runs it.
enum Kind {
    /// The machine's Node, and the variables that the plugin sees.
    Node { node: Node, variables: BTreeMap<String, String> },
    /// A process of ours.
    Apart(Alone),
}

/// The functions that were kept by a name while the plugin was loaded.
#[derive(Default)]
struct Kept {
    first: BTreeMap<u32, String>,
    now: BTreeMap<u32, String>,
    generation: u32,
}

impl Host {
    fn new(source: ScriptSource, bridge: Arc<dyn Bridge>, kind: Kind) -> Arc<Self> {
        Arc::new(Self {
            bridge,
            source,
            kind,
            lives: AtomicU32::new(0),
            kept: Mutex::default(),
            failure: Mutex::default(),
            gaps: Mutex::default(),
        })
    }

    /// Starts the program for the first time. Says what of its walls can't be built.
    async fn start(
        self: Arc<Self>,
        settings: ProcessSettings,
    ) -> Result<(Loaded, ProcessPlugin, Vec<String>), ScriptError> {
        let host = self;
        let served: Arc<dyn Lives> = Arc::new(Serving(Arc::clone(&host)));
        let process = ProcessPlugin::start_serving(settings, Some(served)).await.map_err(|error| {
            let failure = host.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
            failure
                .unwrap_or_else(|| ScriptError::Elsewhere { reason: error.to_string(), is_malformed: false })
        })?;
        let gaps = host.gaps.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let name = Arc::clone(&host.source.name);
        let place = Arc::new(Place { name, host, process: process.clone() });
        Ok((Loaded::elsewhere_at(place), process, gaps))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this life has the function that is meant.
    fn has(&self, generation: u32, function: FunctionId) -> Result<(), ScriptError> {
        let name = function.to_string();
        if !function.is_of(generation) {
            return Err(ScriptError::NoFunction { name });
        }
        let kept = self.kept();
        let label = kept.first.get(&function.number());
        if function.is_of_load()
            && (kept.generation != generation || label != kept.now.get(&function.number()))
        {
            return Err(ScriptError::Changed { name: label.cloned().unwrap_or(name) });
        }
        Ok(())
    }
}

struct Serving(Arc<Host>);

impl Lives for Serving {
    fn begin(&self) -> Result<Arc<dyn Life>, Fault> {
        let host = Arc::clone(&self.0);
        let sources = match &host.kind {
            Kind::Node { node, .. } => {
                node.check().map_err(|error| Fault::Start(error.to_string()))?;
                let sources = Sources::new(&host.source, Limits::default(), Arc::clone(&host.bridge));
                Some(sources.map_err(|error| Fault::Start(error.to_string()))?)
            }
            Kind::Apart(_) => None,
        };
        let before = host.lives.fetch_add(1, Ordering::AcqRel);
        if before > 0 && host.kept().generation == before {
            let reason = "its process ended".to_owned();
            let scope = CallScope { script: Arc::clone(&host.source.name), generation: before };
            host.bridge.ended(&scope, &ScriptError::Elsewhere { reason, is_malformed: false });
        }
        let generation = before + 1;
        let scope = CallScope { script: Arc::clone(&host.source.name), generation };
        let working = Mutex::new(Some(BTreeMap::new()));
        Ok(Arc::new(OneLife {
            host,
            scope,
            sources,
            questions: Arc::default(),
            working,
            lines: Lines::default(),
        }))
    }
}

/// One life: its modules are read anew, and held against the same look.
struct OneLife {
    host: Arc<Host>,
    scope: CallScope,
    /// Its modules, where they are handed over.
    sources: Option<Sources>,
    questions: Arc<AtomicUsize>,
    /// What is worked on for its questions; nothing more is once the life is over.
    working: Mutex<Option<BTreeMap<u64, AbortHandle>>>,
    lines: Lines,
}

impl fmt::Debug for OneLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OneLife").field("scope", &self.scope).finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct Resolving {
    importer: String,
    specifier: String,
    require: bool,
}

#[derive(Deserialize)]
struct Loading {
    name: String,
}

#[derive(Deserialize)]
struct Importing {
    file: String,
}

#[derive(Deserialize)]
struct Calling {
    name: String,
    value: Value,
}

type Said = Result<Value, (String, Value)>;

impl OneLife {
    fn read<T: for<'de> Deserialize<'de>>(params: Value) -> Result<T, Fault> {
        serde_json::from_value(params).map_err(|_| Fault::NoMessage)
    }

    /// A place for one more question that waits for the host; who asked is told where there is none.
    fn admit(&self, question: Question) -> Option<(Question, Admitted)> {
        if self.questions.fetch_add(1, Ordering::AcqRel) < MOST_QUESTIONS {
            return Some((question, Admitted(Arc::clone(&self.questions))));
        }
        self.questions.fetch_sub(1, Ordering::AcqRel);
        let full = format!("{MOST_QUESTIONS} requests are under way already");
        question.answer(Err((full, json!({ "code": "ERR_OUT_OF_RANGE" }))));
        None
    }

    /// Answers from another thread, where files are read.
    fn later(&self, question: Question, work: impl FnOnce(&Sources) -> Said + Send + 'static) {
        let Some((question, admitted)) = self.admit(question) else { return };
        let Some(sources) = self.sources.clone() else { return };
        tokio::task::spawn_blocking(move || {
            let said = work(&sources);
            drop(admitted);
            question.answer(said);
        });
    }
}

/// A question that waits for the host, as long as this is held.
struct Admitted(Arc<AtomicUsize>);

impl Drop for Admitted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The argument of a call of the host, within the bound that holds everywhere.
fn argument(called: &Calling) -> Result<JsonText, (String, Value)> {
    let text = JsonText::of(&called.value).map_err(|_| ("it has no JSON form".to_owned(), Value::Null))?;
    let (length, most) = (text.as_str().len(), Limits::default().answer_bytes);
    if length <= most {
        return Ok(text);
    }
    let name: String = called.name.chars().take(60).collect();
    let message = format!("the argument of `{name}` has {length} bytes; the most is {most}");
    Err((message, json!({ "code": "ERR_OUT_OF_RANGE" })))
}

fn not_had(error: &ScriptError) -> (String, Value) {
    (error.to_string(), json!({ "code": "MODULE_NOT_FOUND" }))
}

fn refused(error: HostError) -> (String, Value) {
    let HostError { code, message, properties } = error;
    (message, json!({ "code": code, "properties": properties }))
}

fn as_value(text: &JsonText) -> Said {
    text.read().map_err(|_| ("the host's answer is no JSON".to_owned(), Value::Null))
}

fn resolve(sources: &Sources, wanted: &Resolving) -> Said {
    match sources.resolve(&wanted.importer, &wanted.specifier, wanted.require) {
        Ok(name) => Ok(json!({ "name": name })),
        Err(Ok(other)) => Ok(json!({ "other": other })),
        Err(Err(error)) => Err(not_had(&error)),
    }
}

fn load(sources: &Sources, name: &str) -> Said {
    let module = sources.load(name).map_err(|error| not_had(&error))?;
    let kind = match module.kind {
        ModuleKind::Ours => "ours",
        ModuleKind::Module => "module",
        ModuleKind::Script => "script",
        ModuleKind::Json => "json",
    };
    let mut told = Map::new();
    told.insert("kind".to_owned(), kind.into());
    told.insert("text".to_owned(), module.text.into());
    if let Some(file) = module.file {
        told.insert("file".to_owned(), file.to_string_lossy().into_owned().into());
    }
    Ok(Value::Object(told))
}

impl Life for OneLife {
    fn preface(&self) -> Vec<u8> {
        match &self.host.kind {
            Kind::Node { .. } => wire::text(include_str!("runner.js")),
            Kind::Apart(_) => Vec::new(),
        }
    }

    fn greeting(&self) -> Value {
        let variables = match &self.host.kind {
            Kind::Node { variables, .. } => variables,
            Kind::Apart(alone) => return alone.greeting(&self.host.source),
        };
        let Limits { functions, answer_depth, answer_bytes, .. } = Limits::default();
        json!({
            "boot": include_str!("../js/boot.js"),
            "parts": PARTS.map(|(name, _)| name),
            "sdk": SDK.map(|(_, text)| text),
            "environment": { "keeps": [process::MARKER], "variables": variables },
            "limits": { "functions": functions, "depth": answer_depth, "bytes": answer_bytes },
        })
    }

    fn greeted(&self, answer: Value) -> Result<usize, Fault> {
        let wrong = || Fault::Handshake("answered `initialize` wrongly".to_owned());
        if let Some(error) = answer.get("error") {
            let error = told::error(error).ok_or_else(wrong)?;
            let noted = self.sources.as_ref().and_then(|sources| sources.take_failure(&error.to_string()));
            let error = noted.unwrap_or(error);
            let said = Fault::Handshake(format!("could not load the plugin: {error}"));
            *self.host.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            return Err(said);
        }
        let list = answer.get("kept").cloned().ok_or_else(wrong)?;
        let list: Vec<(u32, String)> = serde_json::from_value(list).map_err(|_| wrong())?;
        if let Some(gaps) = answer.get("gaps") {
            let gaps = Vec::<String>::deserialize(gaps).map_err(|_| wrong())?;
            *self.host.gaps.lock().unwrap_or_else(PoisonError::into_inner) = gaps;
        }
        let mut kept = self.host.kept();
        kept.now = list.into_iter().collect();
        kept.generation = self.scope.generation;
        if self.scope.generation == 1 {
            kept.first = kept.now.clone();
        }
        Ok(AT_ONCE)
    }

    fn asked(&self, question: Question, method: &str, params: Value) -> Result<(), Fault> {
        match (method, &self.host.kind) {
            ("resolve", Kind::Node { .. }) => {
                let wanted: Resolving = Self::read(params)?;
                self.later(question, move |sources| resolve(sources, &wanted));
            }
            ("load", Kind::Node { .. }) => {
                let Loading { name } = Self::read(params)?;
                self.later(question, move |sources| load(sources, &name));
            }
            ("syntax", Kind::Node { .. }) => {
                let Loading { name } = Self::read(params)?;
                self.later(question, move |sources| Ok(json!(sources.syntax_error(&name))));
            }
            ("importer", Kind::Node { .. }) => {
                let Importing { file } = Self::read(params)?;
                self.later(question, move |sources| Ok(json!({ "name": sources.importer(&file) })));
            }
            ("call", _) => {
                let called: Calling = Self::read(params)?;
                let said = argument(&called).and_then(|value| {
                    let said = self.host.bridge.call(&self.scope, &called.name, value);
                    as_value(&said.map_err(refused)?)
                });
                question.answer(said);
            }
            ("request", _) => {
                let called: Calling = Self::read(params)?;
                let Some((question, admitted)) = self.admit(question) else { return Ok(()) };
                let (bridge, scope) = (Arc::clone(&self.host.bridge), self.scope.clone());
                tokio::spawn(async move {
                    let said = match argument(&called) {
                        Ok(value) => bridge.request(scope, called.name, value).await.map_err(refused),
                        Err(wrong) => Err(wrong),
                    };
                    drop(admitted);
                    question.answer(said.and_then(|text| as_value(&text)));
                });
            }
            (_, Kind::Apart(alone)) => return self.asked_apart(alone, question, method, params),
            (other, Kind::Node { .. }) => {
                return Err(Fault::UnknownMethod(other.chars().take(60).collect()));
            }
        }
        Ok(())
    }

    fn over(&self) {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner).take();
        working.into_iter().flatten().for_each(|(_, work)| work.abort());
    }

    fn generation(&self) -> u32 {
        self.scope.generation
    }
}

/// A plugin in a program of its own, as it is called.
struct Place {
    name: Arc<str>,
    host: Arc<Host>,
    process: ProcessPlugin,
}

/// A failure of the program, and not of the plugin's code.
fn elsewhere(error: HookError) -> ScriptError {
    match error {
        HookError::Malformed(malformed) => {
            ScriptError::Elsewhere { reason: malformed.message().to_owned(), is_malformed: true }
        }
        other => ScriptError::Elsewhere { reason: other.to_string(), is_malformed: false },
    }
}

impl Place {
    async fn ask(
        &self,
        callee: &Callee,
        arguments: &Arguments,
        budget: Duration,
    ) -> Result<Option<Answer>, ScriptError> {
        let session = self.process.session().await.map_err(elsewhere)?;
        let generation = session.life().map(|life| life.generation()).unwrap_or_default();
        let (which, name, called) = match callee {
            Callee::Kept(function) => {
                self.host.has(generation, *function)?;
                ("function", json!(function.number()), function.to_string())
            }
            Callee::Export(name) => ("export", json!(name), format!("`{name}` among its exports")),
        };
        let millis = u64::try_from(budget.as_millis()).unwrap_or(u64::MAX);
        let params = json!({
            (which): name, "arguments": plain(arguments)?, "keep": arguments.kept(), "millis": millis,
        });
        let said = session.ask("call", &params).await.map_err(elsewhere)?;
        told::answer(said, generation, &called, arguments.kept())
    }
}

/// Arguments as they go over the pipe.
fn plain(arguments: &Arguments) -> Result<Vec<Value>, ScriptError> {
    let value = |text: &JsonText| {
        text.read::<Value>().map_err(|_| ScriptError::Runtime { reason: "an argument is no JSON".to_owned() })
    };
    let argument = |argument: &Argument| {
        Ok(match argument {
            Argument::Json(text) => json!({ "json": value(text)? }),
            Argument::Signal => json!({ "signal": true }),
            Argument::Lazy(event) => {
                let fields = event.fields().map(|(name, text)| Ok((name.to_owned(), value(text)?)));
                json!({ "json": fields.collect::<Result<Map<_, _>, ScriptError>>()? })
            }
        })
    };
    arguments.list().iter().map(argument).collect()
}

#[async_trait]
impl Elsewhere for Place {
    fn name(&self) -> &str {
        &self.name
    }

    async fn call(
        &self,
        callee: Callee,
        arguments: &Arguments,
        budget: Duration,
    ) -> Result<Option<Answer>, ScriptError> {
        let asked = tokio::time::timeout(budget, self.ask(&callee, arguments, budget)).await;
        asked.unwrap_or(Err(ScriptError::TimedOut { budget, at: None }))
    }

    fn release(&self, function: FunctionId) {
        let Some(session) = self.process.session_now() else { return };
        if session.life().is_some_and(|life| function.is_of(life.generation())) {
            session.tell(wire::notification("release", &json!({ "function": function.number() })));
        }
    }

    async fn heap(&self, budget: Duration) -> Option<u64> {
        let asked = async { self.process.session().await.ok()?.ask("heap", &Value::Null).await.ok() };
        tokio::time::timeout(budget, asked).await.ok()??.get("bytes")?.as_u64()
    }
}
