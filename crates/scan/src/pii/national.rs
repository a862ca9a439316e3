//! Numbers of people, as `build.rs` made them of `catalogue/numbers`.
//!
//! A number that carries its own proof (check digits together with an unusual shape) is found anywhere. One that is
//! merely digits of some length is found where the words around it name it, or where a text holds nothing else.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::checks;
use crate::template::Part;
use crate::text::{ByteSet, DIGIT};

/// One way to write one kind of number.
#[derive(Clone, Debug)]
pub(crate) struct Number {
    pub(crate) kind: &'static str,
    pub(crate) parts: Cow<'static, [Part]>,
    /// Over the number without separators, in upper case.
    pub(crate) check: fn(&[u8]) -> bool,
    /// What has to be there besides the number.
    pub(crate) needs: Needs,
}

/// What makes a number of a shape one of a kind.
#[derive(Clone, Debug)]
pub(crate) enum Needs {
    /// Nothing: this is how sure it is by itself.
    Nothing(f32),
    /// One of these words, in lower case, nearby.
    Words(Cow<'static, [Cow<'static, str>]>),
    /// That the text holds nothing else.
    Alone,
}

/// Every number, in the order of the catalogue.
static NUMBERS: &[Number] = include!(concat!(env!("OUT_DIR"), "/numbers.rs"));

/// Numbers by how they are come upon.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    /// Those that begin with a digit.
    pub(super) by_digit: Vec<Number>,
    /// Those that begin with a letter.
    pub(super) by_letter: Vec<Number>,
    /// Those that say enough when a text holds nothing else.
    pub(super) alone: Vec<Number>,
}

/// The numbers that come with the crate.
pub(super) static BUILT_IN: LazyLock<Numbers> = LazyLock::new(|| Numbers::of(NUMBERS.to_vec()));

impl Numbers {
    /// `numbers` by how they are come upon.
    pub(crate) fn of(numbers: Vec<Number>) -> Self {
        let mut sorted = Self::default();
        for number in numbers {
            let digit = match number.parts.first() {
                Some(Part::Run(set, ..)) => *set == DIGIT,
                Some(Part::Lit(literal) | Part::Fold(literal)) => {
                    literal.starts_with(|c: char| c.is_ascii_digit())
                }
                _ => false,
            };
            match (&number.needs, digit) {
                (Needs::Alone, _) => sorted.alone.push(number),
                (_, true) => sorted.by_digit.push(number),
                (_, false) => sorted.by_letter.push(number),
            }
        }
        sorted
    }
}
