//! Putting the parts together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_config::{ConfigError, Loaded};
use backstop_engine::{
    ApprovalSettings, Engine, Hosts, ReceiptSink, RegisterError, RunningVerdicts, Snapshot,
};
use backstop_hooks::HostProfile;
use backstop_store::{AnswerStore, DigestKey, Identity, PolicyInForce, SqliteStore, Store};

use crate::audit::AuditSink;
use crate::configured::named_files;
use crate::error::BuildError;
use crate::hook_types::HookTypes;
use crate::locations::digest_key;
use crate::lower::{self, HostFacts, Lowered};
use crate::policy::PolicyParts;
use crate::tape::CallTape;
use crate::traces::Traces;

/// How long the end waits for the tape.
const TAPE_ENDS: Duration = Duration::from_secs(2);
/// How long, where an agent waits for what ends.
const TAPE_ENDS_BEFORE_AN_ANSWER: Duration = Duration::from_millis(500);

type Registration = Box<dyn FnOnce(&mut Snapshot) -> Result<(), RegisterError> + Send>;

/// Builds a [`Backstop`]. Without anything said, it has the built-in defaults and keeps its state in memory.
pub struct Builder {
    config: Option<Loaded>,
    types: HookTypes,
    hosts: Hosts,
    store: Option<Arc<dyn Store>>,
    answer_store: Option<Arc<dyn AnswerStore>>,
    sinks: Vec<Arc<dyn ReceiptSink>>,
    hooks: Vec<Registration>,
    approvals: Option<ApprovalSettings>,
    account: Option<Identity>,
    shared_decisions: bool,
    judges_answers: bool,
    audit: bool,
    tape: Option<std::path::PathBuf>,
    agents_environment: bool,
    home: Option<String>,
    #[cfg(feature = "plugins")]
    plugins: Option<std::path::PathBuf>,
    #[cfg(feature = "plugins")]
    workspace: Option<std::path::PathBuf>,
    #[cfg(feature = "plugins")]
    points: Option<Vec<backstop_hooks::PointId>>,
    #[cfg(feature = "plugins")]
    awaited: Vec<String>,
}

impl Builder {
    /// The configuration; see [`load`](crate::load).
    #[must_use]
    pub fn config(mut self, loaded: Loaded) -> Self {
        self.config = Some(loaded);
        self
    }

    /// The hook types that the configuration may name. Give the same ones to [`load`](crate::load).
    #[must_use]
    pub fn hook_types(mut self, types: HookTypes) -> Self {
        self.types = types;
        self
    }

    /// The hosts of this process. A hook at a point that none of them fires is an error. When not set, the process is
    /// a program that fires whatever it calls.
    #[must_use]
    pub fn hosts(mut self, hosts: impl IntoIterator<Item = HostProfile>) -> Self {
        self.hosts = Hosts::new(hosts).elsewhere(crate::hosts::all_hosts());
        self
    }

    /// Where approvals, grants, sessions and the audit trail are kept.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Where questions, answers and grants are kept, if not in the store; see
    /// [`EngineBuilder::answer_store`](backstop_engine::EngineBuilder::answer_store).
    #[must_use]
    pub fn answer_store(mut self, store: Arc<dyn AnswerStore>) -> Self {
        self.answer_store = Some(store);
        self
    }

    /// Adds somebody who is shown every receipt.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn ReceiptSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Registers hooks of the program itself, behind those of the configuration.
    #[must_use]
    pub fn hooks(
        mut self,
        register: impl FnOnce(&mut Snapshot) -> Result<(), RegisterError> + Send + 'static,
    ) -> Self {
        self.hooks.push(Box::new(register));
        self
    }

    /// How approvals are kept, instead of what the configuration says.
    #[must_use]
    pub fn approvals(mut self, settings: ApprovalSettings) -> Self {
        self.approvals = Some(settings);
        self
    }

    /// The account whose agents ask here, where that is one person's: whoever may not answer what they asked for is known by it.
    #[must_use]
    pub fn account(mut self, account: Option<Identity>) -> Self {
        self.account = account;
        self
    }

    /// Whether answers of models are judged in other processes too; see
    /// [`EngineBuilder::shared_decisions`](backstop_engine::EngineBuilder::shared_decisions).
    #[must_use]
    pub fn shared_decisions(mut self, shared: bool) -> Self {
        self.shared_decisions = shared;
        self
    }

