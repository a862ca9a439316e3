//! What one published token format looks like, and how a candidate for it is judged.

use super::super::span::Evidence;
use super::super::template::{Part, match_at};
use super::super::text::{ALNUM, before, cut};
use super::quality::{is_filler, is_placeholder, is_random};

/// Something that a match has to fulfil besides its shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// The prefix says enough.
    Prefix,
    /// The last six characters may be a CRC-32 of the thirty before, written in base 62.
    Crc62,
    /// The prefix is short or an ordinary word: the rest has to look random.
    Random,
}

/// A published token format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Format {
    pub(super) kind: &'static str,
    pub(super) parts: &'static [Part],
    pub(super) proof: Proof,
}

impl Format {
    /// The token of this format that begins at `from`: its end, confidence and evidence.
    pub(super) fn judge(&self, text: &[u8], from: usize) -> Option<(usize, f32, Evidence)> {
        if ALNUM.has(before(text, from)) {
            return None;
        }
        let end = match_at(self.parts, text, from)?;
        let value = cut(text, from + self.prefix().len(), end);
        if is_filler(value) {
            return None;
        }
        match self.proof {
            Proof::Prefix => Some((end, 0.95, Evidence::Format)),
            Proof::Crc62 if crc62_holds(value) => Some((end, 1.0, Evidence::Checksum)),
            Proof::Crc62 => Some((end, 0.9, Evidence::Format)),
            Proof::Random => {
                (is_random(value) && !is_placeholder(value)).then_some((end, 0.8, Evidence::Format))
            }
        }
    }

    /// The fixed bytes that every token of the format begins with.
    pub(super) fn prefix(&self) -> &'static str {
        match self.parts.first() {
            Some(Part::Lit(literal)) => literal,
            _ => "",
        }
    }
}

/// Whether the last six characters are the base 62 form of the CRC-32 of what stands before them.
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
