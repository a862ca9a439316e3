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

/// What came over a connection on which a surface hears people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// Something that somebody did, which is decided about.
    Heard,
    /// Something that is nothing for us.
    Other,
    /// Something that counts for nothing: of another app, or without what says who it was.
    Refused,
    /// Something that was not taken, since too much is under way.
    Busy,
    /// Something that can't be read, or is too large.
    Unread,
}

impl Came {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Heard, Self::Other, Self::Refused, Self::Busy, Self::Unread];

    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Heard => "heard",
            Self::Other => "other",
            Self::Refused => "refused",
            Self::Busy => "busy",
            Self::Unread => "unread",
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

    /// A surface makes connections to hear people, of which none may stand yet.
    fn listens(&self, surface: &SurfaceName);

    /// One of them stands from now on, or no longer.
    fn connected(&self, surface: &SurfaceName, stands: bool);

    /// Something came over one of them.
    fn came(&self, surface: &SurfaceName, came: Came);
}
