//! Forgetting what nobody will ask about any more.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backstop_engine::{DECISIONS_LAST, Engine};
use backstop_store::Timestamp;
use tokio::time::Instant;

/// How often the store is tidied up.
const EVERY: Duration = Duration::from_hours(1);

/// When the store was tidied up the last time. By a clock that nobody sets: one that was ahead for a while would keep the store from being
/// tidied up until that time comes.
#[derive(Debug, Default)]
pub(super) struct Housekeeping(Mutex<Option<Instant>>);

impl Housekeeping {
    /// Forgets decisions and budgets that are over, if it is time to, on a task of its own.
    pub(super) fn tidy(&self, engine: &Engine) {
        if !self.is_due() {
            return;
        }
        let (engine, now) = (engine.clone(), Timestamp::now());
        tokio::spawn(async move {
            let decisions = engine.store().prune_decisions(now.before(DECISIONS_LAST)).await;
            let budgets = engine.store().prune_budgets(now).await;
            // Also of questions that nobody can answer any more.
            let questions = engine.answer_store().expire_approvals(now).await.map(drop);
            for error in [decisions.err(), budgets.err(), questions.err()].into_iter().flatten() {
                tracing::warn!(%error, "what is over could not be forgotten");
            }
        });
    }

    /// Returns whether it is time, and takes the turn.
    fn is_due(&self) -> bool {
        let now = Instant::now();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| now.duration_since(last) >= EVERY);
        if is_due {
            *last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_is_time_at_once_and_then_once_an_hour() {
        let housekeeping = Housekeeping::default();
        assert!(housekeeping.is_due());
        assert!(!housekeeping.is_due());
        tokio::time::advance(EVERY).await;
        assert!(housekeeping.is_due());
        assert!(!housekeeping.is_due());
    }
}
