//! JavaScript and TypeScript with no ambient authority.
//!
//! A *script* is a folder with modules. It lives in a runtime of its own on a worker's thread, reaches nothing but
//! the modules of its folder and what a [`Bridge`] and [`Permissions`] give it, and is asked with data and answers
//! with data. It may be hostile: what it can do to its host is to fail to answer, and that is decided in time.
//!
//! **Laws.**
//! - *The verdict comes from outside.* [`Loaded::call`] ends at its deadline, whatever the script does. A script
//!   that can't be interrupted loses its thread, and stays off.
//! - *Data is data.* Answers are read over property descriptors; nothing of the script runs while they are.
//! - *No authority that nobody gave.* No file, environment, host or process, unless [`Permissions`] name it, asked
//!   at each call. No module from outside of the folder.
//! - *Everything has a bound*, listed in [`Limits`], and what runs into it is told.
//!
//! **Limits of this.** A thread can't be killed: a script that finds native code of QuickJS that never looks at the
//! clock keeps a core busy until that code ends. The number of threads given up so is bounded; a real kill needs a
//! process. Memory safety is QuickJS's.
//!
//! Where to add a module of Node's, or a host function: `node/mod.rs`.

mod bridge;
mod call;
mod elsewhere;
mod error;
mod json;
mod limits;
mod loaded;
mod modules;
mod node;
mod outside;
mod permissions;
mod realm;
mod source;
mod typescript;
mod workers;

pub use bridge::{Bridge, CallScope, HostError, LogLevel, NoBridge, Provided};
pub use call::{Answer, Argument, Arguments, Callee, FunctionId, KeptFunction, LazyEvent, RunOutcome};
pub use elsewhere::Elsewhere;
pub use error::{Ended, Place, ScriptError};
pub use json::JsonText;
pub use limits::Limits;
pub use loaded::Loaded;
pub use modules::{CODE_ENDINGS, ModuleKind, ModuleText, Sources};
pub use outside::{ProgramOutput, ProgramRequest};
pub use permissions::{FileAccess, FileGrant, HostGrant, Permissions, UserGrant};
pub use source::{FilesSeen, Placement, ScriptSource};
pub use workers::{RunItem, WorkerSettings, Workers};
