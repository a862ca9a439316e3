//! Approval codes that people can type.

use backstop_hooks::ApprovalId;
use uuid::Uuid;

/// No digit or letter that is mistaken for another (0 O, 1 I L, U V).
const ALPHABET: &[u8] = b"23456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 6;

/// A random code, one of 729 million.
pub(crate) fn random_code() -> String {
    let mut entropy = Uuid::new_v4().as_u128() & u128::from(u64::MAX >> 2);
    (0..LENGTH).map(|_| letter(&mut entropy)).collect()
}

fn letter(entropy: &mut u128) -> char {
    let size = ALPHABET.len() as u128;
    let index = usize::try_from(*entropy % size).unwrap_or_default();
    *entropy /= size;
    ALPHABET.get(index).map_or('2', |byte| char::from(*byte))
}

/// A code as it is stored, from what somebody typed.
pub(crate) fn normalize(typed: &str) -> String {
    typed.trim().to_ascii_uppercase()
}

/// A random id. Not ordered by time, so that a few characters already name one.
pub(crate) fn random_id() -> ApprovalId {
    ApprovalId::new(Uuid::new_v4().simple().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_short_plain_and_unlike_each_other() {
        let codes: HashSet<String> = (0..2_000).map(|_| random_code()).collect();
        assert!(codes.len() >= 1_999, "{}", codes.len());
        assert!(codes.iter().all(|code| code.len() == LENGTH && code.bytes().all(|b| ALPHABET.contains(&b))));
        let used: HashSet<char> = codes.iter().flat_map(|code| code.chars()).collect();
        assert_eq!(used.len(), ALPHABET.len(), "every letter is reached");
    }
}
