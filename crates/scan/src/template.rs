//! The shape of a token, as data: fixed pieces, and runs of one alphabet with a length.
//!
//! A template is matched once, from left to right, without backtracking. Matching is therefore linear in the
//! length of the match whatever the text is, there is nothing to compile, and a table of some hundred
//! templates costs nothing until one of its prefixes is seen. A run takes as many characters as it may. If the text
//! continues with the alphabet of the last run, the token is longer than its format allows and does not match.

use std::borrow::Cow;

use crate::text::{ByteSet, at, starts_folded};

/// One piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// These bytes, in this case.
    Lit(Cow<'static, str>),
    /// These bytes, in any case.
    Fold(Cow<'static, str>),
    /// From so many to so many bytes of one alphabet.
    Run(ByteSet, usize, usize),
    /// One byte of the alphabet, if it is there.
    Maybe(ByteSet),
}

impl Part {
    /// Returns the fewest bytes that fit it.
    pub(crate) fn shortest(&self) -> usize {
        match self {
            Self::Lit(literal) | Self::Fold(literal) => literal.len(),
            Self::Run(_, least, _) => *least,
            Self::Maybe(_) => 0,
        }
    }

    /// Returns the most bytes that fit it.
    pub(crate) fn longest(&self) -> usize {
        match self {
            Self::Lit(literal) | Self::Fold(literal) => literal.len(),
            Self::Run(_, _, most) => *most,
            Self::Maybe(_) => 1,
        }
    }
}

/// Returns the end of the token of this shape that begins at `from`.
pub(crate) fn match_at(parts: &[Part], text: &[u8], from: usize) -> Option<usize> {
    let mut pos = from;
    let mut open = None;
    for part in parts {
        match part {
            Part::Lit(literal) => {
                pos = text.get(pos..)?.starts_with(literal.as_bytes()).then(|| pos + literal.len())?;
                open = None;
            }
            Part::Fold(literal) => {
                let head = text.get(pos..pos + literal.len())?;
                pos = head.eq_ignore_ascii_case(literal.as_bytes()).then(|| pos + literal.len())?;
                open = None;
            }
            Part::Run(set, min, max) => {
                let end = set.run(text, pos, *max);
                if end - pos < *min {
                    return None;
                }
                pos = end;
                open = Some(*set);
            }
            Part::Maybe(set) => {
                if set.has(at(text, pos)) {
                    pos += 1;
                }
                open = None;
            }
        }
    }
    match open {
        Some(set) if set.has(at(text, pos)) => None,
        _ => Some(pos),
    }
}

/// Returns whether what stands from `from` to the end of `text` may be the beginning of a token of this shape, or one that
/// goes on.
pub(crate) fn may_go_on(parts: &[Part], text: &[u8], from: usize) -> bool {
    let mut pos = from;
    for part in parts {
        let rest = text.get(pos..).unwrap_or_default();
        match part {
            Part::Lit(literal) | Part::Fold(literal) if rest.len() < literal.len() => {
                let begun = literal.as_bytes().get(..rest.len()).unwrap_or_default();
                let folds = matches!(part, Part::Fold(_));
                return if folds { rest.eq_ignore_ascii_case(begun) } else { rest == begun };
            }
            Part::Lit(literal) if rest.starts_with(literal.as_bytes()) => pos += literal.len(),
            Part::Fold(literal) if starts_folded(rest, literal.as_bytes()) => pos += literal.len(),
            Part::Lit(_) | Part::Fold(_) => return false,
            Part::Run(set, min, max) => {
                let end = set.run(text, pos, *max);
                if end < text.len() && end - pos < *min {
                    return false;
                }
                pos = end;
            }
            Part::Maybe(set) => pos += usize::from(set.has(at(text, pos))),
        }
        if pos >= text.len() {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{DASH, DIGIT, LETTER};

    #[test]
    fn takes_exactly_the_format() {
        let parts =
            [Part::Lit("k-".into()), Part::Run(DIGIT, 2, 3), Part::Maybe(DASH), Part::Run(LETTER, 1, 1)];
        assert_eq!(match_at(&parts, b"xk-123-a.", 1), Some(8));
        assert_eq!(match_at(&parts, b"k-12z", 0), Some(5));
        assert_eq!(match_at(&parts, b"k-12zz", 0), None, "longer than the format");
        assert_eq!(match_at(&parts, b"k-1-a", 0), None, "shorter than the format");
        assert_eq!(match_at(&parts, b"k-12", 0), None, "cut off");
    }

    #[test]
    fn knows_what_may_go_on() {
        let parts =
            [Part::Lit("k-".into()), Part::Run(DIGIT, 2, 3), Part::Maybe(DASH), Part::Run(LETTER, 1, 1)];
        for open in [&b"k"[..], b"k-", b"k-1", b"k-12", b"k-123", b"k-123-", b"k-123-a"] {
            assert!(may_go_on(&parts, open, 0), "{open:?}");
        }
        for closed in [&b"l"[..], b"kx", b"k-1 ", b"k-12--", b"k-1234", b"k-12a "] {
            assert!(!may_go_on(&parts, closed, 0), "{closed:?}");
        }
    }
}
