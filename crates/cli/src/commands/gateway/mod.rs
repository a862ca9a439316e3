//! `backstop serve` and `backstop run`: the LLM proxy, and the daemon that answers hooks.

pub(crate) mod banner;
mod chat;
mod child;
mod environment;
mod errand;
mod hold;
mod leave;
mod once;
pub(crate) mod run;
pub(crate) mod serve;
mod served;
pub(in crate::commands) mod watch;
mod witnesses;

use std::future::pending;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use backstop::clients::Client;
use backstop::gateway::inspect::{HookSettings, Hooks, ToolCalls, Unasked};
use backstop::gateway::{Gateway, Interceptor, Metrics, Observers, RequestSink, Settings};
use backstop::hooks::{ApprovalId, Sight, ToolCallId};
use backstop::store::{ApprovalRecord, ApprovalStatus, Store, Timestamp};
use backstop::{Backstop, Cause, Witnesses, surfaces};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub(in crate::commands) use self::once::RunFolder;

use super::agent::{say_faults, say_left_out};
use super::retention;

use self::hold::Hold;
use self::leave::Leaving;
use self::watch::{Counted, Decisions, Shown};
use self::witnesses::tell_witnesses;
use crate::daemon::{Daemon, Heard, ListenError, Policies};
use crate::desk::Desk;
use crate::error::Error;
use crate::log::{self, AccessLog};
use crate::session::{Surroundings, builder, environment};

/// A gateway and the hooks behind it, and a daemon for hooks of coding agents.
struct Running {
    gateway: Gateway,
    hooks: Hooks,
    backstop: Backstop,
    daemon: Option<Daemon>,
    /// The configuration is checked for the hooks of clients, too, even if another process answers them.
    answers_clients: bool,
    /// What the audit trail calls this process.
    program: &'static str,
    /// Whether any hook has come.
    heard: Arc<Heard>,
    /// Holds the calls of a client that was given our hooks.
    hold: Option<Arc<Hold>>,
    /// Where people answer, if that is not in the database.
    desk: Option<Desk>,
    /// The store as it was opened for the configuration in force.
    opened: Arc<dyn Store>,
    /// What was decided about traffic, and about the events of clients.
    decisions: Arc<Decisions>,
    watch: Arc<Decisions>,
    /// What operators are shown; none where a program is run.
    metrics: Option<Metrics>,
    /// Deletes what is kept no longer.
    sweeping: Option<JoinHandle<()>>,
    /// Tells the witnesses of the audit trail how far it reaches.
    witnessing: Option<JoinHandle<()>>,
    /// Tells people of questions away from this machine, and hears them.
    surfaces: Option<surfaces::Running>,
    /// What sets this process apart from others that tell the same people, and who counts.
    holder: surfaces::Holder,
    /// Hooks of configurations that no longer hold end with what they judge.
    retiring: Vec<JoinHandle<bool>>,
}

/// Says of questions that a killed process had no time to file that they ended. Where that can't be said now, the next start says it.
pub(crate) async fn tell_lost(store: &dyn Store) {
    match store.end_lost_approvals(Timestamp::now()).await {
        Ok(0) => {}
        Ok(count) => tracing::warn!(
            count,
            "questions that the audit trail has were never filed, or are gone from the database: it says now that they ended"
        ),
        Err(error) => tracing::warn!(%error, "it can't be told of questions whether they were ever filed"),
    }
}

/// Where the daemon listens.
enum Listen {
    Nowhere,
    /// Unless another one does.
    Unless(PathBuf),
    /// For the program of `backstop run`.
    ForRun {
        socket: PathBuf,
        /// The client that it is.
        client: Option<Client>,
        /// Whether it was given our hooks.
        is_hooked: bool,
        /// Whether it has hooks of ours that its user installed, and may start them.
        is_installed: bool,
    },
}

