//! `sandbox`: how the programs that agents start are confined. Only the operator can set it: a repository that could set it
//! could free its own scripts.

use crate::config_value::section;
use crate::hosts::HostRule;
use crate::place::{Allowed, Setting, Spanned};
use crate::text::Text;
use crate::values::{SandboxMode, SandboxWrite};

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
        /// The only hosts that can be reached: `name`, `*.name` (what is below it), an address or a network, each with `:port` or for the
        /// ports 80 and 443. An address of this machine needs its port. Without the key, any. Refused where the machine can't do it.
        hosts ("hosts"): Option<Spanned<Allowed<HostRule>>>, OperatorOnly;
        /// The only sockets of other programs that can be connected to, of those that are there at the start: paths. Without the
        /// key, all but the hidden ones. Refused where the machine can't do it.
        sockets ("sockets"): Option<Spanned<Allowed<Spanned<Text>>>>, OperatorOnly;
    }
}
