//! Waiting after failures that follow each other.

use std::time::Duration;

use crate::asking::LONGEST_WAIT;

/// How long it is waited at first and at most.
const FIRST: Duration = Duration::from_secs(1);
const LAST: Duration = Duration::from_secs(120);

/// How long it is waited after failures that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    /// Returns how long it is waited now; longer if the service says so, up to a bound. That it says `0` hurries nobody.
    pub(crate) fn next(&mut self, said: Option<Duration>) -> Duration {
        let doubled = FIRST.saturating_mul(1_u32.checked_shl(self.0).unwrap_or(u32::MAX)).min(LAST);
        self.0 = self.0.saturating_add(1).min(16);
        said.unwrap_or_default().min(LONGEST_WAIT).max(doubled)
    }
}
