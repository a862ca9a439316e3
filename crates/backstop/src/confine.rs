//! Starting programs so that they can't reach what judges them.

pub use backstop_confine::{
    Confinement, LaunchError, Probe, Standing, Tier, Walls, adopt_orphans, end_descendants, enter_and_run,
    reap_orphans,
};
