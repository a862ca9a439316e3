//! The own agent, as people talk with it in the console of `backstop serve`.
//!
//! Each conversation has an agent as `backstop agent` makes it: its provider, model, tools and workspace as configured, confined as configured, judged by hooks
//! that are lowered from the configuration in force. All conversations under one configuration share these hooks, the walls and the server's store; what waits for
//! a person waits in the store, where the console and all other surfaces answer it.
//!
//! The law: *the agent's tools learn nothing that only the server knows*. Besides what is hidden from the tools of `backstop agent`, they can't read the
//! server's own keys; they inherit no variable that the operator's file is made of, but for such as `PATH`; the memory of the server is closed to them; and where a secret
//! stands in a file of the configuration itself, or nothing can be hidden, nobody talks.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use backstop::agent::tools::{Limits, Workspace};
use backstop::agent::{Agent, AgentParts, AgentSettings, Output};
use backstop::config::Loaded;
use backstop::confine::Group;
use backstop::engine::{Attendance, ReceiptSink};
use backstop::gateway::ChatAgent;
use backstop::hooks::{AgentId, Requester, ToolCallId};
use backstop::store::{AnswerStore, Store, Timestamp};
use backstop::{ChatBase, ChatSeat, ChatSeats, MakingSeat, Providers, agent_settings, written_secrets};

use super::Running;
use super::once::RunFolder;
use super::watch::Shown;
use crate::commands::agent::{LEASE, say_left_out};
use crate::confine::{Confined, Confining, confine, join};
use crate::desk::close_memory;
use crate::error::Error;
use crate::output::Output as Printer;
use crate::session::{AGENT_ID, Surroundings, builder, environment, workspace};

/// Makes agents by the configuration in force.
pub(super) struct Seats {
    surroundings: Surroundings,
    state: Mutex<Option<State>>,
    /// What the conversations share that were opened last, if there are any. Nobody else makes it meanwhile.
    made: tokio::sync::Mutex<Option<Made>>,
    /// People were told that there are no control groups here.
    is_told: AtomicBool,
}

/// What is in force.
#[derive(Clone)]
struct State {
    loaded: Loaded,
    store: Arc<dyn Store>,
    /// Where answers are kept, if not in the store.
    answers: Option<Arc<dyn AnswerStore>>,
    /// Whoever is shown what was decided.
    sink: Arc<dyn ReceiptSink>,
    generation: u64,
}

/// What conversations share, and how their agents work.
#[derive(Clone)]
struct Made {
    generation: u64,
    base: Weak<ChatBase>,
    providers: Arc<Providers>,
    place: Workspace,
    settings: AgentSettings,
}

/// What goes after the hooks, in the order in which it goes.
struct Keeps {
    confined: Confined,
    output: Printer,
    _folder: Option<RunFolder>,
}

impl Drop for Keeps {
    fn drop(&mut self) {
        self.confined.tell_refused(&self.output);
        self.confined.end();
        for path in self.confined.appeared() {
            self.output.say(&format!(
                "warning: `{}` was made while the agent worked, or leads elsewhere now",
                path.display()
            ));
        }
        for path in self.confined.replaced() {
            self.output.say(&format!(
                "warning: another program replaced `{}` while the agent worked, and what stands there now is protected from its next conversation on",
                path.display()
            ));
        }
    }
}

impl Seats {
    pub(super) fn new(surroundings: &Surroundings) -> Arc<Self> {
        let (state, made, is_told) = Default::default();
        Arc::new(Self { surroundings: surroundings.clone(), state, made, is_told })
    }

    /// Makes them from now on by what holds now.
    pub(super) fn hold(&self, running: &Running) {
        let mut state = self.state();
        let backstop = &running.backstop;
        *state = Some(State {
            loaded: backstop.config().clone(),
            store: Arc::clone(backstop.store()),
            answers: running.answers(),
            sink: Shown::to(&running.decisions, running.metrics.as_ref()),
            generation: state.as_ref().map_or(0, |state| state.generation.wrapping_add(1)),
        });
    }

    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn in_force(&self) -> Result<State, Error> {
        self.state().clone().ok_or_else(|| Error::Failed("the server has not begun yet".to_owned()))
    }

    async fn seat(&self, output: Arc<dyn Output>) -> Result<ChatSeat, Error> {
        let state = self.in_force()?;
        let mut made = self.made.lock().await;
        let known = made.as_ref().filter(|made| made.generation == state.generation);
        let (now, base) = match known.and_then(|made| Some((made.clone(), made.base.upgrade()?))) {
            Some(known) => known,
            None => {
                let (fresh, base) = self.make_base(&state).await?;
                *made = Some(fresh.clone());
                (fresh, base)
            }
        };
        let backstop = &base.backstop;
        let (settings, own) = self.grouped(now.settings);
        let mut agent = Agent::new(AgentParts {
            engine: backstop.engine().clone(),
            store: Arc::clone(backstop.store()),
            models: now.providers,
            toolbox: backstop.toolbox(),
            workspace: now.place,
            limits: Limits::default(),
            settings,
            attendance: Attendance::Queue,
            output,
        });
        if let Some(traces) = backstop.traces() {
            agent = agent.told_to(Arc::new(traces.clone()), None);
        }
        Ok(ChatSeat { agent, own: Box::new(own), base })
    }

