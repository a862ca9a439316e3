//! Telling those who only watch.
//!
//! Nobody waits for them: what they are shown goes into a queue of its own for each exchange, which a task
//! works off in order, also after the exchange is over. An exchange tells at most a handful of things, and each
//! has the time budget of its hooks, so the queue is bounded by that. What all exchanges together have in queues is
//! bounded by [`Room`]: hooks that are too slow for the traffic miss some of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use backstop_engine::Engine;
use backstop_hooks::{CallContext, ObservePoint, Point};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Shared, UnderWay};

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Room for what is in queues, in KiB: 256 MiB.
const MOST_ROOM: usize = 256 << 10;
/// What an exchange takes of it besides twice its request: about as much as its answer.
const ROOM_OF_ANSWER: usize = 64;

/// How much all exchanges may have in their queues.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Semaphore>);

impl Default for Room {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_ROOM)))
    }
}

impl Room {
    /// Room for an exchange with a request of so many bytes, if there is any.
    fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let wanted = (bytes / 512).saturating_add(ROOM_OF_ANSWER);
        Arc::clone(&self.0).try_acquire_many_owned(u32::try_from(wanted).unwrap_or(u32::MAX)).ok()
    }
}

/// The hooks that watch one exchange.
#[derive(Debug)]
pub(super) struct Watchers {
    engine: Engine,
    call: Arc<CallContext>,
    queue: Queue,
    under_way: UnderWay,
}

#[derive(Debug)]
enum Queue {
    /// Nothing has been told.
    Unused {
        room: Room,
        bytes: usize,
    },
    Open(UnboundedSender<Job>),
    /// There was no room, or no runtime.
    None,
}

impl Watchers {
    /// Hooks that watch an exchange with a request of so many bytes.
    pub(super) fn new(shared: &Shared, call: Arc<CallContext>, bytes: usize) -> Self {
        let Shared { engine, room, under_way, .. } = shared;
        let queue = Queue::Unused { room: room.clone(), bytes };
        Self { engine: engine.clone(), call, queue, under_way: under_way.clone() }
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
        if let Queue::Unused { room, bytes } = &self.queue {
            let room = room.take(*bytes);
            if room.is_none() {
                tracing::warn!(
                    "hooks that watch are too slow for the traffic: they are not told of a model call"
                );
            }
            // Without a runtime the process is going away.
            self.queue = match room.zip(Handle::try_current().ok()) {
                Some((room, runtime)) => {
                    let (queue, jobs) = unbounded_channel();
                    runtime.spawn(work(jobs, room, self.under_way.clone()));
                    Queue::Open(queue)
                }
                None => Queue::None,
            };
        }
        match &self.queue {
            Queue::Open(queue) => Some(queue),
            Queue::Unused { .. } | Queue::None => None,
        }
    }
}

async fn work(mut jobs: UnboundedReceiver<Job>, room: OwnedSemaphorePermit, under_way: UnderWay) {
    while let Some(job) = jobs.recv().await {
        job.await;
    }
    drop((room, under_way));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use backstop_engine::HookOptions;
    use backstop_hooks::points::{ModelCallEnded, ModelCallEndedEvent, ModelCallResult};
    use backstop_hooks::{CallId, OwnerId, RunId, async_hook_fn};
    use tokio::task::yield_now;
    use tokio::time::sleep;

    use super::*;
    use crate::inspect::{HookSettings, Hooks};

    #[tokio::test(start_paused = true)]
    async fn hooks_are_not_idle_before_all_that_they_were_told_is_worked_off() {
        let engine = Engine::builder().build();
        let hangs = async_hook_fn::<ModelCallEnded, _, _>(|_, _| std::future::pending());
        engine.registry().on(hangs, HookOptions::new(OwnerId::operator())).unwrap();
        let hooks = Hooks::new(engine, HookSettings::default()).unwrap();
        let mut watchers = Watchers::new(&hooks.0, Arc::new(CallContext::default()), 100);
        watchers.tell::<ModelCallEnded>(|| {
            let (run, id) = (RunId::new("r"), CallId::new("c"));
            ModelCallEndedEvent::new(run, id, "p".to_owned(), "m".to_owned(), 0, ModelCallResult::Error)
        });
        // The exchange is over.
        drop(watchers);
        yield_now().await;
        assert!(!hooks.are_idle());
        // The budget of the hook ends it.
        sleep(Duration::from_hours(1)).await;
        assert!(hooks.are_idle());
    }

    #[test]
    fn room_is_bounded_and_comes_back() {
        let room = Room::default();
        let large = 32 << 20;
        let taken: Vec<_> = std::iter::from_fn(|| room.take(large)).collect();
        assert_eq!(taken.len(), 3);
        assert!(room.take(1_000).is_some(), "a small one has room beside them");
        drop(taken);
        assert!(room.take(large).is_some());
    }
}
