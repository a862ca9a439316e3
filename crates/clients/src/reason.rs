//! Reasons: text that a model or a human reads, never empty.
//!
//! A refusal without a reason is no refusal for some clients: Codex runs the tool when the reason is
//! missing or blank, and three others run it when exit code 2 comes with nothing on stderr. So a reason is
//! a type that always has text, and a refusal can't be built without one.

use std::fmt;

use backstop_hooks::Text;

/// Most bytes of a reason. Clients were seen to take 200 KB; nobody reads that much.
pub const MAX_REASON_BYTES: usize = 16 * 1024;

/// What is said when whoever refused gave no reason.
const NONE_GIVEN: &str = "blocked by policy";

/// Text that is neither blank nor longer than [`MAX_REASON_BYTES`], and holds no control characters other
/// than line breaks and tabs. `Debug` shows its length only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(Text);

impl Reason {
    /// Makes a reason of any text: control characters become spaces, what is too long is cut, and blank
    /// text becomes a plain sentence.
    pub fn new(text: &str) -> Self {
        let clean: String = cut(text, MAX_REASON_BYTES)
            .chars()
            .map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { ' ' } else { c })
            .collect();
        match clean.trim() {
            "" => Self(NONE_GIVEN.into()),
            text => Self(text.into()),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

/// The start of `text`, at most `most` bytes, ending where a character ends.
fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or_default();
    text.get(..end).unwrap_or_default()
}

impl From<&str> for Reason {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&Text> for Reason {
    fn from(text: &Text) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for Reason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_always_has_text() {
        for blank in ["", " \n\t", "\u{0}\u{7}"] {
            assert_eq!(Reason::new(blank).as_str(), NONE_GIVEN);
        }
        assert_eq!(Reason::new(" no\u{1b}[2J ").as_str(), "no [2J");
        assert_eq!(Reason::new("two\nlines").as_str(), "two\nlines");
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "é".repeat(MAX_REASON_BYTES);
        assert_eq!(Reason::new(&format!("a{long}")).as_str().len(), MAX_REASON_BYTES - 1);
    }

    #[test]
    fn debug_never_prints_a_reason() {
        assert!(!format!("{:?}", Reason::new("hunter2")).contains("hunter2"));
    }
}
