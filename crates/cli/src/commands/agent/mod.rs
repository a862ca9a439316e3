//! `backstop agent`: one turn, or a conversation on the terminal.

mod asker;
mod attention;
mod keyboard;
mod plugins;
mod screen;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use backstop::agent::tools::{CancelToken, Limits, Workspace};
use backstop::agent::{
    Agent, AgentError, AgentParts, AgentSession, AgentSettings, Fresh, Leaving, SessionChoice, TurnInput,
    TurnOutcome, TurnReport, TurnTrigger, Verbosity as Level,
};
use backstop::config::{CriticalAt, Loaded};
use backstop::engine::Attendance;
use backstop::hooks::{AgentId, Requester, SessionId, SessionKey, ToolCallId};
use backstop::store::{LeaseError, Timestamp};
use backstop::{Backstop, Bounds, Cause, Providers, agent_settings};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use self::plugins::Brought;
use self::screen::Screen;
use crate::commands::ancestry::only_people;
use crate::commands::gateway::RunFolder;
use crate::commands::hook::trace_parent;
use crate::commands::notify::Notifier;
use crate::commands::plugin_use::{PluginList, has_terminal};
use crate::commands::{retention, sessions};
use crate::confine::{Confining, confine};
use crate::desk::Desk;
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, Style, plain};
use crate::session::{AGENT_ID, Surroundings, builder, environment, workspace};

pub(super) use self::asker::{Grave, TerminalAsker};
pub(super) use self::keyboard::Keyboard;
pub(super) use self::plugins::{say_faults, say_left_out};

/// How long a killed process keeps others from its session.
pub(in crate::commands) const LEASE: Duration = Duration::from_secs(10);

/// What the agent is to do, and how. What is `None` is left to the configuration.
#[derive(Debug)]
pub(crate) struct Settings {
    /// One turn with this message; without it a conversation.
    pub(crate) message: Option<String>,
    pub(crate) resume: Resume,
    pub(crate) model: Option<String>,
    pub(crate) provider: Option<String>,
    pub(crate) workspace: Option<PathBuf>,
    pub(crate) verbose: Option<Verbosity>,
    /// Wait for answers through the store where no terminal is.
    pub(crate) wait_approvals: bool,
    /// Run as this heartbeat.
    pub(crate) heartbeat: Option<String>,
}

/// Which session to go on with.
#[derive(Debug)]
pub(crate) enum Resume {
    No,
    Latest,
    Session(String),
}

/// How much of the hooks' work is reported.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verbosity {
    Off,
    On,
    Full,
}

pub(super) async fn run(settings: Settings, surroundings: &Surroundings) -> Result<Exit, Error> {
    let terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if settings.message.is_none() && !terminal {
        return Err(Error::Usage(
            "there is no terminal to talk on\nhint: give the message with `-m`".to_owned(),
        ));
    }
    let loaded = surroundings.load()?;
    let output = &surroundings.output;
    let store = surroundings.store(&loaded)?;
    let root = workspace(&loaded, settings.workspace.as_deref())?;
    let place = open_workspace(&root)?;
    let key = SessionKey::new(format!("{AGENT_ID}:{}", place.root().display()));
    let providers = Providers::new(loaded.clone(), environment);
    let (provider, model) = providers.choose(settings.provider.as_deref(), settings.model.as_deref())?;
    // So that the database is there, and can be hidden.
    store.decision_on_call(&ToolCallId::new("-"), Timestamp::now()).await?;
    let folder = loaded.config.sandbox.hosts.is_some().then(RunFolder::create).transpose()?;
    let folder = folder.as_ref().map(RunFolder::path);
    let confining = Confining {
        workspace: place.root(),
        folder,
        ports: &[],
        client: None,
        is_run: false,
        is_served: false,
    };
    let confined = confine(surroundings, &loaded, &confining)?;
    let launcher = confined.words.clone();
    let agent_settings = AgentSettings { launcher, ..lower(&settings, &loaded, provider, model) };
    let keyboard = Keyboard::default();
    let attendance = attendance(&settings, &loaded, terminal.then(|| keyboard.clone()), output);
    let hosts = [backstop::agent::host_profile()];
    let desk = Desk::open(&loaded, &store, surroundings)?;
    let mut builder = builder(loaded, surroundings).workspace(place.root());
    if let Some(desk) = &desk {
        builder = builder.answer_store(desk.answers());
    }
    let list = PluginList::of(surroundings);
    let mut backstop = builder.hosts(hosts).store(Arc::clone(&store)).build().await?;
    if let Some(desk) = &desk {
        desk.put_in_force(backstop.policy_version());
    }
    let store = Arc::clone(backstop.store());
    let screen = Arc::new(Screen::new(output));
    let mut agent = Agent::new(AgentParts {
        engine: backstop.engine().clone(),
        store: Arc::clone(&store),
        models: Arc::new(providers),
        toolbox: backstop.toolbox(),
        workspace: place,
        limits: Limits::default(),
        settings: agent_settings,
        attendance,
        output: Arc::clone(&screen) as Arc<dyn backstop::agent::Output>,
    });
    if let Some(traces) = backstop.traces() {
        agent = agent.told_to(Arc::new(traces.clone()), trace_parent());
    }
    let choice = match &settings.resume {
        Resume::No => SessionChoice::New { key },
        Resume::Latest => SessionChoice::LatestOf(key),
        Resume::Session(name) => SessionChoice::Resume(sessions::find(store.as_ref(), name).await?.id),
    };
    let session = open_session(&agent, &choice, output).await?;
    if let Some(audit) = backstop.audit() {
        // Where that can't be written, no call runs either.
        let _ = audit.announce("agent").await;
        let _ = backstop.announce_configuration(Cause { what: "the start of `agent`", by: None }).await;
    }
    sweep(&backstop, session.id()).await;
    let brought = Brought::start(&mut backstop, list, output).await;
    let mut host = Host { agent, session, screen, output, backstop, brought, desk: desk.as_ref() };
    let done = match settings.message {
        Some(message) => host.one_turn(&message, settings.heartbeat).await,
        None => host.conversation(&keyboard).await,
    };
    host.end().await;
    confined.tell_refused(output);
    drop(desk);
    done
}

