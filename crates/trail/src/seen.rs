//! What a process has seen of a log, kept where nobody who writes the files reaches it.
//!
//! The law: *what a process has seen is signed by it, or told to be gone*. Where files were replaced, the tree over what is there now has to go
//! on from the one that the process knew: by its root, since whoever rewrites entries leaves as many as there were.

use std::ops::Range;

use crate::log::Extent;
use crate::merkle::is_consistent;
use crate::reader::Reader;

/// How far a log reached, as this process has seen it.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// When it was found, or signed last.
    settled: Option<Extent>,
    /// The last time.
    last: Option<Extent>,
    /// Whether files may have been replaced since.
    doubted: bool,
}

impl Seen {
    /// Notes how far the log reaches, where it goes on from what was seen before.
    pub(crate) fn note(&mut self, now: Extent) {
        self.settled.get_or_insert(now);
        (self.last, self.doubted) = (Some(now), false);
    }

    /// Notes how far the log reached when it was signed.
    pub(crate) fn note_signed(&mut self, now: Extent) {
        (self.settled, self.last) = (Some(now), Some(now));
    }

    /// Notes that the end of the log was read anew.
    pub(crate) fn doubt(&mut self) {
        self.doubted = true;
    }

    /// Returns the entries that were seen and of which nothing shows that they are still there; `None` where the log goes on from what was seen.
    pub(crate) fn gone(&self, log: &Reader, found: Extent) -> Option<Range<u64>> {
        let last = self.last.filter(|last| self.doubted && !goes_on(log, *last, found))?;
        let settled = self.settled.filter(|settled| goes_on(log, *settled, found));
        Some(settled.map_or(0, |settled| settled.size)..last.size)
    }
}

/// Returns whether the log, as it was found, begins with what it had before. Which files say so counts for nothing: no other hashes lead from the
/// one root to the other. Where they can't be read, it does not show.
fn goes_on(log: &Reader, before: Extent, found: Extent) -> bool {
    before.size <= found.size
        && log
            .consistency(before.size, found.size)
            .is_ok_and(|path| is_consistent(before.size, &before.root, found.size, &found.root, &path))
}
