//! Is a value random, a placeholder, or a piece of ordinary text?
//!
//! Generated secrets differ from identifiers, paths and prose in their adjacent characters: English words,
//! and names made of them, use about half of the possible letter pairs for 96% of their text, and seldom mix
//! letters with digits inside a word. A random string keeps using the other half. The share of such
//! *odd pairs* separates the two far better than entropy does on strings of 16 to 40 characters.

use super::super::text::{ANY_HEX, DIGIT, LETTER, LOWER, UPPER, contains_folded, starts_folded};

/// For each first letter the second letters that are usual in English and in source code, one bit each.
const USUAL_PAIRS: [u32; 26] = [
    0x1febd6e, 0x0164911, 0x13efddd, 0x03ed97f, 0x1fffdff, 0x11e593d, 0x01ee9d1, 0x01a5119, 0x2aef87f,
    0x0000010, 0x00c0119, 0x13e6d3d, 0x01ed91b, 0x13efd7d, 0x07efd7f, 0x01ed9fd, 0x0100000, 0x17efd7f,
    0x35efdf5, 0x1fef9ff, 0x00eb97f, 0x0044131, 0x0066191, 0x0088115, 0x004b100, 0x0000011,
];

/// Words that people write where a secret would stand. In lower case.
const PLACEHOLDER_WORDS: [&[u8]; 24] = [
    b"example",
    b"placeholder",
    b"your",
    b"change_me",
    b"changeme",
    b"change-me",
    b"dummy",
    b"sample",
    b"redacted",
    b"insert",
    b"todo",
    b"fixme",
    b"xxxx",
    b"****",
    b"....",
    b"here>",
    b"replace",
    b"goes_here",
    b"tokenhere",
    b"_here",
    b"-here",
    b"fakekey",
    b"notreal",
    b"undefined",
];

/// What providers show in their documentation and is as random as what it stands for (AWS, "Managing access keys for IAM users").
const DOCUMENTED: [&str; 2] = [
    concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYEXAMPLEKEY"),
    concat!("je7MtGbClwBF/2Zp9Utk", "/h3yCo8nvbEXAMPLEKEY"),
];

/// So many equal bytes in a row are filler; a token has them once in some ten thousand.
const LEAST_REPEAT: usize = 4;
/// So many bytes in the order of the alphabet or of numbers are filler.
const LEAST_SEQUENCE: usize = 6;
/// The fewest bytes beside filler that are a secret by themselves, where no format says how many it has.
const LEAST_SECRET: usize = 16;

/// How much of a value is looked at, in bytes.
const MOST_JUDGED: usize = 1024;

fn letter(byte: u8) -> Option<u32> {
    byte.is_ascii_alphabetic().then(|| u32::from(byte.to_ascii_lowercase() - b'a'))
}

/// Returns whether a word of a name in camel case may begin at the second byte.
fn is_joint(a: u8, b: u8) -> bool {
    a.is_ascii_lowercase() && b.is_ascii_uppercase()
}

fn is_odd_pair(a: u8, b: u8) -> bool {
    match (letter(a), letter(b)) {
        (Some(first), Some(second)) => {
            USUAL_PAIRS.get(first as usize).is_none_or(|row| row & (1 << second) == 0)
        }
        _ => {
            a.is_ascii_alphanumeric() && b.is_ascii_alphanumeric() && a.is_ascii_digit() != b.is_ascii_digit()
        }
    }
}

/// Bits per byte of the distribution of bytes in `value`.
pub(super) fn entropy(value: &[u8]) -> f32 {
    let mut counts = [0_u16; 256];
    for &byte in value {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count = count.saturating_add(1);
        }
    }
    let total = f32::from(u16::try_from(value.len()).unwrap_or(u16::MAX).max(1));
    counts
        .iter()
        .filter(|&&count| count > 0)
        .map(|&count| {
            let share = f32::from(count) / total;
            -share * share.log2()
        })
        .sum()
}

/// Returns whether `value` looks generated rather than thought up. Meaningful from about 12 characters on.
pub(super) fn is_random(value: &[u8]) -> bool {
    randomness(value) >= 1.0
}

