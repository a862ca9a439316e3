//! A program that stays: it is started once and asked about each event.
//!
//! It speaks JSON-RPC 2.0, one message a line. The host sends `initialize` and the program answers which hooks it has, how many
//! events it works on at once, and which tools it brings; then come `event` requests, each answered with the outcome of its
//! point or `null`. `$/cancel` says that nobody waits for an answer any more; such a request is answered all the same, and the
//! answer dropped. `shutdown` asks it to end. The program may send `log`. What it prints to standard error is logged as well.
//!
//! The laws: *failing is not passing*, so whatever is no exact answer fails the calls under way; *nothing is passed over*, so a
//! program that breaks the protocol is ended with its tree and started anew, since nobody knows what else it would mix up.
//! Restarts wait longer each time, and while one waits, calls fail at once.
//!
//! Limits are in [`Limits`]. A program has the rights of the user that Backstop runs as; it gets the environment of its entry
//! and no open files.

mod fault;
mod handshake;
mod input;
pub(crate) mod life;
mod run;
pub(crate) mod session;
mod stop;
pub(crate) mod wire;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use backstop_hooks::{HookError, Json, JsonFuture, JsonHook, PointId};
use backstop_process::{Descriptors, Family, Program};
use serde_json::Value;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::Instant;

pub use self::fault::Fault;
use self::handshake::Handshake;
use self::input::Input;
use self::life::Lives;
use self::run::{Pipes, Task, listen};
use self::session::Session;
use self::stop::Stop;
use self::wire::Call;
use super::Held;
use crate::registration::{HookSpec, Offer, Registration, RegistrationError};

/// The environment variable that marks the processes of plugins.
pub(crate) const MARKER: &str = "BACKSTOP_PLUGIN_ID";
/// The wait before the second start in a row; it doubles from there.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait before a start.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A program that has lived for so long is no longer one that fails in a row.
const SETTLED: Duration = Duration::from_secs(60);
/// How long the system may take to end a program that was killed.
const KILLED: Duration = Duration::from_secs(3);
/// How much of what a program said last on its standard error is kept for its author.
const LAST_LINES: usize = 20;

/// What a program may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long it may take to answer `initialize`.
    pub start: Duration,
    /// How long it may take to end when it is asked to, before it is killed.
    pub grace: Duration,
    /// How long it may leave its standard input unread.
    pub stall: Duration,
    /// How long it may take to answer a request that was cancelled.
    pub cancel_grace: Duration,
    /// Most bytes of one line.
    pub most_line: usize,
    /// Most bytes that it writes within ten seconds without an answer among them.
    pub most_unasked: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            stall: Duration::from_secs(10),
            cancel_grace: Duration::from_secs(30),
            most_line: super::MOST_ANSWER_BYTES,
            most_unasked: 1 << 20,
        }
    }
}

impl Limits {
    /// How long the end of a program takes at most: it is asked by a message, by the end of its input and by a signal, and then killed.
    fn longest_end(&self) -> Duration {
        self.grace.saturating_mul(3).saturating_add(KILLED)
    }
}

/// Which program it is, and what it is given.
#[derive(Clone)]
pub struct ProcessSettings {
    /// The plugin, or the hook of the configuration.
    pub plugin: String,
    /// What to run: a path, or a name that is looked for in the `PATH` of this process.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs.
    pub directory: PathBuf,
    /// Its environment, and nothing else.
    pub environment: BTreeMap<OsString, OsString>,
    /// Its configuration, which it is given with `initialize`.
    pub config: Json,
    /// What it may take.
    pub limits: Limits,
    /// What was seen of its files when it was trusted; it is looked at again before each start.
    pub seal: Option<Arc<dyn Held>>,
}

impl fmt::Debug for ProcessSettings {
    /// Without arguments and environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSettings")
            .field("plugin", &self.plugin)
            .field("program", &self.program)
            .finish_non_exhaustive()
    }
}

/// Why a program is no plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the process of `{plugin}` {fault}{}", last_words(.said))]
pub struct StartError {
    plugin: String,
    fault: Fault,
    said: String,
}

fn last_words(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!("\nit said last, on its standard error:\n{said}") }
}

impl StartError {
    /// What was wrong.
    pub fn fault(&self) -> &Fault {
        &self.fault
    }
}

