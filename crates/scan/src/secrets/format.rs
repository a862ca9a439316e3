//! The shape of one published token format, and how a candidate for it is judged.

use std::borrow::Cow;

use super::quality::{Filler, filler, holds_secret, is_placeholder, is_random};
use crate::entry::Proof;
use crate::span::Evidence;
use crate::template::{Part, match_at};
use crate::text::{ALNUM, ByteSet, LOWER, UPPER, UPPER_ALNUM, before, cut};

/// A token that only has the shape of its kind: its value is filler.
pub(super) const ONLY_SHAPED: f32 = 0.3;

/// A token format, of the crate's catalogue or of an operator's.
#[derive(Clone, Debug)]
pub(crate) struct Format {
    pub(crate) kind: &'static str,
    pub(crate) proof: Proof,
    /// Words of which one has to stand in front of the value.
    pub(crate) words: Cow<'static, [Cow<'static, str>]>,
    pub(crate) parts: Cow<'static, [Part]>,
}

/// A token and how sure it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Judged {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) confidence: f32,
    pub(super) evidence: Evidence,
}

/// How tokens of a format are searched for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Search<'f> {
    /// By the fixed bytes that it begins with.
    Prefix(&'f str),
    /// By the fixed bytes inside of it.
    Mark(Inner<'f>),
    /// By the words in front of it.
    Words,
}

/// A token that is known by a mark inside of it: how far it reaches to either side, and in which alphabet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner<'f> {
    pub(crate) mark: &'f str,
    pub(super) before: (ByteSet, usize, usize),
    pub(super) after: (ByteSet, usize, usize),
}

impl Format {
    /// Returns how it is searched for; `None` for a format that nothing leads to.
    pub(crate) fn search(&self) -> Option<Search<'_>> {
        match &*self.parts {
            _ if !self.words.is_empty() => Some(Search::Words),
            [Part::Lit(prefix), ..] if prefix.len() >= 2 => Some(Search::Prefix(prefix)),
            [Part::Run(set, least, most), Part::Lit(mark), rest @ ..] if mark.len() >= 2 => {
                let after = match rest {
                    [] => (*set, 0, 0),
                    [Part::Run(set, least, most)] => (*set, *least, *most),
                    _ => return None,
                };
                Some(Search::Mark(Inner { mark, before: (*set, *least, *most), after }))
            }
            _ => None,
        }
    }

    /// Returns the token of this format whose prefix begins at `from`.
    ///
    /// Where a letter or digit stands before a prefix that says enough, the prefix is glued to another word, and the
    /// token is what follows it.
    pub(super) fn judge(&self, text: &[u8], from: usize) -> Option<Judged> {
        let behind = from + self.prefix().len();
        let start = match before(text, from) {
            byte if !ALNUM.has(byte) => from,
            byte if self.may_be_glued(byte) => behind,
            _ => return None,
        };
        let end = match_at(&self.parts, text, from)?;
        let value = cut(text, behind, end);
        let judged = |confidence, evidence| Some(Judged { start, end, confidence, evidence });
        let shortest = self.shortest_value();
        match (filler(value, shortest), self.proof) {
            (Filler::Words, _) | (Filler::Repeated, Proof::Random) => None,
            (Filler::Repeated, _) => judged(ONLY_SHAPED, Evidence::Format),
            (Filler::No, Proof::Prefix) => judged(0.95, Evidence::Format),
            (Filler::No, Proof::Crc62) if crc62_holds(cut(value, 0, value.len().min(CRC62_LENGTH))) => {
                judged(1.0, Evidence::Checksum)
            }
            (Filler::No, Proof::Crc62) => judged(0.9, Evidence::Format),
            (Filler::No, Proof::Random)
                if is_random(value) && !is_placeholder(value) || holds_secret(value, shortest) =>
            {
                judged(0.8, Evidence::Format)
            }
            (Filler::No, Proof::Random) => None,
        }
    }

    /// Returns whether its prefix is known also right behind `byte`, a letter or digit of another word.
    pub(super) fn may_be_glued(&self, byte: u8) -> bool {
        let prefix = self.prefix().as_bytes();
        let separated = matches!(prefix.last(), Some(b'_' | b'-' | b'.' | b'~' | b':' | b'$' | b'='));
        let shouted = UPPER.all(prefix)
            && (LOWER.has(byte) || byte.is_ascii_digit())
            && matches!(self.parts.get(1), Some(Part::Run(set, ..)) if *set == UPPER_ALNUM);
        self.proof != Proof::Random && prefix.len() >= 4 && (separated || shouted)
    }

    /// Returns the fewest bytes behind the prefix.
    pub(super) fn shortest_value(&self) -> usize {
        let all: usize = self.parts.iter().map(Part::shortest).sum();
        all - self.prefix().len()
    }

    /// Returns the fixed bytes that every token of the format begins with.
    pub(super) fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Lit(literal)) => literal,
            _ => "",
        }
    }
}