/// Returns how far `value` is above (1 and more) or below the line between random and written.
pub(super) fn randomness(value: &[u8]) -> f32 {
    let value = super::super::text::cut(value, 0, value.len().min(MOST_JUDGED));
    let pairs = value.windows(2).filter(|pair| pair.iter().all(u8::is_ascii_alphanumeric));
    let (mut seen, mut joints, mut odd) = (0_u16, 0_u16, 0_u16);
    for pair in pairs {
        if let [a, b] = pair {
            seen = seen.saturating_add(1);
            joints += u16::from(is_joint(*a, *b));
            odd += u16::from(!is_joint(*a, *b) && is_odd_pair(*a, *b));
        }
    }
    if seen < 6 || entropy(value) < 2.5 {
        return 0.0;
    }
    let digits = DIGIT.count(value);
    let letters = LETTER.count(value);
    let hex = |part: &[u8]| {
        ANY_HEX.all(part) && part.len() >= 16 && DIGIT.count(part) >= 2 && LETTER.count(part) >= 3
    };
    if value.split(|b| !b.is_ascii_alphanumeric()).any(hex) {
        return 1.5;
    }
    let solid = seen + 1 == u16::try_from(value.len()).unwrap_or(u16::MAX);
    if solid && value.len() >= 16 && digits * 5 >= value.len() && letters * 8 >= value.len() {
        return 1.2;
    }
    let words = value.split(|b| !b.is_ascii_alphanumeric()).filter(|part| is_word(part)).count();
    if words >= 2 {
        return 0.0;
    }
    let share = f32::from(odd) / f32::from(seen.saturating_sub(joints).max(1));
    let mixed = digits >= 2 && letters >= 3;
    let cases = LOWER.count(value).min(UPPER.count(value)) >= 4;
    share
        / if mixed {
            0.2
        } else if cases {
            0.3
        } else {
            0.38
        }
}

/// Returns whether `part` is of letters only, and they go together as in a word.
fn is_word(part: &[u8]) -> bool {
    let odd = part.windows(2).filter(|pair| matches!(pair, [a, b] if is_odd_pair(*a, *b))).count();
    part.len() >= 4 && LETTER.all(part) && odd * 4 < part.len()
}

/// Returns whether `value` stands for a secret in a document, a template or a test: filler, a reference to a
/// variable, a call, or a word such as `example`.
pub(super) fn is_placeholder(value: &[u8]) -> bool {
    let distinct = {
        let mut seen = [false; 256];
        for &byte in value {
            if let Some(slot) = seen.get_mut(usize::from(byte)) {
                *slot = true;
            }
        }
        seen.iter().filter(|&&slot| slot).count()
    };
    if distinct <= 3 && value.len() > 3 || distinct <= 5 && value.len() > 24 || starts_as_reference(value) {
        return true;
    }
    let has_filler = longest_repeat(value) >= 8.min(value.len() / 2).max(4) || has_word(value);
    has_filler && !holds_secret(value, LEAST_SECRET)
}

fn has_word(value: &[u8]) -> bool {
    PLACEHOLDER_WORDS.iter().any(|word| contains_folded(value, word))
}

/// Returns what stands beside filler in a value: beside words that say so, one byte over and over, and sequences.
fn beside_filler(value: &[u8]) -> Vec<u8> {
    let mut rest = Vec::with_capacity(value.len());
    let mut at = 0;
    while let Some(tail) = value.get(at..).filter(|tail| !tail.is_empty()) {
        let words = PLACEHOLDER_WORDS.iter().filter(|word| starts_folded(tail, word)).map(|word| word.len());
        let word = words.max().unwrap_or(0);
        let repeat = steady(tail, |a, b| a == b, LEAST_REPEAT);
        let sequence = steady(tail, |a, b| a.checked_add(1) == Some(b), LEAST_SEQUENCE);
        let filler = word.max(repeat).max(sequence);
        if filler == 0 {
            rest.extend(tail.first());
        }
        at += filler.max(1);
    }
    rest
}

/// Returns how many bytes at the beginning go on in the same manner; 0 if they are fewer than `least`.
fn steady(bytes: &[u8], goes_on: impl Fn(u8, u8) -> bool, least: usize) -> usize {
    let length = 1 + bytes.windows(2).take_while(|pair| matches!(pair, [a, b] if goes_on(*a, *b))).count();
    if length < least { 0 } else { length }
}

