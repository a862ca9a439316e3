//! `backstop token`.

use std::time::Duration;

use clap::Subcommand;

use super::duration;
use crate::commands::token::{New, Settings};

/// Makes, lists and revokes tokens by which agents use `backstop serve`.
///
/// Each belongs to one agent and ends by itself. Only its digest is stored.
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
        #[arg(long, value_name = "NAME")]
        agent: String,
        /// The user on whose behalf the agent asks; budgets and quotas of that user count, whatever its requests say
        #[arg(long, value_name = "NAME")]
        user: Option<String>,
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

impl TokenArgs {
    pub(super) fn lower(self) -> Settings {
        match self.command {
            TokenCommand::Create { agent, user, span, note, replaces, overlap } => {
                Settings::Create(New { agent, user, span, note, replaces, overlap })
            }
            TokenCommand::List { all } => Settings::List { all },
            TokenCommand::Revoke { id } => Settings::Revoke { id },
        }
    }
}
