//! A worker's thread as others see it: where to send messages, and what it is busy with.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::message::Message;
use super::thread::Worker;
use crate::error::ScriptError;

/// Bytes of native stack of a worker's thread: room for the script's own, which is at most
/// [`Limits::MOST_STACK`](crate::Limits::MOST_STACK), once for each load inside of a load that `modules` allows.
pub(crate) const THREAD_STACK: usize = 16 << 20;

/// What of it has to be left for one more load: the script's stack, and as much again for the loader.
const LEFT: usize = 3 << 20;

thread_local! {
    /// About where the stack of a worker's thread begins.
    static BASE: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

fn here() -> usize {
    let local = 0_u8;
    std::ptr::from_ref(&local).addr()
}

/// Notes where the stack of this thread begins.
pub(super) fn note_stack() {
    BASE.set(here());
}

/// Whether the stack of this thread has no room for one more load inside of loads.
pub(crate) fn stack_is_short() -> bool {
    BASE.get().abs_diff(here()) > THREAD_STACK - LEFT
}

/// What a thread is busy with; written by it, read by who waits.
#[derive(Debug)]
pub(crate) struct Gauge {
    epoch: Instant,
    /// Odd while a slice runs.
    slice: AtomicU64,
    /// Nanoseconds since the epoch at which the slice should be over.
    until: AtomicU64,
    script: AtomicU64,
    abandoned: Arc<AtomicBool>,
}

impl Gauge {
    fn new() -> Self {
        Self {
            epoch: Instant::now(),
            slice: AtomicU64::new(0),
            until: AtomicU64::new(0),
            script: AtomicU64::new(0),
            abandoned: Arc::default(),
        }
    }

    /// A slice of `script` begins that should be over at `until`.
    pub(crate) fn begin(&self, script: u64, until: Instant) {
        let nanos = until.saturating_duration_since(self.epoch).as_nanos();
        self.script.store(script, Ordering::Relaxed);
        self.until.store(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.slice.fetch_add(1, Ordering::Release);
    }

    /// The slice is over.
    pub(crate) fn end(&self) {
        self.slice.fetch_add(1, Ordering::Release);
    }

    /// The slice that runs, and when it should be over.
    pub(crate) fn running(&self) -> Option<(u64, Instant)> {
        let slice = self.slice.load(Ordering::Acquire);
        (slice % 2 == 1)
            .then(|| (slice, self.epoch + Duration::from_nanos(self.until.load(Ordering::Relaxed))))
    }

    pub(crate) fn script(&self) -> u64 {
        self.script.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.abandoned)
    }
}

/// See the module.
pub(crate) struct Lane {
    sender: mpsc::Sender<Message>,
    gauge: Arc<Gauge>,
    residents: Arc<AtomicUsize>,
    given_up: Arc<AtomicUsize>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.send(Message::Stop);
    }
}

impl Lane {
    pub(super) fn start(handle: Handle, given_up: Arc<AtomicUsize>) -> Result<Arc<Self>, ScriptError> {
        let (sender, receiver) = mpsc::channel();
        let gauge = Arc::new(Gauge::new());
        let residents = Arc::new(AtomicUsize::new(0));
        let (own_sender, own_gauge, count) = (sender.clone(), Arc::clone(&gauge), Arc::clone(&given_up));
        std::thread::Builder::new()
            .name("backstop-script".to_owned())
            .stack_size(THREAD_STACK)
            .spawn(move || Worker::new(receiver, own_sender, own_gauge, handle, count).run())
            .map_err(|error| ScriptError::Runtime { reason: format!("no thread for it ({error})") })?;
        Ok(Arc::new(Self { sender, gauge, residents, given_up }))
    }

    /// Hands a message over. A thread that is gone takes none: who waits for its answer is told by that.
    pub(crate) fn send(&self, message: Message) {
        if self.sender.send(message).is_err() {
            self.gauge.abandoned.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn gauge(&self) -> &Gauge {
        &self.gauge
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.gauge.abandoned.load(Ordering::Relaxed)
    }

    /// Gives the thread up; `false` if it was already.
    pub(crate) fn abandon(&self) -> bool {
        let first = !self.gauge.abandoned.swap(true, Ordering::Relaxed);
        if first {
            self.given_up.fetch_add(1, Ordering::Relaxed);
            // It may be gone already, or wait at last: either way it ends.
            let _ = self.sender.send(Message::Stop);
        }
        first
    }

    pub(crate) fn residents(&self) -> usize {
        self.residents.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.residents.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.residents.fetch_sub(1, Ordering::Relaxed);
    }
}
