//! Starting programs so that they can't reach what judges them.

pub use backstop_confine::{
    Confinement, Group, Handed, LaunchError, Outlet, Probe, Standing, Tier, Walls, enter_and_run, joining,
    others_sockets, own_networks, take_listeners, why_not_joined,
};
