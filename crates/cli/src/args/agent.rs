//! `backstop agent` and `backstop demo`.

use std::path::PathBuf;

use clap::ValueEnum;

use crate::commands::agent::{Resume, Settings, Verbosity};
use crate::commands::demo;
use crate::error::Error;

/// Runs an agent. Every message, model call, tool call and answer passes the hooks.
///
/// With `-m` one turn, whose answer goes to stdout; without, a conversation on the terminal. In both cases what
/// the agent does is told on stderr.
#[derive(Debug, clap::Args)]
pub(super) struct AgentArgs {
    /// What to do: one turn, then end
    #[arg(short, long, value_name = "TEXT")]
    message: Option<String>,
    /// Go on with this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Go on with the latest session of this workspace
    #[arg(long, conflicts_with = "session")]
    resume: bool,
    /// The model, instead of `agent.model`
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The provider, instead of `agent.provider`
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// The folder that the file tools may touch, instead of `agent.workspace`
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// How much of the hooks' work is reported, instead of `agent.verbose`
    #[arg(long, value_name = "LEVEL")]
    verbose: Option<VerboseArg>,
    /// Without a terminal: wait for answers from `backstop approvals`, instead of denying
    #[arg(long)]
    wait_approvals: bool,
    /// Run the turn as this heartbeat
    #[arg(long, value_name = "NAME", requires = "message")]
    heartbeat: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VerboseArg {
    /// Nothing
    Off,
    /// What hooks blocked or changed
    On,
    /// Every hook that ran
    Full,
}

impl AgentArgs {
    pub(super) fn lower(self) -> Result<Settings, Error> {
        if self.message.as_ref().is_some_and(|message| message.trim().is_empty()) {
            return Err(Error::Usage("`-m` needs a message that is not empty".to_owned()));
        }
        let resume = match (self.session, self.resume) {
            (Some(id), _) => Resume::Session(id),
            (None, true) => Resume::Latest,
            (None, false) => Resume::No,
        };
        let verbose = self.verbose.map(|verbose| match verbose {
            VerboseArg::Off => Verbosity::Off,
            VerboseArg::On => Verbosity::On,
            VerboseArg::Full => Verbosity::Full,
        });
        Ok(Settings {
            message: self.message,
            resume,
            model: self.model,
            provider: self.provider,
            workspace: self.workspace,
            verbose,
            wait_approvals: self.wait_approvals,
            heartbeat: self.heartbeat,
        })
    }
}

/// Shows what Backstop does: a scripted model works in a temporary folder with real tools and real hooks.
///
/// An allowed call, a blocked one, a rewritten one, an approval, a redacted result, a blocked answer; each with
/// its receipt. Needs no key and no network, and leaves nothing behind.
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// Answer the approval yourself
    #[arg(long)]
    interactive: bool,
}

impl DemoArgs {
    pub(super) fn lower(self) -> demo::Settings {
        demo::Settings { interactive: self.interactive }
    }
}
