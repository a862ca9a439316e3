//! Who was asked: lists of hooks in the trail, and receipts that name them.
//!
//! A receipt of many hooks would name the same silent ones again and again. Once it pays, the trail lists the set of hooks in an
//! entry of the kind [`AUDIT_HOOKS`], and receipts have its digest (`hookSet`) and the places in it of the hooks that were asked and
//! were silent (`silent`, and `silentAgain` for the second round). The other hooks are named (`steps`).
//!
//! The law: *who was asked follows from the trail alone*. A list stands before the first receipt that names it, in the same
//! transaction; its digest is computed from its rows, so [`HookLists`] takes no list for another. Receipts before it pays name
//! all hooks: a process that judges one call and ends, like a client's hook, writes no list.
//!
//! Pruning takes lists that no receipt names any more, also those of a process that runs and goes on naming them. So a list that is in use is
//! written again every hour: what is younger than the day that retention keeps at least is there. Where a number of entries is all that is kept,
//! receipts may name a list that stands up to an hour behind them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use backstop_engine::{HookSet, Receipt};
use backstop_hooks::Digest;
use backstop_store::{AUDIT_HOOKS, AuditBody, AuditEntry, NewAuditEntry, Timestamp};
use serde_json::{Value, json};

/// From this receipt of a set on, a list costs less than names in each.
const PAYS_FROM: u32 = 4;
/// A set of more hooks is listed for its first receipt.
const NAMED_AT_MOST: usize = 64;
/// About how many bytes of rows an entry has. Longer lists have several.
const PART_BYTES: usize = 32 * 1024;
/// After how much time a set that is in use is listed again.
const LISTED_FOR: Duration = Duration::from_hours(1);
/// How many sets are remembered. One that is forgotten is listed again.
const REMEMBERED: usize = 16;

/// Which sets the trail lists, as far as this process knows.
#[derive(Debug, Default)]
pub(super) struct Listed(VecDeque<Known>);

#[derive(Debug)]
struct Known {
    set: Digest,
    receipts: u32,
    listed: Option<Instant>,
}

impl Listed {
    /// Returns the body of a receipt, after adding the list of its hooks to `entries` if it is to be listed now.
    pub(super) fn body(&mut self, receipt: &Receipt, entries: &mut Vec<NewAuditEntry>) -> AuditBody {
        self.body_at(Instant::now(), receipt, entries)
    }

    fn body_at(&mut self, now: Instant, receipt: &Receipt, entries: &mut Vec<NewAuditEntry>) -> AuditBody {
        let Some(set) = &receipt.hooks else { return AuditBody::of(receipt) };
        let Some(known) = self.known(set.digest()) else { return AuditBody::of(receipt) };
        known.receipts = known.receipts.saturating_add(1);
        let pays = known.receipts >= PAYS_FROM || set.hooks().len() > NAMED_AT_MOST;
        let is_listed = known.listed.is_some_and(|listed| now.saturating_duration_since(listed) < LISTED_FOR);
        if pays && !is_listed {
            known.listed = Some(now);
            entries.extend(list(set));
        }
        if pays { AuditBody::of(&receipt.shared()) } else { AuditBody::of(receipt) }
    }

    /// What was to be written was not: none of it is in the trail.
    pub(super) fn forget(&mut self) {
        self.0.iter_mut().for_each(|known| known.listed = None);
    }

    fn known(&mut self, set: Digest) -> Option<&mut Known> {
        let at = self.0.iter().position(|known| known.set == set);
        let known = at.and_then(|at| self.0.remove(at));
        // A set that is forgotten is listed once more.
        while self.0.len() >= REMEMBERED {
            self.0.pop_back();
        }
        self.0.push_front(known.unwrap_or(Known { set, receipts: 0, listed: None }));
        self.0.front_mut()
    }
}

