//! Latches: how the answers of several hooks become one.
//!
//! Hooks answer one after another, and each field of an outcome declares how a later
//! answer is merged with the earlier ones. The law: *merging only tightens*. Adding a hook to a point never makes
//! the merged outcome more permissive, and no hook's wish is dropped silently: ignoring a rewrite
//! would count as consent to the current value.
//!
//! Values that somebody reads or runs are therefore *proposed* ([`Latch::Propose`]): each hook sees the
//! current value and may replace it. The engine then has every hook that judged an older value judge
//! the new one, and a hook that would change it back ends the call. [`Latch::First`] is for preferences
//! (which model), where ignoring the later wish harms nobody.
//!
//! A latch is a type without values; the outcome macros call it for its field. What a latch refused is
//! reported by [`Outcome::merge`](crate::Outcome::merge), so that a receipt can show it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::approval::ApprovalRequests;
use crate::reason::Reason;
use crate::value::Text;

/// The name of a latch, for listings and generated references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Latch {
    /// Once true it stays true.
    Block,
    /// Belongs to the block: the reason of the hook that blocked first.
    BlockReason,
    /// The first answer wins: for preferences, never for what somebody reads or runs.
    First,
    /// Each hook sees the value as it stands and may replace it. Every hook that judged an older value judges the
    /// new one; one that would change it again ends the call as `unstable_rewrite`.
    Propose,
    /// Intersection: can only shrink.
    Narrow,
    /// Joined by a blank line, in running order.
    Append,
    /// The first answer that carries the field.
    AnyOf,
    /// All answers are kept.
    Collect,
    /// Merged key by key; a later hook wins a key.
    PerKey,
    /// The strongest of a declared order of answers wins.
    Strongest,
}

/// One field of an outcome and how it merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Field {
    /// The field's name on the wire.
    pub name: &'static str,
    /// How answers merge.
    pub latch: Latch,
}

/// What is already known about the merged outcome while one more answer is merged in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    /// This answer is the first that blocks.
    pub(crate) newly_blocked: bool,
}

/// Merging of a field of type `T` under a latch. `next` is never `None`.
pub(crate) trait Merge<T> {
    /// Whether the field stops, narrows or asks.
    const GATE: bool = false;

    /// Merges `next` into `current`. Returns whether it was taken.
    fn merge(current: &mut Option<T>, next: T, turn: Turn) -> bool;

    fn blocks(_: &Option<T>) -> bool {
        false
    }

    fn reason(_: &Option<T>) -> Option<&Reason> {
        None
    }

    /// Returns whether the field says if the value is stopped.
    fn decides(_: &Option<T>) -> bool {
        false
    }

    /// Takes a proposed value back. Returns whether there was one.
    fn withdraw(_: &mut Option<T>) -> bool {
        false
    }
}

/// A set that can be cut down to what another set also has.
pub(crate) trait Intersect {
    fn intersect(&mut self, other: Self);
}

pub(crate) enum Block {}
pub(crate) enum BlockReason {}
pub(crate) enum First {}
pub(crate) enum Propose {}
pub(crate) enum Narrow {}
pub(crate) enum Append {}
pub(crate) enum AnyOf {}
pub(crate) enum Collect {}

impl Merge<bool> for Block {
    const GATE: bool = true;

    fn merge(current: &mut Option<bool>, next: bool, _: Turn) -> bool {
        // `false` is no opinion: it can't lift a block, and it is not worth a note in the receipt.
        if next {
            *current = Some(true);
        }
        true
    }

    fn blocks(current: &Option<bool>) -> bool {
        *current == Some(true)
    }

    fn decides(current: &Option<bool>) -> bool {
        current.is_some()
    }
}

impl Merge<Reason> for BlockReason {
    const GATE: bool = true;

    fn merge(current: &mut Option<Reason>, next: Reason, turn: Turn) -> bool {
        if turn.newly_blocked {
            *current = Some(next);
        }
        turn.newly_blocked
    }

    fn reason(current: &Option<Reason>) -> Option<&Reason> {
        current.as_ref()
    }
}

impl<T> Merge<T> for First {
    fn merge(current: &mut Option<T>, next: T, _: Turn) -> bool {
        let free = current.is_none();
        if free {
            *current = Some(next);
        }
        free
    }
}

impl<T> Merge<T> for AnyOf {
    fn merge(current: &mut Option<T>, next: T, turn: Turn) -> bool {
        First::merge(current, next, turn)
    }
}

impl<T> Merge<T> for Propose {
    fn merge(current: &mut Option<T>, next: T, _: Turn) -> bool {
        *current = Some(next);
        true
    }

    fn withdraw(current: &mut Option<T>) -> bool {
        current.take().is_some()
    }
}

impl<T: Intersect> Merge<T> for Narrow {
    const GATE: bool = true;

    fn merge(current: &mut Option<T>, next: T, _: Turn) -> bool {
        match current {
            Some(set) => set.intersect(next),
            None => *current = Some(next),
        }
        true
    }
}

impl Merge<Text> for Append {
    fn merge(current: &mut Option<Text>, next: Text, _: Turn) -> bool {
        *current = Some(match current.take() {
            Some(before) if !before.is_empty() && !next.is_empty() => format!("{before}\n\n{next}").into(),
            Some(before) if next.is_empty() => before,
            _ => next,
        });
        true
    }
}

impl<T> Merge<Vec<T>> for Collect {
    fn merge(current: &mut Option<Vec<T>>, next: Vec<T>, _: Turn) -> bool {
        current.get_or_insert_default().extend(next);
        true
    }
}

impl Merge<ApprovalRequests> for Collect {
    const GATE: bool = true;

    fn merge(current: &mut Option<ApprovalRequests>, next: ApprovalRequests, _: Turn) -> bool {
        current.get_or_insert_default().extend(next);
        true
    }
}
