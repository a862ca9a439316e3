//! Personal data: what points to a person.
//!
//! Every detector here starts from a digit or an `@` and looks at the word around it and at the few
//! groups after it. Check digits decide where a kind has them; otherwise the words nearby decide whether a
//! number is more than a number. A text that contains nothing but an identifier (a form field, a table cell) is
//! judged by its shape, with a confidence below what a policy acts on by default.
//!
//! Names and postal addresses of persons are not found: without a language model the false alarms would
//! outnumber the findings.

mod contact;
mod money;
mod national;
mod net;

use super::Scope;
use super::span::{Class, Evidence, Span};
use crate::template::match_at;
use crate::text::{ALNUM, DIGIT, JOINER, LETTER, LOWER, UPPER, at, before, compact, cut, inside_word};
use national::BUILT_IN;

pub(crate) use national::{Needs, Number, Numbers};

/// The longest text that may be taken for a lone identifier, in bytes.
pub(super) const LONGEST_ALONE: usize = 80;
/// How far before and behind a number the words that name it may stand, in bytes.
pub(super) const CONTEXT: (usize, usize) = (96, 40);

/// A finding of a detector of personal data.
#[derive(Clone, Debug)]
struct Found {
    kind: &'static str,
    start: usize,
    end: usize,
    confidence: f32,
    evidence: Evidence,
}

impl From<Found> for Span {
    fn from(found: Found) -> Self {
        let Found { kind, start, end, confidence, evidence } = found;
        Self { class: Class::Pii, kind, start, end, confidence, evidence }
    }
}

/// Where numbers are looked up: what comes with the crate, and what an operator added.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tables<'t> {
    pub(crate) own: Option<&'t Numbers>,
}

impl<'t> Tables<'t> {
    fn all(self) -> impl Iterator<Item = &'t Numbers> {
        std::iter::once(&*BUILT_IN).chain(self.own)
    }
}

/// The mail address around the `@` at `sign`.
pub(super) fn at_sign(text: &[u8], sign: usize, found: &mut Vec<Span>) {
    found.extend(contact::email(text, sign).map(Span::from));
}

/// Returns whether `text` holds nothing but identifiers and the short words between them.
pub(super) fn is_alone(text: &[u8]) -> bool {
    text.len() <= LONGEST_ALONE
        && text
            .split(u8::is_ascii_whitespace)
            .all(|word| word.len() <= 3 || word.iter().any(u8::is_ascii_digit))
}

/// What can be said only about a brief text as a whole.
pub(super) fn whole(text: &[u8], found: &mut Vec<Span>) {
    found.extend(contact::lone_link(text).map(Span::from));
}

/// Returns whether one of `words` stands near the value from `start` to `end`.
fn named_nearby<W: AsRef<str>>(text: &[u8], start: usize, end: usize, words: &[W]) -> bool {
    let front = cut(text, start.saturating_sub(CONTEXT.0), start);
    let back = cut(text, end, (end + CONTEXT.1).min(text.len()));
    let words = || words.iter().map(|word| word.as_ref().as_bytes());
    words().any(|word| holds_word(front, word) || holds_word(back, word))
}

fn holds_word(text: &[u8], word: &[u8]) -> bool {
    let short = word.len() <= 4;
    text.windows(word.len()).enumerate().any(|(i, window)| {
        window.eq_ignore_ascii_case(word)
            && (!short || !LETTER.has(before(text, i)) && !LETTER.has(at(text, i + word.len())))
    })
}

/// The personal data that the run of digits from `digit` is a part of.
pub(super) fn at_digit(text: &[u8], digit: usize, scope: Scope, tables: Tables<'_>, found: &mut Vec<Span>) {
    let word = ALNUM.run_back(text, digit, 40);
    let end = DIGIT.run(text, digit, 64);
    let follows_digit = word < digit && cut(text, word, digit).iter().any(u8::is_ascii_digit);
    addresses(text, digit, word, end, found);
    found.extend(contact::encoded_email(text, digit).map(Span::from));
    if follows_digit {
        return;
    }
    let count = field_digits(text, digit);
    if word == digit {
        numbers(text, digit, count, scope, tables, found);
    } else {
        lettered(text, word, count, scope, tables, found);
    }
    for start in group_starts(text, word) {
        lettered(text, start, count, scope, tables, found);
    }
}

fn addresses(text: &[u8], digit: usize, word: usize, end: usize, found: &mut Vec<Span>) {
    let next = at(text, end);
    if next == b'.' && DIGIT.has(at(text, end + 1)) {
        found.extend(net::v4(text, digit).map(Span::from));
    }
    let after = at(text, ALNUM.run(text, end, 8));
    if after == b':' || before(text, word) == b':' {
        found.extend(net::v6(text, digit).map(Span::from));
    }
    if matches!(after, b':' | b'-' | b'.') {
        found.extend(net::mac(text, word).map(Span::from));
    }
}

/// Returns how many digits stand in the groups from `start` on.
fn field_digits(text: &[u8], start: usize) -> usize {
    let mut joined = false;
    let mut count = 0;
    for &byte in cut(text, start, (start + 40).min(text.len())) {
        if matches!(byte, b'(' | b')' | b'+') {
            continue;
        }
        let joiner = JOINER.has(byte);
        if DIGIT.has(byte) {
            count += 1;
        } else if !ALNUM.has(byte) && (!joiner || joined) {
            break;
        }
        joined = joiner;
    }
    count
}

