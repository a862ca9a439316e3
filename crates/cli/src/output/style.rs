//! Colour, where it helps and a terminal shows it.

use std::fmt;

/// What a text is, not how it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Went through.
    Good,
    /// Needs attention: asked, changed.
    Notice,
    /// Was stopped.
    Bad,
    /// A name to find again.
    Name,
    /// Of less interest.
    Faint,
}

impl Style {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Notice => "33",
            Self::Bad => "31",
            Self::Name => "1",
            Self::Faint => "2",
        }
    }
}

/// Paints, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    enabled: bool,
}

impl Paint {
    pub(crate) const fn new(enabled: bool) -> Self {
        Self { enabled }
    }

    /// The text in that style.
    pub(crate) fn with(self, style: Style, text: impl fmt::Display) -> String {
        if self.enabled { format!("\u{1b}[{}m{text}\u{1b}[0m", style.code()) } else { text.to_string() }
    }
}
