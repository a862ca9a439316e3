//! The sensitive places of real machines.
//!
//! A pattern is a list of segments: `~/` anchors at a home directory, `/` at the root, anything else
//! matches at any depth. `*` stands for any text in a segment, a final `**` for everything below. Matching
//! ignores case, because two of the three big platforms do.

mod agents;
mod clouds;
mod keys;
mod machine;
mod runs;
mod tools;

use super::sensitive::{Entry, Level};

const fn entry(
    id: &'static str,
    level: Level,
    what: &'static str,
    patterns: &'static [&'static str],
) -> Entry {
    Entry { id, level, what, patterns }
}

/// Returns every family. Where two fit a path equally well, the first one names it.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    [keys::ENTRIES, clouds::ENTRIES, tools::ENTRIES, agents::ENTRIES, machine::ENTRIES, runs::ENTRIES]
        .into_iter()
        .flatten()
}
