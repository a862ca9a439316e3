//! Runs foreign code so that its panics are contained.
//!
//! A panic is more than a failed call: it carries a payload of any type, and the payload, a future
//! that was dropped half-way, or what a closure holds may panic again when it is dropped. Whoever runs
//! foreign code runs all of that. This module catches a panic wherever the foreign code runs:
//! when it is called, polled or dropped.
//!
//! Limit: Rust ends the process when a destructor panics during another panic. Nothing in
//! the process can prevent that.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// Foreign code panicked. Its message is discarded, because it may quote what the code was working on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it panicked")]
pub struct Panicked;

/// Runs foreign code.
///
/// # Errors
///
/// [`Panicked`] when it did.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(work)).map_err(discard)
}

/// Drops a value of foreign code. Returns whether its destructors came to their end.
pub fn drop_contained<T>(value: T) -> bool {
    contained(|| drop(value)).is_ok()
}

/// Drops the payload of a panic. One whose own destructor panics leaves another payload; that one is leaked,
/// since nothing says that it would be the last.
fn discard(payload: Box<dyn Any + Send>) -> Panicked {
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    Panicked
}

/// A foreign future whose panics end in [`Panicked`]: when it is polled, and when it is dropped.
pub struct Contained<F>(Option<F>);

impl<F> Contained<F> {
    /// Takes a future in; a `Box::pin` makes any future [`Unpin`].
    pub fn new(future: F) -> Self {
        Self(Some(future))
    }

    /// Drops the future now, wherever it is.
    pub fn abandon(&mut self) {
        drop_contained(self.0.take());
    }
}

impl<F: Future + Unpin> Future for Contained<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.get_mut().0;
        // Polled once more after its end: there is nobody left to answer.
        let Some(running) = future else { return Poll::Ready(Err(Panicked)) };
        let said = match contained(|| Pin::new(running).poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(said)) => Ok(said),
            Err(panicked) => Err(panicked),
        };
        drop_contained(future.take());
        Poll::Ready(said)
    }
}

impl<F> Drop for Contained<F> {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl<F> fmt::Debug for Contained<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contained(..)")
    }
}
