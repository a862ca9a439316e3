//! Where random decisions come from: a seed, or the decisions of an earlier run.
//!
//! Every decision is a number below a bound, and 0 is always the simplest. So a program is as good as the list of the
//! decisions that made it, and a shorter list, or one with smaller numbers, makes a simpler program.

/// A source of decisions that remembers what it gave.
#[derive(Debug)]
pub(crate) struct Choices {
    state: u64,
    given: Vec<u32>,
    replay: Option<Vec<u32>>,
}

impl Choices {
    /// Decisions from a seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed, given: Vec::new(), replay: None }
    }

    /// The decisions of this list; the simplest ones behind its end.
    pub(crate) fn replayed(list: Vec<u32>) -> Self {
        Self { state: 0, given: Vec::new(), replay: Some(list) }
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u32::try_from(bound.max(1)).unwrap_or(u32::MAX);
        let number = match &self.replay {
            Some(list) => list.get(self.given.len()).copied().unwrap_or(0).min(bound - 1),
            None => u32::try_from(self.next() % u64::from(bound)).unwrap_or(0),
        };
        self.given.push(number);
        usize::try_from(number).unwrap_or(0)
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    /// One of these.
    pub(crate) fn one<'a>(&mut self, all: &[&'a str]) -> &'a str {
        let at = self.below(all.len());
        all.get(at).copied().unwrap_or_default()
    }

    /// What was decided so far.
    pub(crate) fn into_given(self) -> Vec<u32> {
        self.given
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
