//! Arguments: text of which parts may be unknown.
//!
//! While a command is interpreted, text contains *marks* in place of what only the running shell
//! knows: a hole (any text), and the glob operators that were written unquoted. Marks are characters of
//! a private use area. The same characters in the input are replaced before anything else looks at it, so a
//! command can't forge them.

use std::borrow::Cow;
use std::fmt;

use super::respell;

/// Any text, of any length.
pub const HOLE: char = '\u{F8E0}';
/// Any non-empty text, as two holes.
pub const NOT_EMPTY: &str = "\u{F8E0}\u{F8E0}";
/// An unquoted `*`.
pub const STAR: char = '\u{F8E1}';
/// An unquoted `?`.
pub const ANY: char = '\u{F8E2}';
/// An unquoted `[`, the start of a bracket expression.
pub const SET: char = '\u{F8E3}';

/// The placeholder for the name of a container that the command itself creates, where the engine prints it.
pub const MADE: &str = "made-by-this-command";

/// The place of an element that an array does not have.
pub(crate) const GAP: char = '\u{F8E4}';

/// In front of the number of a text that was taken out of what is parsed.
pub(crate) const TAKEN: char = '\u{F8E7}';

const MARKS: [char; 11] = [
    HOLE,
    STAR,
    ANY,
    SET,
    GAP,
    TAKEN,
    respell::READS,
    respell::WRITES,
    respell::TOGGLES,
    respell::HERE,
    respell::REPLIES,
];

/// The bytes with which the marks and the characters of [`shifted`](super::shifted) begin.
const MARK_BYTES: [u8; 2] = [0xEF, 0xF3];

/// Replaces characters that would be taken for marks.
pub(crate) fn sanitise(text: &str) -> Cow<'_, str> {
    // All of them begin with one of two bytes, which a text without any is searched for many times faster.
    if !MARK_BYTES.iter().any(|byte| text.as_bytes().contains(byte)) {
        return Cow::Borrowed(text);
    }
    let forged = |c: char| c >= HOLE && (MARKS.contains(&c) || super::shifted::is_moved(c));
    if text.contains(forged) { Cow::Owned(text.replace(forged, "\u{FFFD}")) } else { Cow::Borrowed(text) }
}

/// Turns glob marks back into the characters they stand for; holes stay.
pub(crate) fn unglob(text: &str) -> Cow<'_, str> {
    if !text.contains([STAR, ANY, SET]) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(
        text.chars()
            .map(|c| match c {
                STAR => '*',
                ANY => '?',
                SET => '[',
                other => other,
            })
            .collect(),
    )
}

/// True for a word that may become none, or many: a pattern, or something of which parts are not known.
pub(crate) fn is_open(text: &str) -> bool {
    text.contains([HOLE, STAR, ANY, SET])
}

/// Returns whether some part of the text is unknown.
pub fn has_hole(text: &str) -> bool {
    text.contains(HOLE)
}

/// How much of an argument is known before the command runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The text is exactly what the process would get.
    Known,
    /// A glob pattern; the process would get what it matches.
    Pattern,
    /// Some parts are known, others are not.
    Partly,
    /// Nothing is known.
    Unknown,
}

/// One argument of a process, as far as it is known.
#[derive(Clone, PartialEq, Eq)]
pub struct Argument {
    text: String,
}

impl Argument {
    /// Creates an argument from text that may contain marks.
    pub fn marked(text: impl Into<String>) -> Self {
        Self { text: text.into() }
    }

    /// Returns the text with marks.
    pub fn raw(&self) -> &str {
        &self.text
    }

    /// Returns how much of the argument is known.
    pub fn certainty(&self) -> Certainty {
        if !self.text.contains(MARKS) {
            Certainty::Known
        } else if !has_hole(&self.text) {
            Certainty::Pattern
        } else if self.text.chars().all(|c| c == HOLE) {
            Certainty::Unknown
        } else {
            Certainty::Partly
        }
    }

    /// Returns the text for people: unknown parts are shown as `…`.
    pub fn display(&self) -> Cow<'_, str> {
        match unglob(&self.text) {
            Cow::Borrowed(text) if !has_hole(text) => Cow::Borrowed(text),
            text => Cow::Owned(text.replace(HOLE, "…")),
        }
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // An argument may hold a secret; its shape is enough to debug with.
        write!(f, "Argument({:?}, {} bytes)", self.certainty(), self.text.len())
    }
}
