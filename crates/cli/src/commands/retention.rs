//! What applies `retention:` unasked: the agent at its start, a server every hour.

use backstop::engine::Engine;
use backstop::store::Timestamp;
use backstop::{Bounds, Retention};

/// How many pages of the audit trail are read to find out whether the clock was set: where nobody waits, as many as 100 million entries
/// take.
const PAGES: usize = 1_600;
const PAGES_AT_START: usize = 2;

/// Deletes what is kept no longer, in the name of `by`: as far as the bounds go, or all of it. What speaks against it, and what fails, is logged.
pub(super) async fn sweep(keep: Retention, engine: &Engine, by: &str, bounds: Option<&Bounds>) {
    let now = Timestamp::now();
    let pages = if bounds.is_some() { PAGES_AT_START } else { PAGES };
    match keep.clock_jump(engine.store().as_ref(), now, pages).await {
        Ok(Some(jump)) => tracing::warn!(%jump, "what is kept no longer is not deleted"),
        Err(error) => tracing::warn!(%error, "what is kept no longer could not be deleted"),
        Ok(None) => {
            let swept = match bounds {
                Some(bounds) => keep.apply(engine, by, now, bounds).await,
                None => keep.apply_all(engine, by, now).await,
            };
            if let Err(error) = swept {
                tracing::warn!(%error, "what is kept no longer could not be deleted");
            }
        }
    }
}
