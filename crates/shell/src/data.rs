//! Data that flows: the output of a command, the input of the next, the content of a file.

use std::ops::{BitOr, BitOrAssign};
use std::rc::Rc;

use super::word::{HOLE, has_hole};

/// Most bytes of known text that are carried along.
pub(crate) const MAX_TEXT: usize = 64 * 1024;

/// Where data comes from, as far as that matters to a judge. A set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Taint(u16);

impl Taint {
    /// Nothing of note.
    pub const NONE: Self = Self(0);
    /// Came over the network.
    pub const NET: Self = Self(1);
    /// Came out of a decoder (base64, gzip, hex, reversal) whose output is not known.
    pub const DECODED: Self = Self(2);
    /// Holds credentials.
    pub const SECRET: Self = Self(4);
    /// The session's own standard input.
    pub const INPUT: Self = Self(8);
    /// Holds the environment.
    pub const ENVIRONMENT: Self = Self(16);
    /// The content of a local file that is not a credential.
    pub const FILE: Self = Self(32);
    /// Unpacked or cloned from the network by this very command.
    pub const FETCHED: Self = Self(128);
    /// The content of a file of the workspace that is too big to be looked into.
    pub const UNREAD: Self = Self(256);
    /// Printed by a local program that is not modelled.
    pub const PROGRAM: Self = Self(64);

    /// True when all of `other` is in the set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The set without `other`.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl BitOr for Taint {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Taint {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// Text, known or not, with its taint.
#[derive(Debug, Clone)]
pub(crate) struct Data {
    text: Option<Rc<str>>,
    pub(crate) taint: Taint,
}

impl Data {
    /// Text that is known (it may contain holes).
    pub(crate) fn text(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        if text.len() > MAX_TEXT {
            return Self::unknown(Taint::NONE);
        }
        Self { text: Some(Rc::from(text)), taint: Taint::NONE }
    }

    /// No data at all.
    pub(crate) fn empty() -> Self {
        Self::text("")
    }

    /// Data of which only the origin is known.
    pub(crate) fn unknown(taint: Taint) -> Self {
        Self { text: None, taint }
    }

    /// What a command gets that nothing is piped into.
    pub(crate) fn session_input() -> Self {
        Self::unknown(Taint::INPUT)
    }

    /// The same data with more taint.
    pub(crate) fn tainted(mut self, taint: Taint) -> Self {
        self.taint |= taint;
        self
    }

    /// The text without any unknown part.
    pub(crate) fn exact(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !has_hole(text))
    }

    /// The text, parts of which may be holes.
    pub(crate) fn marked(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The text for use inside a word: unknown data is one hole.
    pub(crate) fn as_word(&self) -> String {
        match &self.text {
            Some(text) => text.to_string(),
            None => HOLE.to_string(),
        }
    }

    /// True for what a shell prints that takes its commands from the session.
    pub(crate) fn is_dialogue(&self) -> bool {
        self.text.is_none() && self.taint.has(Taint::INPUT | Taint::PROGRAM)
    }

    /// True when there is certainly nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.text.as_deref().is_some_and(str::is_empty)
    }

    /// This data followed by `next`.
    pub(crate) fn then(&mut self, next: &Self) {
        if next.is_empty() {
            self.taint |= next.taint;
            return;
        }
        if self.is_empty() {
            self.text.clone_from(&next.text);
        } else {
            let mut joined = self.as_word();
            joined.push_str(&next.as_word());
            self.text = (joined.len() <= MAX_TEXT).then(|| Rc::from(joined));
        }
        self.taint |= next.taint;
    }
}
