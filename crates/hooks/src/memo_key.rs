//! Names of pure functions, under which values remember what such a function made of them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Names a pure function of contents or texts: it reads nothing but the value and what it was made with. A scanner with another policy
/// is another function, with a key of its own, and never reads what was found before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoKey(u64);

impl MemoKey {
    /// The number that no key has.
    pub(crate) const NOBODY: u64 = u64::MAX;

    /// Returns a key that nobody else in this process has.
    pub fn unique() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn number(self) -> u64 {
        self.0
    }
}
