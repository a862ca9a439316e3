//! Foreign code that is stored or run here: hooks, their futures, their listeners.
//!
//! The law: *isolation*. Its panics end in [`Panicked`], even when it is only dropped, and whatever it calls
//! is known to come from inside a hook.

use std::borrow::Borrow;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use backstop_hooks::{CallContext, Contained, Nesting, Panicked, Reason, drop_contained};

use crate::receipt::{BlockCause, Blocked};

/// The greatest depth of nested hooks: a call made by a hook is at depth 1, a call made while hooks judge
/// that call is at depth 2. Beyond this depth no hook is asked, and what a hook would have to judge is blocked as
/// [`BlockCause::TooDeep`].
pub const MAX_DEPTH: u8 = 4;

/// Returns why the hooks can't be asked about a call, if it is too deep inside of hooks.
pub(crate) fn too_deep(call: &CallContext) -> Option<Blocked> {
    (call.nesting.depth() > MAX_DEPTH).then(|| Blocked {
        cause: BlockCause::TooDeep,
        reason: Some(Reason::fixed("hook.too-deep", TOO_DEEP)),
        hook: None,
        owner: None,
    })
}

/// [`MAX_DEPTH`] in words.
pub(crate) const TOO_DEEP: &str = "too deep: it comes from a hook that was asked about the call of a hook, and so on, 4 times over\nhint: limit the hook that calls tools to tools that it does not call itself";

const _: () = assert!(MAX_DEPTH == 4, "the reason says the number");

/// The future of a hook or of a hook's listener.
pub(crate) struct Foreign<N: Borrow<Nesting>, F> {
    /// How deep the call is that the future is about.
    nesting: N,
    future: Contained<F>,
}

impl<N: Borrow<Nesting>, F: Future + Unpin> Foreign<N, F> {
    pub(crate) fn new(nesting: N, future: F) -> Self {
        Self { nesting, future: Contained::new(future) }
    }
}

impl<N: Borrow<Nesting> + Unpin, F: Future + Unpin> Future for Foreign<N, F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { nesting, future } = self.get_mut();
        Nesting::descend((*nesting).borrow(), || Pin::new(future).poll(cx))
    }
}

impl<N: Borrow<Nesting>, F> Drop for Foreign<N, F> {
    fn drop(&mut self) {
        let Self { nesting, future } = self;
        Nesting::descend((*nesting).borrow(), || future.abandon());
    }
}

/// A shared object of somebody else's, which may be dropped wherever its last user lets go of it.
pub(crate) struct Kept<T: ?Sized>(Option<Arc<T>>);

impl<T: ?Sized> Kept<T> {
    pub(crate) fn new(object: Arc<T>) -> Self {
        Self(Some(object))
    }

    /// The object. It is there until this is dropped.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn share(&self) -> Option<Arc<T>> {
        self.0.clone()
    }
}

impl<T: ?Sized> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: ?Sized> Drop for Kept<T> {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Kept<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Kept").field(&self.0).finish()
    }
}
