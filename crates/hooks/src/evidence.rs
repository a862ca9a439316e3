//! What a judgement depends on besides its event: files that were read, targets of links.
//!
//! A judgement of a call applies to the call and to what was read to reach it. A hook that reads something reports it as
//! a [`Fact`]: the digest of what it found, and a way to check again. The engine keeps the facts of a review, writes
//! their digests into its receipt, and checks them before the permit is used: whatever has changed since was not judged.
//!
//! Limits: a fact is checked when a human has answered and when the permit is redeemed. Changes after that, while
//! the call runs, are not seen. The check is the hook's own code and runs where the permit is redeemed, so it must not block.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::contained::contained;
use crate::digest::Digest;

/// Something that a hook found and can check again.
#[derive(Clone)]
pub struct Fact {
    found: Digest,
    look: Arc<dyn Fn() -> Digest + Send + Sync>,
    is_content: bool,
}

impl Fact {
    /// Creates a fact from what was found and how to check it again. That something was missing is a fact as well.
    pub fn new(found: Digest, look: impl Fn() -> Digest + Send + Sync + 'static) -> Self {
        Self { found, look: Arc::new(look), is_content: false }
    }

    /// Says that what was found is what a file holds: a judgement that rests on it is about more than its call says.
    #[must_use]
    pub fn of_content(mut self) -> Self {
        self.is_content = true;
        self
    }

    /// Returns whether it is about what a file holds.
    pub fn is_of_content(&self) -> bool {
        self.is_content
    }

    /// Returns the digest of what was found.
    pub fn digest(&self) -> Digest {
        self.found
    }

    /// Returns whether it is as it was found. A look that panics finds nothing.
    pub fn still_holds(&self) -> bool {
        contained(|| (self.look)()).is_ok_and(|found| found == self.found)
    }
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fact").field(&self.found).finish()
    }
}

/// The facts of one review; clones are the same collection.
#[derive(Clone, Debug, Default)]
pub struct Evidence(Arc<Mutex<Vec<Fact>>>);

impl Evidence {
    /// Adds a fact.
    pub fn add(&self, fact: Fact) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
    }

    /// Returns all facts so far.
    pub fn facts(&self) -> Vec<Fact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
