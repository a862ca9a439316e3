//! Which tiers this machine has. Each is tried: a program that is installed, or a kernel of the right version, may still
//! be forbidden to do it.

use std::ffi::OsString;
use std::fmt;

use crate::file_wall::walls_signals;
use crate::launch::{try_network, try_off_sockets, try_out};

/// How strongly a tree is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Tier {
    /// Not at all. Its processes are known and end with the run.
    Label,
    /// By Landlock.
    Landlock,
    /// By mounts of its own.
    Mount,
}

impl Tier {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Label => "label",
            Self::Landlock => "landlock",
            Self::Mount => "mount",
        }
    }

    /// What it does not stop, for people.
    pub fn leaves_open(self) -> &'static [&'static str] {
        const SERVICES: &str = "services of the same user that run things on request (systemd --user, D-Bus, tmux, \
                                docker, ssh to this machine)";
        match self {
            Self::Mount => &[
                SERVICES,
                "protected names that do not exist yet",
                "links to protected places, which can be replaced",
                "protected places where a program outside puts another file while the run lasts",
            ],
            Self::Landlock => &[
                SERVICES,
                "sockets on the disk, whoever may read their folder",
                "modes, owners and times of protected files",
                "protected links, which can't be told from what they lead to",
            ],
            Self::Label => &["everything: it is not confined"],
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What this machine can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Why there is no mount tier, if there is none.
    pub no_mount: Option<String>,
    /// Why there is no Landlock tier, if there is none.
    pub no_landlock: Option<String>,
    /// Whether the kernel keeps signals inside of a tree.
    pub signals: bool,
}

impl Probe {
    /// Tries everything, with these words of a launcher (see [`Confinement::new`](crate::Confinement::new)).
    pub fn machine(launcher: &[OsString]) -> Self {
        Self {
            no_mount: try_out(launcher, Tier::Mount).err(),
            no_landlock: try_out(launcher, Tier::Landlock).err(),
            signals: walls_signals(),
        }
    }

    /// The strongest tier. What is weaker is not tried once one was found.
    pub fn strongest(launcher: &[OsString]) -> (Tier, Self) {
        let mut probe = Self { no_mount: None, no_landlock: None, signals: walls_signals() };
        probe.no_mount = try_out(launcher, Tier::Mount).err();
        if probe.no_mount.is_none() {
            return (Tier::Mount, probe);
        }
        probe.no_landlock = try_out(launcher, Tier::Landlock).err();
        (if probe.no_landlock.is_none() { Tier::Landlock } else { Tier::Label }, probe)
    }

    /// Why a tree can't have a network of its own behind mounts; `None` where it can. It is tried.
    pub fn why_no_network(launcher: &[OsString]) -> Option<String> {
        try_network(launcher).err()
    }

    /// Why a tree behind mounts can't be kept off sockets that have no place on the disk; `None` where it can. It is tried.
    pub fn why_no_socket_wall(launcher: &[OsString]) -> Option<String> {
        try_off_sockets(launcher).err()
    }

    /// Why the tier is not there; `None` where it is.
    pub fn why_not(&self, tier: Tier) -> Option<&str> {
        match tier {
            Tier::Mount => self.no_mount.as_deref(),
            Tier::Landlock => self.no_landlock.as_deref(),
            Tier::Label => None,
        }
    }
}
