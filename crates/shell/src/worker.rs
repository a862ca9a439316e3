//! A thread with a big stack, and a deadline.
//!
//! Analysis recurses with the nesting of the command. Commands with more than a little nesting run on a
//! separate thread whose stack is sized for the deepest command that the prescan admits. The caller
//! waits for its budget and no longer. A late thread finishes on its own (its work is bounded by
//! the same limits) and its answer is dropped. Late threads are counted, and at the limit further heavy
//! commands are refused instead of started.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

/// Virtual memory reserved for one stack; only what is touched becomes resident.
const STACK_BYTES: usize = 256 << 20;
/// Threads that may be busy at once.
const MAX_THREADS: usize = 8;

static BUSY: AtomicUsize = AtomicUsize::new(0);

/// Why no answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Late {
    /// The budget ran out.
    Deadline,
    /// No thread could be had, or it died.
    NoThread,
}

/// Runs `work` on a big stack and waits for at most `budget`.
pub(crate) fn on_big_stack<T: Send + 'static>(
    budget: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Late> {
    let seat = Seat::take().ok_or(Late::NoThread)?;
    let (answer, wait) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("backstop-guard".into())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let _seat = seat;
            // The receiver is gone when the answer is late; then nobody wants it.
            let _ = answer.send(work());
        })
        .map_err(|_| Late::NoThread)?;
    wait.recv_timeout(budget).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => Late::Deadline,
        mpsc::RecvTimeoutError::Disconnected => Late::NoThread,
    })
}

struct Seat;

impl Seat {
    fn take() -> Option<Self> {
        BUSY.fetch_update(Ordering::AcqRel, Ordering::Acquire, |busy| {
            (busy < MAX_THREADS).then_some(busy + 1)
        })
        .ok()
        .map(|_| Self)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, Ordering::AcqRel);
    }
}