/// Opens the session. A process that was killed leaves a claim on it that runs out by itself; a process that
/// lives renews its claim. So a claim is waited for once, to its end, and not any longer.
async fn open_session(agent: &Agent, choice: &SessionChoice, output: &Output) -> Result<AgentSession, Error> {
    match agent.open_session(choice.clone()).await {
        Err(AgentError::Lease(LeaseError::Held { holder, until, .. })) => {
            output.say(&format!("the session is in use by {holder}; waiting for its claim to run out"));
            tokio::time::sleep(Timestamp::now().until(until) + Duration::from_millis(200)).await;
            Ok(agent.open_session(choice.clone()).await?)
        }
        opened => Ok(opened?),
    }
}

/// The most sessions that a start of the agent deletes: it is not to be noticed.
const SWEPT_AT_START: usize = 20;

/// Deletes some of what `retention:` keeps no longer, and not the session that is about to be worked in.
async fn sweep(backstop: &Backstop, session: &SessionId) {
    let keep = backstop::retention(backstop.config());
    let bounds = Bounds { most: SWEPT_AT_START, spare: Some(session.clone()) };
    if !keep.is_empty() {
        retention::sweep(keep, backstop.engine(), "retention (agent)", Some(&bounds)).await;
    }
}

fn open_workspace(root: &Path) -> Result<Workspace, Error> {
    Workspace::open(root).map_err(|error| Error::Failed(format!("the workspace can't be used: {error}")))
}

fn lower(settings: &Settings, loaded: &Loaded, provider: String, model: String) -> AgentSettings {
    let configured = agent_settings(loaded, AgentId::new(AGENT_ID), provider, model);
    AgentSettings {
        verbosity: settings.verbose.map_or(configured.verbosity, |verbose| match verbose {
            Verbosity::Off => Level::Off,
            Verbosity::On => Level::On,
            Verbosity::Full => Level::Full,
        }),
        channel: Some(Requester::TERMINAL.to_owned()),
        lease: LEASE,
        ..configured
    }
}

fn attendance(
    settings: &Settings,
    loaded: &Loaded,
    keyboard: Option<Keyboard>,
    output: &Output,
) -> Attendance {
    match keyboard {
        Some(keyboard) => {
            let grave = match loaded.config.agent.approvals.critical.value {
                CriticalAt::Here => Grave::Here,
                CriticalAt::Elsewhere => Grave::Elsewhere,
            };
            let people = backstop::people(loaded);
            Attendance::Present(Arc::new(TerminalAsker::new(keyboard, output.talk_paint(), grave, people)))
        }
        None if settings.wait_approvals || loaded.config.agent.approvals.wait.value => {
            Attendance::Present(Arc::new(Notifier(loaded.config.agent.approvals.notify.value)))
        }
        None => Attendance::Nobody,
    }
}

