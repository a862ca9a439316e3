//! Base64 that only its maker opens: signatures, encrypted reasoning, pictures.
//!
//! Such a text is no text, and in enough random letters a short format turns up by chance: to take that out would break what is sealed.
//! So a seal passes as it is, and a seal is what *can* be one: Base64 in one alphabet, that is no token as a whole, and in which
//! nothing stands that chance does not put there. What chance puts there is counted: each fixed letter of a format is one of 64, each
//! letter of a smaller alphabet less, a check sum that holds is one of two thousand million; and the longer a text is, the more places
//! it has. A token behind a few letters of Base64 is found by that.
//!
//! Limits: in a long text (a picture) a token with three or four fixed letters and no check sum is not told from chance. What stands
//! inside of the sealed bytes nobody here sees.

use crate::Redactor;
use crate::secrets::Search;
use crate::span::{Class, Evidence, Span};
use crate::text::{ALNUM, DIGIT, LOWER_ALNUM, UPPER_ALNUM, before, cut};

/// Base64 that is longer is no token as a whole: formats of tokens that long have dots or lines.
const LONGEST_TOKEN: usize = 1_024;
/// By chance a token is found in one of so many seals, as a power of two.
const RARE: u32 = 20;
/// What a letter of Base64 says, in hundredths of a bit.
const LETTER: u32 = 600;
/// What a border in front of a token says: two letters of 64 are none of a word.
const BORDER: u32 = 500;
/// What a check sum of six letters says.
const CHECKSUM: u32 = 3_100;

impl Redactor {
    /// Whether a text is Base64 that only its maker opens, as far as can be seen from outside. Nothing is to be taken out of it then.
    #[must_use]
    pub fn is_seal(&self, text: &str) -> bool {
        let letters = text.trim_end_matches('=');
        if !is_base64(text, letters) {
            return false;
        }
        let acts = |span: &Span| self.policy.action(span).is_some();
        let covers =
            |span: &Span| letters.len() <= LONGEST_TOKEN && span.start == 0 && span.end >= letters.len();
        let chance = (RARE + letters.len().max(1).ilog2() + 1) * 100;
        let is_meant =
            |span: &Span| span.class == Class::Secret && self.scanner.surprise(text, span) >= chance;
        let found = self.scanner.whole(text);
        !found.iter().filter(|span| acts(span)).any(|span| covers(span) || is_meant(span))
    }
}

impl crate::Scanner {
    /// How little a finding in random Base64 is to be expected at one place, in hundredths of a bit.
    fn surprise(&self, text: &str, span: &Span) -> u32 {
        let (bytes, mut known, mut most) = (text.as_bytes(), false, 0);
        let formats = self.secrets().flat_map(crate::secrets::Secrets::formats);
        for format in formats.filter(|format| format.kind == span.kind) {
            known = true;
            let value = cut(bytes, span.start, span.end);
            let fixed = match format.search() {
                Some(Search::Prefix(prefix)) if value.starts_with(prefix.as_bytes()) => prefix.len(),
                // It was glued to a word: the value is what stands behind.
                Some(Search::Prefix(prefix)) if cut(bytes, 0, span.start).ends_with(prefix.as_bytes()) => {
                    most = most.max(bits_of(prefix.len()) + bits_of_run(value));
                    continue;
                }
                Some(Search::Mark(inner)) => inner.mark.len(),
                Some(Search::Prefix(_) | Search::Words) | None => continue,
            };
            let run = cut(value, fixed.min(value.len()), value.len());
            let border = if ALNUM.has(before(bytes, span.start)) { 0 } else { BORDER };
            most = most.max(bits_of(fixed) + bits_of_run(run) + border);
        }
        let is_checked = span.evidence == Evidence::Checksum;
        match (known, span.evidence) {
            (true, _) => most + if is_checked { CHECKSUM } else { 0 },
            // A key block, or a token that is known by its structure.
            (false, Evidence::Format | Evidence::Checksum) => u32::MAX,
            (false, Evidence::Context | Evidence::Assignment | Evidence::Alone) => 0,
        }
    }
}

fn bits_of(fixed: usize) -> u32 {
    u32::try_from(fixed).unwrap_or(u32::MAX).saturating_mul(LETTER)
}