/// How long a value with a check sum is; what follows is glued to it.
const CRC62_LENGTH: usize = 36;

/// Returns whether the last six characters are the base 62 form of the CRC-32 of what stands before them.
fn crc62_holds(value: &[u8]) -> bool {
    let Some((random, check)) = value.len().checked_sub(6).and_then(|at| value.split_at_checked(at)) else {
        return false;
    };
    let mut rest = crc32(random);
    check.iter().rev().all(|&b| {
        let digit = rest % 62;
        rest /= 62;
        base62(b) == Some(digit)
    })
}

fn base62(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'A'..=b'Z' => Some(u32::from(byte - b'A') + 10),
        b'a'..=b'z' => Some(u32::from(byte - b'a') + 36),
        _ => None,
    }
}

/// CRC-32 as in IEEE 802.3; inputs here are thirty bytes, so no table is worth its memory.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(
            crc ^ u32::from(byte),
            |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 },
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree as _;

    use super::*;

    #[test]
    fn checksum_of_thirty_characters() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926, "the check value of the CRC catalogue");
        let random = b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5";
        let alphabet = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut rest = crc32(random);
        let mut check = Vec::new();
        for _ in 0..6 {
            check.insert(0, alphabet[rest as usize % 62]);
            rest /= 62;
        }
        let mut token = random.to_vec();
        token.extend(check);
        assert!(crc62_holds(&token));
        token[0] = b'b';
        assert!(!crc62_holds(&token));
    }

    /// A value of the format's shape, with as many bytes as the shortest has and up to so many more in its last run.
    fn value(format: &Format) -> impl Strategy<Value = String> + use<> {
        let runs = format.parts.iter().skip(usize::from(!format.prefix().is_empty()));
        let parts: Vec<BoxedStrategy<String>> = runs
            .map(|part| match part {
                Part::Lit(literal) | Part::Fold(literal) => Just(literal.to_string()).boxed(),
                Part::Run(set, least, most) => {
                    let letters: Vec<char> =
                        (0_u8..128).filter(|byte| set.has(*byte)).map(char::from).collect();
                    let most = (*most).min(least + 12);
                    proptest::collection::vec(proptest::sample::select(letters), *least..=most)
                        .prop_map(String::from_iter)
                        .boxed()
                }
                Part::Maybe(_) => Just(String::new()).boxed(),
            })
            .collect();
        parts.prop_map(|parts| parts.concat())
    }

    /// Words that say that a value is filler, and filler without words.
    const FILLERS: [&str; 8] = [
        "example",
        "toDo",
        "YOUR",
        "xxxx",
        "ChangeMe",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "dummy",
        "0123456789",
    ];

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        /// Filler that is glued to a token, or stands in it, never makes it milder. What is too long for its format then is another matter.
        #[test]
        fn filler_never_hides_a_token(
            (index, value) in (0..formats().len()).prop_flat_map(|index| (Just(index), value(formats()[index]))),
            words in proptest::collection::vec((proptest::sample::select(FILLERS.as_slice()), any::<proptest::sample::Index>()), 1..4),
        ) {
            tokens_stay(formats()[index], &value, &words)?;
        }
    }

    #[test]
    fn filler_hides_no_token_of_any_format() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let words = proptest::collection::vec(
            (proptest::sample::select(FILLERS.as_slice()), any::<proptest::sample::Index>()),
            1..3,
        );
        let mut tried = 0;
        for format in formats() {
            for _ in 0..8 {
                let value = value(format).new_tree(&mut runner).unwrap().current();
                let words = words.new_tree(&mut runner).unwrap().current();
                tried += usize::from(tokens_stay(format, &value, &words).unwrap());
            }
        }
        assert!(tried > formats().len(), "{tried} of {}", formats().len());
    }

    /// The formats that a prefix leads to.
    fn formats() -> Vec<&'static Format> {
        let known = super::super::formats::FORMATS.iter();
        known.filter(|format| matches!(format.search(), Some(Search::Prefix(_)))).collect()
    }

    /// Whether the token with these words is of its format still; then it is as sure as without them.
    fn tokens_stay(
        format: &Format,
        value: &str,
        words: &[(&str, proptest::sample::Index)],
    ) -> Result<bool, TestCaseError> {
        let mut glued = value.to_owned();
        for (word, at) in words {
            glued.insert_str(at.index(glued.len() + 1), word);
        }
        let [plain, glued] = [value, &glued].map(|value| format!("{}{value}", format.prefix()));
        let is_whole = match_at(&format.parts, glued.as_bytes(), 0) == Some(glued.len());
        let Some(before) =
            format.judge(plain.as_bytes(), 0).filter(|_| is_whole && is_random(value.as_bytes()))
        else {
            return Ok(false);
        };
        let after = format.judge(glued.as_bytes(), 0);
        prop_assert!(
            after.is_some_and(|after| after.confidence >= before.confidence.min(0.8)),
            "{}: {} {:?}",
            format.kind,
            glued,
            after
        );
        Ok(true)
    }
}
