//! Counting what surfaces do, for whoever watches the process.

use std::fmt;

use crate::surface::SurfaceName;

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Became {
    /// People were told.
    Told,
    /// People were told in short: the service did not take the whole of it.
    Shortened,
    /// It says how the question ended.
    Withdrawn,
    /// The service did not take it, or not take it back, this time.
    Failed,
}

impl Became {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Told, Self::Shortened, Self::Withdrawn, Self::Failed];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Shortened => "shortened",
            Self::Withdrawn => "withdrawn",
            Self::Failed => "failed",
        }
    }
}

/// Who counts what surfaces do. Nothing waits for it, and it lasts where a desk takes the place of another.
pub trait Counts: fmt::Debug + Send + Sync {
    /// There is a surface, which may have done nothing yet.
    fn stands(&self, surface: &SurfaceName);

    /// Something became of a message. One that is tried again counts each time.
    fn message(&self, surface: &SurfaceName, became: Became);

    /// Somebody answered whom the service vouches for: it counts, or it does not.
    fn answer(&self, surface: &SurfaceName, does_count: bool);
}
