//! The built-in tools: what a model can do, and the bounds inside which it does it.
//!
//! A [`Tool`] takes JSON arguments and a [`ToolContext`] and answers a [`ToolOutput`]. A tool never fails
//! in a way the model cannot read: a wrong argument, a path outside the workspace, a command that timed out
//! are outputs with `is_error`, which name the thing, the place and the next step. The seven tools are
//! `read`, `write`, `edit` and `apply_patch` (files), `exec` and `process` (commands) and `web_fetch`.
//!
//! What holds for all of them:
//!
//! - **One door.** [`Toolbox::run`] is the only way in, and takes nothing but the engine's permit. It does not
//!   judge; it runs the name and the arguments that were judged.
//! - **Bounded.** Output text, file sizes, running time, number of processes and redirects have limits
//!   ([`Limits`]); what is cut is said in the output and in its `details`.
//! - **Nothing is left behind.** When a call is cancelled, times out or its future is dropped, its
//!   processes die; when the [`ProcessTable`] goes, all background processes of the session die. Files are
//!   replaced as a whole or not at all.
//!
//! What does not hold: the workspace bounds the *file tools* only. `exec` runs a real shell with the rights
//! of the user; what it may do is for the hooks to judge and for the operating system to confine. The tools
//! need a Unix system.

mod cancel;
mod context;
mod error;
mod exec;
mod files;
mod params;
mod patch;
mod process;
mod text;
mod tool;
mod web_fetch;
mod workspace;

pub use cancel::CancelToken;
pub use context::{Caller, Limits, ToolContext};
pub use error::ToolError;
pub use exec::ExecError;
pub use exec::env::{Dropped, Harm, filter_inherited, filter_overrides};
pub use files::edit::EditError;
pub use files::read::ReadError;
pub use params::ArgumentError;
pub use patch::{PatchError, affected_paths};
pub use process::ProcessError;
pub use process::table::ProcessTable;
pub use tool::{Tool, ToolOutput, ToolSpec, Toolbox};
pub use web_fetch::FetchError;
pub use workspace::{Workspace, WorkspaceError};
