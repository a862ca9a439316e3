//! One call of one hook: its budget, its panics, the validity of its answer.
//!
//! The law: *isolation*. A hook gets a shared reference that it can't change. When its budget ends, it is dropped. A panic
//! ends in a [`Failure`] and not in the host, even if the hook, its future or its answer is only being dropped. A
//! late answer is no answer, including one that is late because the hook blocked its thread.
//!
//! A waiting hook holds memory for each of its calls. The number of its calls that may wait at
//! once is bounded ([`MAX_UNDER_WAY`]); one more is a failure.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use backstop_hooks::{
    Answer, CallContext, Context, Event, Evidence, Forms, HookError, HookFuture, HookResult, Outcome, Point,
    contained, drop_contained,
};
use tokio::time::{Instant, timeout_at};

use crate::foreign::Foreign;
use crate::receipt::Failure;
use crate::registry::Entry;

/// How many calls of one hook may wait for its answer at once.
pub const MAX_UNDER_WAY: usize = 4_096;

/// What a hook is given besides the event and the shared facts.
#[derive(Clone, Copy, Default)]
pub(crate) struct Beside<'a> {
    /// Where it names what its answer rests on.
    pub(crate) evidence: Option<&'a Evidence>,
    /// Other forms of the event.
    pub(crate) forms: Option<&'a Forms>,
    /// When its answer must be there, also where its budget would last longer.
    pub(crate) until: Option<Instant>,
}

/// A hook's answer, or why it has none. Boxed: most hooks say nothing, which then fits into two registers.
pub(crate) type Asked<O> = Result<Option<Box<O>>, Box<Failure>>;

/// What a hook returned, not looked at yet.
type Returned<P> = Result<Option<Box<<P as Point>::Outcome>>, Box<HookError>>;

/// [`Answer`] with its outcome boxed.
enum Begun<'a, P: Point> {
    Now(Returned<P>),
    Later(HookFuture<'a, P>),
}

fn boxed<P: Point>(said: HookResult<P>) -> Returned<P> {
    said.map(|outcome| outcome.map(Box::new)).map_err(Box::new)
}

/// Asks one hook; waits for its answer at most for its budget. Returns when the answer was there, too.
pub(crate) async fn ask<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    beside: Beside<'_>,
    start: Instant,
) -> (Asked<P::Outcome>, Instant) {
    let deadline = start + entry.meta.budget;
    let deadline = beside.until.map_or(deadline, |until| until.min(deadline));
    let said = match begin(entry, event, call, beside, deadline) {
        Ok(Begun::Now(said)) => Ok(said),
        Ok(Begun::Later(future)) => within(entry, call, future, start, deadline).await,
        Err(failure) => Err(failure),
    };
    finish(entry, said, event, start, deadline)
}

fn begin<'a, P: Point>(
    entry: &'a Entry<P>,
    event: &'a P::Event,
    call: &'a CallContext,
    beside: Beside<'a>,
    deadline: Instant,
) -> Result<Begun<'a, P>, Box<Failure>> {
    let deadline = Some(deadline.into_std());
    let cx = Context {
        call,
        plugin_config: &entry.meta.config,
        deadline,
        evidence: beside.evidence,
        forms: beside.forms,
    };
    let begin = || match entry.hook.call(event, cx) {
        Answer::Now(said) => Begun::Now(boxed::<P>(said)),
        Answer::Later(future) => Begun::Later(future),
    };
    contained(|| call.nesting.descend(begin)).map_err(|_| Box::new(Failure::panicked()))
}

async fn within<P: Point>(
    entry: &Entry<P>,
    call: &CallContext,
    future: HookFuture<'_, P>,
    start: Instant,
    deadline: Instant,
) -> Result<Returned<P>, Box<Failure>> {
    let mut running = Foreign::new(&call.nesting, future);
    // Many answers are there at the first look, and need no timer.
    let said = match poll_fn(|cx| Poll::Ready(Pin::new(&mut running).poll(cx))).await {
        Poll::Ready(said) => Ok(said),
        Poll::Pending => {
            let _counted = UnderWay::begin(&entry.under_way)?;
            timeout_at(deadline, &mut running).await
        }
    };
    drop(running);
    match said {
        Ok(Ok(said)) => Ok(boxed::<P>(said)),
        Ok(Err(_)) => Err(Box::new(Failure::panicked())),
        Err(_) => Err(late(entry, deadline - start)),
    }
}

/// One of the calls of a hook that wait for its answer.
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    pub(super) fn begin(count: &Arc<AtomicUsize>) -> Result<Self, Failure> {
        if count.fetch_add(1, Ordering::Relaxed) < MAX_UNDER_WAY {
            return Ok(Self(Arc::clone(count)));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        Err(Failure::overloaded(format!("{MAX_UNDER_WAY} of its calls are under way")))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A hook that did not answer in the time that it had; where it keeps a count of what it is at, that is said.
pub(super) fn late<P: Point>(entry: &Entry<P>, time: Duration) -> Box<Failure> {
    let load = contained(|| entry.hook.load()).ok().flatten();
    if let Some(load) = load {
        tracing::warn!(hook = %entry.meta.id, %load, "a hook did not answer in time");
    }
    Box::new(Failure::timed_out(time, load))
}

fn finish<P: Point>(
    entry: &Entry<P>,
    said: Result<Returned<P>, Box<Failure>>,
    event: &P::Event,
    start: Instant,
    deadline: Instant,
) -> (Asked<P::Outcome>, Instant) {
    let end = Instant::now();
    let asked = match said {
        Ok(said) if end > deadline => {
            drop_contained(said);
            Err(late(entry, deadline - start))
        }
        Ok(said) => judged(entry, said, event),
        Err(failure) => Err(failure),
    };
    (asked, end)
}

/// Returns what a hook returned, if it is an answer at its point.
pub(super) fn checked<P: Point>(
    entry: &Entry<P>,
    said: HookResult<P>,
    event: &P::Event,
) -> Asked<P::Outcome> {
    judged(entry, boxed::<P>(said), event)
}

fn judged<P: Point>(entry: &Entry<P>, said: Returned<P>, event: &P::Event) -> Asked<P::Outcome> {
    validate(entry, said, event).map_err(|error| Box::new(Failure::of(&error, event)))
}

fn validate<P: Point>(entry: &Entry<P>, said: Returned<P>, event: &P::Event) -> Returned<P> {
    let Some(mut outcome) = said? else { return Ok(None) };
    outcome.whole().and_then(|()| event.check(&outcome)).map_err(|error| Box::new(error.into()))?;
    outcome.stamp(&entry.meta.owner, &entry.meta.id);
    Ok(Some(outcome))
}
