//! How a judge sees the disk around a call.
//!
//! What a call would touch is judged by what is on the disk: the text of a script, the target of a link. A judge that runs as
//! the same user as the tools looks itself. A judge that runs as another user can't: folders are closed to it, and a
//! link that it can't see looks like no link. It uses somebody else's view of the disk, and never its own.
//!
//! Limits: the judge believes what it is told. The view must come from somebody who gains nothing by lying: the
//! program that carries the call to the judge, and that is stopped by its refusal.

use std::fmt;
use std::sync::Arc;

/// The result of looking at a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Its text, or slightly more of it than is inspected.
    Text(String),
    /// There is no such file.
    Missing,
    /// There is something that can't be read or should not be.
    Unreadable,
}

/// A view of the disk as the tools see it.
pub trait Eyes: Send + Sync {
    /// A plain file, by its absolute path. Links are not followed, and nothing is waited for.
    fn file(&self, path: &str) -> Seen;

    /// Returns where an absolute path leads when links are followed, parts that do not exist staying as written. `None` where
    /// that can't be told.
    fn leads_to(&self, path: &str) -> Option<String>;
}

/// The view of the disk around a call: the judge's own, unless another one was lent.
#[derive(Clone, Default)]
pub struct Sight(Option<Arc<dyn Eyes>>);

impl Sight {
    /// Creates a sight with somebody else's view.
    pub fn through(eyes: Arc<dyn Eyes>) -> Self {
        Self(Some(eyes))
    }

    /// Returns the view that was lent; `None` for the judge's own.
    pub fn lent(&self) -> Option<&Arc<dyn Eyes>> {
        self.0.as_ref()
    }
}

impl fmt::Debug for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Sight(lent)" } else { "Sight(own)" })
    }
}

/// How something is looked at is no fact about the call: contexts that say the same are the same.
impl PartialEq for Sight {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Sight {}