fn numbers(text: &[u8], start: usize, count: usize, scope: Scope, tables: Tables<'_>, found: &mut Vec<Span>) {
    if count >= 5 {
        found.extend(contact::date(text, start, scope.brief).map(Span::from));
    }
    if count >= 7 {
        found.extend(contact::phone(text, start).map(Span::from));
    }
    if count >= 13 {
        found.extend(money::card(text, start).map(Span::from));
    }
    let word_end = ALNUM.run(text, start, 80);
    if word_end - start >= 26 {
        found.extend(money::wallet(text, start, word_end).map(Span::from));
    }
    let short = count < 7;
    if short && !scope.alone && !follows_name(text, start) {
        return;
    }
    let glued =
        matches!(before(text, start), b'.' | b'-' | b'_' | b'/') && ALNUM.has(before(text, start - 1));
    if !glued {
        let by_digit = tables.all().flat_map(|numbers| &numbers.by_digit);
        found.extend(by_digit.filter_map(|number| judge(number, text, start)).map(Span::from));
    }
    if scope.alone {
        found.extend(shaped(tables, text, start));
    }
}

/// Returns whether a word and at most a little punctuation stand before a short number, as in `CVV: 123`.
fn follows_name(text: &[u8], start: usize) -> bool {
    let mut pos = start;
    while pos > 0 && start - pos < 3 && matches!(before(text, pos), b' ' | b':' | b'=') {
        pos -= 1;
    }
    pos < start && (LETTER.has(before(text, pos)) || before(text, pos) >= 0x80)
}

/// Returns the starts of up to two groups of letters before the word at `word`: `AA 12 34 56 B`, `B AB 1234`.
fn group_starts(text: &[u8], word: usize) -> impl Iterator<Item = usize> {
    let mut starts = [None; 2];
    let mut pos = word;
    for slot in &mut starts {
        if !matches!(before(text, pos), b' ' | b'-') {
            break;
        }
        let head = LETTER.run_back(text, pos - 1, 4);
        if head == pos - 1 || pos - 1 - head > 3 || inside_word(text, head) {
            break;
        }
        *slot = Some(head);
        pos = head;
    }
    starts.into_iter().flatten()
}

fn lettered(
    text: &[u8],
    start: usize,
    count: usize,
    scope: Scope,
    tables: Tables<'_>,
    found: &mut Vec<Span>,
) {
    if inside_word(text, start) || count < 3 && !scope.alone && !UPPER.has(at(text, start)) {
        return;
    }
    if count >= 5 && LETTER.has(at(text, start + 1)) && DIGIT.has(at(text, start + 2)) {
        found.extend(money::iban(text, start).map(Span::from));
    }
    let end = ALNUM.run(text, start, 96);
    if end - start >= 26 {
        found.extend(money::wallet(text, start, end).map(Span::from));
    }
    if money::is_bic(cut(text, start, end))
        && named_nearby(text, start, end, &["bic", "swift", "transfer", "bank"])
    {
        found.push(Found { kind: "bic", start, end, confidence: 0.6, evidence: Evidence::Context }.into());
    }
    if end - start <= 24 {
        let by_letter = tables.all().flat_map(|numbers| &numbers.by_letter);
        found.extend(by_letter.filter_map(|number| judge(number, text, start)).map(Span::from));
        if scope.alone {
            found.extend(shaped(tables, text, start));
        }
    }
}

fn judge(number: &Number, text: &[u8], start: usize) -> Option<Found> {
    let end = match_at(&number.parts, text, start)?;
    let open = inside_word(text, start) || inside_word(text, end);
    let longer = matches!(at(text, end), b'-' | b'.' | b'/' | b'_') && ALNUM.has(at(text, end + 1));
    let proven = matches!(number.needs, Needs::Nothing(sure) if sure >= 0.8);
    let series = !proven && in_series(text, start, end);
    if open || longer || series || !(number.check)(&compact(cut(text, start, end))) {
        return None;
    }
    let found = |confidence, evidence| Some(Found { kind: number.kind, start, end, confidence, evidence });
    match &number.needs {
        Needs::Nothing(confidence) => found(*confidence, Evidence::Checksum),
        Needs::Words(words) if named_nearby(text, start, end, words) => found(0.8, Evidence::Context),
        Needs::Words(_) | Needs::Alone => None,
    }
}

/// Returns whether the value is a piece of a longer row of groups: `1904 3002 3457` in an account number.
fn in_series(text: &[u8], start: usize, end: usize) -> bool {
    let joins = |b: u8| b == b' ' || b == b'-';
    let front = joins(before(text, start)) && start >= 2 && ALNUM.has(at(text, start - 2)) && {
        let word = ALNUM.run_back(text, start - 1, 8);
        cut(text, word, start).iter().any(u8::is_ascii_digit)
    };
    let back = joins(at(text, end)) && {
        let word = ALNUM.run(text, end + 1, 8);
        cut(text, end, word).iter().any(u8::is_ascii_digit)
    };
    front || back
}

/// A value of a shape that documents and vehicles are numbered in, in a text that holds nothing else.
fn shaped(tables: Tables<'_>, text: &[u8], start: usize) -> Option<Span> {
    let alone = tables.all().flat_map(|numbers| &numbers.alone);
    let (kind, end) = alone
        .filter_map(|number| {
            let end = match_at(&number.parts, text, start)?;
            let closed =
                !inside_word(text, end) && !matches!(at(text, end), b'-' | b'_' | b'.' | b'/' | b':');
            (closed && (number.check)(&compact(cut(text, start, end)))).then_some((number.kind, end))
        })
        .next()?;
    let value = cut(text, start, end);
    // Two small letters before many digits are a name and its number.
    let named =
        LOWER.count(value) == 2 && LOWER.has(at(text, start)) && DIGIT.count(value) + 2 == value.len();
    let open = inside_word(text, start) || in_series(text, start, end);
    (!open && !named).then_some(Span {
        class: Class::Pii,
        kind,
        start,
        end,
        confidence: 0.3,
        evidence: Evidence::Alone,
    })
}