/// Returns the entries that list a set.
fn list(set: &HookSet) -> Vec<NewAuditEntry> {
    let (mut entries, mut rows, mut bytes, mut from) = (Vec::new(), Vec::new(), 0, 0);
    let of = set.hooks().len();
    if of == 0 {
        return vec![part(set.digest(), 0, 0, &[])];
    }
    for (place, hook) in set.hooks().enumerate() {
        let row = serde_json::to_value(hook).unwrap_or_default();
        bytes += row.to_string().len();
        rows.push(row);
        if bytes >= PART_BYTES || place + 1 == of {
            entries.push(part(set.digest(), from, of, &std::mem::take(&mut rows)));
            (bytes, from) = (0, place + 1);
        }
    }
    entries
}

fn part(set: Digest, from: usize, of: usize, rows: &[Value]) -> NewAuditEntry {
    NewAuditEntry {
        at: Timestamp::now(),
        kind: AUDIT_HOOKS.to_owned(),
        session: None,
        run: None,
        body: json!({ "hookSet": set, "from": from, "of": of, "hooks": rows }).into(),
    }
}

/// A hook that was asked, as the trail says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedHook {
    /// Its id.
    pub hook: String,
    /// Where it stands.
    pub point: String,
    /// Whose it is.
    pub owner: String,
    /// What it said.
    pub said: String,
    /// Whether that was the second round.
    pub again: bool,
}

/// Why the trail does not say who was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhoWasAsked {
    /// The entry is no receipt.
    #[error("the entry is no receipt")]
    NoReceipt,
    /// No entry lists the set of hooks that the receipt names.
    #[error("no entry of the trail lists the set of hooks that the receipt names: {0}")]
    Unlisted(String),
    /// The list is not what its digest says.
    #[error("the list of the set of hooks {0} is not the one that its digest is of")]
    OtherList(String),
    /// The receipt names places that the list does not have.
    #[error("the receipt names hooks that the list of its set does not have")]
    Misplaced,
    /// The receipt was too large to name all.
    #[error("the receipt was too large for the trail, and names the hooks by number only")]
    Omitted,
}

/// The lists of hooks in a trail.
#[derive(Debug, Default)]
pub struct HookLists(BTreeMap<String, BTreeMap<u64, Value>>);

impl HookLists {
    /// Takes the list, or the part of one, that an entry is; leaves every other entry alone. All entries are read before the first
    /// receipt is asked about: pruning puts lists behind the receipts that name them.
    pub fn read(&mut self, entry: &AuditEntry) {
        let set = entry.body.get("hookSet").and_then(Value::as_str);
        let (Some(set), true) = (set, entry.kind == AUDIT_HOOKS) else { return };
        let from = entry.body.get("from").and_then(Value::as_u64).unwrap_or_default();
        let rows = entry.body.get("hooks").and_then(Value::as_array).into_iter().flatten();
        let list = self.0.entry(set.to_owned()).or_default();
        list.extend((from..).zip(rows.cloned()));
    }

    /// Returns who was asked in the dispatch that a receipt is of, in order.
    ///
    /// # Errors
    ///
    /// [`WhoWasAsked`] if the trail does not say.
    pub fn asked(&self, receipt: &AuditEntry) -> Result<Vec<AskedHook>, WhoWasAsked> {
        let body = &receipt.body;
        if receipt.kind != "receipt" {
            return Err(WhoWasAsked::NoReceipt);
        }
        if body.get("stepsOmitted").is_some() {
            return Err(WhoWasAsked::Omitted);
        }
        let list = match text(body, "hookSet") {
            "" => &BTreeMap::new(),
            set => self.list(set)?,
        };
        let places: BTreeMap<&str, u64> =
            list.iter().map(|(place, row)| (text(row, "hook"), *place)).collect();
        let mut asked = Vec::new();
        for (field, again) in [("silent", false), ("silentAgain", true)] {
            for place in ranges(text(body, field)).ok_or(WhoWasAsked::Misplaced)?.into_iter().flatten() {
                let row = list.get(&place).ok_or(WhoWasAsked::Misplaced)?;
                asked.push((again, place, hook(row, "nothing", again)));
            }
        }
        for step in body.get("steps").and_then(Value::as_array).into_iter().flatten() {
            let again = step.get("again").and_then(Value::as_bool).unwrap_or_default();
            let place = places.get(text(step, "hook")).copied().unwrap_or(u64::MAX);
            asked.push((again, place, hook(step, text(step, "said"), again)));
        }
        asked.sort_by_key(|(again, place, _)| (*again, *place));
        Ok(asked.into_iter().map(|(_, _, hook)| hook).collect())
    }