/// Returns whether a value with filler has at least `least` bytes beside it that look generated, all together or a stretch of them: filler
/// that is glued to a secret makes it none the less secret.
pub(super) fn holds_secret(value: &[u8], least: usize) -> bool {
    let rest = beside_filler(value);
    let is_cut = rest.len() < value.len() && rest.len() >= least;
    let is_documented = DOCUMENTED.iter().any(|known| value == known.as_bytes());
    // A stretch that is longer by a third holds one of these windows, wherever it begins.
    let stretches = || rest.windows(least.max(1)).step_by((least / 4).max(1));
    is_cut && !is_documented && (is_random(&rest) || stretches().any(is_random))
}

/// What stands behind the prefix of a published format where no token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filler {
    /// It may be a token.
    No,
    /// One character over and over, or very few.
    Repeated,
    /// A word that says so.
    Words,
}

/// Returns whether what follows the prefix of a published format is filler; a token of it has at least `shortest` bytes there. Milder than
/// [`is_placeholder`], since the prefix alone already makes a token likely.
pub(super) fn filler(value: &[u8], shortest: usize) -> Filler {
    let filler = if has_word(value) {
        Filler::Words
    } else if longest_repeat(value) * 2 >= value.len() || entropy(value) < 1.5 {
        Filler::Repeated
    } else {
        return Filler::No;
    };
    // A token by chance has a short word in it.
    if holds_secret(value, shortest - shortest / 4) { Filler::No } else { filler }
}

/// Returns whether a value is signs and letters in an order that no language would write: its brackets close what was never
/// opened, or in another order.
pub(super) fn is_scrawl(value: &[u8]) -> bool {
    let mut open = Vec::new();
    let mut crossed = false;
    for &byte in value {
        match byte {
            b'(' | b'[' | b'{' => open.push(byte),
            b')' | b']' | b'}' => {
                let wanted = if byte == b')' { b'(' } else { byte - 2 };
                crossed |= open.pop().is_some_and(|last| last != wanted);
            }
            _ => {}
        }
    }
    let mut signs: Vec<u8> = value.iter().copied().filter(u8::is_ascii_punctuation).collect();
    signs.sort_unstable();
    signs.dedup();
    crossed && value.len() >= 12 && signs.len() >= 5 && LETTER.count(value) >= 4
}

/// Returns whether `value` is filled in later: `${...}`, `{{...}}`, `<...>`, `%NAME%`, `$(...)`.
pub(super) fn starts_as_reference(value: &[u8]) -> bool {
    match value {
        [b'$', b'{' | b'(', ..] | [b'{' | b'#', b'{', ..] | [b'<', ..] => true,
        [b'$', rest @ ..] => rest.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_'),
        [b'%', middle @ .., b'%'] => middle.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_'),
        _ => false,
    }
}

fn longest_repeat(value: &[u8]) -> usize {
    let mut longest = 0;
    let mut run = 0;
    let mut last = None;
    for &byte in value {
        run = if last == Some(byte) { run + 1 } else { 1 };
        last = Some(byte);
        longest = longest.max(run);
    }
    longest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tells_random_from_written() {
        for random in [
            "k3t7lebzqiblkj82t",
            "gns3yvcu7oxnefsou4lehyjk",
            "00112233445566778899aabbccddeeff",
            "qZxWvKpLmNrTsBcDfG",
        ] {
            assert!(is_random(random.as_bytes()), "{random}");
        }
        for written in [
            "TokenStreamExtension",
            "access_token_url",
            "my-service-account-key",
            "x86_64-unknown-linux-gnu",
            "someVeryLongIdentifierName2",
        ] {
            assert!(!is_random(written.as_bytes()), "{written}");
        }
    }

    #[test]
    fn knows_placeholders() {
        for value in [
            "xxxxxxxxxxxxxxxx",
            "YOUR_API_KEY",
            "${DB_PASSWORD}",
            "{{ password }}",
            "<password>",
            "%PASS%",
            "$token",
            "********",
            "changeme",
        ] {
            assert!(is_placeholder(value.as_bytes()), "{value}");
        }
        assert!(!is_placeholder(b"$uper$ecret!9"));
    }
}
