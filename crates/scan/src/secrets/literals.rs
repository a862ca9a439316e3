//! Looks for literals in a text: the leftmost, of those the longest, without overlaps.
//!
//! Vector instructions find the beginnings of literals, up to 64 of them, and there are more literals than that. So what is searched for
//! is the first bytes of each literal ([`STEM`]), which many share, and only where they stand is looked at the literals.
//!
//! Law: it finds what a search for the literals themselves would find.

use aho_corasick::{AhoCorasick, MatchKind};

/// How many bytes of a literal are searched for.
const STEM: usize = 3;

/// Literals that are searched for at once.
#[derive(Debug)]
pub(super) struct Literals {
    stems: AhoCorasick,
    /// By their first byte, the longest first; each with its number.
    by_first: Vec<Vec<(usize, Box<[u8]>)>>,
}

/// A literal in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hit {
    /// The number of the literal, which is its place among all.
    pub(super) literal: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Literals {
    /// `None` if the tables would be too large. Empty literals are not searched for, and of equal ones the first counts.
    pub(super) fn of(literals: &[String]) -> Option<Self> {
        let mut stems: Vec<&[u8]> = Vec::new();
        let mut by_first: Vec<Vec<(usize, Box<[u8]>)>> = vec![Vec::new(); 256];
        for (number, literal) in literals.iter().enumerate() {
            let bytes = literal.as_bytes();
            let Some(first) = bytes.first() else { continue };
            stems.push(bytes.get(..STEM).unwrap_or(bytes));
            if let Some(same) = by_first.get_mut(usize::from(*first)) {
                same.push((number, Box::from(bytes)));
            }
        }
        by_first.iter_mut().for_each(|same| same.sort_by_key(|(_, bytes)| std::cmp::Reverse(bytes.len())));
        stems.sort_unstable();
        stems.dedup();
        let stems = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(stems).ok()?;
        Some(Self { stems, by_first })
    }

    /// Returns all hits in `text`, in order.
    pub(super) fn find<'t>(&'t self, text: &'t [u8]) -> impl Iterator<Item = Hit> + 't {
        // Behind the last hit.
        let mut free = 0;
        self.stems.find_iter(text).flat_map(move |stem| {
            let (mut at, end) = (free.max(stem.start()), stem.end());
            // A stem may overlap with the one of another literal, which is not found on its own then.
            let hits: [Option<Hit>; STEM] = std::array::from_fn(|_| {
                let hit = (at..end).find_map(|place| self.at(text, place));
                at = hit.map_or(end, |hit| hit.end);
                free = free.max(hit.map_or(0, |hit| hit.end));
                hit
            });
            hits.into_iter().flatten()
        })
    }

    /// Returns the longest literal that begins at `start`.
    fn at(&self, text: &[u8], start: usize) -> Option<Hit> {
        let rest = text.get(start..)?;
        let candidates = self.by_first.get(usize::from(*rest.first()?))?;
        let (number, literal) = candidates.iter().find(|(_, literal)| rest.starts_with(literal))?;
        Some(Hit { literal: *number, start, end: start + literal.len() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_finds_what_a_search_for_the_literals_finds(
            literals in prop::collection::vec("[ab-]{1,6}", 1..40),
            text in "[abc-]{0,60}",
        ) {
            let search = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&literals).unwrap();
            let usual: Vec<_> = search
                .find_iter(&text)
                .map(|hit| (literals[hit.pattern().as_usize()].clone(), hit.start(), hit.end()))
                .collect();
            let found: Vec<_> = Literals::of(&literals)
                .unwrap()
                .find(text.as_bytes())
                .map(|hit| (literals[hit.literal].clone(), hit.start, hit.end))
                .collect();
            prop_assert_eq!(found, usual);
        }
    }

    #[test]
    fn of_equal_literals_the_first_counts_and_an_empty_one_is_nowhere() {
        let literals = ["", "ab", "ab"].map(str::to_owned);
        let hits: Vec<_> = Literals::of(&literals).unwrap().find(b"xab").collect();
        assert_eq!(hits, [Hit { literal: 1, start: 1, end: 3 }]);
        assert_eq!(Literals::of(&[]).unwrap().find(b"xab").count(), 0);
    }
}
