//! Where people are told of questions away from the machine, and answer them.

pub use backstop_surfaces::{
    Became, Callback, CallbackSettings, Ceiling, Counts, Desk, Holder, QuietHours, Running, Surface,
    SurfaceError, SurfaceName,
};

pub use crate::lower::surfaces::{
    MadeSurface, SurfaceConfigError, Surfaces, each_surface, surfaces, web_push_folder,
};
