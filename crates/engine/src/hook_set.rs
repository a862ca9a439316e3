//! Hook sets: which hooks there are, said once for many receipts.
//!
//! Most hooks that are asked say nothing, and they are the same from receipt to receipt. A receipt in the trail therefore
//! names the set of hooks by its digest, and the hooks of it that were asked and were silent by their places
//! ([`Receipt::shared`](crate::Receipt::shared)). An entry of its own lists the set ([`HookSet::hooks`]).
//!
//! The law: *who was asked follows from the receipt and the list*. A hook that is not in the set, or whose step says
//! more than that it was silent, is named in the receipt.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use backstop_hooks::{Digest, FailurePolicy, HookId, OwnerId, PointId};
use serde::Serialize;

use crate::hook_options::HookMeta;
use crate::receipt::Step;

/// All hooks of a snapshot, in running order, under one digest.
pub struct HookSet {
    digest: Digest,
    hooks: Vec<Arc<HookMeta>>,
    places: HashMap<HookId, usize>,
}

/// A hook as the list of a set has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListedHook<'a> {
    /// Where it stands.
    pub point: PointId,
    /// Its id.
    pub hook: &'a HookId,
    /// Whose it is.
    pub owner: &'a OwnerId,
    /// Its priority.
    pub priority: i32,
    /// What its failure means.
    pub on_failure: FailurePolicy,
    /// Whether its answers change nothing.
    #[serde(skip_serializing_if = "is_false")]
    pub shadow: bool,
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl HookSet {
    /// The role of the digest.
    pub const ROLE: &'static str = "hook_set";

    pub(crate) fn of(hooks: impl Iterator<Item = Arc<HookMeta>>) -> Self {
        let hooks: Vec<_> = hooks.collect();
        let places = hooks.iter().enumerate().map(|(place, meta)| (meta.id.clone(), place)).collect();
        let rows: Vec<_> = hooks.iter().map(|meta| row(meta)).collect();
        Self { digest: Digest::of(Self::ROLE, &rows), places, hooks }
    }

    /// Returns the digest of the list: that of the JSON of [`Self::hooks`] in the role `hook_set`.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the hooks, each at its place.
    pub fn hooks(&self) -> impl ExactSizeIterator<Item = ListedHook<'_>> {
        self.hooks.iter().map(|meta| row(meta))
    }

    /// Returns the place of this very hook, as it was registered.
    fn place(&self, hook: &Arc<HookMeta>) -> Option<usize> {
        let place = *self.places.get(&hook.id)?;
        self.hooks.get(place).is_some_and(|listed| Arc::ptr_eq(listed, hook)).then_some(place)
    }

    /// Divides steps: those that a receipt has to name, and the places of hooks that were silent, in the first round and in
    /// the second.
    pub(crate) fn divide<'s>(&self, steps: &'s [Step]) -> (Vec<&'s Step>, Places, Places) {
        let (mut first, mut second) = (Places::default(), Places::default());
        let named = steps.iter().filter(|step| {
            let round = if step.again { &mut second } else { &mut first };
            let place = step.is_silent().then(|| self.place(&step.hook)).flatten();
            // A hook that was asked twice in a round is named the second time.
            !place.is_some_and(|place| round.0.insert(place))
        });
        (named.collect(), first, second)
    }
}

fn row(meta: &HookMeta) -> ListedHook<'_> {
    let HookMeta { point, id, owner, priority, on_failure, mode, .. } = meta;
    let shadow = mode.is_shadow();
    ListedHook { point: *point, hook: id, owner, priority: *priority, on_failure: *on_failure, shadow }
}

impl fmt::Debug for HookSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookSet").field("digest", &self.digest).field("hooks", &self.hooks.len()).finish()
    }
}

/// Places in the list of a set, which begins with 0. Written as ranges: `0-4,7`.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeSet<usize>);

impl Places {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut places = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(begin) = places.next() {
            let mut end = begin;
            while let Some(next) = places.next_if_eq(&end.saturating_add(1)) {
                end = next;
            }
            write!(f, "{separator}{begin}")?;
            if end > begin {
                write!(f, "-{end}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_ranges() {
        let text = |places: &[usize]| Places(places.iter().copied().collect()).to_string();
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[3]), "3");
        assert_eq!(text(&[4, 0, 1, 2, 3, 7, 9, 10]), "0-4,7,9-10");
    }
}