impl Running {
    /// Starts a gateway whose decisions are told on stderr.
    async fn start(
        mut settings: Settings,
        loaded: backstop::config::Loaded,
        store: Arc<dyn Store>,
        listen: Listen,
        surroundings: &Surroundings,
    ) -> Result<Self, Error> {
        give_memory_back();
        // The gateway of one program has one user.
        settings.store = (!matches!(listen, Listen::ForRun { .. })).then(|| Arc::clone(&store));
        // A program that is run owns the terminal that it is on.
        let is_silent = matches!(listen, Listen::ForRun { .. }) && is_on_terminal();
        let seen = || Arc::new(Decisions::new(surroundings.output.talk_paint(), is_silent));
        let (decisions, watch) = (seen(), seen());
        let metrics =
            (!matches!(listen, Listen::ForRun { .. })).then(|| Metrics::new(env!("CARGO_PKG_VERSION")));
        // The questions of one program are asked where it runs.
        let told = match &listen {
            Listen::ForRun { .. } => surfaces::Surfaces::default(),
            Listen::Nowhere | Listen::Unless(_) => surfaces::surfaces(&loaded, &environment)?,
        };
        let witnesses = Witnesses::of(&loaded, &environment)?;
        let mut how = backstop::gateway_hooks(&loaded);
        let heard = Arc::<Heard>::default();
        let hold = match &listen {
            Listen::ForRun { client: Some(client), is_hooked: true, .. } => {
                Some(Hold::new(*client, Arc::clone(&heard)))
            }
            _ => None,
        };
        let heard_of = match &listen {
            Listen::ForRun { client, .. } => *client,
            _ => None,
        };
        how.client = heard_of.map(Client::name);
        if matches!(listen, Listen::ForRun { .. }) {
            // It runs here.
            how.sight = Sight::default();
        }
        let hold = hold.map(Arc::new);
        if hold.is_some() && matches!(how.tool_calls, ToolCalls::Judge(_)) {
            // One call is asked about once: by the hooks, which see it next.
            how.tool_calls = ToolCalls::Judge(Unasked::Leave);
        }
        let desk = Desk::open(&loaded, &store, surroundings)?;
        let opened = Arc::clone(&store);
        let answers = desk.as_ref().map(Desk::answers);
        let answers_clients = !matches!(listen, Listen::Nowhere);
        let program = if matches!(listen, Listen::ForRun { .. }) { "run" } else { "serve" };
        let mut builder = builder(loaded, surroundings);
        if let Some(answers) = &answers {
            builder = builder.answer_store(Arc::clone(answers));
        }
        if let Some(hold) = hold.clone() {
            builder = builder.hooks(|snapshot| hold.register(snapshot));
        }
        let backstop = builder
            .hosts(backstop::server_hosts(&how, answers_clients))
            .store(store)
            .shared_decisions(true)
            .judges_answers(true)
            .sink(Shown::to(&decisions, metrics.as_ref()))
            .build()
            .await?;
        if let Some(desk) = &desk {
            desk.put_in_force(backstop.policy_version());
        }
        if let Some(audit) = backstop.audit() {
            // Where the trail can't be written, the gateway does not start.
            let _ = audit.announce(program).await;
            tell_lost(backstop.engine().store().as_ref()).await;
            let what = format!("the start of `{program}`");
            backstop.announce_configuration(Cause { what: &what, by: None }).await.map_err(|error| {
                Error::Failed(format!("the audit trail can't tell of the configuration: {error}"))
            })?;
        }
        // A repository can bring entries that fire events and judge no call, so only those of the user count.
        let installed = hold.is_none() && matches!(listen, Listen::ForRun { is_installed: true, .. });
        let left = installed.then(|| (Arc::clone(&heard), Arc::clone(&decisions)));
        let observers =
            Observers { metrics: metrics.clone(), sinks: Vec::new(), traces: traces_of(&backstop) };
        let mut holder = surfaces::Holder::default();
        if let Some(metrics) = &metrics {
            holder = holder.counted_by(Arc::new(metrics.clone()));
        }
        settings.callbacks.clone_from(&told.callbacks);
        settings.surfaces = desk_of(told, &backstop, holder.clone());
        let told = settings.surfaces.clone();
        let (gateway, hooks) = match Self::open(settings, &backstop, how, left, observers).await {
            Ok(started) => started,
            Err(error) => {
                end(backstop).await;
                return Err(error);
            }
        };
        let policies = |is_run| {
            let watch = Shown::to(&watch, metrics.as_ref());
            Policies::new(surroundings, watch, answers, is_run).noting(Arc::clone(&heard), heard_of)
        };
        let started = start_daemon(listen, policies, surroundings);
        let mut running = Self {
            gateway,
            hooks,
            backstop,
            daemon: None,
            answers_clients,
            program,
            heard,
            hold,
            desk,
            opened,
            decisions,
            watch,
            metrics: metrics.clone(),
            sweeping: None,
            witnessing: None,
            surfaces: told.map(|desk| desk.run()),
            holder,
            retiring: Vec::new(),
        };
        match started {
            Ok(daemon) => {
                running.daemon = daemon;
                running.sweeping = sweep(&running.backstop);
                running.witnessing = tell_witnesses(witnesses, &running.backstop, metrics.as_ref());
                say_left_out(&surroundings.output, &running.backstop);
                say_faults(&surroundings.output, running.backstop.start_plugins().await);
                Ok(running)
            }
            Err(error) => {
                running.stop(surroundings, pending()).await;
                Err(error.into())
            }
        }
    }

