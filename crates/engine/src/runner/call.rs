//! One hook, one call: the budget, the panic, the answer's form.
//!
//! The law: *isolation*. A hook is given a shared reference it can't change; its budget drops it; a panic
//! ends in a [`Failure`], not in the host; an answer that comes late is no answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use backstop_hooks::{Answer, CallContext, Context, Event, HookFuture, HookResult, Outcome, Point};

use crate::receipt::Failure;
use crate::registry::{Entry, HookMeta};

/// A hook's answer, or why it has none.
pub(crate) type Asked<P> = Result<Option<<P as Point>::Outcome>, Failure>;

/// Asks one hook; waits for its answer at most for its budget.
pub(crate) async fn ask<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    start: Instant,
) -> Asked<P> {
    let deadline = start + entry.meta.budget;
    let said = match begin(entry, event, call, deadline)? {
        Answer::Now(said) => said,
        Answer::Later(future) => within::<P>(future, deadline, entry.meta.budget).await?,
    };
    validate::<P>(said, event, &entry.meta)
}

/// Asks one hook on a path where nothing may wait: an answer that is not there at once has failed.
pub(crate) fn ask_now<P: Point>(
    entry: &Entry<P>,
    event: &P::Event,
    call: &CallContext,
    start: Instant,
) -> Asked<P> {
    let deadline = start + entry.meta.budget;
    let said = match begin(entry, event, call, deadline)? {
        Answer::Now(said) => said,
        Answer::Later(mut future) => {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
            drop_quietly(future);
            match polled.map_err(|_| Failure::panicked())? {
                Poll::Ready(said) => said,
                Poll::Pending => {
                    return Err(backstop_hooks::HookError::failed(
                        "waited, on a path where nothing may wait",
                    )
                    .into());
                }
            }
        }
    };
    if Instant::now() > deadline {
        return Err(Failure::timed_out(entry.meta.budget));
    }
    validate::<P>(said, event, &entry.meta)
}

fn begin<'a, P: Point>(
    entry: &'a Entry<P>,
    event: &'a P::Event,
    call: &'a CallContext,
    deadline: Instant,
) -> Result<Answer<'a, P>, Failure> {
    let cx = Context { call, plugin_config: &entry.meta.config, deadline: Some(deadline) };
    catch_unwind(AssertUnwindSafe(|| entry.hook.call(event, cx))).map_err(|_| Failure::panicked())
}

async fn within<P: Point>(
    future: HookFuture<'_, P>,
    deadline: Instant,
    budget: Duration,
) -> Result<HookResult<P>, Failure> {
    let mut future = Some(future);
    let polled = std::future::poll_fn(|cx| {
        let Some(running) = future.as_mut() else { return Poll::Ready(Err(Failure::panicked())) };
        match catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Failure::panicked())),
        }
    });
    let said = tokio::time::timeout_at(deadline.into(), polled).await;
    if let Some(future) = future {
        drop_quietly(future);
    }
    said.unwrap_or_else(|_| Err(Failure::timed_out(budget)))
}

/// A destructor that panics must not take the host with it.
fn drop_quietly<T>(value: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

fn validate<P: Point>(said: HookResult<P>, event: &P::Event, meta: &Arc<HookMeta>) -> Asked<P> {
    let Some(mut outcome) = said.map_err(Failure::from)? else { return Ok(None) };
    event.check(&outcome).map_err(backstop_hooks::HookError::from)?;
    outcome.stamp(&meta.owner, &meta.id);
    Ok(Some(outcome))
}
