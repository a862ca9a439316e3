//! Why there is no [`Backstop`](crate::Backstop).

use backstop_config::ConfigError;
use backstop_engine::RegisterError;

/// Why a [`Backstop`](crate::Backstop) could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The configuration says something that can't be done; each problem has its place.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store keys the digests in its audit trail by another key than the one of `audit.digest_key`, or by none.
    #[error(
        "the audit trail that is open here has no digests keyed by `audit.digest_key`, or has them keyed by another key\nhint: start this process anew; a program that brings its own store opens it with this key"
    )]
    DigestKey,
    /// Tool calls can't be recorded.
    #[error("tool calls can't be recorded: {0}")]
    Tape(backstop_tape::TapeError),
    /// A plugin that is on can't be had.
    #[cfg(feature = "plugins")]
    #[error(transparent)]
    Plugin(#[from] backstop_plugins::set::SetError),
    /// It is not known which plugins are on.
    #[cfg(feature = "plugins")]
    #[error(transparent)]
    Plugins(#[from] backstop_plugins::trust::TrustError),
    /// A hook that the program itself registers can't stand where it was to stand.
    #[error(transparent)]
    Register(#[from] RegisterError),
}

/// There is no place for the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no folder for the database: neither `XDG_DATA_HOME` nor `HOME` is an absolute path\nhint: set `store.path` in the configuration"
)]
pub struct NoDataFolder;
