//! Secrets: what grants access to something.
//!
//! Two ways lead to a candidate, and both look at a bounded neighbourhood of one place only, so that a
//! finding never depends on text that is far away:
//!
//! - an *anchor*, found by one pass over the text for a few dozen literals: keywords of assignments
//!   ([`assign`]), the start of key blocks, tokens and URLs ([`blocks`]), and marks that stand inside of a
//!   token;
//! - a *digit*, since every prefixed token ([`formats`]) holds some: the words around it are looked up by how
//!   they begin.

mod assign;
pub(super) mod blocks;
mod format;
mod formats;
mod open;
mod quality;
mod webhook;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::span::{Class, Evidence, Span};
use super::text::{ALNUM, ByteSet, DOT, EQUALS, PLUS_SLASH, TOKEN_MARK, URL64, at, before, cut, inside_word};
use assign::Name;
use format::Format;
use formats::{AZURE_SECRET, FORMATS, INNER, Inner};

/// What an anchor leads to.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    Name(Name),
    Armour,
    Putty,
    WebToken,
    Url,
    CurlUser,
    Inner(usize),
    Prefix,
    Webhook,
}

const NAMES: [(Name, &str); 13] = [
    (Name::Password, "pass"),
    (Name::Password, "pwd"),
    (Name::Password, "_pw"),
    (Name::Secret, "secret"),
    (Name::Token, "token"),
    (Name::Key, "key"),
    (Name::Key, "access"),
    (Name::Secret, "private"),
    (Name::Authorization, "auth"),
    (Name::Key, "cred"),
    (Name::Key, "login"),
    (Name::Token, "_pat"),
    (Name::Authorization, "bearer"),
];

const ANCHORS: [(Anchor, &str); 17] = [
    (Anchor::Armour, "-----BEGIN"),
    (Anchor::Putty, "PuTTY-User-Key-File"),
    (Anchor::WebToken, "eyJ"),
    (Anchor::WebToken, "eyA"),
    (Anchor::Url, "://"),
    (Anchor::CurlUser, " -u "),
    (Anchor::CurlUser, "--user "),
    (Anchor::Prefix, "hf_"),
    (Anchor::Prefix, "glpat-"),
    (Anchor::Prefix, "glc_"),
    (Anchor::Prefix, "hvs."),
    (Anchor::Prefix, "npm_"),
    (Anchor::Prefix, "gsk_"),
    (Anchor::Prefix, "AKIA"),
    (Anchor::Prefix, "api_org_"),
    (Anchor::Webhook, "hooks.slack.com/"),
    (Anchor::Webhook, "webhook"),
];

/// How far before a digit a token that holds it may begin.
const LOOKBACK: usize = 128;
const WORD_BYTES: ByteSet = URL64.or(DOT).or(PLUS_SLASH).or(EQUALS).or(TOKEN_MARK);

/// The tables of the secret detectors, built once.
#[derive(Debug)]
pub(super) struct Secrets {
    anchors: AhoCorasick,
    meanings: Vec<Anchor>,
    /// Formats by their first two bytes.
    formats: Vec<Vec<&'static Format>>,
}

/// Kinds that no table of formats names.
const UNTABLED: [&str; 9] = [
    "authorization",
    "generic_api_key",
    "generic_secret",
    "generic_token",
    "json_web_token",
    "password",
    "private_key",
    "url_password",
    "webhook_url",
];

/// The kinds of secrets.
pub(super) fn kinds() -> impl Iterator<Item = &'static str> {
    let tabled = FORMATS.iter().map(|format| format.kind);
    let inner = INNER.iter().chain([&AZURE_SECRET]).map(|inner| inner.kind);
    tabled.chain(inner).chain(UNTABLED)
}

/// The tables of all scanners, made when the first of them reads a text.
static TABLES: LazyLock<Option<Secrets>> = LazyLock::new(Secrets::new);

