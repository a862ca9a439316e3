//! Numbers that nobody guesses, without asking the system for each.
//!
//! Calls are named with them. A number is the keyed hash (SipHash) of a counter; the keys are this
//! process's own and come from the system once. They tell things apart and give away neither each other nor how many
//! there were; nothing is opened by knowing one.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::{Builder, Uuid};

static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// 128 bits.
fn number() -> u128 {
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    let [high, low] = KEYS.each_ref().map(|key| u128::from(key.hash_one(count)));
    (high << 64) | low
}

/// A UUID of version 7: those that are made later are greater, but within a millisecond.
pub(super) fn timed() -> Uuid {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let [.., a, b, c, d, e, f, g, h, i, j] = number().to_be_bytes();
    let random = [a, b, c, d, e, f, g, h, i, j];
    Builder::from_unix_timestamp_millis(u64::try_from(now).unwrap_or(u64::MAX), &random).into_uuid()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_are_apart() {
        let numbers: BTreeSet<u128> = (0..10_000).map(|_| number()).collect();
        assert_eq!(numbers.len(), 10_000);
        let halves: BTreeSet<u128> = numbers.iter().map(|number| number >> 64).collect();
        assert_eq!(halves.len(), 10_000, "half of one is enough");
        assert_eq!(timed().get_version_num(), 7);
        assert_ne!(timed(), timed());
    }
}
