//! Guards: what an agent is about to do, judged before it happens.
//!
//! The crate contains two judges, which are pure functions. They start nothing, and read only symbolic links and
//! what a command would run from the workspace, and those only when told to.
//!
//! - [`CommandGuard`] reads a shell command as a shell would, works out every process that could start
//!   with its arguments, the files those touch and the data that flows between them, and matches the result
//!   against rules. What can't be worked out is *unknown*, and the profile decides what that means.
//! - [`PathGuard`] resolves a path and says whether it holds credentials or belongs to the system.
//!
//! What they do not do: they do not sandbox. A script that is started by name is read only if the
//! [`Place`] offers a reader, and a program that deletes on its own is not seen through.

mod given;
mod guard;
pub mod hooks;
pub mod limits;
mod named;
mod paths;
mod rules;
mod typed;
pub mod verdicts;

pub use backstop_shell::programs;
pub use backstop_shell::{Action, Argument, Certainty, Place, Process, ShellKind, Unknown, UnknownKind};
pub use guard::{
    AllowEntry, CommandGuard, Finding, GuardSettings, Judgement, UNSEEN_INPUT, UnknownPolicy, Verdict,
};
pub use paths::{Access, Class, Level, PathGuard, Roots, real_path, unwritable_footing};
pub use rules::{
    Answer, Origin, PackError, Profile, Rule, RuleSet, Run, Severity, Signal, Test, TouchCondition, When,
    read_pack, rules_of,
};
pub use typed::{Typing, UNKNOWN_READER};
