//! How much is going on at once, and the end of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::Failure;
use crate::metrics::Now;
use crate::quota::Admitted;
use crate::settings::Limits;

/// What is going on.
#[derive(Debug)]
pub(crate) struct Load {
    requests: Counter,
    streams: AtomicUsize,
    buffered: Counter,
}

#[derive(Debug)]
struct Counter {
    most: AtomicUsize,
    now: AtomicUsize,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Running {
    load: Arc<Load>,
    /// It is under way on its connection, too.
    _visitor: Visitor,
    /// Its place among the requests of its caller.
    admitted: Option<Admitted>,
}

/// An answer that is under way as a stream of events.
#[derive(Debug)]
pub(crate) struct Streaming(Arc<Load>);

/// The requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visitors(Arc<Visited>);

#[derive(Debug, Default)]
struct Visited {
    now: AtomicUsize,
    ever: AtomicUsize,
}

/// A request of a connection.
#[derive(Debug)]
pub(crate) struct Visitor(Arc<Visited>);

impl Visitors {
    pub(crate) fn enter(&self) -> Visitor {
        self.0.now.fetch_add(1, Ordering::Relaxed);
        self.0.ever.fetch_add(1, Ordering::Relaxed);
        Visitor(Arc::clone(&self.0))
    }

    /// Ends when nobody has been there for as long, or at most twice as long.
    pub(crate) async fn stay_away(&self, patience: Duration) {
        loop {
            let ever = self.0.ever.load(Ordering::Relaxed);
            tokio::time::sleep(patience).await;
            if self.0.now.load(Ordering::Relaxed) == 0 && self.0.ever.load(Ordering::Relaxed) == ever {
                return;
            }
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of a request that are in memory.
#[derive(Debug)]
pub(crate) struct Buffered {
    load: Arc<Load>,
    bytes: usize,
}

impl Load {
    pub(crate) fn new(limits: &Limits) -> Self {
        let counter = |most| Counter { most: AtomicUsize::new(most), now: AtomicUsize::new(0) };
        let streams = AtomicUsize::new(0);
        Self { requests: counter(limits.requests), streams, buffered: counter(limits.buffered_bytes) }
    }

    /// Other limits, for what comes from now on.
    pub(crate) fn limit(&self, limits: &Limits) {
        self.requests.most.store(limits.requests, Ordering::Relaxed);
        self.buffered.most.store(limits.buffered_bytes, Ordering::Relaxed);
    }

    pub(crate) fn begin(self: &Arc<Self>, visitor: Visitor) -> Result<Running, Failure> {
        self.requests.add(1)?;
        Ok(Running { load: Arc::clone(self), _visitor: visitor, admitted: None })
    }

    /// Counts a stream of events for as long as its answer is under way.
    pub(crate) fn stream(self: &Arc<Self>) -> Streaming {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Streaming(Arc::clone(self))
    }

    /// What goes on at the moment.
    pub(crate) fn now(&self) -> Now {
        Now {
            requests: self.requests.now.load(Ordering::Relaxed),
            streams: self.streams.load(Ordering::Relaxed),
            ..Now::default()
        }
    }

    pub(crate) fn buffer(self: &Arc<Self>) -> Buffered {
        Buffered { load: Arc::clone(self), bytes: 0 }
    }
}

impl Running {
    /// The same, which also holds its place among the requests of its caller.
    pub(crate) fn holding(self, admitted: Option<Admitted>) -> Self {
        let mut running = self;
        running.admitted = admitted;
        running
    }
}

impl Counter {
    fn add(&self, amount: usize) -> Result<(), Failure> {
        let before = self.now.fetch_add(amount, Ordering::Relaxed);
        if before.saturating_add(amount) > self.most.load(Ordering::Relaxed) {
            self.subtract(amount);
            return Err(Failure::Overloaded);
        }
        Ok(())
    }

    fn subtract(&self, amount: usize) {
        self.now.fetch_sub(amount, Ordering::Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.load.requests.subtract(1);
    }
}

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Buffered {
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Failure> {
        self.load.buffered.add(bytes)?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Buffered {
    fn drop(&mut self) {
        self.load.buffered.subtract(self.bytes);
    }
}
