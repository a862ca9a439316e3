//! Plugins: what they say of themselves, what they may reach, and which of them are trusted.

pub use backstop_plugins::apart;
pub use backstop_plugins::install::{FetchError, NoSource, Origin, Replaced, Source};
pub use backstop_plugins::manifest::{Api, BadId, Contracts, Kind, Manifest, ManifestError, OURS, PluginId};
pub use backstop_plugins::offers::cli::CliError;
pub use backstop_plugins::offers::commands::{CommandRequest, PluginCommand};
pub use backstop_plugins::offers::lifecycle::CleanupReason;
pub use backstop_plugins::offers::services::ServiceFault;
pub use backstop_plugins::openclaw::{held_apart, unheld};
pub use backstop_plugins::package::{
    Bounds, ContentHash, Finding, FindingKind, NoHash, Package, PackageError,
};
pub use backstop_plugins::permissions::{
    Access, BadWord, Effective, FileWords, Folder, Folders, Host, Permissions, Words,
};
pub use backstop_plugins::probe::{Fired, Judged, Shape};
pub use backstop_plugins::registration::{LeftOut, OfferKind, Seated, Waiting};
pub use backstop_plugins::set::{PluginSet, SetError, Why};
pub use backstop_plugins::trust::{Home, Installed, LIST, Purpose, Record, Staged, State, TrustError};

pub use crate::hosts::installer_host;
pub use crate::lower::plugins::{declared_tools, granted, load_one, runtime};
pub use crate::lower::trial::{Trial, TriedFor};
