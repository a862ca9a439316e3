//! A dispatch until its receipt is written.
//!
//! The law: *every dispatch leaves a receipt*, even if its future is dropped because its caller went
//! away. Such a receipt says `dropped` and contains all that was known by then; nothing was let through. The chain or the
//! observers' dispatch that is dropped hands over the steps of hooks that had answered. A hook that was just being asked
//! has no step.

use std::fmt;
use std::mem;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use backstop_hooks::PointId;
use tokio::time::Instant;

use crate::engine::Engine;
use crate::hook_set::HookSet;
use crate::receipt::{CallKey, Receipt, Step, Verdict};
use crate::registry::Snapshot;

/// Where chains that are dropped leave their steps.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    left: Mutex<Vec<Step>>,
    /// The hooks that there were when it began.
    hooks: OnceLock<Arc<HookSet>>,
}

impl Progress {
    /// These are the hooks that are asked.
    fn asks(&self, snapshot: &Snapshot) {
        self.hooks.get_or_init(|| Arc::clone(snapshot.hook_set()));
    }

    fn take_over(&self, left: Vec<Step>) {
        if !left.is_empty() {
            // What was made last is dropped first.
            self.left.lock().unwrap_or_else(PoisonError::into_inner).splice(0..0, left);
        }
    }
}

/// The steps of a chain, which survive it.
#[derive(Debug)]
pub(crate) struct Steps<'a> {
    list: Vec<Step>,
    left_in: Option<&'a Progress>,
}

impl<'a> Steps<'a> {
    pub(crate) fn new(room: usize, left_in: Option<&'a Progress>) -> Self {
        Self { list: Vec::with_capacity(room), left_in }
    }

    pub(crate) fn push(&mut self, step: Step) {
        self.list.push(step);
    }

    pub(crate) fn extend(&mut self, steps: Vec<Step>) {
        self.list.extend(steps);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn into_vec(mut self) -> Vec<Step> {
        mem::take(&mut self.list)
    }
}

impl Drop for Steps<'_> {
    fn drop(&mut self) {
        if let Some(progress) = self.left_in {
            progress.take_over(mem::take(&mut self.list));
        }
    }
}

/// The steps of hooks that are asked at once, each at its hook's place. They survive whoever waits for all of them.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    list: Mutex<Vec<Option<Step>>>,
    left_in: Option<&'a Progress>,
}

impl<'a> Places<'a> {
    pub(crate) fn new(left_in: Option<&'a Progress>) -> Self {
        Self { list: Mutex::default(), left_in }
    }

    /// The hook at this place has answered.
    pub(crate) fn put(&self, place: usize, step: Step) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() <= place {
            list.resize_with(place + 1, || None);
        }
        if let Some(free) = list.get_mut(place) {
            *free = Some(step);
        }
    }

    pub(crate) fn into_vec(mut self) -> Vec<Step> {
        self.take()
    }

    fn take(&mut self) -> Vec<Step> {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        mem::take(list).into_iter().flatten().collect()
    }
}

impl Drop for Places<'_> {
    fn drop(&mut self) {
        let steps = self.take();
        if let Some(progress) = self.left_in {
            progress.take_over(steps);
        }
    }
}

/// A dispatch that has no receipt yet.
pub(crate) struct Underway<'a> {
    engine: &'a Engine,
    point: PointId,
    /// Whose it is and since when. Absent where nobody reads receipts.
    begun: Option<(CallKey, Instant)>,
    progress: Progress,
    /// What is known of it, once the hooks were asked.
    receipt: Option<Receipt>,
}

impl<'a> Underway<'a> {
    /// `key` is asked for only where somebody reads receipts.
    pub(crate) fn begin(engine: &'a Engine, point: PointId, key: impl FnOnce() -> CallKey) -> Self {
        let begun = engine.is_recorded().then(|| (key(), Instant::now()));
        Self { engine, point, begun, progress: Progress::default(), receipt: None }
    }

    /// Returns where the steps of a dispatch with these hooks are left.
    pub(crate) fn progress_of(&self, snapshot: &Snapshot) -> &Progress {
        if self.begun.is_some() {
            self.progress.asks(snapshot);
        }
        &self.progress
    }

    /// The hooks were asked, and others still have a say.
    pub(crate) fn hold(&mut self, receipt: Receipt) {
        self.receipt = Some(receipt);
    }

    /// The receipt that is held, on which more is noted.
    pub(crate) fn note(&mut self, note: impl FnOnce(&mut Receipt)) {
        if let Some(receipt) = &mut self.receipt {
            note(receipt);
        }
    }

    /// It came to its end, and its receipt is known.
    pub(crate) fn end(mut self) {
        self.begun = None;
    }

    /// It came to its end, with the receipt that is held.
    pub(crate) fn into_receipt(mut self) -> Receipt {
        let begun = self.begun.take();
        let (key, begin) = begun.unwrap_or_else(|| (CallKey::default(), Instant::now()));
        self.known(key, begin)
    }

    /// Returns the receipt that is held, or one of what is known so far.
    fn known(&mut self, key: CallKey, begin: Instant) -> Receipt {
        let steps = mem::take(&mut *self.progress.left.lock().unwrap_or_else(PoisonError::into_inner));
        match self.receipt.take() {
            Some(mut receipt) => {
                // Of hooks that judged once more, and did not come to an end.
                if !steps.is_empty() {
                    receipt.record_mut().steps.extend(steps);
                }
                receipt
            }
            None => Receipt::of(self.point, Verdict::Dropped, key, steps, begin.elapsed())
                .of_set(self.progress.hooks.get().cloned()),
        }
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let Some((key, begin)) = self.begun.take() else { return };
        let mut receipt = self.known(key, begin);
        // A block counts although nobody waited for it.
        if receipt.blocked.is_none() {
            receipt.verdict = Verdict::Dropped;
        }
        self.engine.record(&receipt);
    }
}

impl fmt::Debug for Underway<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Underway").field("point", &self.point).finish_non_exhaustive()
    }
}
