//! The names of everything that is looked for.

use std::collections::BTreeSet;

use super::{Class, Scanner, pii, secrets};

const HIDDEN: [&str; 6] = [
    "bidi_override",
    "homoglyph_host",
    "tag_character",
    "terminal_escape",
    "variation_selector",
    "zero_width",
];

impl Scanner {
    /// The kinds of a class, as in [`Span::kind`](super::Span::kind), in alphabetical order.
    #[must_use]
    pub fn kinds(class: Class) -> BTreeSet<&'static str> {
        match class {
            Class::Secret => secrets::kinds().collect(),
            Class::Pii => pii::kinds().collect(),
            Class::Hidden => HIDDEN.into_iter().collect(),
        }
    }
}