    /// Listens, once it is sure that decisions can be kept: nobody should find out by an answer that was blocked.
    async fn open(
        settings: Settings,
        backstop: &Backstop,
        how: HookSettings,
        left: Option<(Arc<Heard>, Arc<Decisions>)>,
        mut observers: Observers,
    ) -> Result<(Gateway, Hooks), Error> {
        let engine = backstop.engine();
        let hooks = Hooks::new(engine.clone(), how.clone())?;
        let nothing = ToolCallId::new("-");
        backstop.engine().store().decision_on_call(&nothing, Timestamp::now()).await?;
        let interceptor: Arc<dyn Interceptor> = match left {
            Some((heard, decisions)) => {
                Arc::new(Leaving::new(&hooks, engine.clone(), how, heard, decisions)?)
            }
            None => Arc::new(hooks.clone()),
        };
        if let Some(metrics) = &observers.metrics {
            metrics.ask(backstop.backlog());
        }
        let log = AccessLog::of(log::current())?.map(|log| Arc::new(log) as Arc<dyn RequestSink>);
        observers.sinks.extend(log);
        let gateway = Gateway::observed(settings, interceptor, observers).await?;
        hooks.started(gateway.address().port());
        Ok((gateway, hooks))
    }

    /// Puts another configuration in place, for what is asked from now on. Where that can't be, nothing changes.
    async fn reload(
        &mut self,
        settings: &Settings,
        loaded: backstop::config::Loaded,
        store: Arc<dyn Store>,
        cause: Cause<'_>,
        surroundings: &Surroundings,
    ) -> Result<Before, Error> {
        let told = surfaces::surfaces(&loaded, &environment)?;
        let witnesses = Witnesses::of(&loaded, &environment)?;
        let how = backstop::gateway_hooks(&loaded);
        let opened = Arc::clone(&store);
        let mut builder = builder(loaded, surroundings);
        if let Some(desk) = &self.desk {
            builder = builder.answer_store(desk.answers());
        }
        let backstop = builder
            .hosts(backstop::server_hosts(&how, self.answers_clients))
            .store(store)
            .shared_decisions(true)
            .judges_answers(true)
            .sink(Shown::to(&self.decisions, self.metrics.as_ref()))
            .build()
            .await?;
        // What is written from here on, another writer writes: each begins, and ends, for itself.
        if let Some(audit) = backstop.audit() {
            let _ = audit.announce(self.program).await;
        }
        let callbacks = told.callbacks.clone();
        let told = desk_of(told, &backstop, self.holder.clone());
        let settings = Settings { surfaces: told.clone(), callbacks, ..settings.clone() };
        let hooks = match self.take_over_announced(&settings, &backstop, how, cause).await {
            Ok(hooks) => hooks,
            Err(error) => {
                end(backstop).await;
                return Err(error);
            }
        };
        if let Some(desk) = &self.desk {
            desk.put_in_force(backstop.policy_version());
        }
        // Those before end first: both would tell the same.
        drop(self.surfaces.take());
        self.surfaces = told.map(|desk| desk.run());
        let (mut old, old_hooks) =
            (std::mem::replace(&mut self.backstop, backstop), std::mem::replace(&mut self.hooks, hooks));
        say_left_out(&surroundings.output, &self.backstop);
        say_faults(&surroundings.output, old.hand_over(&mut self.backstop).await);
        self.retiring.retain(|retiring| !retiring.is_finished());
        let opened = std::mem::replace(&mut self.opened, opened);
        let is_desks = self.desk.as_ref().is_some_and(|desk| Arc::ptr_eq(&desk.trail(), &opened));
        let (before, is_let_go) = oneshot::channel();
        self.retiring.push(tokio::spawn(async move {
            // An error is that it was dropped, which is what is waited for.
            let _ = is_let_go.await;
            while !old_hooks.are_idle() {
                tokio::time::sleep(LOOK).await;
            }
            retire(old, is_desks).await
        }));
        for task in [self.sweeping.take(), self.witnessing.take()].into_iter().flatten() {
            task.abort();
        }
        self.sweeping = sweep(&self.backstop);
        self.witnessing = tell_witnesses(witnesses, &self.backstop, self.metrics.as_ref());
        Ok(Before { _held: before })
    }

