//! Handles: what a button carries.
//!
//! A handle is 16 random bytes in base64url. It says nothing; the store has its digest and what it stands for. It is a secret of those who
//! were told, so it is never printed.

use std::fmt;

use backstop_hooks::Digest;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};

/// Random bytes of a handle.
const BYTES: usize = 16;
/// Characters of a handle.
const CHARS: usize = 22;
/// The role of the digest.
const ROLE: &str = "action_handle";

/// What a button carries.
#[derive(Clone, PartialEq, Eq)]
pub struct Handle(String);

impl Handle {
    /// Returns a new handle; `None` if the system has no randomness to give.
    pub fn make() -> Option<Self> {
        let mut bytes = [0; BYTES];
        SystemRandom::new().fill(&mut bytes).ok()?;
        Some(Self(BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Returns the handle that a message brought, if it can be one.
    pub fn read(text: &str) -> Option<Self> {
        let is_one = text.len() == CHARS
            && BASE64_URL_SAFE_NO_PAD.decode(text).is_ok_and(|bytes| bytes.len() == BYTES);
        is_one.then(|| Self(text.to_owned()))
    }

    /// Returns its characters, for the message.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the digest by which it is looked up.
    pub fn hash(&self) -> Digest {
        Digest::of_text(ROLE, &self.0)
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle(***)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn handles_are_random_and_read_as_what_they_are_alone() {
        let made: Vec<Handle> = (0..1_000).map(|_| Handle::make().unwrap()).collect();
        assert_eq!(made.iter().map(Handle::expose).collect::<HashSet<_>>().len(), 1_000);
        for handle in &made {
            assert_eq!(Handle::read(handle.expose()).as_ref(), Some(handle));
            assert_eq!(handle.expose().len(), CHARS);
            assert!(!format!("{handle:?}").contains(handle.expose()));
        }
        for text in [
            "",
            "a",
            "AAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAB",
            "AAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAA+AAAAAAAAAAA",
        ] {
            assert!(Handle::read(text).is_none(), "{text}");
        }
    }
}
