//! Hidden text: what a model reads and a human does not see, or reads as something else.
//!
//! Reported are zero-width characters between Latin letters, overrides of the writing direction, tag
//! characters (a second, invisible alphabet), control sequences for terminals, and host names that mix
//! alphabets so that one looks like another. Legitimate uses are ignored: joiners inside emoji
//! and in scripts that use them, a byte order mark at the start, and the tags of the three flags that have some.

use super::span::{Class, Evidence, Span};
use super::text::{ALNUM, SPACE, at, before, cut};

const CHUNK: usize = 32;
/// The longest control sequence that is read as one, in bytes.
const LONGEST_SEQUENCE: usize = 256;
/// How far before a letter of a host the scheme of its link may stand.
const LONGEST_HOST: usize = 128;

/// The hidden text in `text`.
pub(super) fn find(text: &[u8], found: &mut Vec<Span>) {
    let mut done = 0;
    for (index, chunk) in text.chunks(CHUNK).enumerate() {
        let plain = chunk.iter().fold(true, |plain, &b| plain & (b < 0x80) & (b != 0x1b) & (b != 0x08));
        if plain {
            continue;
        }
        for (offset, &byte) in chunk.iter().enumerate() {
            let start = index * CHUNK + offset;
            if start < done || (byte < 0x80 && byte != 0x1b && byte != 0x08) {
                continue;
            }
            if let Some(span) = at_byte(text, start) {
                done = span.end;
                push(found, span);
            }
        }
    }
}

/// Returns where the host of a link begins that may turn out to mix alphabets. What else hides is found as soon as it is
/// there.
pub(super) fn open(text: &[u8]) -> usize {
    let front = cut(text, text.len().saturating_sub(LONGEST_HOST + 1), text.len());
    let host = front.iter().rev().position(|&b| ends_host(b)).unwrap_or(front.len());
    let start = text.len() - host;
    if host > 0 && cut(text, 0, start).ends_with(b"://") { start } else { text.len() }
}

fn ends_host(byte: u8) -> bool {
    SPACE.has(byte) || matches!(byte, b'/' | b'"' | b'\'' | b'<' | b'>' | b'(' | b')' | b'?' | b'#')
}

fn push(found: &mut Vec<Span>, span: Span) {
    match found.last_mut() {
        Some(last) if last.kind == span.kind && last.end == span.start && last.class == span.class => {
            last.end = span.end;
        }
        _ => found.push(span),
    }
}

fn at_byte(text: &[u8], start: usize) -> Option<Span> {
    let (kind, len, confidence) = match at(text, start) {
        0x1b => ("terminal_escape", escape(text, start), 0.7),
        0x08 => ("terminal_escape", 1, 0.6),
        0xCE..=0xD4 => return mixed_host(text, start),
        0xC0..=0xFF => {
            let (letter, len) = decode(text, start)?;
            let (kind, confidence) = character(text, start, letter, len)?;
            (kind, len, confidence)
        }
        _ => return None,
    };
    let end = start + len;
    Some(Span { class: Class::Hidden, kind, start, end, confidence, evidence: Evidence::Format })
}

fn decode(text: &[u8], start: usize) -> Option<(char, usize)> {
    let window = cut(text, start, (start + 4).min(text.len()));
    let letter = window.utf8_chunks().next()?.valid().chars().next()?;
    Some((letter, letter.len_utf8()))
}

