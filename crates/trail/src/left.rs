//! Entries that were left without a checkpoint, as a killed process leaves them.
//!
//! A process signs what it wrote after 256 entries or ten seconds, and when it ends. One that is killed leaves what came since: few entries, or
//! few and one group, all within a short time. Whoever signs next brings them under a signature and says so with an entry of the kind
//! [`KIND_UNSIGNED`](crate::KIND_UNSIGNED): which entries (`covers`, `unsigned`), of which processes, and the `root` of all entries before it.
//!
//! The law: *what was not signed in its time is never signed in silence, and nothing says more of it than can be known*. Nothing proves that
//! these entries were not changed between their append and that entry; from its checkpoint on they are proved as all others. Somebody who cuts the
//! end off with its checkpoints and writes another one leaves what looks the same, which only a witness shows. Nor is anything told of fewer
//! than 256 entries that are younger than a minute by their own times: whoever wrote them may be about to sign them.
//!
//! What no kill leaves is told as [damage](crate::mend) instead: many entries, entries of a long time, or such as only processes wrote that ended
//! in order, which sign.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use serde_json::{Value, json};

use crate::TrailError;
use crate::entry::{Entry, Envelope, KIND_STOP};
use crate::log::CHECKPOINT_ENTRIES;
use crate::merkle::Hash;
use crate::note::hash;
use crate::reader::Reader;

/// How far the times of entries may lie apart that a kill left, in milliseconds: six times what a checkpoint takes at most.
pub(crate) const LONGEST: i64 = 60_000;
/// The most entries that one process adds at once, where nobody hands over more.
const MOST_IN_GROUP: u64 = 4096;
/// The most processes that are named.
const MOST_NAMED: usize = 16;
/// The most characters of the name of a process.
const MOST_NAME_CHARS: usize = 64;
/// What the entry says of what it can't say.
const NOTE: &str = "nothing proves that they were not changed between their append and this entry";

/// Entries that no checkpoint covered when there should have been one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unproved {
    /// The entry that tells of it.
    pub index: u64,
    /// Which entries.
    pub entries: Range<u64>,
}

/// Entries that were without a checkpoint, as a killed process leaves them, and that are signed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// The entry that tells of it.
    pub index: u64,
    /// Which entries.
    pub entries: Range<u64>,
    /// The processes that wrote them; the first sixteen.
    pub processes: Vec<String>,
    /// How many other processes there are.
    pub others: u64,
}

impl Unproved {
    /// Reads what an entry tells; `None` where it tells of no such entries.
    pub(crate) fn read(index: u64, entry: &Entry) -> Option<Self> {
        let number = |field: &str| entry.body.get(field)?.as_u64();
        let (covers, unsigned) = (number("covers")?, number("unsigned")?);
        // What comes behind the entry is none of what it tells of. Where all that it tells of is gone, the first of it stands for the rest.
        let most = index.max(covers.saturating_add(1));
        let entries = covers..covers.saturating_add(unsigned).min(most);
        (!entries.is_empty()).then_some(Self { index, entries })
    }

    /// Returns what is left beyond what was kept elsewhere before it was told: later ones say nothing about what was before.
    pub(crate) fn beyond(self, kept: &[u64]) -> Option<Self> {
        let Self { index, entries } = self;
        let entries = beyond(index, entries, kept)?;
        Some(Self { index, entries })
    }
}

impl Late {
    /// Reads what an entry tells; `None` where it does not tell what it should, or `root` is not that of the entries before it: then these were
    /// changed after it was written, and before they were signed.
    pub(crate) fn read(told: &Unproved, entry: &Entry, root: &Hash) -> Option<Self> {
        if entry.body.get("root")?.as_str().and_then(hash).as_ref() != Some(root) {
            return None;
        }
        let processes = entry.body.get("processes")?.as_array()?.iter().take(MOST_NAMED);
        let processes = processes.map(|process| process.get("process")?.as_str().map(short));
        let processes = processes.collect::<Option<Vec<_>>>()?;
        let others = entry.body.get("others").and_then(Value::as_u64).unwrap_or_default();
        Some(Self { index: told.index, entries: told.entries.clone(), processes, others })
    }

