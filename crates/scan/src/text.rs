//! Small predicates on bytes that every detector uses.
//!
//! Everything here is total: a position outside the text reads as a NUL byte, a range outside it as an
//! empty slice. Detectors can therefore look around a candidate without checking the bounds of the text.

/// A set of byte classes, one bit each, so that membership is one table look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteSet(pub(crate) u16);

pub(crate) const DIGIT: ByteSet = ByteSet(1);
pub(crate) const LOWER: ByteSet = ByteSet(1 << 1);
pub(crate) const UPPER: ByteSet = ByteSet(1 << 2);
pub(crate) const UNDERSCORE: ByteSet = ByteSet(1 << 3);
pub(crate) const DASH: ByteSet = ByteSet(1 << 4);
pub(crate) const PLUS_SLASH: ByteSet = ByteSet(1 << 5);
pub(crate) const EQUALS: ByteSet = ByteSet(1 << 6);
pub(crate) const DOT: ByteSet = ByteSet(1 << 7);
/// `a` to `f`, a part of [`LOWER`].
pub(crate) const HEX_LOWER_LETTER: ByteSet = ByteSet(1 << 8);
/// `A` to `F`, a part of [`UPPER`].
pub(crate) const HEX_UPPER_LETTER: ByteSet = ByteSet(1 << 9);
/// What joins the groups of a number that people write down.
pub(crate) const JOINER: ByteSet = ByteSet(1 << 10);
pub(crate) const SPACE: ByteSet = ByteSet(1 << 11);
/// Punctuation that generated passwords and tokens contain: `~!%*^@|:$#&`.
pub(crate) const TOKEN_MARK: ByteSet = ByteSet(1 << 12);
pub(crate) const COLON: ByteSet = ByteSet(1 << 13);

pub(crate) const LETTER: ByteSet = LOWER.or(UPPER);
pub(crate) const ALNUM: ByteSet = LETTER.or(DIGIT);
pub(crate) const LOWER_ALNUM: ByteSet = LOWER.or(DIGIT);
pub(crate) const UPPER_ALNUM: ByteSet = UPPER.or(DIGIT);
pub(crate) const HEX: ByteSet = DIGIT.or(HEX_LOWER_LETTER);
pub(crate) const ANY_HEX: ByteSet = HEX.or(HEX_UPPER_LETTER);
pub(crate) const WORD: ByteSet = ALNUM.or(UNDERSCORE);
pub(crate) const URL64: ByteSet = WORD.or(DASH);
pub(crate) const BASE64: ByteSet = ALNUM.or(PLUS_SLASH);

impl ByteSet {
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn has(self, byte: u8) -> bool {
        CLASSES.get(usize::from(byte)).is_some_and(|bits| bits & self.0 != 0)
    }

    /// Returns the end of the run of members that begins at `from`, at most `max` bytes long.
    pub(crate) fn run(self, text: &[u8], from: usize, max: usize) -> usize {
        let rest = cut(text, from, from.saturating_add(max).min(text.len()));
        from + rest.iter().position(|&b| !self.has(b)).unwrap_or(rest.len())
    }

    /// Returns the start of the run of members that ends before `end`, at most `max` bytes long.
    pub(crate) fn run_back(self, text: &[u8], end: usize, max: usize) -> usize {
        let rest = cut(text, end.saturating_sub(max), end);
        end - rest.iter().rev().position(|&b| !self.has(b)).unwrap_or(rest.len())
    }

    pub(crate) fn all(self, text: &[u8]) -> bool {
        text.iter().all(|&b| self.has(b))
    }

    pub(crate) fn count(self, text: &[u8]) -> usize {
        text.iter().filter(|&&b| self.has(b)).count()
    }
}

const fn classify(byte: u8) -> u16 {
    let class = match byte {
        b'0'..=b'9' => DIGIT,
        b'a'..=b'f' => LOWER.or(HEX_LOWER_LETTER),
        b'g'..=b'z' => LOWER,
        b'A'..=b'F' => UPPER.or(HEX_UPPER_LETTER),
        b'G'..=b'Z' => UPPER,
        b'_' => UNDERSCORE,
        b'-' => DASH.or(JOINER),
        b'+' => PLUS_SLASH,
        b'/' => PLUS_SLASH.or(JOINER),
        b'=' => EQUALS,
        b'.' => DOT.or(JOINER),
        b' ' => SPACE.or(JOINER),
        b'\t' | b'\n' | b'\r' => SPACE,
        b':' => TOKEN_MARK.or(COLON),
        b'~' | b'!' | b'%' | b'*' | b'^' | b'@' | b'|' | b'$' | b'#' | b'&' => TOKEN_MARK,
        _ => ByteSet(0),
    };
    class.0
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time over all 256 bytes")]
const CLASSES: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = classify(byte);
        if byte == u8::MAX {
            break table;
        }
        byte += 1;
    }
};

/// Returns the byte at `i`, NUL outside of the text.
pub(crate) fn at(text: &[u8], i: usize) -> u8 {
    text.get(i).copied().unwrap_or(0)
}

/// Returns the byte before `i`, NUL at the start of the text.
pub(crate) fn before(text: &[u8], i: usize) -> u8 {
    i.checked_sub(1).map_or(0, |j| at(text, j))
}

/// Returns the bytes from `start` to `end`, nothing where they are not all there.
pub(crate) fn cut(text: &[u8], start: usize, end: usize) -> &[u8] {
    text.get(start..end).unwrap_or_default()
}

/// Returns whether a letter, digit or part of a multi-byte character stands on both sides of `i`.
pub(crate) fn inside_word(text: &[u8], i: usize) -> bool {
    let word = |b: u8| ALNUM.has(b) || b >= 0x80;
    word(before(text, i)) && word(at(text, i))
}

/// Returns the digits of `text`, as numbers.
pub(crate) fn digits(text: &[u8]) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
    text.iter().filter(|b| b.is_ascii_digit()).map(|b| u32::from(b - b'0'))
}

/// `text` without everything but letters and digits, in upper case.
pub(crate) fn compact(text: &[u8]) -> Vec<u8> {
    text.iter().filter(|b| b.is_ascii_alphanumeric()).map(u8::to_ascii_uppercase).collect()
}

/// Returns whether `needle`, which is in lower case, stands in `text` in any case.
pub(crate) fn contains_folded(text: &[u8], needle: &[u8]) -> bool {
    !needle.is_empty() && text.windows(needle.len()).any(|window| window.eq_ignore_ascii_case(needle))
}

/// Returns whether `text` begins with `prefix` in any case.
pub(crate) fn starts_folded(text: &[u8], prefix: &[u8]) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// `text` with the bytes of `set` taken off its end.
pub(crate) fn trim_end(text: &[u8], start: usize, end: usize, set: ByteSet) -> usize {
    let kept = cut(text, start, end);
    start + kept.iter().rposition(|&b| !set.has(b)).map_or(0, |last| last + 1)
}