    /// Whether the host sees the answers of models and not the tools, as a proxy does: guards that stand in
    /// front of the tools then stand behind the models, too.
    #[must_use]
    pub fn judges_answers(mut self, judges: bool) -> Self {
        self.judges_answers = judges;
        self
    }

    /// The home directory of the user whose calls are judged; `$HOME` of this process when not set.
    #[must_use]
    pub fn home(mut self, home: impl Into<String>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Leaves the audit trail and traces out, whatever the configuration says: for programs that judge without acting.
    #[must_use]
    pub fn without_audit(mut self) -> Self {
        self.audit = false;
        self
    }

    /// The folder of the recording of tool calls, unless the configuration names another one. Nothing is recorded where it names no
    /// recipient, nor [without audit](Self::without_audit).
    #[must_use]
    pub fn tape(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.tape = Some(folder.into());
        self
    }

    /// Says that this process has the environment of an agent, which may have set any variable in it: for hooks of coding agents. Traces
    /// are then sent without the proxies and the authorities that variables name, and only to where no variable can lead them.
    #[must_use]
    pub fn agents_environment(mut self) -> Self {
        self.agents_environment = true;
        self
    }

    /// The folder in which plugins are installed. Those that are trusted and on are loaded with the rest, or nothing is.
    #[cfg(feature = "plugins")]
    #[must_use]
    pub fn plugins(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.plugins = Some(folder.into());
        self
    }

    /// The folder that the agent works in, for plugins that are granted `${workspace}`. A host of several has none.
    #[cfg(feature = "plugins")]
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<std::path::PathBuf>) -> Self {
        self.workspace = Some(folder.into());
        self
    }

    /// The only points that this process is going to fire. Plugins that were trusted with hooks at others are not loaded: at none of
    /// these can they be missed.
    #[cfg(feature = "plugins")]
    #[must_use]
    pub fn only_points(mut self, points: impl IntoIterator<Item = backstop_hooks::PointId>) -> Self {
        self.points = Some(points.into_iter().collect());
        self
    }

    /// Plugins that are to be installed, so that the configuration may name them already: for whoever installs. Nothing else knows of a
    /// plugin that is not there.
    #[cfg(feature = "plugins")]
    #[must_use]
    pub fn awaiting(mut self, plugins: impl IntoIterator<Item = String>) -> Self {
        self.awaited.extend(plugins);
        self
    }