    /// Returns what is left beyond what was kept elsewhere before it was told.
    pub(crate) fn beyond(self, kept: &[u64]) -> Option<Self> {
        let entries = beyond(self.index, self.entries, kept)?;
        Some(Self { entries, ..self })
    }
}

fn beyond(index: u64, entries: Range<u64>, kept: &[u64]) -> Option<Range<u64>> {
    let proved = kept.iter().filter(|size| **size <= index).max().copied().unwrap_or_default();
    let entries = entries.start.max(proved)..entries.end;
    (!entries.is_empty()).then_some(entries)
}

fn short(name: &str) -> String {
    name.chars().take(MOST_NAME_CHARS).collect()
}

/// What a process left.
struct LeftBy {
    first: u64,
    last: u64,
    entries: u64,
    stopped: bool,
}

/// What is known of entries without a checkpoint.
#[derive(Default)]
struct Looked {
    /// In the order in which they wrote.
    order: Vec<String>,
    by: BTreeMap<String, LeftBy>,
    /// The first and the last time.
    times: Option<(i64, i64)>,
    seen: u64,
    /// Whose entry was the last one, and its number.
    last: Option<(String, u64)>,
}

impl Looked {
    /// Adds one; `None` where a kill leaves none such.
    fn add(&mut self, envelope: &Envelope<'_>) -> Option<()> {
        let (process, n) = (&*envelope.process, envelope.n);
        let (first, last) = self.times.unwrap_or((envelope.at, envelope.at));
        let (first, last) = (first.min(envelope.at), last.max(envelope.at));
        self.times = Some((first, last));
        // Behind 255 others, the last group of one process may stand.
        let is_next = self
            .last
            .as_ref()
            .is_some_and(|(last, number)| last == process && number.checked_add(1) == Some(n));
        let is_one_group = self.seen < CHECKPOINT_ENTRIES
            || (is_next && self.seen < CHECKPOINT_ENTRIES.saturating_add(MOST_IN_GROUP));
        if last.saturating_sub(first) > LONGEST || !is_one_group {
            return None;
        }
        if !self.by.contains_key(process) {
            self.order.push(process.to_owned());
        }
        let by = self.by.entry(process.to_owned());
        let by = by.or_insert(LeftBy { first: n, last: n, entries: 0, stopped: false });
        (by.last, by.entries, by.stopped) = (n, by.entries + 1, envelope.kind == KIND_STOP);
        (self.seen, self.last) = (self.seen + 1, Some((process.to_owned(), n)));
        Some(())
    }

    fn facts(&self, covers: u64) -> Value {
        let named = self.order.iter().take(MOST_NAMED).filter_map(|process| {
            let LeftBy { first, last, entries, .. } = self.by.get(process)?;
            Some(json!({ "process": short(process), "first": first, "last": last, "entries": entries }))
        });
        let processes: Vec<Value> = named.collect();
        let others = self.order.len().saturating_sub(MOST_NAMED);
        let mut facts =
            json!({ "covers": covers, "unsigned": self.seen, "processes": processes, "note": NOTE });
        if let Some(facts) = facts.as_object_mut().filter(|_| others > 0) {
            facts.insert("others".to_owned(), others.into());
        }
        facts
    }
}

/// Returns what is to be told of entries that no checkpoint covers, if a killed process may have left them.
///
/// # Errors
///
/// [`TrailError`] where they can't be read.
pub(crate) fn left_by_kill(log: &Reader, entries: Range<u64>) -> Result<Option<Value>, TrailError> {
    let (mut looked, mut fits) = (Looked::default(), true);
    log.scan(entries.start, |index, frame| {
        if index >= entries.end {
            return ControlFlow::Break(());
        }
        // What was pruned was covered, and what can't be read was left by no process.
        let added = frame.entry().and_then(Envelope::read).and_then(|envelope| looked.add(&envelope));
        fits = added.is_some();
        if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    let is_all = looked.seen == entries.end.saturating_sub(entries.start);
    let was_killed = looked.by.values().any(|by| !by.stopped);
    Ok((fits && is_all && was_killed).then(|| looked.facts(entries.start)))
}
