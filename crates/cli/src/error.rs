//! Why a command did not do what it was asked to do.

use std::io;
use std::path::PathBuf;

use backstop::agent::AgentError;
use backstop::clients::install::{ApplyError, PlanError};
use backstop::config::ConfigError;
use backstop::gateway::StartError;
use backstop::gateway::inspect::Unenforceable;
use backstop::store::{
    AppendAuditError, DeleteError, FindApprovalError, ProveAuditError, ResolveError, SessionError,
    StoreError, VerifyAuditError,
};
use backstop::{
    BuildError, GatewayConfigError, HeadError, NoDataFolder, OpenStoreError, PinDifference, PinError,
    ProofError, ProviderError, WitnessError,
};

use crate::daemon::ListenError;
use crate::exit::Exit;
use crate::output::plain;

/// A command's failure, said so that its user can go on: lower case, the thing, the place, the next step.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The operator's configuration is not the pinned one.
    #[error(
        "the operator's configuration is not the one that was pinned: {}\nhint: only a person may look at it and pin it again; `backstop doctor` tells them how",
        different(.0)
    )]
    NotPinned(Vec<PinDifference>),
    /// It should be pinned, and is not.
    #[error(
        "there is no pin of the operator's configuration at `{}`, which this hook demands\nhint: only a person may look at it and pin it; `backstop doctor` tells them how",
        .0.display()
    )]
    NoPin(PathBuf),
    /// The pin can't be read.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The arguments make no sense together, or a value is not what it must be.
    #[error("{0}")]
    Usage(String),
    /// Something that people do, from inside of a guarded agent.
    #[error(
        "{what} is for people, and this was started from inside of an agent: {why}\nhint: do it in a terminal that the agent did not start"
    )]
    Inside {
        /// What was to be done.
        what: &'static str,
        /// By what it shows.
        why: String,
    },
    /// The configuration does not load. Its problems bring their own `error:`.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The hooks can't be put in place.
    #[error(transparent)]
    Build(BuildError),
    /// There is nowhere to keep state.
    #[error(transparent)]
    NoDataFolder(#[from] NoDataFolder),
    /// Plugins.
    #[error(transparent)]
    Plugins(#[from] backstop::plugins::TrustError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No approval is meant by that name.
    #[error(transparent)]
    FindApproval(#[from] FindApprovalError),
    /// The answer does not count.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// The session can't be changed.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Something can't be deleted.
    #[error(transparent)]
    Delete(#[from] DeleteError),
    /// The audit trail can't be written.
    #[error(transparent)]
    Audit(#[from] AppendAuditError),
    /// The audit trail is not whole.
    #[error(transparent)]
    VerifyAudit(#[from] VerifyAuditError),
    /// A witness knows another trail.
    #[error("the audit trail is not the one that the witness {name} knows: {source}")]
    Witness {
        /// The witness.
        name: String,
        /// What it says.
        source: WitnessError,
    },
    /// There is no proof of an entry.
    #[error(transparent)]
    ProveAudit(#[from] ProveAuditError),
    /// A proof proves nothing.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The head of the audit trail can't be signed, or is not trusted.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The model can't be called.
    #[error(transparent)]
    Provider(#[from] ProviderError),
    /// It is not clear where requests go.
    #[error(transparent)]
    GatewayConfig(#[from] GatewayConfigError),
    /// People can't be told where the configuration says.
    #[error(transparent)]
    Surface(#[from] backstop::surfaces::SurfaceConfigError),
    /// The hooks can't do what is asked of them.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// The gateway does not start.
    #[error(transparent)]
    Gateway(#[from] StartError),
    /// The daemon does not start.
    #[error(transparent)]
    Daemon(#[from] ListenError),
    /// The program does not start.
    #[error("`{program}` can't be run: {source}")]
    Program {
        /// The program.
        program: String,
        /// Why not.
        source: io::Error,
        /// What shells end with then.
        code: u8,
    },
    /// The agent can't go on.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// A client's configuration can't be edited.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A client's configuration can't be written.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// A file or folder can't be used.
    #[error("`{}` can't be {what}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was to be done with it.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// Output can't be written. A closed pipe is not an error; see [`Error::is_broken_pipe`].
    #[error("output can't be written: {0}")]
    Output(#[from] io::Error),
    /// Anything else that failed.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Whether whoever read our output has gone, which is their right.
    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Usage(_)
            | Self::NotPinned(_)
            | Self::NoPin(_)
            | Self::Pin(_)
            | Self::Inside { .. }
            | Self::Config(_)
            | Self::Build(_)
            | Self::GatewayConfig(_)
            | Self::Surface(_)
            | Self::Unenforceable(_) => Exit::Refused,
            Self::Program { code, .. } => Exit::Program(*code),
            Self::NoDataFolder(_)
            | Self::Store(_)
            | Self::FindApproval(_)
            | Self::Resolve(_)
            | Self::Session(_)
            | Self::Delete(_)
            | Self::Audit(_)
            | Self::VerifyAudit(_)
            | Self::Witness { .. }
            | Self::ProveAudit(_)
            | Self::Proof(_)
            | Self::Head(_)
            | Self::Provider(_)
            | Self::Gateway(_)
            | Self::Daemon(_)
            | Self::Agent(_)
            | Self::Plan(_)
            | Self::Apply(_)
            | Self::File { .. }
            | Self::Output(_)
            | Self::Plugins(_)
            | Self::Failed(_) => Exit::Failed,
        }
    }

    /// The text for stderr. Problems of the configuration already begin with `error:`, each with its own.
    pub(crate) fn report(&self) -> String {
        match self {
            Self::Config(error) | Self::Build(BuildError::Config(error)) => error.to_string(),
            other => format!("error: {other}"),
        }
    }
}

/// The files that are not what was pinned, in one line.
pub(crate) fn different(differences: &[PinDifference]) -> String {
    let one = |found: &PinDifference| format!("`{}` is {}", plain(&found.path), found.change.name());
    differences.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl From<OpenStoreError> for Error {
    fn from(error: OpenStoreError) -> Self {
        match error {
            OpenStoreError::Place(error) => error.into(),
            OpenStoreError::Config(error) => error.into(),
        }
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Config(error) => Self::Config(error),
            other => Self::Build(other),
        }
    }
}
