//! `sandbox`: how the programs that agents start are confined. It is the operator's alone: a repository that could set it
//! could open the door for its own scripts.

use crate::place::{Setting, Spanned};
use crate::text::Text;
use crate::values::{SandboxMode, SandboxWrite};
use crate::wire::section;

section! {
    /// Confinement of what `backstop run` and the agent's `exec` start: the settings of coding agents and Backstop's own
    /// places can't be changed from there, and its database can't be read.
    pub struct Sandbox {
        /// How much is insisted on.
        mode ("mode"): Setting<SandboxMode> = SandboxMode::Auto, OperatorOnly;
        /// What can be changed at all.
        write ("write"): Setting<SandboxWrite> = SandboxWrite::Anywhere, OperatorOnly;
        /// More places that can be read and not changed: absolute paths, or below the home directory with `~/`.
        read_only ("read_only"): Vec<Spanned<Text>>, OperatorOnly;
        /// More places that can't even be read.
        hidden ("hidden"): Vec<Spanned<Text>>, OperatorOnly;
        /// More places that can be changed where `write` is `workspace`.
        writable ("writable"): Vec<Spanned<Text>>, OperatorOnly;
    }
}