/// The last lines of a program's standard error.
#[derive(Debug, Default)]
struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LAST_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn take(&self) -> String {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines
            .drain(..)
            .map(|line| format!("  {}\n", super::shown(&line, 200)))
            .collect::<String>()
            .trim_end()
            .to_owned()
    }
}

/// How a program is.
#[derive(Clone, Debug)]
enum State {
    /// Being started, at once.
    Starting,
    /// It can be asked.
    Ready(Arc<Session>),
    /// It is started again when some time has passed.
    Down(Fault),
    /// It is not started again.
    Over,
}

/// What the plugin and the task that looks after it share.
struct Shared {
    settings: ProcessSettings,
    plugin: Arc<str>,
    family: Family,
    state: watch::Sender<State>,
    declared: OnceLock<Handshake>,
    /// Who answers its questions, if it may ask any.
    lives: Option<Arc<dyn Lives>>,
    stop: Stop,
}

/// A plugin that is a program. When the last of it and its hooks is dropped, the program dies.
#[derive(Clone)]
pub struct ProcessPlugin {
    shared: Arc<Shared>,
    /// Ends the program when the last of its users is gone.
    _keeper: Arc<Task<()>>,
}

impl fmt::Debug for ProcessPlugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessPlugin").field("settings", &self.shared.settings).finish_non_exhaustive()
    }
}

/// A program that was started, and who serves it.
struct Launched {
    session: Arc<Session>,
    serving: Task<Fault>,
    since: Instant,
}

impl ProcessPlugin {
    /// Starts the program and asks what it is. Must be called within a tokio runtime, in which the program is looked after.
    ///
    /// # Errors
    ///
    /// [`StartError`], where it can't be started or does not say what it is; nothing of it is left then.
    pub async fn start(settings: ProcessSettings) -> Result<Self, StartError> {
        Self::start_serving(settings, None).await
    }

    /// Starts a program that may ask, as [`Self::start`] does.
    pub(crate) async fn start_serving(
        settings: ProcessSettings,
        lives: Option<Arc<dyn Lives>>,
    ) -> Result<Self, StartError> {
        let plugin: Arc<str> = settings.plugin.as_str().into();
        let shared = Arc::new(Shared {
            family: Family::new(MARKER, uuid::Uuid::now_v7().simple().to_string()),
            state: watch::Sender::new(State::Starting),
            declared: OnceLock::new(),
            lives,
            stop: Stop::default(),
            settings,
            plugin,
        });
        let launched = shared.launch().await?;
        let keeper = Task(tokio::spawn(keep(Arc::clone(&shared), launched)));
        Ok(Self { shared, _keeper: Arc::new(keeper) })
    }

    /// Adds to `registration` what the program declared; each hook as `asked` has it.
    ///
    /// # Errors
    ///
    /// [`RegistrationError`].
    pub fn register(
        &self,
        registration: &mut Registration,
        asked: impl Fn(Arc<dyn JsonHook>) -> Arc<dyn JsonHook>,
    ) -> Result<(), RegistrationError> {
        for (spec, hook) in self.hooks() {
            registration.hook(spec.clone(), asked(hook))?;
        }
        self.offers().iter().try_for_each(|offer| registration.offer(offer.clone()))
    }

    /// The hooks that the program declared, each with who asks it.
    pub fn hooks(&self) -> impl Iterator<Item = (&HookSpec, Arc<dyn JsonHook>)> {
        let hook = |spec: &HookSpec| -> Arc<dyn JsonHook> {
            Arc::new(ProcessHook { plugin: self.clone(), registration: spec.registration.clone() })
        };
        self.shared.declared.get().into_iter().flat_map(|all| &all.hooks).map(move |spec| (spec, hook(spec)))
    }

    /// What it declared besides hooks.
    pub fn offers(&self) -> &[Offer] {
        self.shared.declared.get().map(|declared| declared.offers.as_slice()).unwrap_or_default()
    }

    /// Calls a tool that the program brings.
    ///
    /// # Errors
    ///
    /// [`HookError`], as for an event.
    pub async fn call_tool(&self, name: &str, arguments: &Value) -> Result<Value, HookError> {
        self.shared.session().await?.call(Call::Tool { name, arguments }).await
    }