impl Secrets {
    pub(super) fn tables() -> Option<&'static Self> {
        TABLES.as_ref()
    }

    fn new() -> Option<Self> {
        let mut literals: Vec<String> = Vec::new();
        let mut meanings = Vec::new();
        for (name, word) in NAMES {
            let mut capital = word.to_owned();
            capital.get_mut(..1).map(str::make_ascii_uppercase);
            let mut spellings = vec![word.to_owned(), word.to_ascii_uppercase(), capital];
            spellings.sort();
            spellings.dedup();
            meanings.extend(spellings.iter().map(|_| Anchor::Name(name)));
            literals.extend(spellings);
        }
        for (anchor, literal) in ANCHORS {
            meanings.push(anchor);
            literals.push(literal.to_owned());
        }
        for (index, inner) in INNER.iter().enumerate() {
            meanings.push(Anchor::Inner(index));
            literals.push(inner.mark.to_owned());
        }
        let anchors = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&literals).ok()?;
        let mut formats: Vec<Vec<&'static Format>> = vec![Vec::new(); BUCKETS];
        for format in FORMATS {
            let prefix = format.prefix().as_bytes();
            if let Some(bucket) = formats.get_mut(bucket(at(prefix, 0), at(prefix, 1))) {
                bucket.push(format);
            }
        }
        Some(Self { anchors, meanings, formats })
    }

    /// What the anchors in `text` lead to.
    pub(super) fn at_anchors(&self, text: &[u8], found: &mut Vec<Span>) {
        for hit in self.anchors.find_iter(text) {
            let Some(&anchor) = self.meanings.get(hit.pattern().as_usize()) else { continue };
            let (start, end) = (hit.start(), hit.end());
            let span = match anchor {
                Anchor::Name(name) => assign::find(text, name, start, end),
                Anchor::Armour => blocks::private_key(text, start),
                Anchor::Putty => blocks::putty_key(text, start),
                Anchor::WebToken => blocks::json_web_token(text, start),
                Anchor::Url => blocks::url_password(text, start),
                Anchor::CurlUser => blocks::curl_user(text, end),
                Anchor::Inner(index) => INNER.get(index).and_then(|format| inner(format, text, start, end)),
                Anchor::Prefix => self.prefixed(text, start),
                Anchor::Webhook => webhook::find(text, start, end),
            };
            found.extend(span);
        }
    }

    /// The prefixed tokens that begin in the word before a digit at `digit`, at or after `from`.
    pub(super) fn around_digit(&self, text: &[u8], from: usize, digit: usize, found: &mut Vec<Span>) {
        let start = WORD_BYTES.run_back(text, digit, LOOKBACK.min(digit - from));
        let mut last = before(text, start);
        for (offset, &byte) in cut(text, start, digit + 1).iter().enumerate() {
            if (ALNUM.has(byte) || byte == b'$') && !ALNUM.has(last) {
                found.extend(self.prefixed(text, start + offset));
            }
            last = byte;
        }
        let mark = AZURE_SECRET.mark.as_bytes();
        let after = digit + 1;
        if cut(text, after, after + mark.len()) == mark {
            found.extend(inner(&AZURE_SECRET, text, after, after + mark.len()));
        }
    }

    fn prefixed(&self, text: &[u8], start: usize) -> Option<Span> {
        let candidates = self.formats.get(bucket(at(text, start), at(text, start + 1)))?;
        candidates.iter().find_map(|format| {
            text.get(start..)?.starts_with(format.prefix().as_bytes()).then_some(())?;
            let (end, confidence, evidence) = format.judge(text, start)?;
            Some(Span { class: Class::Secret, kind: format.kind, start, end, confidence, evidence })
        })
    }
}

/// Whether the label of a block of PEM armour names a private key.
pub(super) fn is_private_label(label: &[u8]) -> bool {
    super::text::contains_folded(label, b"private key") || super::text::contains_folded(label, b"secret key")
}

const BUCKETS: usize = 4096;

fn bucket(first: u8, second: u8) -> usize {
    usize::from(first & 63) << 6 | usize::from(second & 63)
}

/// A token that is known by a mark inside of it.
fn inner(format: &Inner, text: &[u8], start: usize, end: usize) -> Option<Span> {
    let head = format.set.run_back(text, start, format.before.1 + 1);
    let tail = format.set.run(text, end, format.after.1 + 1);
    let fits = |len: usize, (min, max): (usize, usize)| (min..=max).contains(&len);
    let closed = !inside_word(text, head) && !inside_word(text, tail);
    let whole = closed && fits(start - head, format.before) && fits(tail - end, format.after);
    // A token is said to begin at its first digit: letters in front of it may have been let go by a stream.
    let head = head + cut(text, head, tail).iter().position(u8::is_ascii_digit)?;
    let value = cut(text, head, tail);
    let random = !quality::is_placeholder(value) && (format.mark.len() > 3 || quality::is_random(value));
    (whole && random).then_some(Span {
        class: Class::Secret,
        kind: format.kind,
        start: head,
        end: tail,
        confidence: 0.9,
        evidence: Evidence::Format,
    })
}
