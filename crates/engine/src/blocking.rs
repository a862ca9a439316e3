//! Hooks that block their thread.
//!
//! Rust can't interrupt a thread. A blocking hook that hangs keeps its thread until it ends, whatever its
//! budget, and a hook that hangs for every call would take every thread. These hooks therefore get a few
//! threads of their own, separate from those on which the host reads files:
//!
//! - [`MAX_RUNNING`] calls of one hook run at once, and [`MAX_THREADS`] calls of all blocking hooks of the process.
//! - [`MAX_WAITING`] more calls of the hook wait for their turn. The wait counts towards the budget, and a call whose
//!   budget ends while it waits never runs. One more call is not accepted: the hook has failed
//!   ([`HookError::Overloaded`]), which blocks at gates.
//! - A call that exceeds its budget keeps its place until it ends. It is counted as overdue, and every
//!   later timeout of the hook reports how many there are ([`HookLoad`]).

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use backstop_hooks::{
    Answer, Context, Hook, HookError, HookLoad, HookResult, OwnedContext, Point, contained, drop_contained,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, oneshot};

/// How many calls of one blocking hook run at once.
pub const MAX_RUNNING: usize = 8;
/// How many calls of one blocking hook wait for their turn.
pub const MAX_WAITING: usize = 256;
/// How many calls of all blocking hooks of the process run at once, each on a thread.
pub const MAX_THREADS: usize = 64;

static THREADS: Semaphore = Semaphore::const_new(MAX_THREADS);

/// Only its blocking threads are used. It is never dropped: that would wait for hooks that hang.
static POOL: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_current_thread().max_blocking_threads(MAX_THREADS).thread_name("backstop-hook").build()
});

struct Blocking<F> {
    run: Arc<F>,
    lane: Arc<Lane>,
}

impl<P, F> Hook<P> for Blocking<F>
where
    P: Point,
    F: Fn(&P::Event, &OwnedContext) -> HookResult<P> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        let (run, event, cx) = (Arc::clone(&self.run), event.clone(), cx.to_owned());
        let lane = Arc::clone(&self.lane);
        Answer::Later(Box::pin(async move {
            let place = lane.place().await?;
            let work = move || {
                let said = contained(|| cx.call.nesting.resume(|| run(&event, &cx)));
                drop_contained((run, event, cx));
                said
            };
            place.run(work).await?.unwrap_or(Err(HookError::Panicked))
        }))
    }

    fn load(&self) -> Option<HookLoad> {
        Some(self.lane.load())
    }
}

/// The places of one hook.
struct Lane {
    places: Arc<Semaphore>,
    waiting: AtomicUsize,
    overdue: AtomicUsize,
}

/// A call that may run.
struct Place {
    lane: Arc<Lane>,
    own: OwnedSemaphorePermit,
    thread: SemaphorePermit<'static>,
}

impl Lane {
    fn new() -> Self {
        let places = Arc::new(Semaphore::new(MAX_RUNNING));
        Self { places, waiting: AtomicUsize::new(0), overdue: AtomicUsize::new(0) }
    }

    fn load(&self) -> HookLoad {
        HookLoad {
            running: MAX_RUNNING.saturating_sub(self.places.available_permits()),
            overdue: self.overdue.load(Ordering::Acquire),
            waiting: self.waiting.load(Ordering::Acquire),
        }
    }

    /// Waits for a place, if not too many do.
    async fn place(self: Arc<Self>) -> Result<Place, HookError> {
        struct Waiting<'a>(&'a Lane);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.waiting.fetch_sub(1, Ordering::AcqRel);
            }
        }
        let one_more = |waiting: usize| (waiting < MAX_WAITING).then_some(waiting + 1);
        if self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).is_err() {
            return Err(HookError::Overloaded(self.load().to_string()));
        }
        let waiting = Waiting(&self);
        let closed = |_| HookError::failed("its threads are gone");
        let own = Arc::clone(&self.places).acquire_owned().await.map_err(closed)?;
        let thread = THREADS.acquire().await.map_err(closed)?;
        drop(waiting);
        Ok(Place { lane: self, own, thread })
    }
}

impl Place {
    /// Runs the work on a thread, which keeps the place to its end also when nobody waits any more.
    async fn run<T: Send + 'static>(self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, HookError> {
        let pool = POOL.as_ref().map_err(|error| HookError::Unreachable(format!("no threads: {error}")))?;
        let Self { lane, own, thread } = self;
        let stage = Arc::new(Stage { now: AtomicU8::new(RUNNING), lane });
        let (answer, answered) = oneshot::channel();
        // What the hook calls is to run on the host's runtime; the pool's own drives nothing.
        let host = Handle::try_current().ok();
        let _audience = Audience(Arc::clone(&stage));
        pool.spawn_blocking(move || {
            let _host = host.as_ref().map(Handle::enter);
            let done = work();
            stage.end();
            drop((own, thread));
            if let Err(nobody) = answer.send(done) {
                drop_contained(AssertUnwindSafe(nobody));
            }
        });
        answered.await.map_err(|_| HookError::Panicked)
    }
}

const RUNNING: u8 = 0;
const OVERDUE: u8 = 1;
const ENDED: u8 = 2;

/// Where a call on a thread is.
struct Stage {
    now: AtomicU8,
    lane: Arc<Lane>,
}

impl Stage {
    fn end(&self) {
        if self.now.swap(ENDED, Ordering::AcqRel) == OVERDUE {
            self.lane.overdue.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whoever waits for a call on a thread.
struct Audience(Arc<Stage>);

impl Drop for Audience {
    fn drop(&mut self) {
        let Stage { now, lane } = &*self.0;
        // Counted first: the thread may end, and take it back, as soon as it can see the stage.
        lane.overdue.fetch_add(1, Ordering::AcqRel);
        if now.compare_exchange(RUNNING, OVERDUE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            lane.overdue.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Creates a hook from a closure that computes for long or calls blocking code. It runs on a thread of its own,
/// so that its budget holds for the caller; the thread itself goes on to its end, and what it answers
/// then is dropped. The event is cloned, which shares the values.
///
/// At most [`MAX_RUNNING`] calls run at once and [`MAX_WAITING`] wait, within their budgets; one more is a
/// failure of the hook. What is made of the closure has these places for itself: a hook that hangs is in
/// the way of no other, up to the [`MAX_THREADS`] threads of all of them.
pub fn blocking<P, F>(f: F) -> Arc<dyn Hook<P>>
where
    P: Point,
    F: Fn(&P::Event, &OwnedContext) -> HookResult<P> + Send + Sync + 'static,
{
    Arc::new(Blocking { run: Arc::new(f), lane: Arc::new(Lane::new()) })
}
