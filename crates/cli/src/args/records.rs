//! `backstop sessions`, `backstop prune` and `backstop audit`.

use std::time::Duration;

use std::path::PathBuf;

use clap::Subcommand;

use crate::commands::sessions::Which;
use crate::commands::{audit, sessions};

/// Lists, shows and deletes the sessions of the agent.
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
        /// Only those of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
    },
    /// Print a session's transcript
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Delete sessions for good, with their transcripts and approvals; the audit trail says so
    #[command(group = clap::ArgGroup::new("which").required(true).multiple(true))]
    Delete {
        /// Their ids, or the beginnings of them
        #[arg(group = "which", conflicts_with_all = ["older_than", "agent"])]
        ids: Vec<String>,
        /// Those in which nothing has happened for so long (`30d`, `12h`)
        #[arg(long, value_name = "TIME", value_parser = super::duration::parse, group = "which")]
        older_than: Option<Duration>,
        /// Those of this agent
        #[arg(long, value_name = "NAME", group = "which")]
        agent: Option<String>,
        /// Only their transcripts; the sessions stay, and can be gone on with from nothing
        #[arg(long)]
        transcripts: bool,
        /// Only say what would be deleted
        #[arg(long)]
        dry_run: bool,
    },
}

/// Deletes what `retention:` in the configuration keeps no longer: sessions, transcripts, approvals, the beginning of the
/// audit trail.
///
/// A server does so when it starts and every hour, the agent when it starts; this does it now, and to the end.
#[derive(Debug, clap::Args)]
pub(super) struct PruneArgs {}

impl PruneArgs {
    pub(super) fn lower(self) -> sessions::Settings {
        let Self {} = self;
        sessions::Settings::Prune
    }
}

impl SessionsArgs {
    pub(super) fn lower(self) -> sessions::Settings {
        match self.command {
            SessionsCommand::List { limit, agent } => sessions::Settings::List { limit, agent },
            SessionsCommand::Show { id } => sessions::Settings::Show { id },
            SessionsCommand::Delete { ids, older_than, agent, transcripts, dry_run } => {
                let which = if ids.is_empty() { Which::All { older_than, agent } } else { Which::Named(ids) };
                sessions::Settings::Delete { which, transcripts, dry_run }
            }
        }
    }
}

/// Verifies, proves, signs and prunes the audit trail. `backstop log` shows it.
#[derive(Debug, clap::Args)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    command: AuditCommand,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check that no entry was changed, removed, moved or put in, and show what is missing
    Verify {
        /// Compare with the signed head in this file, which `audit head` wrote: shows a trail that was cut off or
        /// rewritten
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
        /// Trust heads signed with the key in this file [default: `audit.key_file` in the configuration, or audit.key in the data folder]
        #[arg(long, value_name = "FILE", requires = "head", conflicts_with = "public_key")]
        key: Option<PathBuf>,
        /// Trust heads signed with this key, as `audit head` prints it
        #[arg(long, value_name = "BASE64", requires = "head")]
        public_key: Option<String>,
        /// Compare with the checkpoints that a witness keeps in this folder [default: `audit.witness` in the configuration]
        #[arg(long, value_name = "FOLDER")]
        witness: Option<PathBuf>,
        /// Compare with the checkpoints of this trail that another gateway of the same database took into its own, in this folder (a copy of its
        /// `backstop.trail`). Can be given several times
        #[arg(long, value_name = "FOLDER")]
        peer: Vec<PathBuf>,
        /// Check the signatures of checkpoints with this key of the trail, as `audit verify` prints it [default: that of `audit.key_file` in
        /// the configuration, or of audit.key in the data folder, if it can be read]
        #[arg(long, value_name = "KEY")]
        trail_key: Option<String>,
        /// End with 3 also where entries that a killed process had left unsigned were signed by another one
        #[arg(long)]
        strict: bool,
    },
    /// Hand the newest checkpoint to the witnesses in `audit.witness`, as `serve` does every minute. For machines without a server, by a timer
    Witness,
    /// Print the end of the trail, signed, to be kept where nobody on this machine can change it
    Head {
        /// The file with the key that signs, made if it is not there [default: `audit.key_file` in the configuration, which is only read, or
        /// audit.key in the data folder]
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
    },
    /// Print what proves an entry to others (c2sp.org/tlog-proof): the entry, its way in the tree, and a signed checkpoint
    Proof {
        /// Its number
        seq: u64,
    },
    /// Prune what `retention.audit` in the configuration keeps no longer, now and to the end. What goes leaves its digest, so that old heads and proofs hold
    Prune {
        /// Only say what would go
        #[arg(long)]
        dry_run: bool,
    },
    /// Make a key for `audit.digest_key`: writes it into a file for its owner only, and prints what names it in entries
    Keygen {
        /// The file, which must not be there yet
        file: PathBuf,
    },
    /// Sign with a new key from here on: an entry names both keys and both sign it. The old key stays beside it, as `audit.key.old`
    Rotate,
    /// Check a proof, on any machine: prints the entry that it proves
    Check {
        /// The file that `audit proof` wrote
        proof: PathBuf,
        /// The key of the trail, as `audit verify` prints it
        #[arg(long, value_name = "KEY")]
        public_key: String,
    },
}

impl AuditArgs {
    pub(super) fn lower(self) -> audit::Settings {
        match self.command {
            AuditCommand::Verify { head, key, public_key, witness, peer, trail_key, strict } => {
                let signer = audit::Signer::of(key, public_key);
                audit::Settings::Verify { head, signer, witness, peers: peer, trail_key, strict }
            }
            AuditCommand::Witness => audit::Settings::Witness,
            AuditCommand::Head { key } => audit::Settings::Head { key },
            AuditCommand::Proof { seq } => audit::Settings::Proof { seq },
            AuditCommand::Prune { dry_run } => audit::Settings::Prune { dry_run },
            AuditCommand::Keygen { file } => audit::Settings::Keygen { file },
            AuditCommand::Rotate => audit::Settings::Rotate,
            AuditCommand::Check { proof, public_key } => audit::Settings::Check { proof, key: public_key },
        }
    }
}
