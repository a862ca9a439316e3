//! Asking running work to stop.

use std::sync::Arc;

use tokio::sync::watch;

/// A switch that is turned once. Clones share it.
#[derive(Debug, Clone)]
pub struct CancelToken(Arc<watch::Sender<bool>>);

impl CancelToken {
    /// A token that nobody has cancelled yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Asks everyone who holds a clone to stop. Doing it twice is no different from doing it once.
    pub fn cancel(&self) {
        self.0.send_replace(true);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until [`cancel`](Self::cancel) is called; returns at once if it already was.
    pub async fn cancelled(&self) {
        // The sender lives in `self`, so the wait cannot end because it went away.
        let _ = self.0.subscribe().wait_for(|cancelled| *cancelled).await;
    }
}

impl Default for CancelToken {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_clone_sees_the_cancellation_also_when_asked_late() {
        let token = CancelToken::new();
        let clone = token.clone();
        let waiter = tokio::spawn(async move { clone.cancelled().await });
        assert!(!token.is_cancelled());
        token.cancel();
        waiter.await.unwrap();
        token.clone().cancelled().await;
        assert!(token.is_cancelled());
    }
}
