//! Permits: the proof that a value passed.
//!
//! Code that acts takes a [`Permitted<T>`] and nothing else, and only the engine creates one. The value
//! inside can be read but not changed, and the permit knows the digest of what was judged. Code that acts
//! takes the value out with [`Permitted::redeem`], which uses the permit up. It releases the value
//! only if the value is still what was judged, and if everything else that hooks read, such as the text of a script that
//! the call runs, is unchanged.

use std::fmt;
use std::ops::Deref;

use backstop_hooks::{ApprovalId, Digest, Fact};

/// A value that every hook let pass.
pub struct Permitted<T> {
    value: T,
    approval: Option<ApprovalId>,
    judged: Digest,
    digest_of: fn(&T) -> Digest,
    /// What it was judged by besides itself.
    facts: Vec<Fact>,
}

/// The error for a permit that is not for what was judged. Its value must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotWhatWasJudged {
    /// The value has changed.
    #[error("the value of a permit is not what was judged: {found} instead of {judged}")]
    Value {
        /// The digest of what was judged.
        judged: Digest,
        /// That of the value.
        found: Digest,
    },
    /// What hooks read to judge the value has changed.
    #[error("{CHANGED_SINCE}")]
    Evidence {
        /// The digest of what they read.
        judged: Digest,
    },
}

/// What is said where evidence has changed.
pub(crate) const CHANGED_SINCE: &str = "a file that this call was judged by has changed since, so that the judgement no longer counts; call it again";

impl<T> Permitted<T> {
    /// A permit for a value that was judged as it is. `digest_of` says what counts of it.
    pub(crate) fn new(value: T, digest_of: fn(&T) -> Digest) -> Self {
        Self { judged: digest_of(&value), value, approval: None, digest_of, facts: Vec::new() }
    }

    /// A permit for a value of which this digest was judged, by a human too if one was asked.
    pub(crate) fn judged(
        value: T,
        judged: Digest,
        digest_of: fn(&T) -> Digest,
        approval: Option<ApprovalId>,
        facts: Vec<Fact>,
    ) -> Self {
        Self { value, approval, judged, digest_of, facts }
    }

    /// Returns the request by which a human allowed it, if one was asked.
    pub fn approval(&self) -> Option<&ApprovalId> {
        self.approval.as_ref()
    }

    /// Returns the digest of what was judged.
    pub fn digest(&self) -> Digest {
        self.judged
    }

    /// Uses the permit up.
    ///
    /// # Errors
    ///
    /// [`NotWhatWasJudged`] if the value has another digest than the one that was judged, or what it was judged by has
    /// changed. To find that out, hooks look again, which may read files.
    pub fn redeem(self) -> Result<T, NotWhatWasJudged> {
        self.look().map(|()| self.value)
    }

    /// Looks whether the permit could be redeemed now, and uses nothing up: for whoever tells somebody else of it, who may not hear it.
    ///
    /// # Errors
    ///
    /// Those of [`Self::redeem`].
    pub fn look(&self) -> Result<(), NotWhatWasJudged> {
        let found = (self.digest_of)(&self.value);
        if found != self.judged {
            return Err(NotWhatWasJudged::Value { judged: self.judged, found });
        }
        match self.facts.iter().find(|fact| !fact.still_holds()) {
            Some(fact) => Err(NotWhatWasJudged::Evidence { judged: fact.digest() }),
            None => Ok(()),
        }
    }
}

impl<T> Deref for Permitted<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Permitted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Permitted").field(&self.value).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn digest_of(value: &Cell<u32>) -> Digest {
        Digest::of("number", &value.get())
    }

    #[test]
    fn redeeming_compares_the_digest() {
        let permit = Permitted::new(Cell::new(1), digest_of);
        assert_eq!(permit.redeem().unwrap().get(), 1);
        // A value that can change behind a shared reference: no event can, and no permit relies on it.
        let permit = Permitted::new(Cell::new(1), digest_of);
        permit.set(2);
        assert!(permit.look().is_err() && permit.redeem().is_err());
    }

    #[test]
    fn looking_uses_nothing_up_and_looks_at_the_evidence_each_time() {
        let found = Digest::of("number", &1);
        let there = Arc::new(AtomicU32::new(1));
        let look = Arc::clone(&there);
        let fact = Fact::new(found, move || Digest::of("number", &look.load(Ordering::Relaxed)));
        let permit = Permitted::judged(Cell::new(1), found, digest_of, None, vec![fact]);
        assert!(permit.look().is_ok() && permit.look().is_ok());
        there.store(2, Ordering::Relaxed);
        assert_eq!(permit.look(), Err(NotWhatWasJudged::Evidence { judged: found }));
        assert!(permit.redeem().is_err());
    }

    #[test]
    fn a_permit_for_what_was_not_judged_gives_nothing() {
        let other = digest_of(&Cell::new(2));
        assert!(Permitted::judged(Cell::new(1), other, digest_of, None, Vec::new()).redeem().is_err());
    }
}
