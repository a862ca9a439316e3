//! Hooks that only watch, kept off the turn's own time.
//!
//! Events go to one worker, which shows them in order. A slow observer delays later observers, never the
//! turn; at the end of a turn the worker is waited for, within a bound.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::{CallContext, ObservePoint};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::output::Outlet;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The worker of one turn. What waits for it is bounded by the turn's model and tool calls.
#[derive(Debug)]
pub(crate) struct Observers {
    engine: Engine,
    call: Arc<CallContext>,
    outlet: Outlet,
    receipts: Arc<AtomicU64>,
    queue: UnboundedSender<Job>,
    worker: JoinHandle<()>,
}

impl Observers {
    pub(crate) fn start(engine: Engine, call: CallContext, outlet: Outlet) -> Self {
        let (queue, jobs) = unbounded_channel();
        let worker = tokio::spawn(work(jobs));
        Self { engine, call: Arc::new(call), outlet, receipts: Arc::default(), queue, worker }
    }

    pub(crate) fn tell<P: ObservePoint>(&self, event: P::Event) {
        let (engine, call) = (self.engine.clone(), Arc::clone(&self.call));
        let (outlet, receipts) = (self.outlet.clone(), Arc::clone(&self.receipts));
        let job = async move {
            let receipt = engine.observe::<P>(&event, &call).await;
            if !receipt.steps.is_empty() {
                receipts.fetch_add(1, Ordering::Relaxed);
                outlet.receipt(&receipt);
            }
        };
        // The worker takes jobs until this sender is gone.
        let _ = self.queue.send(Box::pin(job));
    }

    /// Waits until everything was shown, for at most `patience`; what is left then is dropped. Answers how many
    /// dispatches met a hook.
    pub(crate) async fn drain(self, patience: Duration) -> u64 {
        let Self { queue, mut worker, receipts, .. } = self;
        drop(queue);
        if tokio::time::timeout(patience, &mut worker).await.is_err() {
            tracing::warn!("hooks that watch did not end in time");
            worker.abort();
        }
        receipts.load(Ordering::Relaxed)
    }
}

async fn work(mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job.await;
    }
}
