//! Whether a process that started was predicted.

use crate::pattern;
use crate::trace::Process;
use crate::word::{Argument, Certainty, has_hole, unglob};

/// What stands between words while they are looked at together.
const BETWEEN: &str = "\u{1}";

impl Process {
    /// Returns whether every word is known.
    pub fn is_known(&self) -> bool {
        !self.open_ended && self.argv.iter().all(|word| word.certainty() == Certainty::Known)
    }

    /// Returns whether a process with exactly these words may be this one: known words are equal, a pattern stands for
    /// any number of words that it matches, and an unknown word stands for anything.
    pub fn may_be(&self, words: &[&str]) -> bool {
        self.rest_may_be(&self.argv, words)
    }

    fn rest_may_be(&self, foreseen: &[Argument], words: &[&str]) -> bool {
        let Some((first, rest)) = foreseen.split_first() else { return words.is_empty() || self.open_ended };
        if first.certainty() == Certainty::Known {
            return words
                .split_first()
                .is_some_and(|(word, words)| is_same(first.raw(), word) && self.rest_may_be(rest, words));
        }
        (0..=words.len()).any(|count| {
            words
                .split_at_checked(count)
                .is_some_and(|(these, words)| stands_for(first.raw(), these) && self.rest_may_be(rest, words))
        })
    }
}

/// Returns whether a word that is not fully known may have become these.
fn stands_for(word: &str, these: &[&str]) -> bool {
    if has_hole(word) {
        return pattern::matches(word, &these.join(BETWEEN));
    }
    these.iter().all(|one| pattern::matches(word, one)) || these == [unglob(word).as_ref()]
}

/// Returns whether two words are the same; which descriptor a `<(...)` gets is the shell's affair.
fn is_same(foreseen: &str, word: &str) -> bool {
    let descriptor = |text: &str| {
        let number = text.strip_prefix("/dev/fd/").or_else(|| text.strip_prefix("/proc/self/fd/"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    foreseen == word || foreseen.starts_with("/dev/fd/1") && descriptor(foreseen) && descriptor(word)
}
