//! Values without a distinctive format, found by the name of their issuer before them: `acme_id = "1201..."`.
//!
//! A match is the issuer's name, then at most a few more words of the same name, an operator or a blank, and a value of
//! exactly one of the shapes that this issuer gives out. Paths, sentences and other lines in between rule it out.

use std::borrow::Cow;

use aho_corasick::{AhoCorasick, MatchKind};

use super::format::Format;
use super::quality::{Filler, filler};
use crate::span::{Class, Evidence, Span};
use crate::template::{Part, match_at};
use crate::text::{ALNUM, ByteSet, DIGIT, DOT, EQUALS, LETTER, LOWER, PLUS_SLASH, URL64, at, before, cut};

/// How far before a value the name of its issuer may begin, in bytes.
const REACH: usize = 56;
/// The longest value that is read, in bytes.
const LONGEST: usize = 160;
/// The most words between the name and the value.
const MOST_WORDS: usize = 4;
/// What values are made of.
const VALUE: ByteSet = URL64.or(PLUS_SLASH).or(DOT);

/// The words of all formats that need one.
#[derive(Debug)]
pub(super) struct Worded {
    words: AhoCorasick,
    /// The formats that go with each word, as places in the list of formats.
    formats: Vec<Vec<usize>>,
    /// The length of the shortest value, in bytes.
    shortest: usize,
}

impl Worded {
    /// Returns the words of `formats`; `None` where no format needs one.
    pub(super) fn of(formats: &[Format]) -> Option<Self> {
        let mut words: Vec<Cow<'static, str>> = Vec::new();
        let mut of_word: Vec<Vec<usize>> = Vec::new();
        for (index, format) in formats.iter().enumerate() {
            for word in format.words.iter() {
                match words.iter().position(|known| known == word).and_then(|known| of_word.get_mut(known)) {
                    Some(known) => known.push(index),
                    None => {
                        words.push(word.clone());
                        of_word.push(vec![index]);
                    }
                }
            }
        }
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::LeftmostLongest).ascii_case_insensitive(true);
        let any = !words.is_empty();
        let words = any.then(|| builder.build(words.iter().map(|word| word.as_bytes())).ok())??;
        let worded = formats.iter().filter(|format| !format.words.is_empty());
        let shortest = worded.map(|format| format.parts.iter().map(Part::shortest).sum()).min().unwrap_or(0);
        Some(Self { words, formats: of_word, shortest })
    }

    /// Returns the value whose first digit stands at `digit`.
    pub(super) fn around_digit(&self, formats: &[Format], text: &[u8], digit: usize) -> Option<Span> {
        let start = VALUE.run_back(text, digit, LONGEST);
        let long = VALUE.run(text, digit, self.shortest) >= start + self.shortest;
        if !long || cut(text, start, digit).iter().any(|&b| DIGIT.has(b)) {
            return None;
        }
        let candidates = self.named(text, start);
        candidates.filter_map(|index| formats.get(index)).find_map(|format| {
            let end = match_at(&format.parts, text, start)?;
            let value = cut(text, start, end);
            let closed = !VALUE.or(EQUALS).has(at(text, end));
            (closed && filler(value, format.shortest_value()) == Filler::No && DIGIT.count(value) > 1)
                .then_some(Span {
                    class: Class::Secret,
                    kind: format.kind,
                    start,
                    end,
                    confidence: 0.6,
                    evidence: Evidence::Context,
                })
        })
    }

    /// Returns where a value begins that text which has not arrived may complete.
    pub(super) fn open(&self, text: &[u8]) -> Option<usize> {
        let start = VALUE.or(EQUALS).run_back(text, text.len(), LONGEST + 1);
        let begun = start < text.len() && text.len() - start <= LONGEST;
        // What is joined to a name by `=` is read from behind it.
        let start =
            start + cut(text, start, text.len()).iter().rposition(|&b| b == b'=').map_or(0, |sign| sign + 1);
        (begun && self.named(text, start).next().is_some()).then_some(start)
    }

    /// Returns the formats of the issuers that are named in front of a value at `start`.
    fn named<'t>(&'t self, text: &'t [u8], start: usize) -> impl Iterator<Item = usize> + 't {
        let from = start.saturating_sub(REACH);
        let hits = self.words.find_iter(cut(text, from, start));
        let named = hits.filter(move |hit| {
            let (first, end) = (from + hit.start(), from + hit.end());
            let camel = LOWER.has(before(text, first)) && at(text, first).is_ascii_uppercase();
            let goes_on =
                LOWER.has(at(text, end)) || LETTER.has(at(text, end)) && !LOWER.has(before(text, end));
            (!LETTER.has(before(text, first)) || camel) && !goes_on && joins(cut(text, end, start))
        });
        named.filter_map(|hit| self.formats.get(hit.pattern().as_usize())).flatten().copied()
    }
}

/// Returns whether what stands between a name and a value makes one the other's.
fn joins(between: &[u8]) -> bool {
    let allowed = |b: &u8| ALNUM.has(*b) || b"_-. \t\"':=>()[]|,".contains(b);
    let words = between.split(|b| !ALNUM.has(*b)).filter(|word| !word.is_empty()).count();
    let parted = between.iter().any(|b| b" \t=:>\"'(|".contains(b));
    let address = between.windows(2).any(|pair| pair == b".c" || pair == b".i" || pair == b".n");
    between.iter().all(allowed) && words <= MOST_WORDS && parted && !address
}
