//! The commands: one file each, with its settings and how it is done.

pub(crate) mod agent;
pub(crate) mod ancestry;
pub(crate) mod answerer;
pub(crate) mod approvals;
pub(crate) mod audit;
pub(crate) mod cases;
pub(crate) mod check;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod demo;
mod explain;
pub(crate) mod gateway;
pub(crate) mod grants;
pub(crate) mod hook;
pub(crate) mod hooks;
mod lines;
pub(crate) mod log;
pub(crate) mod model;
pub(crate) mod notify;
mod outages;
mod plugin_use;
pub(crate) mod plugins;
mod receipts;
pub(crate) mod replay;
mod retention;
pub(crate) mod scan;
pub(crate) mod sessions;
pub(crate) mod suggest;
pub(crate) mod tape;
pub(crate) mod token;
mod verdict;

use crate::error::Error;
use crate::exit::Exit;
use crate::session::{OperatorFolders, Surroundings};
use crate::system::{doctor, install as system, service};

/// What is to be done.
#[derive(Debug)]
pub(crate) enum Action {
    Demo(demo::Settings),
    Agent(agent::Settings),
    Serve(gateway::serve::Settings),
    Run(gateway::run::Settings),
    Install(clients::install::Settings),
    InstallSystem(system::Settings),
    Status,
    /// The status line of a client, for the operator whose folders these are.
    StatusLine(Option<OperatorFolders>),
    Doctor(clients::doctor::Settings),
    DoctorSystem(Option<backstop::clients::Client>),
    Daemon(service::Settings),
    Hook(hook::Settings),
    Check(check::Settings),
    Explain(check::Call),
    Test(cases::Settings),
    Scan(scan::Settings),
    Hooks(hooks::Settings),
    Plugins(plugins::Settings),
    Config(config::Settings),
    Approvals(approvals::Settings),
    Grants(grants::Settings),
    Token(token::Settings),
    Sessions(sessions::Settings),
    Log(log::Settings),
    Audit(audit::Settings),
    Tape(tape::Settings),
    Replay(replay::Settings),
    Suggest(suggest::Settings),
    Model(model::Settings),
}

impl Action {
    /// Whether it runs tools or serves, rather than answering a question.
    pub(crate) fn is_long_running(&self) -> bool {
        matches!(
            self,
            Self::Demo(_)
                | Self::Agent(_)
                | Self::Serve(_)
                | Self::Run(_)
                | Self::Daemon(_)
                | Self::Model(_)
                | Self::Plugins(plugins::Settings::Run { .. })
        )
    }

    /// Whether everything that it starts, programs of hooks and plugins, is to be gone when it ends.
    pub(crate) fn ends_what_it_starts(&self) -> bool {
        let starts = matches!(
            self,
            Self::Hook(_)
                | Self::Check(_)
                | Self::Explain(_)
                | Self::Test(_)
                | Self::Hooks(_)
                | Self::Plugins(_)
        );
        starts && !self.is_long_running()
    }

