//! What a command costs to parse, estimated before it is parsed.
//!
//! The parser takes exponential time on runs of opening parentheses and overflows the stack on deep
//! nesting, which aborts the process. One pass over the bytes gives an upper bound of both. It ignores quoting on purpose,
//! because a quote that the pass and the parser see differently must not be a way around it.

/// Longest command that is parsed, in bytes: as long as one argument of a program can be on Linux, so that a shell is
/// told no more by `-c`.
pub const MAX_BYTES: usize = 128 * 1024;
/// Deepest nesting of parentheses that is parsed.
const MAX_PARENS: usize = 12;
/// Deepest nesting of anything that opens a level.
const MAX_NESTING: usize = 200;
/// Commands at most this long and flat are analysed on the caller's stack.
const INLINE_BYTES: usize = 8 * 1024;
const INLINE_NESTING: usize = 12;

/// Where a command can be analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weight {
    /// On the caller's stack.
    Light,
    /// On a thread with a big stack, under a deadline.
    Heavy,
}

/// Why a text is not given to the parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// More bytes than are parsed.
    TooLong,
    /// More nesting than is parsed.
    TooDeep,
}

/// Bounds the cost of parsing `text`.
pub(crate) fn weigh(text: &str) -> Result<Weight, Refusal> {
    if text.len() > MAX_BYTES {
        return Err(Refusal::TooLong);
    }
    let mut parens = Level::default();
    let mut braces = Level::default();
    let mut ticks = 0usize;
    let mut keywords = Level::default();
    let mut word = [0u8; 6];
    let mut word_len = 0usize;
    for byte in text.bytes().chain([b' ']) {
        match byte {
            b'(' => parens.open(),
            b')' => parens.close(),
            b'{' => braces.open(),
            b'}' => braces.close(),
            b'`' => ticks += 1,
            _ => {}
        }
        if byte.is_ascii_lowercase() {
            if let Some(slot) = word.get_mut(word_len) {
                *slot = byte;
            }
            word_len += 1;
        } else if word_len > 0 {
            match word.get(..word_len) {
                Some(b"if" | b"case" | b"while" | b"until" | b"for" | b"select") => keywords.open(),
                Some(b"fi" | b"esac" | b"done") => keywords.close(),
                _ => {}
            }
            word_len = 0;
        }
    }
    // Escaped backquotes nest, so each may be a level of its own.
    let escaped_ticks = if text.contains("\\`") { ticks } else { usize::from(ticks > 0) };
    let nesting = parens.peak + braces.peak + keywords.peak + escaped_ticks;
    if parens.peak > MAX_PARENS || nesting > MAX_NESTING {
        return Err(Refusal::TooDeep);
    }
    if text.len() <= INLINE_BYTES && nesting <= INLINE_NESTING {
        Ok(Weight::Light)
    } else {
        Ok(Weight::Heavy)
    }
}

#[derive(Default)]
struct Level {
    now: usize,
    peak: usize,
}

impl Level {
    fn open(&mut self) {
        self.now += 1;
        self.peak = self.peak.max(self.now);
    }

    fn close(&mut self) {
        self.now = self.now.saturating_sub(1);
    }
}
