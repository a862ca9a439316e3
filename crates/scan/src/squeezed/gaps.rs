//! Where a squeezed text differs from what was written, in little memory.
//!
//! A text may be made of nothing but escapes of three bytes. So what is kept of each is the distance to the one before and how
//! much it leaves out, in two bytes where both are small, and one in [`APART`] is kept whole. Finding a place is a search among
//! those and a walk of at most [`APART`] more. What is kept, with the
//! squeezed text itself, is at most twice as long as the text.

/// After how many gaps one is kept whole.
const APART: usize = 64;

/// Something that was left out, or more bytes than the one that stands for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// Where it is in the squeezed text: before this byte, or, of what one byte stands for, at it.
    pub(super) at: usize,
    /// Whether a byte stands for it.
    pub(super) stands: bool,
    /// How much was left out up to and with this.
    pub(super) before: usize,
    /// Where it ends in the whole text.
    pub(super) end: usize,
}

impl Gap {
    /// Its place among the bytes and the boundaries between them.
    pub(super) fn rank(&self) -> usize {
        2 * self.at + usize::from(self.stands)
    }
}

/// Gaps, in the order of the text.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// The first of every [`APART`], and where the others behind it begin.
    whole: Vec<(Gap, usize)>,
    /// What the others have more than the one before: how much was left out, and the distance with whether a byte stands.
    more: Vec<u8>,
    last: Option<Gap>,
    count: usize,
}

impl Gaps {
    pub(super) fn push(&mut self, gap: Gap) {
        match self.last.filter(|_| !self.count.is_multiple_of(APART)) {
            None => self.whole.push((gap, self.more.len())),
            Some(last) => {
                number(&mut self.more, gap.before - last.before);
                number(&mut self.more, 2 * (gap.at - last.at) + usize::from(gap.stands));
            }
        }
        self.last = Some(gap);
        self.count += 1;
    }

    /// The last gap of those at the beginning that are `within`.
    pub(super) fn last(&self, within: impl Fn(&Gap) -> bool) -> Option<Gap> {
        self.around(within).0
    }

    /// The last gap of those at the beginning that are `within`, and the first that is not.
    pub(super) fn around(&self, within: impl Fn(&Gap) -> bool) -> (Option<Gap>, Option<Gap>) {
        let behind = self.whole.partition_point(|(gap, _)| within(gap));
        let next = self.whole.get(behind).map(|(gap, _)| *gap);
        let Some((first, from)) = behind.checked_sub(1).and_then(|index| self.whole.get(index)) else {
            return (None, next);
        };
        let end = self.whole.get(behind).map_or(self.more.len(), |(_, begin)| *begin);
        let mut rest = self.more.get(*from..end).unwrap_or_default();
        let mut last = *first;
        while let Some(gap) = after(&last, &mut rest) {
            if !within(&gap) {
                return (Some(last), Some(gap));
            }
            last = gap;
        }
        (Some(last), next)
    }

    /// How much memory they take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.whole.len() * size_of::<(Gap, usize)>() + self.more.len()
    }
}

/// The gap behind `last`, which is taken from what stands there.
fn after(last: &Gap, rest: &mut &[u8]) -> Option<Gap> {
    let before = last.before + taken(rest)?;
    let distance = taken(rest)?;
    let (at, stands) = (last.at + distance / 2, distance % 2 == 1);
    Some(Gap { at, stands, before, end: at + before + usize::from(stands) })
}

/// Writes a number, seven bits to a byte.
fn number(to: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        to.push(u8::try_from(value % 0x80).unwrap_or_default() | 0x80);
        value /= 0x80;
    }
    to.push(u8::try_from(value).unwrap_or_default());
}

fn taken(from: &mut &[u8]) -> Option<usize> {
    let mut value = 0;
    for shift in (0..usize::BITS).step_by(7) {
        let (first, rest) = from.split_first()?;
        *from = rest;
        value |= usize::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