    /// What of it only people do: answering, granting, configuring and installing. Each command says so here or is
    /// for everybody.
    fn for_people(&self) -> Option<&'static str> {
        match self {
            Self::Install(_) | Self::InstallSystem(_) => Some("installing"),
            Self::Approvals(_) => Some("answering questions, and seeing their codes,"),
            Self::Plugins(settings) if !settings.only_looks() => Some("changing plugins"),
            Self::Token(settings) if !settings.makes_nothing() => Some("making access tokens"),
            Self::Audit(audit::Settings::Rotate) => Some("changing the key of the audit trail"),
            Self::Audit(audit::Settings::Prune { dry_run: false }) => Some("pruning the audit trail"),
            Self::Tape(tape::Settings::Prune { dry_run: false }) => Some("pruning the tape"),
            Self::Tape(tape::Settings::Show(_)) | Self::Replay(_) | Self::Suggest(_) => {
                Some("reading the tape")
            }
            Self::Config(config::Settings::Pin) => Some("pinning the configuration"),
            Self::Run(settings) if !settings.sandbox => Some("running something without confinement"),
            Self::Run(settings) if !settings.hooks => Some("running something without hooks"),
            Self::Run(settings) if !settings.proxy => Some("running something past the proxy"),
            Self::Config(config::Settings::Check | config::Settings::Show | config::Settings::Schema)
            | Self::Run(_)
            // Revoking makes nothing milder, and the list holds no codes.
            | Self::Grants(_)
            | Self::Token(_)
            | Self::Demo(_)
            | Self::Agent(_)
            | Self::Serve(_)
            | Self::Status
            | Self::StatusLine(_)
            | Self::Doctor(_)
            | Self::DoctorSystem(_)
            | Self::Daemon(_)
            | Self::Hook(_)
            | Self::Check(_)
            | Self::Explain(_)
            | Self::Test(_)
            | Self::Scan(_)
            | Self::Hooks(_)
            | Self::Plugins(_)
            | Self::Sessions(_)
            | Self::Log(_)
            | Self::Audit(_)
            | Self::Tape(_)
            | Self::Model(_) => None,
        }
    }

    /// Does it.
    pub(crate) async fn perform(self, surroundings: &Surroundings) -> Result<Exit, Error> {
        if let Some(what) = self.for_people() {
            ancestry::only_people(what)?;
        }
        match self {
            Self::Demo(settings) => Box::pin(demo::run(settings, surroundings)).await,
            Self::Agent(settings) => Box::pin(agent::run(settings, surroundings)).await,
            Self::Serve(settings) => Box::pin(gateway::serve::run(settings, surroundings)).await,
            Self::Run(settings) => Box::pin(gateway::run::run(settings, surroundings)).await,
            Self::InstallSystem(settings) => system::run(&settings, surroundings),
            Self::Install(settings) => Box::pin(clients::install::run(&settings, surroundings)).await,
            Self::Status => clients::status::run(surroundings).await,
            Self::StatusLine(folders) => Ok(clients::line::run(folders, surroundings).await),
            Self::DoctorSystem(client) => Box::pin(doctor::run(client, surroundings)).await,
            Self::Doctor(settings) => Box::pin(clients::doctor::run(settings, surroundings)).await,
            Self::Daemon(settings) => Box::pin(service::run(settings, surroundings)).await,
            Self::Hook(settings) => Ok(Box::pin(hook::run(settings, surroundings)).await),
            Self::Check(settings) => Box::pin(check::run(settings, surroundings)).await,
            Self::Explain(call) => Box::pin(explain::run(call, surroundings)).await,
            Self::Test(settings) => Box::pin(cases::run(settings, surroundings)).await,
            Self::Scan(settings) => scan::run(&settings, surroundings),
            Self::Hooks(settings) => Box::pin(hooks::run(settings, surroundings)).await,
            Self::Plugins(settings) => Box::pin(plugins::run(settings, surroundings)).await,
            Self::Config(settings) => Box::pin(config::run(settings, surroundings)).await,
            Self::Approvals(settings) => Box::pin(approvals::run(settings, surroundings)).await,
            Self::Grants(settings) => Box::pin(grants::run(settings, surroundings)).await,
            Self::Token(settings) => Box::pin(token::run(settings, surroundings)).await,
            Self::Sessions(settings) => Box::pin(sessions::run(settings, surroundings)).await,
            Self::Log(settings) => Box::pin(log::run(settings, surroundings)).await,
            Self::Audit(settings) => Box::pin(audit::run(settings, surroundings)).await,
            Self::Tape(settings) => tape::run(settings, surroundings),
            Self::Replay(settings) => Box::pin(replay::run(settings, surroundings)).await,
            Self::Suggest(settings) => Box::pin(suggest::run(settings, surroundings)).await,
            Self::Model(settings) => Box::pin(model::run(settings, surroundings)).await,
        }
    }
}