fn character(text: &[u8], start: usize, letter: char, len: usize) -> Option<(&'static str, f32)> {
    let latin = |b: u8| b < 0x80;
    let next = at(text, start + len);
    let between_latin = latin(before(text, start)) && latin(next);
    match letter {
        '\u{200B}'
        | '\u{2060}'..='\u{2064}'
        | '\u{180E}'
        | '\u{034F}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{FFA0}' => Some(("zero_width", 0.8)),
        '\u{200C}' | '\u{200D}' if between_latin => Some(("zero_width", 0.8)),
        '\u{FEFF}' if start > 0 => Some(("zero_width", 0.8)),
        '\u{00AD}' if between_latin => Some(("zero_width", 0.5)),
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => Some(("bidi_override", 0.9)),
        '\u{200E}' | '\u{200F}' | '\u{061C}' if between_latin => Some(("bidi_override", 0.5)),
        '\u{E0000}'..='\u{E007F}' if !in_flag(text, start) => Some(("tag_character", 0.95)),
        '\u{E0100}'..='\u{E01EF}' if between_latin => Some(("variation_selector", 0.9)),
        '\u{FE00}'..='\u{FE0E}' if latin(before(text, start)) => Some(("variation_selector", 0.7)),
        // The one that makes an emoji of a character stands between no two letters.
        '\u{FE0F}' if joins(before(text, start)) && (next == 0 || joins(next)) => {
            Some(("variation_selector", 0.7))
        }
        _ => None,
    }
}

/// Returns whether a byte goes on with a word or a token.
fn joins(byte: u8) -> bool {
    ALNUM.has(byte) || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+' | b'=')
}

/// Returns whether a character has no width wherever it stands.
pub(crate) fn is_invisible(letter: char) -> bool {
    matches!(
        letter,
        '\u{8}' | '\u{AD}' | '\u{34F}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{E0000}'..='\u{E01EF}'
    )
}

/// Returns whether the tag at `start` belongs to the flag of a region: a black flag and at most six tags.
fn in_flag(text: &[u8], start: usize) -> bool {
    let window = cut(text, start.saturating_sub(4 * 7), start);
    memchr::memmem::rfind(window, "\u{1F3F4}".as_bytes()).is_some_and(|flag| {
        let between = cut(window, flag + 4, window.len());
        between.chunks(4).all(|tag| tag.starts_with(&[0xF3, 0xA0]))
    })
}

/// Returns the length of the control sequence that begins at `start`.
fn escape(text: &[u8], start: usize) -> usize {
    let rest = cut(text, start + 1, (start + LONGEST_SEQUENCE).min(text.len()));
    let inner = match rest.first() {
        Some(b'[') => {
            rest.iter().skip(1).position(|b| !(0x20..=0x3f).contains(b)).map_or(rest.len(), |last| last + 2)
        }
        Some(b']' | b'P' | b'_' | b'^') => {
            let end = rest.iter().position(|&b| b == 0x07 || b == 0x9c || b == b'\n' || b == 0x1b);
            end.map_or(rest.len(), |last| match rest.get(last) {
                Some(0x1b) if rest.get(last + 1) == Some(&b'\\') => last + 2,
                Some(b'\n' | 0x1b) => last,
                _ => last + 1,
            })
        }
        Some(byte) if byte.is_ascii_graphic() => 1,
        _ => 0,
    };
    // A sequence never ends inside of a character.
    let mut len = 1 + inner.min(rest.len());
    while len > 1 && matches!(at(text, start + len), 0x80..=0xBF) {
        len -= 1;
    }
    len
}

/// Returns the host of a link in which Greek or Cyrillic letters stand beside Latin ones.
fn mixed_host(text: &[u8], letter: usize) -> Option<Span> {
    let front = cut(text, letter.saturating_sub(LONGEST_HOST), letter);
    let start = letter - front.iter().rev().position(|&b| ends_host(b)).unwrap_or(front.len());
    cut(text, 0, start).ends_with(b"://").then_some(())?;
    let back = cut(text, letter, (letter + LONGEST_HOST).min(text.len()));
    let mut end = letter + back.iter().position(|&b| ends_host(b) || b == b':').unwrap_or(back.len());
    while end > letter && matches!(at(text, end), 0x80..=0xBF) {
        end -= 1;
    }
    let host = cut(text, start, end);
    let foreign = |label: &[u8]| label.iter().any(|b| (0xCE..=0xD4).contains(b));
    let mixed = host
        .split(|&b| b == b'.')
        .any(|label| foreign(label) && label.iter().any(|&b| ALNUM.has(b) && !b.is_ascii_digit()));
    mixed.then_some(Span {
        class: Class::Hidden,
        kind: "homoglyph_host",
        start,
        end,
        confidence: 0.9,
        evidence: Evidence::Format,
    })
}
