//! A text as its reader sees it: without hidden characters, and with escapes decoded.
//!
//! To a detector, a token with an invisible character, a terminal colour or an escape (`\u0067`, `%67`, `&#103;`) in the
//! middle is not a token. To a reader, or to the program that gets it, it is one, and removing the hidden
//! characters would even assemble it. A text with any of these is therefore read twice: as it is, and in this form.
//!
//! Each replacement depends on a few bytes only, so both readings are as local as one.

use crate::hidden;
use crate::span::{Class, Span};
use crate::text::cut;

mod gaps;

use gaps::{Gap, Gaps};

/// The longest escape, in bytes.
const LONGEST_ESCAPE: usize = 18;
/// How many backslashes may stand in front of one escape, as text that was escaped twice has them.
const MOST_BACKSLASHES: usize = 8;
/// Characters by their names in HTML.
const NAMED: [(&[u8], u8); 14] = [
    (b"&amp;", b'&'),
    (b"&lt;", b'<'),
    (b"&gt;", b'>'),
    (b"&quot;", b'"'),
    (b"&apos;", b'\''),
    (b"&nbsp;", b' '),
    (b"&lowbar;", b'_'),
    (b"&hyphen;", b'-'),
    (b"&period;", b'.'),
    (b"&colon;", b':'),
    (b"&equals;", b'='),
    (b"&plus;", b'+'),
    (b"&sol;", b'/'),
    (b"&commat;", b'@'),
];

/// The text, and where it differs from what was written.
#[derive(Debug)]
pub(crate) struct Squeezed {
    text: Vec<u8>,
    gaps: Gaps,
    /// How many bytes at the end may be the beginning of an escape.
    tail: usize,
}

/// What is left out or written out.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    start: usize,
    end: usize,
    written: Option<u8>,
}

impl Squeezed {
    /// `text`, which hides `hiding`, as its reader has it; `None` where it is as it was written.
    pub(crate) fn of(text: &[u8], hiding: &[Span]) -> Option<Self> {
        let mut stretches = stretches(text, hiding).peekable();
        stretches.peek()?;
        Some(Self::read(text, stretches))
    }

    /// Returns the same of a text that goes on: an escape may have begun at its end.
    pub(crate) fn of_open(text: &[u8]) -> Option<Self> {
        let mut hiding = Vec::new();
        hidden::find(text, &mut hiding);
        let mut stretches = stretches(text, &hiding).peekable();
        let tail = begun(text);
        (stretches.peek().is_some() || tail > 0).then(|| Self { tail, ..Self::read(text, stretches) })
    }

