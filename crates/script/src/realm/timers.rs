//! The timers of one script, as its worker sees them.
//!
//! **Law.** A timer has one place here however often it is set, and a timer that is cleared has none. There are at most
//! [`Limits::timers`](crate::Limits::timers), whatever the script's own tables say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// See the module.
#[derive(Debug)]
pub(crate) struct Timers {
    most: usize,
    set: Mutex<Set>,
}

#[derive(Debug, Default)]
struct Set {
    due: BTreeMap<u64, Instant>,
    order: BTreeSet<(Instant, u64)>,
}

impl Timers {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, set: Mutex::default() }
    }

    /// Sets a timer, or sets it anew; `false` if there are too many.
    pub(crate) fn set(&self, timer: u64, at: Instant) -> bool {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if set.due.len() >= self.most && !set.due.contains_key(&timer) {
            return false;
        }
        if let Some(before) = set.due.insert(timer, at) {
            set.order.remove(&(before, timer));
        }
        set.order.insert((at, timer));
        true
    }

    /// Clears a timer, if it is set.
    pub(crate) fn clear(&self, timer: u64) {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = set.due.remove(&timer) {
            set.order.remove(&(at, timer));
        }
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner).order.first().map(|(at, _)| *at)
    }

    /// Takes the first one that is due by `now`.
    pub(crate) fn take_due(&self, now: Instant) -> Option<u64> {
        let mut set = self.set.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, timer) = set.order.first().copied().filter(|(at, _)| *at <= now)?;
        set.order.remove(&(at, timer));
        set.due.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timer_has_one_place_however_often_it_is_set_and_none_when_it_is_cleared() {
        let timers = Timers::new(3);
        let now = Instant::now();
        for round in 0..10_000 {
            assert!(timers.set(1, now + Duration::from_millis(round)));
            assert!(timers.set(2 + round, now));
            timers.clear(2 + round);
        }
        let set = timers.set.lock().unwrap();
        assert_eq!((set.due.len(), set.order.len()), (1, 1));
        drop(set);
        assert_eq!(timers.next(), Some(now + Duration::from_millis(9_999)));
        assert!(timers.set(7, now) && timers.set(8, now) && !timers.set(9, now), "three are the most");
        assert!(timers.set(8, now + Duration::from_secs(60)), "setting one anew is no further one");
        assert_eq!((timers.take_due(now), timers.take_due(now)), (Some(7), None));
    }
}
