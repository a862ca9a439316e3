//! Which numbers of processes are missing in a log.
//!
//! Each process numbers its entries from one. One that said that it begins, or of which numbers are missing, is named unless it says that it
//! stopped. Others, as hooks that write a few entries each, say neither: nothing tells when such a one is gone, so each is remembered to the
//! end, in few bytes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::entry::{Envelope, KIND_START, KIND_STOP};
use crate::verify::{MOST_NAMED, Process};

/// The processes of a log.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// By name.
    alive: BTreeMap<String, Alive>,
    /// By what their names spell, those that have not begun and of which nothing is missing.
    brief: BTreeMap<u128, Brief>,
    /// How many numbers are missing, of all.
    pub(crate) missing: u64,
}

/// What is known of a process that may still write.
#[derive(Debug, Default)]
struct Alive {
    brief: Brief,
    started: bool,
    missing: Vec<Range<u64>>,
    lost: u64,
}

#[derive(Debug, Default)]
struct Brief {
    /// The number of its last entry.
    last: u64,
    /// How many entries had been pruned before that.
    pruned: u64,
}

/// What an entry tells of its process.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// It is the next one, or some before it are missing.
    Next,
    /// It has the number of an earlier one.
    Twice,
    /// It is the last one of a process of which numbers are missing.
    Ended(Process),
}

impl Processes {
    /// Counts an entry, before which so many were pruned.
    pub(crate) fn count(&mut self, envelope: &Envelope<'_>, pruned: u64) -> Counted {
        let (n, stops) = (envelope.n, envelope.kind == KIND_STOP);
        let is_alive = self.alive.contains_key(&*envelope.process);
        let id = id(&envelope.process).filter(|_| !is_alive);
        if let Some(id) = id.filter(|_| !stops && envelope.kind != KIND_START) {
            let brief = self.brief.entry(id).or_default();
            match brief.jump(n, pruned) {
                None => return Counted::Twice,
                Some(0) => {
                    *brief = Brief { last: n, pruned };
                    return Counted::Next;
                }
                Some(_) => {}
            }
        }
        if !is_alive {
            let brief = id.and_then(|id| self.brief.remove(&id)).unwrap_or_default();
            let alive = Alive { brief, ..Alive::default() };
            self.alive.insert(envelope.process.clone().into_owned(), alive);
        }
        let Some(alive) = self.alive.get_mut(&*envelope.process) else { return Counted::Next };
        let Some(jump) = alive.brief.jump(n, pruned) else { return Counted::Twice };
        if jump > 0 {
            self.missing = self.missing.saturating_add(jump);
            alive.lost = alive.lost.saturating_add(jump);
            if alive.missing.len() < MOST_NAMED {
                alive.missing.push(n.saturating_sub(jump)..n);
            }
        }
        alive.brief = Brief { last: n, pruned };
        alive.started |= envelope.kind == KIND_START;
        let ended = stops.then(|| self.alive.remove_entry(&*envelope.process)).flatten();
        match ended.filter(|(_, alive)| !alive.missing.is_empty()) {
            Some((process, alive)) => Counted::Ended(alive.named(process, true)),
            None => Counted::Next,
        }
    }

    /// Returns the processes that did not say that they stopped, and said that they began or of which numbers are missing.
    pub(crate) fn rest(&mut self) -> impl Iterator<Item = Process> + use<> {
        let rest = std::mem::take(&mut self.alive).into_iter();
        let rest = rest.filter(|(_, alive)| alive.started || !alive.missing.is_empty());
        rest.map(|(process, alive)| alive.named(process, false))
    }
}

impl Brief {
    /// Returns how many numbers are missing before this one; `None` where it was there already. Pruned entries don't say whose they were: as many
    /// as there are between two of a process may have been its own.
    fn jump(&self, n: u64, pruned: u64) -> Option<u64> {
        let jump = n.checked_sub(self.last.saturating_add(1))?;
        Some(if jump > pruned.saturating_sub(self.pruned) { jump } else { 0 })
    }
}

impl Alive {
    fn named(self, process: String, stopped: bool) -> Process {
        let Self { brief: Brief { last, pruned: _ }, started, missing, lost } = self;
        Process { process, missing, lost, last, started, stopped }
    }
}

/// Returns what the name of a process spells, as processes name themselves; `None` for any other name.
fn id(name: &str) -> Option<u128> {
    let is_id = name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    u128::from_str_radix(name, 16).ok().filter(|_| is_id)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry<'e>(process: &'e str, n: u64, kind: &'e str) -> Envelope<'e> {
        Envelope { at: 5, kind: kind.into(), n, process: process.into() }
    }

    #[test]
    fn whoever_says_neither_that_it_begins_nor_misses_anything_is_remembered_in_brief() {
        let mut processes = Processes::default();
        for process in 0..500_u32 {
            for n in 1..4 {
                assert_eq!(processes.count(&entry(&format!("{process:032x}"), n, "test"), 0), Counted::Next);
            }
        }
        assert_eq!((processes.alive.len(), processes.brief.len()), (0, 500));
        assert_eq!(processes.count(&entry(&format!("{:032x}", 7), 3, "test"), 0), Counted::Twice);
        assert_eq!(processes.count(&entry(&format!("{:032x}", 7), 6, "test"), 0), Counted::Next);
        assert_eq!(
            (processes.missing, processes.rest().next().and_then(|named| named.missing.first().cloned())),
            (2, Some(4..6))
        );
    }

    proptest! {
        #[test]
        fn a_process_is_told_as_any_other_whatever_it_is_called(
            entries in prop::collection::vec((0..3_usize, 1..9_u64, 0..3_u64, prop::sample::select(vec!["test", "test", "test", KIND_START, KIND_STOP])), 0..30),
        ) {
            let told = |prefix: &str| {
                let (mut processes, mut pruned) = (Processes::default(), 0);
                let counted: Vec<_> = entries.iter().map(|(process, n, gone, kind)| {
                    pruned += gone;
                    let name = format!("{prefix}{process:031x}");
                    match processes.count(&entry(&name, *n, kind), pruned) {
                        Counted::Ended(ended) => Counted::Ended(Process { process: process.to_string(), ..ended }),
                        counted => counted,
                    }
                }).collect();
                let rest: Vec<_> = processes.rest().map(|mut rest| Process { process: rest.process.split_off(1), ..rest }).collect();
                (counted, rest, processes.missing)
            };
            prop_assert_eq!(told("a"), told("x"));
        }
    }
}
