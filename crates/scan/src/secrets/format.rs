//! The shape of one published token format, and how a candidate for it is judged.

use std::borrow::Cow;

use super::quality::{Filler, filler, is_placeholder, is_random};
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
        match (filler(value), self.proof) {
            (Filler::Words, _) | (Filler::Repeated, Proof::Random) => None,
            (Filler::Repeated, _) => judged(ONLY_SHAPED, Evidence::Format),
            (Filler::No, Proof::Prefix) => judged(0.95, Evidence::Format),
            (Filler::No, Proof::Crc62) if crc62_holds(cut(value, 0, value.len().min(CRC62_LENGTH))) => {
                judged(1.0, Evidence::Checksum)
            }
            (Filler::No, Proof::Crc62) => judged(0.9, Evidence::Format),
            (Filler::No, Proof::Random) if is_random(value) && !is_placeholder(value) => {
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
}