    fn read(text: &[u8], stretches: impl Iterator<Item = Stretch>) -> Self {
        let mut squeezed = Self { text: Vec::with_capacity(text.len()), gaps: Gaps::default(), tail: 0 };
        let mut done = 0;
        for Stretch { start, end, written } in stretches {
            if start < done {
                continue;
            }
            squeezed.text.extend_from_slice(cut(text, done, start));
            let place = squeezed.text.len();
            squeezed.text.extend(written);
            squeezed.gaps.push(Gap {
                at: place,
                stands: written.is_some(),
                before: end - squeezed.text.len(),
                end,
            });
            done = end;
        }
        squeezed.text.extend_from_slice(cut(text, done, text.len()));
        squeezed
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text without what may be the beginning of an escape.
    pub(crate) fn settled(&self) -> &[u8] {
        cut(&self.text, 0, self.text.len().saturating_sub(self.tail))
    }

    /// A finding in the squeezed text, as one in the whole.
    pub(crate) fn in_whole(&self, span: Span) -> Span {
        Span { start: self.start_in_whole(span.start), end: self.end_in_whole(span.end), ..span }
    }

    /// Returns where in the whole text what begins at `at` begins.
    fn start_in_whole(&self, at: usize) -> usize {
        at + self.gaps.last(|gap| gap.rank() <= 2 * at).map_or(0, |gap| gap.before)
    }

    /// Returns where in the whole text what ends at `at` ends.
    pub(crate) fn end_in_whole(&self, at: usize) -> usize {
        at + self.gaps.last(|gap| gap.rank() < 2 * at).map_or(0, |gap| gap.before)
    }

    /// Returns where a place of the whole text is in the squeezed one.
    pub(crate) fn place(&self, at: usize) -> usize {
        let (last, next) = self.gaps.around(|gap| gap.end <= at);
        let inside = next.map_or(usize::MAX, |gap| gap.at);
        (at - last.map_or(0, |gap| gap.before)).min(inside)
    }
}

/// What differs for a reader, in the order of the text.
fn stretches<'a>(text: &'a [u8], hiding: &'a [Span]) -> impl Iterator<Item = Stretch> + 'a {
    let hiding = hiding.iter().filter(|span| is_left_out(span));
    let mut hiding =
        hiding.map(|span| Stretch { start: span.start, end: span.end, written: None }).peekable();
    let mut done = 0;
    let escapes = memchr::memchr3_iter(b'\\', b'%', b'&', text).filter_map(move |start| {
        let stretch = if start < done { None } else { escape(text, start) }?;
        done = stretch.end;
        Some(stretch)
    });
    let mut escapes = escapes.peekable();
    std::iter::from_fn(move || match (hiding.peek(), escapes.peek()) {
        (Some(hidden), Some(escape)) if escape.start < hidden.start => escapes.next(),
        (Some(_), _) => hiding.next(),
        (None, _) => escapes.next(),
    })
}

/// Hosts that mix alphabets are seen, and stay where they are.
fn is_left_out(span: &Span) -> bool {
    span.class == Class::Hidden && span.kind != "homoglyph_host"
}

/// Returns the escape that begins at `start`.
fn escape(text: &[u8], start: usize) -> Option<Stretch> {
    let rest = cut(text, start, text.len().min(start + LONGEST_ESCAPE));
    let (code, len) = match rest {
        [b'%', ..] => (number(cut(rest, 1, 3), 16, 2)?, 3),
        [b'&', b'#', b'x' | b'X', digits @ ..] => reference(digits, 16, 3)?,
        [b'&', b'#', digits @ ..] => reference(digits, 10, 2)?,
        [b'&', ..] => {
            let (name, byte) = NAMED.iter().find(|(name, _)| rest.starts_with(name))?;
            (u32::from(*byte), name.len())
        }
        _ => {
            let slashes = rest.iter().position(|&b| b != b'\\').filter(|&count| count <= MOST_BACKSLASHES)?;
            let behind = cut(rest, slashes, rest.len());
            let (code, len) = match behind {
                [b'u', b'{', digits @ ..] => {
                    let end = digits.iter().position(|&b| b == b'}')?;
                    (number(cut(digits, 0, end), 16, end)?, end + 3)
                }
                [b'u', ..] => (number(cut(behind, 1, 5), 16, 4)?, 5),
                [b'U', ..] => (number(cut(behind, 1, 9), 16, 8)?, 9),
                [b'x', ..] => (number(cut(behind, 1, 3), 16, 2)?, 3),
                _ => return None,
            };
            (code, slashes + len)
        }
    };
    let end = start + len;
    match u8::try_from(code) {
        Ok(byte @ (b' '..=b'~' | b'\n' | b'\t' | b'\r')) => Some(Stretch { start, end, written: Some(byte) }),
        _ => hidden::is_invisible(char::from_u32(code)?).then_some(Stretch { start, end, written: None }),
    }
}

/// A number of exactly so many digits, of which there are some.
fn number(digits: &[u8], base: u32, len: usize) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.len() == len && (1..=8).contains(&len))?;
    let plain = digits.iter().all(u8::is_ascii_alphanumeric);
    u32::from_str_radix(text, base).ok().filter(|_| plain)
}

/// Returns the number of a character reference, and how long that is with `led` bytes in front of it and its `;`.
fn reference(digits: &[u8], base: u32, led: usize) -> Option<(u32, usize)> {
    let len = digits.iter().position(|&b| b == b';')?;
    Some((number(cut(digits, 0, len), base, len)?, led + len + 1))
}

