//! The command line as it is written: clap's types, and their lowering into settings. Nothing else sees clap.

mod agent;
mod approvals;
mod cases;
mod check;
mod clients;
mod config;
mod duration;
mod gateway;
mod hooks;
mod log;
mod model;
mod plugins;
mod records;
mod scan;
mod system;
mod tape;
mod token;
mod when;

use std::path::PathBuf;

use backstop::clients::install::STATUS_WORD;
use clap::{Parser, Subcommand};

use crate::commands::{Action, hook};
use crate::error::Error;
use crate::session::{Global, OperatorFolders};

/// One pipeline of hooks around the whole life of an AI agent
#[derive(Debug, Parser)]
#[command(
    name = "backstop",
    version,
    max_term_width = 100,
    disable_help_subcommand = true,
    after_help = "Start with `backstop demo`. Exit codes are in docs/cli.md."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Args)]
struct GlobalArgs {
    /// The operator's configuration file, instead of the one in the user's configuration folder
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// That user's part of the system scope: the configuration of this machine, and the database that the service keeps for
    /// them. For root and the service's user
    #[arg(long, global = true, value_name = "USER", conflicts_with = "config")]
    of: Option<String>,
    /// Print JSON on stdout
    #[arg(long, global = true)]
    json: bool,
    /// Print no colours, as with the environment variable `NO_COLOR`
    #[arg(long, global = true)]
    no_color: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show what Backstop does, with a scripted model: no key, no network
    Demo(agent::DemoArgs),
    /// Run an agent whose every step passes the hooks
    Agent(agent::AgentArgs),
    /// Serve an LLM proxy whose traffic passes the hooks
    Serve(gateway::ServeArgs),
    /// Run a program whose model calls pass the hooks
    Run(gateway::RunArgs),
    /// Put Backstop into the configuration of coding agents
    Install(clients::InstallArgs),
    /// Take it out again
    Uninstall(clients::UninstallArgs),
    /// Show in which coding agents Backstop is installed
    Status,
    /// Try an installation in coding agents
    Doctor(clients::DoctorArgs),
    /// Answer the hooks of all users of this machine; what a service manager starts
    Daemon(system::DaemonArgs),
    /// Judge one event of a coding agent; what its hooks start
    Hook(clients::HookArgs),
    /// Judge tool calls without running them
    Check(check::CheckArgs),
    /// Judge one tool call and show each hook's part in it
    Explain(check::ExplainArgs),
    /// Test the policy with cases: calls, and what has to come of them
    Test(cases::TestArgs),
    /// Find secrets, personal data and hidden text in a text
    Scan(scan::ScanArgs),
    /// List the hooks at each hook point, in the order in which they run
    Hooks(hooks::HooksArgs),
    /// Install, trust and look at plugins
    Plugins(plugins::PluginsArgs),
    /// Check and show the configuration
    Config(config::ConfigArgs),
    /// Answer the questions that hooks ask
    Approvals(approvals::ApprovalsArgs),
    /// Allow one later call that nobody could be asked about
    AllowOnce(approvals::AllowOnceArgs),
    /// List and revoke what was allowed for good
    Grants(approvals::GrantsArgs),
    /// Make, list and revoke tokens of agents for the proxy
    Token(token::TokenArgs),
    /// List, show and delete the sessions of the agent
    Sessions(records::SessionsArgs),
    /// Delete what is kept no longer
    Prune(records::PruneArgs),
    /// Show what was judged, the newest first
    Log(log::LogArgs),
    /// Verify, prove, sign and prune the audit trail
    Audit(records::AuditArgs),
    /// The recording of judged tool calls: make a key, list, show and prune
    Tape(tape::TapeArgs),
    /// Judge recorded calls again under another configuration
    Replay(tape::ReplayArgs),
    /// Suggest exceptions and rules that people's recorded answers imply
    Suggest(tape::SuggestArgs),
    /// Serve a scripted model, for tests of anything that calls one
    Model(model::ModelArgs),
}