    /// Where answers are kept, if not in the store.
    fn answers(&self) -> Option<Arc<dyn backstop::store::AnswerStore>> {
        self.desk.as_ref().map(Desk::answers)
    }

    /// Returns how many configurations from before still judge something.
    fn retiring(&self) -> usize {
        self.retiring.iter().filter(|retiring| !retiring.is_finished()).count()
    }

    /// Says in the trail which configuration holds, before it does. Where that can't be said, or it can't hold after all, the one before
    /// stays, which is said, too.
    async fn take_over_announced(
        &self,
        settings: &Settings,
        backstop: &Backstop,
        how: HookSettings,
        cause: Cause<'_>,
    ) -> Result<Hooks, Error> {
        backstop.announce_configuration(cause).await.map_err(|error| {
            Error::Failed(format!("the audit trail can't tell of another configuration: {error}"))
        })?;
        match self.take_over(settings, backstop, how) {
            Ok(hooks) => Ok(hooks),
            Err(error) => {
                let stays = Cause { what: "the other one can't be used, so this one stays", by: cause.by };
                match self.backstop.announce_configuration(stays).await {
                    Ok(()) => Err(error),
                    Err(untold) => Err(Error::Failed(format!(
                        "{error}\nnote: the audit trail says that it holds, and can't be told that it does not: {untold}"
                    ))),
                }
            }
        }
    }

    fn take_over(&self, settings: &Settings, backstop: &Backstop, how: HookSettings) -> Result<Hooks, Error> {
        let hooks = self.hooks.renewed(backstop.engine().clone(), how)?;
        self.gateway.reload_traced(settings, Arc::new(hooks.clone()), traces_of(backstop))?;
        if let Some(metrics) = &self.metrics {
            metrics.ask(backstop.backlog());
        }
        Ok(hooks)
    }

    /// What became of tool calls: by hooks where a client has them, in what it was answered otherwise.
    fn counted(&self) -> Counted {
        match self.watch.counted() {
            Counted { judged: 0, .. } => self.decisions.counted(),
            counted => counted,
        }
    }

    /// The questions that were asked, or filed about calls that were denied.
    fn questions(&self) -> Vec<ApprovalId> {
        let mut seen = self.watch.questions();
        seen.extend(self.decisions.questions());
        seen
    }

    /// The questions that nobody answered, about calls that were denied and can be allowed afterwards. None where they
    /// end with this process.
    async fn left_to_answer(&self) -> Vec<ApprovalRecord> {
        let mut left = Vec::new();
        if self.desk.is_some() {
            return left;
        }
        let store = self.backstop.engine().answer_store();
        for id in self.questions() {
            // One that can't be read is in the list, or nowhere.
            if let Ok(Some(record)) = store.approval(&id).await
                && matches!(record.state.status(), ApprovalStatus::Unattended | ApprovalStatus::TimedOut)
                && !left.iter().any(|known: &ApprovalRecord| known.id == record.id)
            {
                left.push(record);
            }
        }
        left
    }

    /// Lets running answers end, or cuts them off in a hurry, and writes what is left of the audit trail.
    async fn stop(self, surroundings: &Surroundings, hurry: impl Future<Output = ()>) {
        if let Some(surfaces) = self.surfaces {
            surfaces.stop().await;
        }
        // Each deletion is whole or absent.
        for task in [self.sweeping, self.witnessing].into_iter().flatten() {
            task.abort();
        }
        let hooks_recorded = match self.daemon {
            Some(daemon) => daemon.stop().await,
            None => true,
        };
        tokio::select! {
            () = self.gateway.shut_down() => {}
            () = hurry => {}
        }
        self.hooks.stopped("shutdown").await;
        let mut hooks_recorded = hooks_recorded;
        let retired = async {
            let mut all = true;
            for retiring in self.retiring {
                all &= retiring.await.unwrap_or(false);
            }
            all
        };
        hooks_recorded &= timeout(RETIRE, retired).await.unwrap_or(false);
        // Nobody waits for an answer any more.
        let trail = self.desk.as_ref().map(Desk::trail);
        drop(self.desk);
        let others = trail.filter(|trail| !Arc::ptr_eq(trail, &self.opened));
        hooks_recorded &= end(self.backstop).await;
        if let Some(trail) = others {
            // Of a configuration from before: only what people answered was still said there.
            hooks_recorded &= timeout(RETIRE, trail.conclude_audit()).await.is_ok_and(|ended| ended.is_ok());
        }
        if !hooks_recorded {
            surroundings.output.say("warning: the audit trail could not be written to its end");
        }
    }
}