/// Returns how many bytes at the end of `text` may be the beginning of an escape.
fn begun(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(LONGEST_ESCAPE);
    let tail = cut(text, from, text.len());
    let opens = |start: usize| {
        let rest = cut(tail, start, tail.len());
        let inside =
            rest.iter().skip(1).all(|&b| b.is_ascii_alphanumeric() || matches!(b, b'\\' | b'#' | b'{'));
        let most = if rest.first() == Some(&b'%') { 2 } else { LONGEST_ESCAPE - 1 };
        matches!(rest.first(), Some(b'\\' | b'%' | b'&')) && inside && rest.len() <= most
    };
    (0..tail.len())
        .find(|&start| opens(start) && escape(text, from + start).is_none())
        .map_or(0, |at| tail.len() - at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Squeezed> {
        let mut hiding = Vec::new();
        hidden::find(text.as_bytes(), &mut hiding);
        Squeezed::of(text.as_bytes(), &hiding)
    }

    #[test]
    fn places_are_found_again() {
        let squeezed = read("ab\u{200b}cd\u{2060}\u{2060}e").unwrap();
        assert_eq!(squeezed.text(), b"abcde");
        let starts: Vec<usize> = (0..=5).map(|at| squeezed.start_in_whole(at)).collect();
        assert_eq!(starts, [0, 1, 5, 6, 13, 14]);
        let ends: Vec<usize> = (0..=5).map(|at| squeezed.end_in_whole(at)).collect();
        assert_eq!(ends, [0, 1, 2, 6, 7, 14]);
        let places: Vec<usize> = (0..=14).map(|at| squeezed.place(at)).collect();
        assert_eq!(places, [0, 1, 2, 2, 2, 2, 3, 4, 4, 4, 4, 4, 4, 4, 5]);
        assert!(read("abc").is_none());
    }

    #[test]
    fn what_is_escaped_is_written_out() {
        for (text, wanted) in [
            ("g%68p", "ghp"),
            ("\\u0067hp", "ghp"),
            ("\\\\u0067\\u{68}\\x70\\U0000005f", "ghp_"),
            ("&#103;&#x68;p&lowbar;", "ghp_"),
            ("g\\u200bh%0a", "gh\n"),
        ] {
            let squeezed = read(text).unwrap();
            assert_eq!(squeezed.text(), wanted.as_bytes(), "{text}");
        }
        for text in ["100% of", "a && b", "C:\\Users", "%zz", "\\u00e9t\\u00e9", "&#;", "\\u{}", "&unknown;"]
        {
            assert!(read(text).is_none(), "{text}");
        }
        let squeezed = read("a%62c").unwrap();
        assert_eq!((squeezed.start_in_whole(1), squeezed.end_in_whole(2)), (1, 4));
        assert_eq!((0..=5).map(|at| squeezed.place(at)).collect::<Vec<_>>(), [0, 1, 1, 1, 2, 3]);
    }

    /// Whatever the text is made of, what is kept of it is at most twice as long.
    #[test]
    fn what_is_kept_of_a_text_grows_no_faster_than_the_text() {
        for piece in [
            "%67",
            "%25",
            "%2525",
            "%67a",
            "\\u0067",
            "&#103;&lt;",
            "a\u{200b}",
            "%67\u{2060}",
            "\u{1b}[0m%61",
            "a\u{8}",
            "x",
        ] {
            for count in [1, 64, 65, 10_000] {
                let text = piece.repeat(count);
                let Some(squeezed) = read(&text) else { continue };
                let kept = squeezed.text.len() + squeezed.gaps.bytes();
                assert!(kept <= 2 * text.len() + 128, "{piece} {count}: {kept} of {}", text.len());
            }
        }
    }

    /// Every place is found where one gap after the other, from the beginning, would put it.
    #[test]
    fn places_far_behind_are_found_as_those_at_the_beginning() {
        for (piece, read_as) in [("%67", 1), ("a%67", 2), ("a\u{200b}", 1), ("\\u0067\u{200b}%41", 2)] {
            let squeezed = read(&piece.repeat(1_000)).unwrap();
            let first = read(&piece.repeat(2)).unwrap();
            assert_eq!(squeezed.text().len(), 1_000 * read_as);
            for round in [1, 2, 63, 64, 65, 500, 998] {
                for at in 1..=read_as {
                    let by = |from: usize| from + (round - 1) * piece.len();
                    let far = at + round * read_as;
                    assert_eq!(
                        squeezed.start_in_whole(far - read_as),
                        by(first.start_in_whole(at)),
                        "{piece} {far}"
                    );
                    assert_eq!(
                        squeezed.end_in_whole(far - read_as),
                        by(first.end_in_whole(at)),
                        "{piece} {far}"
                    );
                }
                for at in 0..piece.len() {
                    let far = squeezed.place(at + round * piece.len());
                    assert_eq!(far, first.place(at + piece.len()) + (round - 1) * read_as, "{piece} {at}");
                }
            }
        }
    }

    #[test]
    fn the_beginning_of_an_escape_is_waited_for() {
        for (text, wanted) in [
            ("ab%", 1),
            ("ab%6", 2),
            ("\\u00", 4),
            ("\\\\", 2),
            ("&#10", 4),
            ("&low", 4),
            ("%41", 0),
            ("a & b", 0),
        ] {
            assert_eq!(begun(text.as_bytes()), wanted, "{text}");
        }
    }
}