    /// Puts everything together: lowers the configuration, registers the hooks and sets them up.
    ///
    /// # Errors
    ///
    /// [`BuildError`]; what had been set up by then is taken down again.
    pub async fn build(self) -> Result<Backstop, BuildError> {
        let config = match self.config {
            Some(config) => config,
            None => backstop_config::Loader::new(self.types.names(), &|_| None).load(&[])?,
        };
        let approvals = self.approvals.map_or_else(|| lower::approvals::settings(&config), Ok)?;
        let key = if self.audit { digest_key(&config)? } else { None };
        let store =
            self.store.unwrap_or_else(|| Arc::new(SqliteStore::in_memory_with_digest_key(key.clone())));
        // INVARIANT (named): whatever is written for this process goes through stores that name its policy. Which one it is, is known at the end.
        let parts = PolicyParts::of_configuration(&config, key.as_deref());
        let configuration = parts.configuration;
        let policy = PolicyInForce::from(parts.version());
        let store = store.under(policy.clone());
        let answer_store = self.answer_store.map(|answers| answers.answers_under(policy.clone()));
        // INVARIANT (keyed): nothing is judged whose digests would be in the trail otherwise than the operator wants.
        if let Some(key) = &key {
            let answers = match &answer_store {
                Some(answers) => answers.answers_digest_key(),
                None => store.digest_key(),
            };
            let is_it = |other: Option<&Arc<DigestKey>>| other.is_some_and(|other| other.id() == key.id());
            if !is_it(store.digest_key()) || !is_it(answers) {
                return Err(BuildError::DigestKey);
            }
        }
        let host = HostFacts { home: self.home.as_deref(), store: &store, answers: self.judges_answers };
        #[cfg(feature = "plugins")]
        let hosts = self.hosts.clone();
        let Lowered { mut snapshot, verdicts } = lower::snapshot(&config, &self.types, self.hosts, host)?;
        #[cfg(not(feature = "plugins"))]
        lower::refuse_placed(&config)?;
        #[cfg(feature = "plugins")]
        let at = Box::pin(lower::at::load(
            &config,
            self.home.as_deref(),
            &hosts,
            self.points.as_deref(),
            &mut snapshot,
        ))
        .await?;
        for register in self.hooks {
            register(&mut snapshot)?;
        }
        #[cfg(feature = "plugins")]
        let (plugins, seated, installed, switched_off, let_go, on) = match &self.plugins {
            Some(folder) => {
                let whose =
                    lower::plugins::Whose { workspace: self.workspace.clone(), home: self.home.clone() };
                let points = self.points.as_deref();
                let found = lower::plugins::load(&config, folder, whose, &store, points).await?;
                let seated = found.set.seat(&mut snapshot)?;
                let all =
                    |known: Vec<String>| known.into_iter().chain(self.awaited.iter().cloned()).collect();
                let (installed, elsewhere) = (all(found.installed), all(found.elsewhere));
                let others = lower::Others { installed, elsewhere };
                (found.set, seated, others, found.switched_off, found.let_go, found.on)
            }
            None => Default::default(),
        };
        #[cfg(not(feature = "plugins"))]
        let (installed, on) = (lower::Others::default(), Vec::new());
        lower::check_ids(&config, &snapshot, &installed)?;
        lower::check_shadows(&config, &snapshot)?;
        let verdicts = verdicts.start().await.map_err(ConfigError::from)?;
        let audited = self.audit && config.config.audit.enabled.value;
        let audit = audited.then(|| AuditSink::start(Arc::clone(&store)));
        let traces =
            if self.audit { Traces::of(&config, self.agents_environment, store.digest_key())? } else { None };
        let recorded = crate::tape::settings(&config, self.tape.as_deref(), self.audit)?;
        let tape = recorded.map(CallTape::start).transpose().map_err(BuildError::Tape)?;
        let mut engine = Engine::builder()
            .snapshot(snapshot)
            .store(Arc::clone(&store))
            .approvals(ApprovalSettings { account: self.account, ..approvals })
            .shared_decisions(self.shared_decisions);
        if let Some(answers) = answer_store {
            engine = engine.answer_store(answers);
        }
        for sink in self.sinks {
            engine = engine.sink(sink);
        }
        if let Some(audit) = &audit {
            engine = engine.sink(Arc::new(audit.clone()));
        }
        if let Some(tape) = &tape {
            engine = engine.recorder(Arc::new(tape.clone()));
        }
        if let Some(traces) = &traces {
            engine = engine.sink(Arc::new(traces.clone()));
        }
        let engine = engine.build();
        let hooks = Some(engine.registry().snapshot().hook_set().digest());
        let key = store.digest_key().cloned();
        let named = named_files(&config);
        let parts =
            PolicyParts { loaded: &config, configuration, key: key.as_deref(), named, plugins: on, hooks };
        policy.change(parts.version());
        Ok(Backstop {
            engine,
            config,
            store,
            policy,
            audit,
            tape,
            traces,
            sends_last: true,
            verdicts,
            #[cfg(feature = "plugins")]
            at,
            #[cfg(feature = "plugins")]
            plugins,
            #[cfg(feature = "plugins")]
            seated,
            #[cfg(feature = "plugins")]
            switched_off,
            #[cfg(feature = "plugins")]
            let_go,
            #[cfg(feature = "plugins")]
            folder: self.plugins,
            #[cfg(feature = "plugins")]
            whose: lower::plugins::Whose { workspace: self.workspace, home: self.home },
            #[cfg(feature = "plugins")]
            is_live: false,
            #[cfg(feature = "plugins")]
            retiring: Vec::new(),
        })
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("types", &self.types).finish_non_exhaustive()
    }
}

/// Everything a host needs: the engine, what was configured, and where state is kept.
pub struct Backstop {
    pub(crate) engine: Engine,
    pub(crate) config: Loaded,
    pub(crate) store: Arc<dyn Store>,
    /// The version of the policy that entries name.
    pub(crate) policy: PolicyInForce,
    audit: Option<AuditSink>,
    tape: Option<CallTape>,
    traces: Option<Traces>,
    /// Whether the end waits until spans are sent, and longer for the tape.
    sends_last: bool,
    verdicts: RunningVerdicts,
    /// What `hooks.at` has running.
    #[cfg(feature = "plugins")]
    at: lower::at::At,
    #[cfg(feature = "plugins")]
    pub(crate) plugins: backstop_plugins::set::PluginSet,
    #[cfg(feature = "plugins")]
    pub(crate) seated: Vec<(backstop_plugins::manifest::PluginId, backstop_plugins::registration::Seated)>,
    /// The plugins that are installed, and that the list of what is installed had as switched off when the others were loaded.
    #[cfg(feature = "plugins")]
    pub(crate) switched_off: Vec<backstop_plugins::manifest::PluginId>,
    /// The plugins that are on in that list, and that this host's configuration switches off.
    #[cfg(feature = "plugins")]
    pub(crate) let_go: Vec<backstop_plugins::manifest::PluginId>,
    /// Where plugins are installed, if they were asked for.
    #[cfg(feature = "plugins")]
    pub(crate) folder: Option<std::path::PathBuf>,
    /// Whose plugins they are.
    #[cfg(feature = "plugins")]
    pub(crate) whose: lower::plugins::Whose,
    /// Whether what plugins have run beside the host was started.
    #[cfg(feature = "plugins")]
    pub(crate) is_live: bool,
    /// Sets of plugins that end with what they were asked.
    #[cfg(feature = "plugins")]
    pub(crate) retiring: Vec<tokio::task::JoinHandle<()>>,
}

