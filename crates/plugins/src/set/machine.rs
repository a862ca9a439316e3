//! Programs of the machine, as whoever loads plugins looks them up.
//!
//! The law: *whoever is judged chooses no program*. A set of plugins knows nothing of `PATH`: which file a bare name means is for the
//! [`Machine`] to say, once, when the plugin is loaded, and a program is held to that from then on.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::external::{Held, Reach};

/// A program of the machine, as it was looked up.
#[derive(Clone)]
pub struct FoundProgram {
    /// The file that is started.
    pub file: PathBuf,
    /// Whether it is still where it was.
    pub held: Arc<dyn Held>,
    /// Why it may not judge who works in a folder, if it may not.
    pub beside: Arc<Reach>,
}

impl std::fmt::Debug for FoundProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FoundProgram").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Where programs of the machine are.
pub trait Machine: Sync {
    /// A program by its bare name, where nobody but the operator can have put one.
    ///
    /// # Errors
    ///
    /// In words, why there is none, and what to do about it.
    fn program(&self, name: &str) -> Result<FoundProgram, String>;

    /// `PATH` as programs get it, with no folder in which anybody else writes.
    fn path(&self) -> &OsStr;
}

/// Several things that are to be what they were.
#[derive(Debug)]
pub(super) struct All(pub(super) Vec<Arc<dyn Held>>);

impl Held for All {
    fn check(&self) -> Result<(), String> {
        self.0.iter().try_for_each(|held| held.check())
    }
}
