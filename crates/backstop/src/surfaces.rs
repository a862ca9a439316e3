//! Where people are told of questions away from the machine, and answer them.

pub use backstop_surfaces::{Ceiling, Desk, Holder, QuietHours, Running, Surface, SurfaceError, SurfaceName};

pub use crate::lower::surfaces::{
    SurfaceConfigError, Surfaces, surface_secrets, surface_variables, surfaces,
};
