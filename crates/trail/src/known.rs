//! What entries tell of once: the values of a label that the log has, as far as this process has seen.
//!
//! An entry that explains a value of a label ([`Draft::once`](crate::Draft::once)) is left out where the log has an entry with that value already.
//! It is looked for in what is read anyway: the end of the log when a process begins (255 entries at most), what others write, and what this process
//! writes. So it costs no reading of its own, and one process after the other, each with one entry to write, explains a value about once in 256 entries.
//!
//! The law: *what explains a value stands before the entries that have it*. It is decided under the lock of the log, by whoever writes.
//!
//! Limits: what was pruned since is not noticed at once. A value that nothing was seen of for an hour is explained again, and so is one of more
//! than [`MOST`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The most values that are remembered.
pub(crate) const MOST: usize = 32;
/// How long a value is remembered of which nothing was seen.
const REMEMBERED_FOR: Duration = Duration::from_hours(1);
/// The values that entries are known to have, the one seen last at the end.
#[derive(Debug, Default)]
pub(crate) struct Known(VecDeque<(String, Instant)>);

impl Known {
    /// Notes that an entry has a value.
    pub(crate) fn note(&mut self, value: &str, now: Instant) {
        if let Some((last, at)) = self.0.back_mut()
            && last == value
        {
            *at = now;
            return;
        }
        let found = self.0.iter().position(|(known, _)| known == value);
        let (text, _) = found.and_then(|at| self.0.remove(at)).unwrap_or_else(|| (value.to_owned(), now));
        self.0.push_back((text, now));
        while self.0.len() > MOST {
            self.0.pop_front();
        }
    }

    /// Returns whether entries are known to have it.
    pub(crate) fn has(&self, value: &str, now: Instant) -> bool {
        let is_fresh = |at: Instant| now.saturating_duration_since(at) < REMEMBERED_FOR;
        self.0.iter().any(|(known, at)| known == value && is_fresh(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_lately_is_known_and_what_is_old_or_too_much_is_not() {
        let (mut known, begun) = (Known::default(), Instant::now());
        known.note("one", begun);
        let later = |minutes| begun + Duration::from_mins(minutes);
        assert!(known.has("one", later(59)) && !known.has("one", later(60)) && !known.has("two", begun));
        known.note("one", later(59));
        assert!(known.has("one", later(100)));
        (0..MOST).for_each(|n| known.note(&n.to_string(), later(60)));
        assert!(!known.has("one", later(60)) && known.has("0", later(60)));
        known.note("0", later(61));
        known.note("new", later(61));
        assert!(known.has("0", later(61)) && !known.has("1", later(61)), "what was seen last stays");
    }
}
