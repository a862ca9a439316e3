//! A text without the characters that hide in it.
//!
//! A token with an invisible character, or the colour of a terminal, in the middle of it is no token to a detector.
//! To a reader it is one, and taking out what hides would even put it together. So a text with hidden characters is
//! read twice: as it is, and without them.

use super::span::{Class, Span};
use super::text::cut;

/// The text, and where something was left out of it.
#[derive(Debug)]
pub(super) struct Squeezed {
    text: Vec<u8>,
    gaps: Vec<Gap>,
}

/// Something that was left out.
#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Where it was, in the squeezed text.
    at: usize,
    /// How much was left out up to and with this.
    before: usize,
}

impl Squeezed {
    /// `text` without the hidden characters among `found`; `None` where there are none.
    pub(super) fn of(text: &[u8], found: &[Span]) -> Option<Self> {
        let mut hidden: Vec<&Span> = found.iter().filter(|span| is_left_out(span)).collect();
        hidden.sort_by_key(|span| span.start);
        let mut squeezed = Self { text: Vec::with_capacity(text.len()), gaps: Vec::new() };
        let mut done = 0;
        for span in hidden {
            squeezed.text.extend_from_slice(cut(text, done, span.start.max(done)));
            done = span.end.max(done);
            squeezed.gaps.push(Gap { at: squeezed.text.len(), before: done - squeezed.text.len() });
        }
        squeezed.text.extend_from_slice(cut(text, done, text.len()));
        (!squeezed.gaps.is_empty()).then_some(squeezed)
    }

    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// A finding in the squeezed text, as one in the whole.
    pub(super) fn in_whole(&self, span: Span) -> Span {
        Span { start: self.start_in_whole(span.start), end: self.end_in_whole(span.end), ..span }
    }

    /// Where in the whole text what begins at `at` begins.
    fn start_in_whole(&self, at: usize) -> usize {
        at + self.left_out(self.gaps.partition_point(|gap| gap.at <= at))
    }

    /// Where in the whole text what ends at `at` ends.
    pub(super) fn end_in_whole(&self, at: usize) -> usize {
        at + self.left_out(self.gaps.partition_point(|gap| gap.at < at))
    }

    /// Where a place of the whole text is in the squeezed one.
    pub(super) fn place(&self, at: usize) -> usize {
        let gaps = self.gaps.partition_point(|gap| gap.at + gap.before <= at);
        let inside = self.gaps.get(gaps).map_or(usize::MAX, |gap| gap.at);
        (at - self.left_out(gaps)).min(inside)
    }

    fn left_out(&self, gaps: usize) -> usize {
        gaps.checked_sub(1).and_then(|last| self.gaps.get(last)).map_or(0, |gap| gap.before)
    }
}

/// Hosts that mix alphabets are seen, and stay where they are.
fn is_left_out(span: &Span) -> bool {
    span.class == Class::Hidden && span.kind != "homoglyph_host"
}

#[cfg(test)]
mod tests {
    use super::super::span::Evidence;
    use super::*;

    fn hidden(start: usize, end: usize) -> Span {
        let evidence = Evidence::Format;
        Span { class: Class::Hidden, kind: "zero_width", start, end, confidence: 0.8, evidence }
    }

    #[test]
    fn places_are_found_again() {
        let squeezed = Squeezed::of(b"ab..cd...e", &[hidden(6, 9), hidden(2, 4)]).unwrap();
        assert_eq!(squeezed.text(), b"abcde");
        let starts: Vec<usize> = (0..=5).map(|at| squeezed.start_in_whole(at)).collect();
        assert_eq!(starts, [0, 1, 4, 5, 9, 10]);
        let ends: Vec<usize> = (0..=5).map(|at| squeezed.end_in_whole(at)).collect();
        assert_eq!(ends, [0, 1, 2, 5, 6, 10]);
        let places: Vec<usize> = (0..=10).map(|at| squeezed.place(at)).collect();
        assert_eq!(places, [0, 1, 2, 2, 2, 3, 4, 4, 4, 4, 5]);
        assert!(Squeezed::of(b"abc", &[]).is_none());
    }
}
