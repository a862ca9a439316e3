//! The hosts of a process: which points can be fired here at all.
//!
//! A process has one host (the agent) or several (a server that is a proxy and also answers the hooks of coding
//! agents). A point that any of them fires is fired in the process. While hooks are registered, this set decides which of them
//! would never be called, and which could only give answers that no host obeys. Hosts of other processes are known
//! for one purpose: an error can then name the host that does fire the point.

use backstop_hooks::{Honour, HostProfile, PointId};

/// The hosts of this process.
#[derive(Clone, Debug)]
pub struct Hosts {
    here: Vec<HostProfile>,
    elsewhere: Vec<HostProfile>,
}

impl Default for Hosts {
    /// Creates a program that embeds the engine and fires whatever it calls.
    fn default() -> Self {
        Self::new([HostProfile::program()])
    }
}

impl Hosts {
    /// Creates the set of hosts in this process.
    pub fn new(here: impl IntoIterator<Item = HostProfile>) -> Self {
        Self { here: here.into_iter().collect(), elsewhere: Vec::new() }
    }

    /// Adds hosts of other processes, so that an error can name who fires a point that nobody fires here.
    #[must_use]
    pub fn elsewhere(mut self, known: impl IntoIterator<Item = HostProfile>) -> Self {
        let is_here = |host: &HostProfile| self.here.iter().any(|here| here.name() == host.name());
        self.elsewhere = known.into_iter().filter(|host| !is_here(host)).collect();
        self
    }

    /// Returns the hosts of this process.
    pub fn here(&self) -> &[HostProfile] {
        &self.here
    }

    /// Returns whether any host of this process fires the point.
    pub fn does_fire(&self, point: PointId) -> bool {
        self.here.iter().any(|host| host.does_fire(point))
    }

    /// Returns whether the field of an answer at the point has any effect in a host of this process.
    pub fn has_effect(&self, point: PointId, field: &str) -> bool {
        self.here.iter().filter_map(|host| host.honour(point, field)).any(Honour::has_effect)
    }

    /// Returns the names of this process's hosts, for people.
    pub(crate) fn names(&self) -> String {
        titles(&self.here)
    }

    /// Who, in other processes, fires the point, for people.
    pub(crate) fn fired_elsewhere(&self, point: PointId) -> String {
        titles(self.elsewhere.iter().filter(|host| host.does_fire(point)))
    }
}

fn titles<'a>(hosts: impl IntoIterator<Item = &'a HostProfile>) -> String {
    hosts.into_iter().map(HostProfile::title).collect::<Vec<_>>().join(", ")
}