    /// Has what the agent of one conversation starts be in a control group, so that all of it ends with the conversation, also what left its parents and dropped
    /// its mark. Where there can be none, it is said once.
    fn grouped(&self, settings: AgentSettings) -> (AgentSettings, Option<Group>) {
        match join(&settings.launcher) {
            Ok((launcher, group)) => (AgentSettings { launcher, ..settings }, Some(group)),
            Err(why) => {
                if !self.is_told.swap(true, Ordering::Relaxed) {
                    self.surroundings.output.say(&format!(
                        "note: what conversations start is known by its parents and its environment alone, and is in no control group: {why}"
                    ));
                }
                (settings, None)
            }
        }
    }

    async fn make_base(&self, state: &State) -> Result<(Made, Arc<ChatBase>), Error> {
        let (surroundings, loaded) = (&self.surroundings, &state.loaded);
        refuse_written(loaded)?;
        close_memory()?;
        let place = Workspace::open(&workspace(loaded, None)?)
            .map_err(|error| Error::Failed(format!("the workspace can't be used: {error}")))?;
        let providers = Providers::new(loaded.clone(), environment);
        let (provider, model) = providers.choose(None, None)?;
        // So that the database is there, and can be hidden.
        state.store.decision_on_call(&ToolCallId::new("-"), Timestamp::now()).await?;
        let folder = loaded.config.sandbox.hosts.is_some().then(RunFolder::create).transpose()?;
        let confined = walls(surroundings, loaded, place.root(), folder.as_ref())?;
        let settings = AgentSettings {
            launcher: confined.words.clone(),
            channel: Some(Requester::CONSOLE.to_owned()),
            lease: LEASE,
            ..agent_settings(loaded, AgentId::new(AGENT_ID), provider, model)
        };
        let mut builder = builder(loaded.clone(), surroundings).workspace(place.root());
        if let Some(answers) = &state.answers {
            builder = builder.answer_store(Arc::clone(answers));
        }
        let backstop = builder
            .hosts([backstop::agent::host_profile()])
            .store(Arc::clone(&state.store))
            .sink(Arc::clone(&state.sink))
            .build()
            .await?;
        // What plugins have run beside a host, the server has running.
        say_left_out(&surroundings.output, &backstop);
        let keeps = Keeps { confined, output: surroundings.output.clone(), _folder: folder };
        let base = Arc::new(ChatBase { backstop, keeps: Box::new(keeps) });
        let made = Made {
            generation: state.generation,
            base: Arc::downgrade(&base),
            providers: Arc::new(providers),
            place,
            settings,
        };
        Ok((made, base))
    }
}

fn walls(
    surroundings: &Surroundings,
    loaded: &Loaded,
    workspace: &Path,
    folder: Option<&RunFolder>,
) -> Result<Confined, Error> {
    let folder = folder.map(RunFolder::path);
    let confining = Confining { workspace, folder, ports: &[], client: None, is_run: false, is_served: true };
    confine(surroundings, loaded, &confining)
}

/// Refuses where the agent's tools could read a secret in the configuration, which has to stay readable to them: hooks that they start judge by it.
fn refuse_written(loaded: &Loaded) -> Result<(), Error> {
    let written = written_secrets(loaded);
    if written.is_empty() {
        return Ok(());
    }
    Err(Error::Failed(format!(
        "the agent's tools could read secrets that stand in the configuration itself ({})\nhint: put them into variables (`${{NAME}}`), or into files that the configuration names",
        written.join(", ")
    )))
}

impl ChatSeats for Seats {
    fn agent(&self) -> Result<ChatAgent, String> {
        let agent = || {
            let loaded = self.in_force()?.loaded;
            refuse_written(&loaded)?;
            let root = workspace(&loaded, None)?;
            let (provider, model) = Providers::new(loaded, environment).choose(None, None)?;
            Ok(ChatAgent { provider, model, workspace: root.display().to_string() })
        };
        agent().map_err(|error: Error| error.to_string())
    }

    fn generation(&self) -> u64 {
        self.state().as_ref().map_or(0, |state| state.generation)
    }

    fn make(&self, output: Arc<dyn Output>) -> MakingSeat<'_> {
        Box::pin(async move { self.seat(output).await.map_err(|error| error.to_string()) })
    }
}

impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").field("generation", &self.generation()).finish_non_exhaustive()
    }
}
