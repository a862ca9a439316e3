//! Paths: normal forms, classes, and the places that hold secrets.

use backstop_shell::Place;

pub(crate) mod class;
pub(crate) mod footing;
mod guard;
mod innocent;
pub(crate) mod sensitive;
mod sieve;
mod table;
mod touched;
mod walls;

pub use class::Class;
pub use guard::real_path;
pub use guard::{Access, PathGuard};
pub use sensitive::Level;
pub use walls::{Roots, unwritable_footing};

pub(crate) use guard::Folders;
pub(crate) use touched::{Places, Target};

/// True when the file at an absolute, normalised path holds credentials.
pub(crate) fn is_confidential(path: &str, place: &Place) -> bool {
    sensitive::find(path, place).is_some_and(|entry| entry.level == Level::Secret || entry.id == "history")
}

/// True for paths that hold credentials.
pub(crate) fn holds_credentials(path: &str, place: &Place) -> bool {
    sensitive::find(path, place).is_some_and(|entry| entry.level == Level::Secret)
}