    /// Asks the program to end, and returns when nothing of it is left. Its hooks fail from now on, and it is never started again.
    /// A program that can't be ended in the time that its limits allow is left to the system, after it was killed.
    pub async fn shut_down(&self) {
        let shared = &self.shared;
        shared.stop.ask();
        let mut state = shared.state.subscribe();
        // An error means that its keeper is gone, and with it the program.
        let over = state.wait_for(|state| matches!(state, State::Over));
        if tokio::time::timeout(shared.settings.limits.longest_end(), over).await.is_err() {
            tracing::warn!(plugin = %shared.plugin, "the process of a plugin or hook did not end in its time; it is killed");
            self._keeper.0.abort();
            shared.state.send_replace(State::Over);
        }
        shared.family.end();
    }

    /// The program as it runs; waits where it is being started.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, HookError> {
        self.shared.session().await
    }

    /// The program, if it runs.
    pub(crate) fn session_now(&self) -> Option<Arc<Session>> {
        match &*self.shared.state.borrow() {
            State::Ready(session) => Some(Arc::clone(session)),
            State::Starting | State::Down(_) | State::Over => None,
        }
    }

    /// Whether it can be asked right now.
    pub fn is_ready(&self) -> bool {
        matches!(&*self.shared.state.borrow(), State::Ready(_))
    }

    /// Whether somebody else holds it: a hook of a snapshot, or a tool.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self._keeper) > 1
    }

    /// Whether it works on nothing.
    pub fn is_idle(&self) -> bool {
        match &*self.shared.state.borrow() {
            State::Ready(session) => session.is_idle(),
            State::Starting | State::Down(_) | State::Over => true,
        }
    }
}

/// One hook of a program.
#[derive(Debug)]
struct ProcessHook {
    plugin: ProcessPlugin,
    registration: String,
}

impl JsonHook for ProcessHook {
    fn call<'a>(&'a self, point: PointId, event: Value) -> JsonFuture<'a> {
        Box::pin(async move {
            let session = self.plugin.shared.session().await?;
            session.call(Call::Event { hook: &self.registration, point, event: &event }).await
        })
    }
}

impl Shared {
    /// The program as it runs; waits where it is being started.
    async fn session(&self) -> Result<Arc<Session>, HookError> {
        let mut states = self.state.subscribe();
        loop {
            match &*states.borrow_and_update() {
                State::Ready(session) if !session.is_over() => return Ok(Arc::clone(session)),
                // The next life begins when nothing is left of this one.
                State::Ready(_) | State::Starting => {}
                State::Down(fault) => {
                    let why = fault.hook_error(&self.plugin);
                    return Err(HookError::Unreachable(format!("{why}; it is started again soon")));
                }
                State::Over => return Err(Fault::ShutDown.hook_error(&self.plugin)),
            }
            if states.changed().await.is_err() {
                return Err(Fault::ShutDown.hook_error(&self.plugin));
            }
        }
    }

    fn program(&self) -> Program {
        let settings = &self.settings;
        let mut program = Program::new(&settings.program);
        program.arguments.clone_from(&settings.arguments);
        program.directory.clone_from(&settings.directory);
        program.environment.clone_from(&settings.environment);
        program.input = Stdio::piped();
        program.output = Stdio::piped();
        program.errors = Stdio::piped();
        program.descriptors = Descriptors::None;
        program
    }

