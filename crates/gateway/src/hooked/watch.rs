//! Telling those who only watch.
//!
//! Nobody waits for them: what they are shown goes into a queue of its own for each exchange, which a task
//! works off in order, also after the exchange is over. An exchange tells at most a handful of things, and each
//! has the time budget of its hooks, so the queue is bounded by that.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use backstop_engine::Engine;
use backstop_hooks::{CallContext, ObservePoint, Point};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The hooks that watch one exchange.
#[derive(Debug)]
pub(super) struct Watchers {
    engine: Engine,
    call: Arc<CallContext>,
    queue: Option<UnboundedSender<Job>>,
}

impl Watchers {
    pub(super) fn new(engine: Engine, call: Arc<CallContext>) -> Self {
        Self { engine, call, queue: None }
    }

    /// Shows an event to the hooks that watch at `P`. It is made only if there are any.
    pub(super) fn tell<P: ObservePoint>(&mut self, event: impl FnOnce() -> <P as Point>::Event) {
        if !self.engine.has_hooks::<P>() {
            return;
        }
        let (engine, call) = (self.engine.clone(), Arc::clone(&self.call));
        let Some(queue) = self.queue() else { return };
        let event = event();
        // The task takes jobs until this sender is gone.
        let _ = queue.send(Box::pin(async move {
            engine.observe::<P>(&event, &call).await;
        }));
    }

    fn queue(&mut self) -> Option<&UnboundedSender<Job>> {
        if self.queue.is_none() {
            // Without a runtime the process is going away.
            let runtime = Handle::try_current().ok()?;
            let (queue, jobs) = unbounded_channel();
            runtime.spawn(work(jobs));
            self.queue = Some(queue);
        }
        self.queue.as_ref()
    }
}

async fn work(mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job.await;
    }
}