    fn list(&self, set: &str) -> Result<&BTreeMap<u64, Value>, WhoWasAsked> {
        let list = self.0.get(set).ok_or_else(|| WhoWasAsked::Unlisted(set.to_owned()))?;
        let rows: Vec<&Value> = list.values().collect();
        match Digest::of(HookSet::ROLE, &rows).to_string() == set {
            true => Ok(list),
            false => Err(WhoWasAsked::OtherList(set.to_owned())),
        }
    }
}

/// Returns how many hooks an entry says were asked, each time counted; of a list, how many there are.
pub fn asked_in(entry: &AuditEntry) -> u64 {
    let body = &entry.body;
    let rows = |field: &str| body.get(field).and_then(Value::as_array).map_or(0, |rows| rows.len() as u64);
    let silent = ["silent", "silentAgain"].map(|field| {
        let ranges = ranges(text(body, field)).unwrap_or_default();
        ranges.iter().map(|range| range.end().saturating_sub(*range.start()).saturating_add(1)).sum::<u64>()
    });
    rows("steps") + rows("hooks") + silent.iter().sum::<u64>()
}

fn hook(row: &Value, said: &str, again: bool) -> AskedHook {
    let of = |field: &str| text(row, field).to_owned();
    AskedHook { hook: of("hook"), point: of("point"), owner: of("owner"), said: said.to_owned(), again }
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The largest list that is read: no entry of places names more.
const MOST_PLACES: u64 = 1 << 20;

/// Reads places (`0-4,7`); `None` for anything else.
fn ranges(places: &str) -> Option<Vec<RangeInclusive<u64>>> {
    if places.is_empty() {
        return Some(Vec::new());
    }
    let range = |range: &str| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to < MOST_PLACES).then_some(from..=to)
    };
    places.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use backstop_engine::{Engine, HookOptions, ReceiptSink};
    use backstop_hooks::points::{BeforeToolCall, ToolCallEvent};
    use backstop_hooks::{CallContext, OwnerId, Params, ToolName, hook_fn};

    use super::*;

    /// Keeps the last receipt: only where somebody reads them do receipts name their hooks.
    #[derive(Debug, Default)]
    struct Last(Mutex<Option<Receipt>>);

    impl ReceiptSink for Last {
        fn record(&self, receipt: &Receipt) {
            *self.0.lock().unwrap() = Some(receipt.clone());
        }
    }

    #[tokio::test]
    async fn a_list_that_is_in_use_is_written_again_since_pruning_may_have_taken_it() {
        let last = Arc::new(Last::default());
        let engine = Engine::builder().sink(Arc::clone(&last) as Arc<dyn ReceiptSink>).build();
        let options = HookOptions::new(OwnerId::new("test")).id("silent");
        engine.registry().on(hook_fn::<BeforeToolCall, _>(|_, _| Ok(None)), options).unwrap();
        let event = ToolCallEvent::new(ToolName::new("exec"), Params::default());
        drop(engine.decide::<BeforeToolCall>(event, &CallContext::default()).await);
        let receipt = last.0.lock().unwrap().take().unwrap();
        let (mut listed, begun) = (Listed::default(), Instant::now());
        let mut lists_at = |minutes: u64| {
            let mut entries = Vec::new();
            listed.body_at(begun + Duration::from_mins(minutes), &receipt, &mut entries);
            entries.len()
        };
        let found = [0, 0, 0, 0, 1, 59, 60, 61, 119, 180].map(&mut lists_at);
        assert_eq!(found, [0, 0, 0, 1, 0, 0, 1, 0, 0, 1]);
    }
}
