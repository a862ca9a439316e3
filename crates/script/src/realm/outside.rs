//! What a script makes its host hold outside of the runtime's heap: requests that are under way, and bytes of them.
//!
//! **Law.** What grows on the host's side at a script's wish is counted here before it grows, and given back when it is
//! dropped: [`Limits::pending`](crate::Limits::pending) requests and [`Limits::outside`](crate::Limits::outside) bytes. The
//! script's own tables are not asked; they are the script's.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::bridge::HostError;

/// A counter with a bound.
#[derive(Debug)]
pub(crate) struct Ledger {
    most: usize,
    now: AtomicUsize,
    what: &'static str,
}

/// A part of a ledger; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    ledger: Arc<Ledger>,
    amount: usize,
}

impl Ledger {
    pub(crate) fn new(most: usize, what: &'static str) -> Arc<Self> {
        Arc::new(Self { most, now: AtomicUsize::new(0), what })
    }

    /// Counts `amount`, until what is returned is dropped.
    ///
    /// # Errors
    ///
    /// That there would be too much.
    pub(crate) fn hold(self: &Arc<Self>, amount: usize) -> Result<Held, HostError> {
        let mut held = Held { ledger: Arc::clone(self), amount: 0 };
        held.grow(amount)?;
        Ok(held)
    }
}

impl Held {
    /// Counts `more` as well.
    ///
    /// # Errors
    ///
    /// That there would be too much; what was counted before stays.
    pub(crate) fn grow(&mut self, more: usize) -> Result<(), HostError> {
        let Ledger { most, now, what } = &*self.ledger;
        let add = |now: usize| now.checked_add(more).filter(|sum| sum <= most);
        match now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => {
                self.amount += more;
                Ok(())
            }
            Err(_) => Err(HostError::new(
                "ENOBUFS",
                format!("the script has {most} {what} at once, which is the most; wait until some are done"),
            )),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.ledger.now.fetch_sub(self.amount, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_can_be_held_again_and_nothing_beyond_the_bound() {
        let ledger = Ledger::new(10, "bytes");
        let mut one = ledger.hold(6).unwrap();
        assert!(ledger.hold(5).is_err() && one.grow(5).is_err() && ledger.hold(usize::MAX).is_err());
        one.grow(4).unwrap();
        assert_eq!(ledger.hold(1).unwrap_err().code, "ENOBUFS");
        drop(one);
        drop(ledger.hold(10).unwrap());
    }
}
