//! Payment cards, bank accounts and wallets.

use sha2::{Digest, Sha256};

use super::super::span::Evidence;
use super::super::text::{ALNUM, DIGIT, JOINER, UPPER, at, before, compact, cut, digits, inside_word};
use super::Found;
use crate::checks::{iban as iban_holds, pair, varied_luhn};

/// Lengths of bank account numbers by country, as in the registry of ISO 13616.
const IBAN_LENGTHS: &[u8] = b"AD24AE23AL28AT20AZ28BA20BE16BG22BH22BI27BR29BY28CH21CR22CY28CZ24DE22DJ27DK18DO28EE20EG29ES24FI18FK18FO18FR27GB22GE22GI23GL18GR27GT28HN28HR21HU28IE22IL23IQ23IS26IT27JO30KW30KZ20LB28LC32LI21LT20LU20LV21LY25MC27MD24ME22MK19MN20MR27MT31MU30NI28NL18NO15OM23PK24PL28PS29PT25QA29RO24RS22RU33SA24SC31SD18SE24SI19SK24SM27SO23ST25SV28TL23TN24TR26UA29VA22VG24XK20YE30";

fn iban_length(country: &[u8]) -> Option<usize> {
    let entry = IBAN_LENGTHS
        .chunks(4)
        .find(|entry| entry.get(..2).is_some_and(|code| code.eq_ignore_ascii_case(country)))?;
    usize::try_from(pair(entry, 2)).ok()
}

/// A bank account that begins at `start` with its country, written together or in groups.
pub(super) fn iban(text: &[u8], start: usize) -> Option<Found> {
    let length = iban_length(cut(text, start, start + 2))?;
    let end = take(text, start, length, ALNUM)?;
    let number = compact(cut(text, start, end));
    (iban_holds(&number)).then_some(Found {
        kind: "iban",
        start,
        end,
        confidence: 0.97,
        evidence: Evidence::Checksum,
    })
}

/// Returns the end of `wanted` bytes of `set`, with at most one space, dash or dot between two of them.
fn take(text: &[u8], start: usize, wanted: usize, set: super::super::text::ByteSet) -> Option<usize> {
    let (mut pos, mut taken, mut joined) = (start, 0, true);
    while taken < wanted {
        let byte = at(text, pos);
        if set.has(byte) {
            taken += 1;
            joined = false;
        } else if JOINER.has(byte) && byte != b'/' && !joined {
            joined = true;
        } else {
            return None;
        }
        pos += 1;
    }
    (!inside_word(text, pos) && !continues(text, pos)).then_some(pos)
}

/// Returns whether a number goes on behind a dash or a dot.
fn continues(text: &[u8], end: usize) -> bool {
    matches!(at(text, end), b'-' | b'.') && DIGIT.has(at(text, end + 1))
}

/// A payment card that begins at `start`.
pub(super) fn card(text: &[u8], start: usize) -> Option<Found> {
    if matches!(before(text, start), b'.' | b'-' | b'_') {
        return None;
    }
    let head = pair(text, start);
    let lengths: &[usize] = match head {
        34 | 37 => &[15],
        30 | 36 | 38 | 39 => &[14],
        40..=49 => &[16, 19, 13],
        22..=27 | 35 | 51..=55 | 60 | 64 | 65 => &[16],
        62 => &[16, 19],
        50 | 56..=58 | 63 | 67 => &[16, 18],
        _ => return None,
    };
    lengths.iter().find_map(|&length| {
        let end = take(text, start, length, DIGIT)?;
        let value = cut(text, start, end);
        let grouped = value.iter().filter(|b| !b.is_ascii_digit()).count();
        let even = grouped == 0 || (2..=4).contains(&grouped);
        let number = compact(value);
        (even && varied_luhn(&number)).then_some(Found {
            kind: "payment_card",
            start,
            end,
            confidence: 0.95,
            evidence: Evidence::Checksum,
        })
    })
}

/// A wallet address in the word from `start` to `end`: Bitcoin in both encodings, Ethereum.
pub(super) fn wallet(text: &[u8], start: usize, end: usize) -> Option<Found> {
    let word = cut(text, start, end);
    let found = |evidence, confidence| Found { kind: "crypto_address", start, end, confidence, evidence };
    match word {
        [b'0', b'x', hex @ ..] if hex.len() == 40 && hex.iter().all(u8::is_ascii_hexdigit) => {
            let mixed = hex.iter().any(u8::is_ascii_alphabetic) && digits(hex).count() > 4;
            mixed.then(|| found(Evidence::Format, 0.6))
        }
        [b'b', b'c', b'1', ..] | [b't', b'b', b'1', ..] if bech32(word) => {
            Some(found(Evidence::Checksum, 0.97))
        }
        [b'1' | b'3' | b'm' | b'n' | b'2', ..] if (26..=35).contains(&word.len()) && base58_check(word) => {
            Some(found(Evidence::Checksum, 0.97))
        }
        _ => None,
    }
}

fn bech32(address: &[u8]) -> bool {
    const ALPHABET: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let step = |sum: u32, value: u32| {
        let top = sum >> 25;
        let base = (sum & 0x01ff_ffff) << 5 ^ value;
        GENERATOR
            .iter()
            .enumerate()
            .filter(|(i, _)| top >> i & 1 == 1)
            .fold(base, |sum, (_, word)| sum ^ word)
    };
    let Some((prefix, data)) = address.split_at_checked(3) else { return false };
    if !(14..=74).contains(&address.len()) {
        return false;
    }
    let human = cut(prefix, 0, 2);
    let high = human.iter().map(|&b| u32::from(b >> 5));
    let low = human.iter().map(|&b| u32::from(b & 31));
    let mut sum = high.chain([0]).chain(low).fold(1, step);
    for byte in data {
        let Some(value) = ALPHABET.iter().position(|known| known == byte) else { return false };
        sum = step(sum, u32::try_from(value).unwrap_or(0));
    }
    sum == 1 || sum == 0x2bc8_30a3
}

fn base58_check(address: &[u8]) -> bool {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut number = [0_u32; 25];
    for byte in address {
        let Some(digit) = ALPHABET.iter().position(|known| known == byte) else { return false };
        let mut carry = u32::try_from(digit).unwrap_or(0);
        for slot in number.iter_mut().rev() {
            carry += *slot * 58;
            *slot = carry & 0xFF;
            carry >>= 8;
        }
        if carry != 0 {
            return false;
        }
    }
    let bytes: Vec<u8> = number.iter().map(|&b| u8::try_from(b).unwrap_or(0)).collect();
    let Some((payload, check)) = bytes.split_at_checked(21) else { return false };
    Sha256::digest(Sha256::digest(payload)).starts_with(check)
}

/// A bank's identifier code that ends in a digit, where the text speaks of banks.
pub(super) fn is_bic(word: &[u8]) -> bool {
    matches!(word.len(), 8 | 11) && UPPER.all(cut(word, 0, 6)) && ALNUM.all(word)
}
