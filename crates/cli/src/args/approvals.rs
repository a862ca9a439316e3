//! `backstop approvals`, `backstop allow-once`, `backstop grants`.

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use backstop::store::{Always, AlwaysScope, Amount, NotAnAmount};
use clap::{Subcommand, ValueEnum};

use super::duration;
use crate::commands::approvals::Settings;
use crate::commands::grants;
use crate::error::Error;

/// Answers the questions that hooks ask before a call may run.
#[derive(Debug, clap::Args)]
pub(super) struct ApprovalsArgs {
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// List the questions that can be answered: those that wait, and those of the last day that nobody answered
    List {
        /// Also those that are over
        #[arg(long)]
        all: bool,
    },
    /// Show one question: the exact call, who asks and why
    Show {
        /// Its code, its id, or the beginning of its id
        name: String,
        /// All of the arguments, where they are shown in part otherwise; only then can the call be allowed
        #[arg(long)]
        whole: bool,
    },
    /// Allow the call that waits
    Approve(ApproveArgs),
    /// Deny the call that waits
    Deny {
        /// Its code, its id, or the beginning of its id
        name: String,
        /// What the model is told with it, such as what to do instead; at most 512 characters
        #[arg(long, value_name = "TEXT")]
        say: Option<String>,
    },
    /// Change the call that waits, where whoever asks can take that. The changed call is judged as a call of its own
    Edit {
        /// Its code, its id, or the beginning of its id
        name: String,
        /// The arguments as they should be, all of them, as one JSON object; `-` reads stdin. Masked secrets stay as they are shown
        #[arg(long, value_name = "FILE")]
        arguments: PathBuf,
    },
    /// Give the result of the call that waits, where whoever asks can take that. The call does not run
    Respond {
        /// Its code, its id, or the beginning of its id
        name: String,
        /// What the model is told as the result, at most 64 KiB; `-` reads stdin
        #[arg(long)]
        text: String,
    },
    /// Where people are told of questions away from this machine (`approvals.surfaces`)
    Surfaces {
        #[command(subcommand)]
        command: SurfacesCommand,
    },
}

#[derive(Debug, Subcommand)]
enum SurfacesCommand {
    /// List them, with the most that can be answered on each
    List,
    /// Send a harmless test notice to one, and say what came back
    Test {
        /// Its name in the configuration
        name: String,
    },
}

#[derive(Debug, clap::Args)]
struct ApproveArgs {
    /// Its code, its id, or the beginning of its id
    name: String,
    /// Allow it from now on, not only this time; `backstop grants` lists and revokes
    #[arg(long)]
    always: bool,
    /// How long "from now on" lasts, such as `8h` or `7d` [default: 30d]
    #[arg(long = "for", value_name = "DURATION", requires = "always", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// For how many more calls "from now on" lasts, after the one that waits [default: without end]
    #[arg(long, value_name = "NUMBER", requires = "always")]
    times: Option<NonZeroU64>,
    /// What is allowed from now on, in the same workspace, for the same requester and by the same rules: this very call,
    /// calls of the same program and subcommand, or what these rules ask about
    #[arg(long, value_name = "SCOPE", requires = "always", default_value = "call")]
    scope: ScopeArg,
    /// Instead of a scope: calls with other amounts in this argument, as long as these add up to no more than the sum, after the
    /// call that waits. All else of them is the same
    #[arg(long, value_name = "ARGUMENT=SUM", requires = "always", conflicts_with = "scope", value_parser = up_to)]
    up_to: Option<UpTo>,
}

/// An argument, and the sum of its amounts.
#[derive(Clone, Debug)]
struct UpTo {
    argument: String,
    most: Amount,
}

fn up_to(text: &str) -> Result<UpTo, String> {
    let (argument, most) = text.rsplit_once('=').ok_or("write it as `amount=100`")?;
    let most = most.parse().map_err(|error: NotAnAmount| error.to_string())?;
    Ok(UpTo { argument: argument.to_owned(), most })
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScopeArg {
    Call,
    Program,
    Rule,
}

impl ApprovalsArgs {
    pub(super) fn lower(self) -> Result<Settings, Error> {
        Ok(match self.command {
            ApprovalsCommand::List { all } => Settings::List { all },
            ApprovalsCommand::Show { name, whole } => Settings::Show { name, whole },
            ApprovalsCommand::Approve(args) => args.lower(),
            ApprovalsCommand::Deny { name, say } => Settings::Deny { name, word: say },
            ApprovalsCommand::Edit { name, arguments } => Settings::Edit { name, arguments },
            ApprovalsCommand::Respond { name, text } => Settings::Respond { name, text },
            ApprovalsCommand::Surfaces { command: SurfacesCommand::List } => Settings::Surfaces(None),
            ApprovalsCommand::Surfaces { command: SurfacesCommand::Test { name } } => {
                Settings::Surfaces(Some(name))
            }
        })
    }
}

impl ApproveArgs {
    fn lower(self) -> Settings {
        let scope = match (self.up_to, self.scope) {
            (Some(UpTo { argument, most }), _) => AlwaysScope::UpTo { argument, most },
            (None, ScopeArg::Call) => AlwaysScope::Call,
            (None, ScopeArg::Program) => AlwaysScope::Program,
            (None, ScopeArg::Rule) => AlwaysScope::Rule,
        };
        let always = self.always.then_some(Always { scope, ttl: self.ttl, times: self.times });
        Settings::Approve { name: self.name, always }
    }
}

/// Allows one later call that a hook asked about when nobody could be asked, or nobody answered. The agent
/// may then make the same call again, once.
#[derive(Debug, clap::Args)]
pub(super) struct AllowOnceArgs {
    /// Its code, its id, or the beginning of its id, from `backstop approvals`
    code: String,
    /// How long the call may take to come
    #[arg(long = "for", value_name = "DURATION", default_value = "15m", value_parser = duration::parse)]
    ttl: Duration,
}

impl AllowOnceArgs {
    pub(super) fn lower(self) -> Settings {
        Settings::AllowLater { name: self.code, ttl: self.ttl }
    }
}

/// Lists and revokes what was allowed for good.
#[derive(Debug, clap::Args)]
pub(super) struct GrantsArgs {
    #[command(subcommand)]
    command: GrantsCommand,
}

#[derive(Debug, Subcommand)]
enum GrantsCommand {
    /// List the grants in force
    List {
        /// Also those that are revoked or over
        #[arg(long)]
        all: bool,
    },
    /// Revoke a grant
    Revoke {
        /// Its id, or the beginning of it
        id: String,
    },
}

impl GrantsArgs {
    pub(super) fn lower(self) -> grants::Settings {
        match self.command {
            GrantsCommand::List { all } => grants::Settings::List { all },
            GrantsCommand::Revoke { id } => grants::Settings::Revoke { id },
        }
    }
}