/// What it says of a run of letters that all of them are of a smaller alphabet than Base64.
fn bits_of_run(run: &[u8]) -> u32 {
    let each = match run {
        [] => 0,
        run if DIGIT.all(run) => 268,
        run if run.iter().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte)) => 200,
        run if LOWER_ALNUM.all(run) || UPPER_ALNUM.all(run) => 83,
        run if ALNUM.all(run) => 4,
        _ => 0,
    };
    u32::try_from(run.len()).unwrap_or(u32::MAX).saturating_mul(each)
}

/// Whether a text, whose letters stand in front of its padding, is Base64 in one of the two alphabets.
fn is_base64(text: &str, letters: &str) -> bool {
    let is_of =
        |signs: [u8; 2]| letters.bytes().all(|byte| byte.is_ascii_alphanumeric() || signs.contains(&byte));
    let padding = text.len() - letters.len();
    let fits = match letters.len() % 4 {
        0 => padding == 0,
        1 => false,
        rest => padding == 0 || padding == 4 - rest,
    };
    fits && (is_of([b'+', b'/']) || is_of([b'-', b'_']))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::{Action, Policy, Scanner};

    fn redactor() -> Redactor {
        Redactor::new(Arc::new(Scanner::new()), Policy::new(Action::Redact))
    }

    const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /// Random letters in one of the alphabets.
    fn letters(numbers: &[u8], is_for_urls: bool) -> String {
        let letter = |number: &u8| char::from(STANDARD[usize::from(*number % 64)]);
        let text: String = numbers.iter().map(letter).collect();
        if is_for_urls { text.replace('+', "-").replace('/', "_") } else { text }
    }

    /// Tokens as their issuers make them, put together here so that no file holds one.
    fn tokens(is_for_urls: bool) -> Vec<String> {
        let key = ["AK", "IA", "Q3X7M2ZK9T4VWB6R"].concat();
        let token = ["gh", "p_", "x7Kq2Lm9Rt4Vw8Zp3Nc6Bd1Fg5Hj0Qs7Yt2W"].concat();
        if is_for_urls { vec![key, token] } else { vec![key] }
    }

    #[test]
    fn what_is_no_base64_is_no_seal() {
        for text in ["not sealed", "a.b", "AAA+BBB_", "AAAAA", "AA=", "AAAA=", "A===", "=", "AB==CD=="] {
            assert!(!redactor().is_seal(text), "{text}");
        }
        for text in ["", "c2lnbmF0dXJl", "ZW5j", "aGk=", "aGk", "QQ==", "A-_9A-_9", "a+/ba+/b"] {
            assert!(redactor().is_seal(text), "{text}");
        }
    }

    #[test]
    fn a_token_as_a_whole_is_no_seal() {
        for token in tokens(true) {
            assert!(!redactor().is_seal(&token));
        }
    }

    #[test]
    fn a_key_in_base64_is_no_seal() {
        let key = ["LS0tLS1CRUdJTi", "BQUklWQVRFIEtFWS0tLS0t"].concat();
        let text = format!("{key}{}", "Qk9EWWJvZHlCT0RZ".repeat(20));
        assert!(!redactor().is_seal(&text), "{text}");
    }

    proptest! {
        #[test]
        fn random_base64_is_a_seal(numbers in proptest::collection::vec(any::<u8>(), 0..4_000), is_for_urls in any::<bool>()) {
            let text = letters(&numbers[..numbers.len() / 4 * 4], is_for_urls);
            prop_assert!(redactor().is_seal(&text));
        }

        /// However much Base64 stands around it.
        #[test]
        fn a_token_behind_base64_is_found(
            head in proptest::collection::vec(any::<u8>(), 0..60),
            tail in proptest::collection::vec(any::<u8>(), 0..60),
            is_for_urls in any::<bool>(),
        ) {
            let border = if is_for_urls { '-' } else { '/' };
            let head = letters(&head, is_for_urls);
            for token in tokens(is_for_urls) {
                let mut text = format!("{head}{border}{token}{border}{}", letters(&tail, is_for_urls));
                while text.len() % 4 != 0 {
                    text.push('A');
                }
                prop_assert!(!redactor().is_seal(&text));
                // In the letters of one alphabet a sign of the other is none.
                let mixed = format!("AAAA/{token}-AAAA");
                prop_assert!(!redactor().is_seal(&mixed));
            }
        }
    }
}