impl Backstop {
    /// Starts with the built-in defaults, state in memory.
    pub fn builder() -> Builder {
        Builder {
            config: None,
            types: HookTypes::built_in(&[]),
            hosts: Hosts::default(),
            store: None,
            answer_store: None,
            sinks: Vec::new(),
            hooks: Vec::new(),
            approvals: None,
            account: None,
            shared_decisions: false,
            judges_answers: false,
            audit: true,
            tape: None,
            agents_environment: false,
            home: std::env::var("HOME").ok().filter(|home| home.starts_with('/')),
            #[cfg(feature = "plugins")]
            plugins: None,
            #[cfg(feature = "plugins")]
            workspace: None,
            #[cfg(feature = "plugins")]
            points: None,
            #[cfg(feature = "plugins")]
            awaited: Vec::new(),
        }
    }

    /// The engine: what hosts call.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The configuration in force.
    pub fn config(&self) -> &Loaded {
        &self.config
    }

    /// Where state is kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The audit trail; `None` when it is switched off.
    pub fn audit(&self) -> Option<&AuditSink> {
        self.audit.as_ref()
    }

    /// What sends the spans of traces; `None` where there are none.
    pub fn traces(&self) -> Option<&Traces> {
        self.traces.as_ref()
    }

    /// As [`traces`](Self::traces), for a host that has them sent when it is time: [`shut_down`](Self::shut_down) no longer waits for it.
    pub fn take_over_traces(&mut self) -> Option<Traces> {
        self.sends_last = false;
        self.traces.clone()
    }

    /// What became of what each plugin registered: what stands, what waits for a host, what was left out and why.
    #[cfg(feature = "plugins")]
    pub fn plugins(
        &self,
    ) -> &[(backstop_plugins::manifest::PluginId, backstop_plugins::registration::Seated)] {
        &self.seated
    }

    /// The hooks of `hooks.at` at points that only hosts of other processes fire, and of observers whose point nobody fires yet.
    #[cfg(feature = "plugins")]
    pub fn waiting(&self) -> &[backstop_plugins::registration::Waiting] {
        &self.at.waiting
    }

    /// The tools of an agent: its own, and those that plugins bring.
    #[cfg(all(feature = "agent", feature = "plugins"))]
    pub fn toolbox(&self) -> backstop_agent::tools::Toolbox {
        lower::tools::toolbox(&self.plugins)
    }

    /// Takes the hooks down, writes what is left of the audit trail, and waits two seconds at most until spans are sent. Answers whether
    /// the trail is complete.
    #[cfg_attr(not(feature = "plugins"), expect(unused_mut, reason = "plugins end while it is taken down"))]
    pub async fn shut_down(mut self) -> bool {
        #[cfg(feature = "plugins")]
        self.end_plugins().await;
        #[cfg(feature = "plugins")]
        self.at.shut_down().await;
        self.verdicts.stop().await;
        let complete = match &self.audit {
            Some(audit) => audit.flush().await,
            None => true,
        };
        if let Some(tape) = &self.tape {
            tape.end(if self.sends_last { TAPE_ENDS } else { TAPE_ENDS_BEFORE_AN_ANSWER }).await;
        }
        if let Some(traces) = self.traces.as_ref().filter(|_| self.sends_last) {
            traces.flush().await;
        }
        complete
    }
}

impl fmt::Debug for Backstop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backstop")
            .field("engine", &self.engine)
            .field("store", &self.store)
            .field("audit", &self.audit)
            .finish_non_exhaustive()
    }
}
