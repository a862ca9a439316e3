//! Why a tool call did not do what it was asked to.

use super::exec::ExecError;
use super::files::edit::EditError;
use super::files::read::ReadError;
use super::params::ArgumentError;
use super::patch::PatchError;
use super::process::ProcessError;
use super::web_fetch::FetchError;
use super::workspace::WorkspaceError;

/// A failed tool call. Its text is what the model reads, so every message says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The arguments do not fit the tool's schema.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A path could not be used.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// `read` could not show a file.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// `edit` found nothing, or too much, to replace.
    #[error(transparent)]
    Edit(#[from] EditError),
    /// `apply_patch` was given a patch that is malformed or does not fit the files.
    #[error(transparent)]
    Patch(#[from] PatchError),
    /// `exec` could not run the command.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// `process` could not do what was asked with a background process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// `web_fetch` could not fetch.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The run was aborted before the tool was done.
    #[error("cancelled: the run was aborted before this call was done; nothing more will happen")]
    Cancelled,
    /// The thread doing the work died.
    #[error("the tool broke off: {0}; the files may be as before, look before you try again")]
    Broken(#[from] tokio::task::JoinError),
}
