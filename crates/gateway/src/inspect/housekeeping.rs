//! Forgetting what nobody will ask about any more.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use backstop_engine::{DECISIONS_LAST, Engine};
use backstop_store::Timestamp;

/// How often the store is tidied up.
const EVERY: Duration = Duration::from_hours(1);

/// When the store was tidied up the last time.
#[derive(Debug, Default)]
pub(super) struct Housekeeping(AtomicI64);

impl Housekeeping {
    /// Forgets decisions and budgets that are over, if it is time to, on a task of its own.
    pub(super) fn tidy(&self, engine: &Engine) {
        let now = Timestamp::now();
        let last = self.0.load(Ordering::Relaxed);
        let due = Timestamp::from_millis(last).after(EVERY) <= now;
        let mine = || self.0.compare_exchange(last, now.as_millis(), Ordering::Relaxed, Ordering::Relaxed);
        if !due || mine().is_err() {
            return;
        }
        let engine = engine.clone();
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
}
