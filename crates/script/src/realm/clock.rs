//! The clock that a script's code is held to while it runs.
//!
//! The interrupt handler of a runtime reads it from inside of the script's code; whoever waits for the script
//! may stop it from any thread. It is no full stop: some built-ins never poll the handler, which is why the
//! verdict about a call comes from a timer outside (see [`crate::Workers`]).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shared by a realm, its interrupt handler and its job loop.
#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    /// Nanoseconds since the epoch at which the stretch of code that runs has to end.
    until: AtomicU64,
    /// The handler has interrupted something since the last [`Clock::start`].
    tripped: AtomicBool,
    /// The worker's thread was given up.
    abandoned: Arc<AtomicBool>,
    /// The caller of the call that runs does not wait any more.
    cancelled: Mutex<Option<Arc<AtomicBool>>>,
}

impl Clock {
    pub(crate) fn new(abandoned: Arc<AtomicBool>) -> Self {
        Self {
            epoch: Instant::now(),
            until: AtomicU64::new(0),
            tripped: AtomicBool::new(false),
            abandoned,
            cancelled: Mutex::new(None),
        }
    }

    /// Begins a stretch of code that ends at `until`, or when `cancelled` is set.
    pub(crate) fn start(&self, until: Instant, cancelled: Option<Arc<AtomicBool>>) {
        self.until.store(self.nanos(until), Ordering::Relaxed);
        self.tripped.store(false, Ordering::Relaxed);
        *self.cancelled.lock().unwrap_or_else(PoisonError::into_inner) = cancelled;
    }

    /// Whether the time is up. Called by the handler and between jobs.
    pub(crate) fn is_over(&self) -> bool {
        let over = self.abandoned.load(Ordering::Relaxed)
            || self.nanos(Instant::now()) >= self.until.load(Ordering::Relaxed)
            || self
                .cancelled
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .as_ref()
                .is_some_and(|flag| flag.load(Ordering::Relaxed));
        if over {
            self.tripped.store(true, Ordering::Relaxed);
        }
        over
    }

    /// Whether something was interrupted since the last [`Clock::start`].
    pub(crate) fn has_tripped(&self) -> bool {
        self.tripped.load(Ordering::Relaxed)
    }

    /// Milliseconds since the realm was made.
    pub(crate) fn millis(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64() * 1000.0
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }
}

/// `now` plus `span`, or as far as the clock goes.
pub(crate) fn after(now: Instant, span: Duration) -> Instant {
    now.checked_add(span).unwrap_or_else(|| now + Duration::from_secs(86_400))
}
