//! `backstop token`.

use std::time::Duration;

use backstop::store::Scope;
use clap::Subcommand;

use super::duration;
use crate::commands::token::{New, Settings};

/// Makes, lists and revokes tokens by which agents use `backstop serve`, and agents and people its API.
///
/// Each belongs to one agent or person and ends by itself. Only its digest is stored.
#[derive(Debug, clap::Args)]
pub(super) struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token and print it, this once
    Create {
        /// The agent that it belongs to
        #[arg(long, value_name = "NAME", required_unless_present = "scope")]
        agent: Option<String>,
        /// The user on whose behalf the agent asks; budgets and quotas of that user count, whatever its requests say. Without an
        /// agent, the person to whom the token belongs
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
        /// What it allows at the API, and then no more than that; may be given more than once. `judge` is for an agent, the others are
        /// for a person
        #[arg(long, value_name = "SCOPE")]
        scope: Vec<ScopeName>,
        /// How long it counts
        #[arg(long = "for", value_name = "DURATION", default_value = "90d", value_parser = duration::parse)]
        span: Duration,
        /// What it is for, to be shown in the list
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
        /// The agent's token that it takes the place of: its id, or the beginning of it
        #[arg(long, value_name = "ID")]
        replaces: Option<String>,
        /// How long the replaced token still counts
        #[arg(long, value_name = "DURATION", default_value = "1d", value_parser = duration::parse, requires = "replaces")]
        overlap: Duration,
    },
    /// List the tokens that count
    List {
        /// Also those that have ended
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token: within seconds, what it has opened ends
    Revoke {
        /// Its id, or the beginning of it
        id: String,
    },
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum ScopeName {
    Judge,
    Approve,
    Read,
    Admin,
}

impl From<ScopeName> for Scope {
    fn from(name: ScopeName) -> Self {
        match name {
            ScopeName::Judge => Self::Judge,
            ScopeName::Approve => Self::Approve,
            ScopeName::Read => Self::Read,
            ScopeName::Admin => Self::Admin,
        }
    }
}

impl TokenArgs {
    pub(super) fn lower(self) -> Settings {
        match self.command {
            TokenCommand::Create { agent, user, scope, span, note, replaces, overlap } => {
                let mut scopes: Vec<Scope> = Vec::new();
                for scope in scope.into_iter().map(Scope::from) {
                    if !scopes.contains(&scope) {
                        scopes.push(scope);
                    }
                }
                Settings::Create(New { agent, user, scopes, span, note, replaces, overlap })
            }
            TokenCommand::List { all } => Settings::List { all },
            TokenCommand::Revoke { id } => Settings::Revoke { id },
        }
    }
}
