//! Checks whether the gateway can do its work.
//!
//! Anybody may ask, as often as they like. Therefore an answer is kept for [`KEPT`], and concurrent requests wait for the same
//! check: its cost (a write that reaches the disk) is paid at most once in that time. A check that takes longer than [`PATIENCE`]
//! has failed.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::exchange::{Interceptor, NotReady};

/// How long an answer holds.
const KEPT: Duration = Duration::from_secs(2);
/// How long the interceptor may take to find out.
const PATIENCE: Duration = Duration::from_secs(2);

/// Finds out whether an interceptor is ready.
#[derive(Debug, Default)]
pub(super) struct Probe {
    last: Mutex<Option<(Instant, Option<NotReady>)>>,
}

impl Probe {
    /// Returns what is not ready, if anything is.
    pub(super) async fn missing(&self, interceptor: &dyn Interceptor) -> Option<NotReady> {
        let mut last = self.last.lock().await;
        if let Some((at, missing)) = *last
            && at.elapsed() < KEPT
        {
            return missing;
        }
        let missing = match timeout(PATIENCE, interceptor.ready()).await {
            Ok(ready) => ready.err(),
            Err(_) => Some(NotReady::Store),
        };
        *last = Some((Instant::now(), missing));
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::exchange::{Call, Plan, Readiness};

    struct Slow {
        asked: Arc<AtomicUsize>,
        takes: Duration,
    }

    impl Interceptor for Slow {
        fn begin(&self, _: &Call<'_>) -> Plan {
            Plan::Opaque
        }

        fn withholds(&self, _: Option<&backstop_hooks::AgentId>, _: &[&str]) -> Vec<usize> {
            Vec::new()
        }

        fn ready(&self) -> Readiness<'_> {
            let number = self.asked.fetch_add(1, Ordering::SeqCst);
            Box::pin(async move {
                tokio::time::sleep(self.takes).await;
                if number == 0 { Err(NotReady::Store) } else { Ok(()) }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_answer_is_for_all_who_ask_meanwhile() {
        let asked = Arc::new(AtomicUsize::new(0));
        let slow = Slow { asked: Arc::clone(&asked), takes: Duration::from_secs(1) };
        let probe = Probe::default();
        let (one, two) = tokio::join!(probe.missing(&slow), probe.missing(&slow));
        assert_eq!(
            (one, two, asked.load(Ordering::SeqCst)),
            (Some(NotReady::Store), Some(NotReady::Store), 1)
        );
        tokio::time::advance(KEPT).await;
        assert_eq!((probe.missing(&slow).await, asked.load(Ordering::SeqCst)), (None, 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_not_ready() {
        let slow = Slow { asked: Arc::new(AtomicUsize::new(1)), takes: Duration::from_secs(3_600) };
        assert_eq!(Probe::default().missing(&slow).await, Some(NotReady::Store));
    }
}
