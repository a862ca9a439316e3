//! Hooks that block their thread.

use std::sync::Arc;

use backstop_hooks::{Answer, Context, Hook, HookError, HookResult, OwnedContext, Point};

struct Blocking<F>(Arc<F>);

impl<P, F> Hook<P> for Blocking<F>
where
    P: Point,
    F: Fn(&P::Event, &OwnedContext) -> HookResult<P> + Send + Sync + 'static,
{
    fn call<'a>(&'a self, event: &'a P::Event, cx: Context<'a>) -> Answer<'a, P> {
        let (run, event, cx) = (Arc::clone(&self.0), event.clone(), cx.to_owned());
        Answer::Later(Box::pin(async move {
            let task = tokio::task::spawn_blocking(move || run(&event, &cx));
            task.await.unwrap_or_else(|_| Err(HookError::failed("the hook panicked")))
        }))
    }
}

/// A hook from a closure that computes for long or calls blocking code. It runs on a thread of its own,
/// so that its budget holds for the caller; the thread itself goes on to its end, and what it answers
/// then is dropped. The event is cloned, which shares the values.
pub fn blocking<P, F>(f: F) -> Arc<dyn Hook<P>>
where
    P: Point,
    F: Fn(&P::Event, &OwnedContext) -> HookResult<P> + Send + Sync + 'static,
{
    Arc::new(Blocking(Arc::new(f)))
}
