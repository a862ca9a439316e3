//! What can be wrong with an entry.

use std::fmt;

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is not what was written, or one before it was removed or put in.
    Changed,
    /// It can't be read.
    Unreadable,
    /// Its segment is not there.
    Missing,
    /// It has the number of an earlier one of its process: it was put in, or moved.
    Twice,
    /// It is gone, and no tombstone names it.
    Untold,
    /// It hands over to another key, and not both have signed that.
    FalseRotation,
    /// It says that entries were pruned, and the key of the log did not sign that.
    FalseTombstone,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Changed => "it was changed, or one was removed or put in there",
            Self::Unreadable => "it can't be read",
            Self::Missing => "it is missing, with the file that it was in",
            Self::Twice => "it was put in or moved, since its number in its process was there already",
            Self::Untold => "it is gone, and no entry says that it was pruned",
            Self::FalseTombstone => "it says that entries were pruned, and no key of the log signed that",
            Self::FalseRotation => "it names a new key that the old one did not sign",
        })
    }
}