/// The agent on this terminal or pipe.
struct Host<'a> {
    agent: Agent,
    session: AgentSession,
    screen: Arc<Screen>,
    output: &'a Output,
    backstop: Backstop,
    brought: Brought,
    desk: Option<&'a Desk>,
}

/// How a turn on this host ended.
enum Ended {
    Turn(TurnReport),
    /// Asked to stop twice, or by the signal that ends services.
    Quit,
}

impl Host<'_> {
    async fn one_turn(&self, message: &str, heartbeat: Option<String>) -> Result<Exit, Error> {
        if heartbeat.is_none()
            && let Some(answer) = self.command(message).await?
        {
            self.screen.finish(&answer.outcome)?;
            if self.output.is_json() {
                self.output.json(&self.told_command(&answer))?;
            }
            self.report(&answer.outcome);
            return Ok(match &answer.outcome {
                _ if answer.failed => Exit::Failed,
                TurnOutcome::Blocked { .. } => Exit::Blocked,
                _ => Exit::Success,
            });
        }
        let trigger = match heartbeat {
            Some(name) => TurnTrigger::Heartbeat { name: Some(name) },
            None => TurnTrigger::User,
        };
        let ended = self.turn(TurnInput { trigger, ..input(message) }).await?;
        let Ended::Turn(report) = ended else { return Ok(Exit::Interrupted) };
        self.screen.finish(&report.outcome)?;
        let exit = match &report.outcome {
            TurnOutcome::Answered { .. } | TurnOutcome::Silent => Exit::Success,
            TurnOutcome::Blocked { .. } => Exit::Blocked,
            TurnOutcome::Failed { .. } => Exit::Failed,
            TurnOutcome::Cancelled => Exit::Interrupted,
        };
        if self.output.is_json() {
            self.output.json(&self.told(&report))?;
        }
        self.report(&report.outcome);
        self.output.say(&self.output.talk_paint().with(
            Style::Faint,
            format!("session {}; `backstop agent --session {0}` goes on with it", self.session.id()),
        ));
        Ok(exit)
    }

    async fn conversation(&mut self, keyboard: &Keyboard) -> Result<Exit, Error> {
        let paint = self.output.talk_paint();
        self.output.say(&paint.with(
            Style::Faint,
            format!(
                "session {}; Ctrl-C stops a turn, Ctrl-D ends the conversation, /new begins another, /help lists commands",
                self.session.id()
            ),
        ));
        loop {
            screen::prompt(paint);
            let Some(line) = self.line(keyboard).await? else { return Ok(Exit::Success) };
            self.refresh().await;
            let fresh = match line.trim() {
                "" => continue,
                "/new" => Some(Fresh::New),
                "/reset" => Some(Fresh::Reset),
                _ => None,
            };
            if fresh.is_none()
                && let Some(answer) = self.command(line.trim()).await?
            {
                self.screen.finish(&answer.outcome)?;
                if self.output.is_json() {
                    self.output.json_line(&self.told_command(&answer))?;
                }
                self.report(&answer.outcome);
                continue;
            }
            let next = match fresh {
                Some(fresh) => Some(self.reset(fresh).await?),
                None => self.agent.renew_session(&self.session).await?,
            };
            if let Some(next) = next {
                self.session = next;
                self.output.say(&paint.with(Style::Faint, format!("session {}", self.session.id())));
            }
            if fresh.is_some() {
                continue;
            }
            match self.turn(input(line.trim())).await? {
                Ended::Turn(report) => {
                    self.screen.finish(&report.outcome)?;
                    if self.output.is_json() {
                        self.output.json_line(&self.told(&report))?;
                    }
                    self.report(&report.outcome);
                }
                Ended::Quit => return Ok(Exit::Interrupted),
            }
        }
    }

    /// The next line; `None` at the end of input or when a signal comes at the prompt, such as that of Ctrl-C.
    async fn line(&self, keyboard: &Keyboard) -> Result<Option<String>, Error> {
        let mut ends = Ends::listen()?;
        // A line that is being read can't be given up.
        let mut line = std::pin::pin!(keyboard.line());
        loop {
            tokio::select! {
                line = &mut line => return Ok(line),
                _ = tokio::signal::ctrl_c() => return Ok(None),
                end = ends.next() => match end {
                    Ending::Now => return Ok(None),
                    Ending::Again => self.brought.again(),
                },
            }
        }
    }

    /// Runs a turn. The first Ctrl-C cancels it, the second leaves at once.
    async fn turn(&self, input: TurnInput) -> Result<Ended, Error> {
        let cancel = CancelToken::new();
        let mut terminated = signals(SignalKind::terminate())?;
        let mut interrupted = signals(SignalKind::interrupt())?;
        let mut ends = Ends::listen()?;
        let mut turn = std::pin::pin!(self.agent.turn(&self.session, input, &cancel));
        loop {
            let stop = tokio::select! {
                report = &mut turn => return Ok(Ended::Turn(report?)),
                _ = interrupted.recv() => cancel.is_cancelled(),
                _ = terminated.recv() => cancel.is_cancelled(),
                end = ends.next() => match end {
                    Ending::Now => true,
                    Ending::Again => {
                        self.brought.again();
                        continue;
                    }
                },
            };
            if stop {
                return Ok(Ended::Quit);
            }
            cancel.cancel();
            self.output.say("stopping the turn; again to leave at once");
        }
    }

    /// Says on stderr why there is no answer.
    fn report(&self, outcome: &TurnOutcome) {
        let paint = self.output.talk_paint();
        let text = match outcome {
            TurnOutcome::Answered { .. } => return,
            TurnOutcome::Silent => paint.with(Style::Faint, "no answer, on purpose"),
            TurnOutcome::Blocked { by, point, message } => format!(
                "{} by {} at {point}: {}",
                paint.with(Style::Bad, "blocked"),
                plain(by),
                plain(message)
            ),
            TurnOutcome::Failed { error } => {
                format!("{} {}", paint.with(Style::Bad, "error:"), plain(&error.to_string()))
            }
            TurnOutcome::Cancelled => paint.with(Style::Notice, "cancelled"),
        };
        self.output.say(&text);
    }

    fn told(&self, report: &TurnReport) -> Value {
        let mut told = match &report.outcome {
            TurnOutcome::Answered { text } => json!({ "outcome": "answered", "text": text }),
            TurnOutcome::Silent => json!({ "outcome": "silent" }),
            TurnOutcome::Blocked { by, point, message } => {
                json!({ "outcome": "blocked", "by": by, "point": point, "message": message })
            }
            TurnOutcome::Failed { error } => json!({ "outcome": "failed", "error": error.to_string() }),
            TurnOutcome::Cancelled => json!({ "outcome": "cancelled" }),
        };
        if let Value::Object(fields) = &mut told {
            fields.insert("session".to_owned(), json!(self.session.id()));
            fields.insert("run".to_owned(), json!(report.run_id));
            fields.insert("iterations".to_owned(), json!(report.iterations));
            fields.insert("usage".to_owned(), json!(report.usage));
            fields.insert("receipts".to_owned(), json!(report.receipts));
        }
        told
    }

    /// Ends what runs in the background, then writes what is left of the audit trail.
    async fn end(self) {
        let Self { agent, session, output, backstop, .. } = self;
        drop(session);
        agent.shut_down(Leaving::Shutdown).await;
        drop(agent);
        let audit = backstop.audit().cloned();
        let mut complete = backstop.shut_down().await;
        if let Some(audit) = audit {
            complete &= audit.conclude().await;
        }
        if !complete {
            output.say("warning: the audit trail is not complete; the database could not keep up or failed");
        }
    }
}

