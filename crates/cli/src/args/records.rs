//! `backstop sessions` and `backstop audit`.

use clap::Subcommand;

use crate::commands::{audit, sessions};

/// Lists and shows the sessions of the agent.
#[derive(Debug, clap::Args)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    /// List the sessions, the newest first
    List {
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
    },
    /// Print a session's transcript
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
}

impl SessionsArgs {
    pub(super) fn lower(self) -> sessions::Settings {
        match self.command {
            SessionsCommand::List { limit } => sessions::Settings::List { limit },
            SessionsCommand::Show { id } => sessions::Settings::Show { id },
        }
    }
}

/// Lists and verifies the audit trail.
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// List entries, the oldest first
    List {
        /// Only those of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
        /// Only those behind this number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: u64,
        /// At most so many
        #[arg(long, value_name = "N", default_value_t = 100)]
        limit: usize,
    },
    /// Check that no entry was changed, removed or put in
    Verify,
}

impl AuditArgs {
    pub(super) fn lower(self) -> audit::Settings {
        match self.command {
            AuditCommand::List { session, after, limit } => audit::Settings::List { session, after, limit },
            AuditCommand::Verify => audit::Settings::Verify,
        }
    }
}