/// What clients start, without the definitions of everything else, which take longer than judging. `None` for a command line
/// that is not just `hook` with names, or the word of the status line.
pub(crate) fn of_client() -> Option<(Global, Action)> {
    let words: Option<Vec<String>> =
        std::env::args_os().skip(1).map(|word| word.into_string().ok()).collect();
    let words = words?;
    let action = match words.split_first()? {
        (command, rest) if command == STATUS_WORD => Action::StatusLine(folders_of(rest)?),
        _ => Action::Hook(plain_hook_of(&words)?),
    };
    Some((Global { config: None, of: None, json: false, no_color: false }, action))
}

/// `hook` with names and the folders that `install` writes, each once and in its order.
fn plain_hook_of(words: &[String]) -> Option<hook::Settings> {
    let is_name = |word: &&String| !word.is_empty() && !word.starts_with('-');
    let (command, rest) = words.split_first()?;
    let (client, rest) = rest.split_first().filter(|(client, _)| command == "hook" && is_name(client))?;
    let (event, rest) = match rest.split_first().filter(|(event, _)| is_name(event)) {
        Some((event, rest)) => (Some(event.clone()), rest),
        None => (None, rest),
    };
    let (folders, service) = match rest {
        [option, socket] if option == "--service" => (None, Some(socket.into())),
        rest => (folders_of(rest)?, None),
    };
    Some(hook::Settings { client: client.clone(), event, folders, service })
}

/// The folders that `install` writes, each once and in its order, or none.
fn folders_of(words: &[String]) -> Option<Option<OperatorFolders>> {
    match words {
        [] => Some(None),
        [home_option, home, operator_option, operator, data_option, data, pinned @ ..]
            if home_option == "--home" && operator_option == "--operator" && data_option == "--data" =>
        {
            let pinned = match pinned {
                [] => false,
                [option] if option == "--pinned" => true,
                _ => return None,
            };
            let (home, operator, data) = (home.into(), operator.into(), data.into());
            Some(Some(OperatorFolders { home, operator, data, pinned }))
        }
        _ => None,
    }
}

impl Cli {
    /// Reads the command line of this process: what is to be done, and with which settings.
    pub(crate) fn read() -> Result<Result<(Global, Action), Error>, clap::Error> {
        Self::try_parse().map(Self::lower)
    }

    fn lower(self) -> Result<(Global, Action), Error> {
        let GlobalArgs { config, of, json, no_color } = self.global;
        let global = Global { config, of, json, no_color };
        let action = match self.command {
            Command::Demo(args) => Action::Demo(args.lower()),
            Command::Agent(args) => Action::Agent(args.lower()?),
            Command::Serve(args) => Action::Serve(args.lower()),
            Command::Run(args) => Action::Run(args.lower()),
            Command::Install(args) => args.lower(),
            Command::Uninstall(args) => args.lower(),
            Command::Status => Action::Status,
            Command::Doctor(args) => args.lower(),
            Command::Daemon(args) => Action::Daemon(args.lower()),
            Command::Hook(args) => Action::Hook(args.lower()),
            Command::Check(args) => Action::Check(args.lower()?),
            Command::Explain(args) => Action::Explain(args.lower()?),
            Command::Test(args) => Action::Test(args.lower(json)?),
            Command::Scan(args) => Action::Scan(args.lower()?),
            Command::Hooks(args) => Action::Hooks(args.lower()?),
            Command::Plugins(args) => Action::Plugins(args.lower()),
            Command::Config(args) => Action::Config(args.lower()),
            Command::Approvals(args) => Action::Approvals(args.lower()?),
            Command::AllowOnce(args) => Action::Approvals(args.lower()),
            Command::Grants(args) => Action::Grants(args.lower()),
            Command::Token(args) => Action::Token(args.lower()),
            Command::Sessions(args) => Action::Sessions(args.lower()),
            Command::Prune(args) => Action::Sessions(args.lower()),
            Command::Log(args) => Action::Log(args.lower(json)?),
            Command::Audit(args) => Action::Audit(args.lower()),
            Command::Tape(args) => Action::Tape(args.lower()),
            Command::Replay(args) => Action::Replay(args.lower()),
            Command::Suggest(args) => Action::Suggest(args.lower()),
            Command::Model(args) => Action::Model(args.lower()),
        };
        Ok((global, action))
    }
}