/// The signals that end the program at once. They are listened to so that a question is taken off the terminal first: it
/// would be left without an echo.
struct Ends {
    hang_up: Signal,
    quit: Signal,
}

impl Ends {
    fn listen() -> Result<Self, Error> {
        Ok(Self { hang_up: signals(SignalKind::hangup())?, quit: signals(SignalKind::quit())? })
    }

    async fn next(&mut self) -> Ending {
        tokio::select! {
            _ = self.hang_up.recv() => match has_terminal() {
                true => Ending::Again,
                false => Ending::Now,
            },
            _ = self.quit.recv() => Ending::Now,
        }
    }
}

/// What a signal means.
enum Ending {
    /// The end.
    Now,
    /// The terminal is still there, so that nobody has closed it: the plugins are to be loaded anew.
    Again,
}

fn signals(kind: SignalKind) -> Result<Signal, Error> {
    signal(kind).map_err(|error| Error::Failed(format!("signals can't be handled: {error}")))
}

/// What somebody says here. They are the owner unless an agent started this: what plugins do for owners only is not for those.
fn input(message: &str) -> TurnInput {
    let is_owner = only_people("what plugins do for their owner").is_ok();
    TurnInput {
        sender: Some(Requester {
            channel: Some(Requester::TERMINAL.to_owned()),
            sender_is_owner: Some(is_owner),
            ..Requester::default()
        }),
        ..TurnInput::user(message)
    }
}
