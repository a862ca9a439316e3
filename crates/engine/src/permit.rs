//! Permits: the proof that a value passed.
//!
//! The code that acts takes a [`Permitted<T>`] and nothing else, and only the engine makes one. The value
//! inside can be read but not changed, so that what runs is what was judged; whoever acts on its own
//! terms takes it out by [`Permitted::redeem`], which uses the permit up.

use std::fmt;
use std::ops::Deref;

use backstop_hooks::{ApprovalId, Digest};
use serde::Serialize;

/// A value that every hook let pass.
pub struct Permitted<T> {
    value: T,
    approval: Option<ApprovalId>,
}

impl<T> Permitted<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value, approval: None }
    }

    pub(crate) fn approved(value: T, approval: Option<ApprovalId>) -> Self {
        Self { value, approval }
    }

    /// The request by which a human allowed it, if one was asked.
    pub fn approval(&self) -> Option<&ApprovalId> {
        self.approval.as_ref()
    }

    /// Uses the permit up.
    pub fn redeem(self) -> T {
        self.value
    }
}

impl<T: Serialize> Permitted<T> {
    /// The digest of the value in the role `kind`.
    pub fn digest(&self, kind: &str) -> Digest {
        Digest::of(kind, &self.value)
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