/// Holds off the end of a configuration that is not in force any more, until this is dropped: others may still have something to say by it.
#[must_use]
struct Before {
    _held: oneshot::Sender<()>,
}

/// Ends a policy that no longer holds. INVARIANT (who says that it stops writes no more): what people answer at the desk is said by the writer of
/// the configuration with which it was opened, so that one ends with the desk.
async fn retire(backstop: Backstop, is_desks: bool) -> bool {
    if !is_desks {
        return end(backstop).await;
    }
    let _ = timeout(RETIRE, backstop.engine().withdrawn()).await;
    backstop.shut_down().await
}

/// Ends one policy: writes what is left of the audit trail, and says there that its writer stops, whoever else holds the store. Answers whether
/// the trail is complete.
async fn end(backstop: Backstop) -> bool {
    // Of calls that were given up, what was asked is withdrawn first.
    let _ = timeout(RETIRE, backstop.engine().withdrawn()).await;
    let audit = backstop.audit().cloned();
    let flushed = backstop.shut_down().await;
    match audit {
        Some(audit) => audit.conclude().await && flushed,
        None => flushed,
    }
}

/// Lets the allocator's own thread return what is free to the system, also while no request comes. Processes that live shortly need
/// no such thread.
fn give_memory_back() {
    if let Err(error) = tikv_jemalloc_ctl::background_thread::write(true) {
        tracing::debug!(%error, "memory is returned with the next request");
    }
}

/// Who tells people of questions, and hears them; nobody, where none are to be told.
fn desk_of(
    told: surfaces::Surfaces,
    backstop: &Backstop,
    holder: surfaces::Holder,
) -> Option<Arc<surfaces::Desk>> {
    let surfaces::Surfaces { all, console, quiet, .. } = told;
    (!all.is_empty()).then(|| surfaces::Desk::new(backstop.engine().clone(), all, console, quiet, holder))
}

/// What sends the spans of requests.
fn traces_of(backstop: &Backstop) -> Option<Arc<dyn RequestSink>> {
    backstop.traces().map(|traces| Arc::new(traces.clone()) as Arc<dyn RequestSink>)
}

fn is_on_terminal() -> bool {
    std::io::stdin().is_terminal() || std::io::stdout().is_terminal() || std::io::stderr().is_terminal()
}

/// How often it is looked whether hooks that no longer hold still judge something.
const LOOK: Duration = Duration::from_millis(200);
/// How long they may take to end once nothing passes any more.
const RETIRE: Duration = Duration::from_secs(2);

/// How often a server deletes what is kept no longer.
const SWEEP: Duration = Duration::from_hours(1);

/// Deletes what `retention:` keeps no longer, now and every hour.
fn sweep(backstop: &Backstop) -> Option<JoinHandle<()>> {
    let keep = backstop::retention(backstop.config());
    let engine = backstop.engine().clone();
    (!keep.is_empty()).then(|| {
        tokio::spawn(async move {
            loop {
                retention::sweep(keep, &engine, "retention (server)", None).await;
                tokio::time::sleep(SWEEP).await;
            }
        })
    })
}

fn start_daemon(
    listen: Listen,
    policies: impl FnOnce(bool) -> Policies,
    surroundings: &Surroundings,
) -> Result<Option<Daemon>, ListenError> {
    let (socket, is_run) = match listen {
        Listen::Nowhere => return Ok(None),
        Listen::Unless(socket) => (socket, false),
        Listen::ForRun { socket, .. } => (socket, true),
    };
    match Daemon::start(&socket, policies(is_run)) {
        Err(error @ ListenError::Taken(_)) if !is_run => {
            surroundings.output.say(&format!("note: {error}, so this process leaves them to it"));
            Ok(None)
        }
        started => started.map(Some),
    }
}
