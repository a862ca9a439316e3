//! Places that differ from one kind of machine to the other.

use backstop::clients::install::Machine;

/// Where hooks ask, by a path without links: each folder above it has to be root's.
pub(crate) const fn socket(machine: Machine) -> &'static str {
    match machine {
        Machine::MacOs => "/private/var/run/backstop/hooks.sock",
        _ => "/run/backstop/hooks.sock",
    }
}
