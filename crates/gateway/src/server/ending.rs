//! The word that everything ends now.

use std::fmt;
use std::future::{Future, pending};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// Hears the word.
#[derive(Clone, Debug)]
pub(crate) struct Ending(watch::Receiver<bool>);

impl Ending {
    /// The word that was not said yet, and what says it.
    pub(crate) fn new() -> (watch::Sender<bool>, Self) {
        let (word, heard) = watch::channel(false);
        (word, Self(heard))
    }

    /// Waits for the word; for good, if nobody is left to say it.
    pub(crate) async fn heard(mut self) {
        if self.0.wait_for(|is_said| *is_said).await.is_err() {
            pending::<()>().await;
        }
    }

    /// For bodies, which are polled.
    pub(crate) fn watch(&self) -> EndWatch {
        EndWatch { waiting: Some(Box::pin(self.clone().heard())) }
    }
}

/// Waits for the word.
pub(crate) struct EndWatch {
    /// `None` once it was said.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl EndWatch {
    /// Whether the word was said. If not, the task is woken when it is.
    pub(crate) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        if let Some(waiting) = &mut self.waiting
            && waiting.as_mut().poll(cx) == Poll::Ready(())
        {
            self.waiting = None;
        }
        self.waiting.is_none()
    }
}

impl fmt::Debug for EndWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndWatch").field("is_over", &self.waiting.is_none()).finish()
    }
}
