//! Confinement: a program, and all that it starts, without a way to what judges it.
//!
//! Judge and agent often share an account, a home and an environment. What the agent could write there (its client's
//! settings, the operator's file, the rows in which a human's answers stand) is walled off by the system: [`Walls`] say
//! what, a [`Tier`] says how. [`Probe`] finds the strongest tier that this machine has, by trying it.
//!
//! - **Mount**: the tree has a view of the disk of its own, in which protected places are read-only and hidden ones
//!   empty.
//! - **Landlock**: the kernel lets the tree write everywhere but into protected places, and read all but the hidden ones.
//!   It knows grants only, so that *no new name can be made directly in a folder above a protected place*.
//! - **Label**: nothing is walled off.
//!
//! A process of ours that needs next to nothing shuts itself in ([`shut_in`]): what its [`Opening`] does not name is closed.
//!
//! By mounts, the tree can also get a network of its own, out of which it is led by an [`Outlet`] that a process outside holds.
//!
//! The laws: a tier is never believed to be there, it is tried; a wall that can't be built ends the start and is not left
//! out; what a tier leaves open is said ([`Tier::leaves_open`], [`Standing`]).
//!
//! Limits: services of the same user that run things on request (a user's systemd, D-Bus, tmux, a container daemon,
//! `ssh localhost`) run outside of the tree. Nothing here limits memory or time. Only Linux has tiers above the
//! last.

#[cfg_attr(not(target_os = "linux"), path = "file_wall_absent.rs")]
mod file_wall;
mod group;
mod launch;
#[cfg(target_os = "linux")]
mod mount_table;
#[cfg_attr(not(target_os = "linux"), path = "mounts_absent.rs")]
mod mounts;
#[cfg_attr(not(target_os = "linux"), path = "network_absent.rs")]
mod network;
mod probe;
#[cfg(target_os = "linux")]
mod root;
#[cfg_attr(not(target_os = "linux"), path = "shut_in_absent.rs")]
mod shut_in;
mod shut_in_opening;
mod sockets;
mod walls;

pub use self::group::Group;
pub use self::launch::{Confinement, Handed, LaunchError, Outlet, enter_and_run, joining, why_not_joined};
pub use self::network::{own_networks, take_listeners};
pub use self::probe::{Probe, Tier};
pub use self::shut_in::shut_in;
pub use self::shut_in_opening::{Gap, Opening};
pub use self::sockets::others_sockets;
pub use self::walls::{Standing, Walls};
