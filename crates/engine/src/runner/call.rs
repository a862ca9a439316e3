//! One hook, one call: the budget, the panic, the answer's form.
//!
//! The law: *isolation*. A hook is given a shared reference it can't change; its budget drops it; a panic
//! ends in a [`Failure`], not in the host; an answer that comes late is no answer, also when the hook
//! came late because it blocked its thread.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use backstop_hooks::{
    Answer, CallContext, Context, Event, HookError, HookFuture, HookResult, Outcome, Point,
};
use futures_util::FutureExt;
use tokio::time::{Instant, timeout_at};

use crate::receipt::Failure;
use crate::registry::Entry;

/// A hook's answer, or why it has none.
pub(crate) type Asked<P> = Result<Option<<P as Point>::Outcome>, Failure>;

/// Asks one hook; waits for its answer at most for its budget. Returns when the answer was there, too.
pub(crate) async fn ask<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    start: Instant,
) -> (Asked<P>, Instant) {
    let deadline = start + entry.meta.budget;
    let said = match begin(entry, event, call, deadline) {
        Ok(Answer::Now(said)) => Ok(said),
        Ok(Answer::Later(future)) => within(entry, future, deadline).await,
        Err(failure) => Err(failure),
    };
    finish(entry, said, event, deadline)
}

/// Asks one hook on a path where nothing may wait: an answer that is not there at once has failed.
pub(crate) fn ask_now<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    start: Instant,
) -> (Asked<P>, Instant) {
    let deadline = start + entry.meta.budget;
    let said = match begin(entry, event, call, deadline) {
        Ok(Answer::Now(said)) => Ok(said),
        Ok(Answer::Later(future)) => {
            let mut running = AssertUnwindSafe(future).catch_unwind();
            let said = (&mut running).now_or_never();
            drop_quietly(running);
            match said {
                Some(Ok(said)) => Ok(said),
                Some(Err(_)) => Err(Failure::panicked()),
                None => Ok(Err(HookError::failed("waited, on a path where nothing may wait"))),
            }
        }
        Err(failure) => Err(failure),
    };
    finish(entry, said, event, deadline)
}

fn begin<'a, P: Point>(
    entry: &'a Entry<P>,
    event: &'a P::Event,
    call: &'a CallContext,
    deadline: Instant,
) -> Result<Answer<'a, P>, Failure> {
    let cx = Context { call, plugin_config: &entry.meta.config, deadline: Some(deadline.into_std()) };
    catch_unwind(AssertUnwindSafe(|| entry.hook.call(event, cx))).map_err(|_| Failure::panicked())
}

async fn within<P: Point>(
    entry: &Entry<P>,
    future: HookFuture<'_, P>,
    deadline: Instant,
) -> Result<HookResult<P>, Failure> {
    let mut running = AssertUnwindSafe(future).catch_unwind();
    // Many answers are there at the first look, and need no timer.
    let said = match poll_fn(|cx| Poll::Ready(running.poll_unpin(cx))).await {
        Poll::Ready(said) => Ok(said),
        Poll::Pending => timeout_at(deadline, &mut running).await,
    };
    drop_quietly(running);
    match said {
        Ok(Ok(said)) => Ok(said),
        Ok(Err(_)) => Err(Failure::panicked()),
        Err(_) => Err(Failure::timed_out(entry.meta.budget)),
    }
}

/// A destructor that panics must not take the host with it.
fn drop_quietly<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

fn finish<P: Point>(
    entry: &Entry<P>,
    said: Result<HookResult<P>, Failure>,
    event: &P::Event,
    deadline: Instant,
) -> (Asked<P>, Instant) {
    let end = Instant::now();
    let asked = match said {
        Ok(late) if end > deadline => {
            drop_quietly(late);
            Err(Failure::timed_out(entry.meta.budget))
        }
        Ok(said) => validate(entry, said, event).map_err(|error| Failure::of(&error, event)),
        Err(failure) => Err(failure),
    };
    (asked, end)
}

fn validate<P: Point>(
    entry: &Entry<P>,
    said: HookResult<P>,
    event: &P::Event,
) -> Result<Option<P::Outcome>, HookError> {
    let Some(mut outcome) = said? else { return Ok(None) };
    event.check(&outcome)?;
    outcome.stamp(&entry.meta.owner, &entry.meta.id);
    Ok(Some(outcome))
}
