//! A prefilter: most words are in no table of names, and this rules them out without a lookup.

/// The lengths of names that begin with a byte, as bits; all lengths from the last on share one.
#[derive(Debug, Clone)]
pub(super) struct Sieve([u64; 256]);

/// The length whose bit stands for longer names as well.
const LONGEST: usize = 63;

impl Default for Sieve {
    fn default() -> Self {
        Self([0; 256])
    }
}

impl Sieve {
    /// One that lets these names through.
    pub(super) fn of(names: &[&str]) -> Self {
        let mut sieve = Self::default();
        names.iter().for_each(|name| sieve.add(name));
        sieve
    }

    /// Lets a name through.
    pub(super) fn add(&mut self, name: &str) {
        if let Some(lengths) = self.0.get_mut(first(name)) {
            *lengths |= 1 << name.len().min(LONGEST);
        }
    }

    /// Returns whether the word may be one of the names. No name is held back.
    pub(super) fn lets_through(&self, word: &str) -> bool {
        self.0.get(first(word)).is_some_and(|lengths| lengths >> word.len().min(LONGEST) & 1 == 1)
    }
}

fn first(word: &str) -> usize {
    word.bytes().next().map_or(0, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_is_held_back_and_most_words_are() {
        let long = "x".repeat(200);
        let names = [".git", "target", "", "\u{e9}t\u{e9}", &long];
        let sieve = Sieve::of(&names);
        assert!(names.iter().all(|name| sieve.lets_through(name)));
        assert!(["a", ".gitt", "targe", "x"].iter().all(|word| !sieve.lets_through(word)));
    }
}