    /// Starts the program once, and asks what it is.
    async fn launch(&self) -> Result<Launched, StartError> {
        let said = Arc::new(LastWords::default());
        let error = |fault, said: &LastWords| StartError {
            plugin: self.plugin.to_string(),
            fault,
            said: said.take(),
        };
        if let Some(seal) = self.settings.seal.clone() {
            let looked = tokio::task::spawn_blocking(move || seal.check());
            let looked = looked.await.unwrap_or_else(|_| Err("its files could not be looked at".to_owned()));
            looked.map_err(|why| error(Fault::Changed(why), &said))?;
        }
        let life = self.lives.as_ref().map(|lives| lives.begin()).transpose();
        let life = life.map_err(|fault| error(fault, &said))?;
        let mut running = self
            .family
            .start(self.program())
            .map_err(|source| error(Fault::Start(super::not_started(&source)), &said))?;
        let pipes = (running.take_input(), running.take_output(), running.take_errors());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            return Err(error(Fault::Start("it has no pipes".to_owned()), &said));
        };
        let limits = self.settings.limits;
        let listening =
            tokio::spawn(listen(errors, Arc::clone(&self.plugin), limits.most_unasked, Arc::clone(&said)));
        let input = input
            .into_owned_fd()
            .and_then(pipe::Sender::from_owned_fd)
            .map_err(|source| error(Fault::Start(source.to_string()), &said))?;
        let (input, writer) = Input::new(input);
        let session = Session::new(Arc::clone(&self.plugin), input, life);
        let (stop, plugin) = (self.stop.clone(), Arc::clone(&self.plugin));
        let pipes = Pipes { session: Arc::clone(&session), running, writer, output, limits, stop, plugin };
        let serving = Task(tokio::spawn(pipes.serve()));
        match self.greet(&session).await {
            Ok(()) => Ok(Launched { session, serving, since: Instant::now() }),
            Err(fault) => {
                drop(serving);
                // Its tree is gone, and with it the other end of the pipe, so that its last words are all there.
                let _ = tokio::time::timeout(limits.grace, listening).await;
                Err(error(fault, &said))
            }
        }
    }

    async fn greet(&self, session: &Session) -> Result<(), Fault> {
        let settings = &self.settings;
        let life = session.life();
        if let Some(life) = life {
            session.tell(life.preface());
        }
        let initialize = |id| match life {
            Some(life) => wire::request(id, "initialize", &life.greeting()),
            None => wire::initialize(id, &settings.plugin, &settings.config),
        };
        let greeting = session.request(initialize, None);
        let answer = tokio::time::timeout(settings.limits.start, greeting).await.map_err(|_| {
            Fault::Handshake(format!(
                "did not answer `initialize` within {} ms",
                settings.limits.start.as_millis()
            ))
        })??;
        let answer = answer
            .map_err(|message| Fault::Handshake(format!("answered `initialize` with an error: {message}")))?;
        if let Some(life) = life {
            session.widen(life.greeted(answer)?);
            return Ok(());
        }
        let declared = handshake::read(answer)?;
        let concurrency = declared.concurrency;
        if !self.declared.get_or_init(|| declared.clone()).is_same(&declared) {
            return Err(Fault::Handshake(
                "declares other hooks than when it was loaded\nhint: reload the plugin".to_owned(),
            ));
        }
        session.widen(concurrency);
        Ok(())
    }
}

/// How long to wait before the start after so many failures in a row.
fn wait_after(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => FIRST_WAIT.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_WAIT),
    }
}

/// Looks after a program: starts it again when it has ended, until it is told to stop.
async fn keep(shared: Arc<Shared>, first: Launched) {
    let mut launched = first;
    let mut failures = 0;
    loop {
        shared.state.send_replace(State::Ready(Arc::clone(&launched.session)));
        let fault = (&mut launched.serving.0).await.unwrap_or(Fault::ShutDown);
        if fault == Fault::ShutDown || shared.stop.is_asked() {
            break;
        }
        if launched.since.elapsed() >= SETTLED {
            failures = 0;
        }
        // INVARIANT: once it is to end, nothing is started any more, and what is being started is dropped, which kills it.
        launched = tokio::select! {
            biased;
            () = shared.stop.asked() => break,
            next = again(&shared, fault, &mut failures) => next,
        };
    }
    shared.state.send_replace(State::Over);
}

/// The next life of a program.
async fn again(shared: &Shared, fault: Fault, failures: &mut u32) -> Launched {
    let mut fault = fault;
    loop {
        *failures += 1;
        let wait = wait_after(*failures);
        tracing::warn!(plugin = %shared.plugin, wait_ms = wait.as_millis(), "the process of a plugin or hook {fault}; it is started again");
        if !wait.is_zero() {
            shared.state.send_replace(State::Down(fault));
            tokio::time::sleep(wait).await;
        }
        shared.state.send_replace(State::Starting);
        // What left its group and its parent still carries the mark.
        shared.family.end();
        match shared.launch().await {
            Ok(launched) => return launched,
            Err(error) => fault = error.fault,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.state.send_replace(State::Over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_wait_longer_each_time() {
        let waits: Vec<_> = (1..20).map(wait_after).collect();
        assert!(waits.first().is_some_and(Duration::is_zero) && waits.is_sorted());
        assert_eq!(waits.last(), Some(&LONGEST_WAIT));
        assert_eq!(wait_after(u32::MAX), LONGEST_WAIT);
    }
}
