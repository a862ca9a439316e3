//! Secrets: what grants access to something.
//!
//! There are two ways to find a candidate. Both look only at a bounded neighbourhood of one place, so that a
//! finding never depends on text that is far away:
//!
//! - an *anchor*, found by one pass over the text for a few dozen literals: keywords of assignments
//!   ([`assign`]), the start of key blocks, tokens and URLs ([`blocks`]), and marks inside a
//!   token;
//! - a *digit*, because every prefixed token ([`formats`]) contains some: the words around it are looked up by
//!   their beginning.

mod assign;
pub(crate) mod blocks;
mod format;
mod formats;
mod login;
mod open;
pub(crate) mod published;
mod quality;
mod webhook;
mod worded;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::entry::Proof;
use crate::span::{Class, Evidence, Span};
use crate::text::{ALNUM, ByteSet, DOT, EQUALS, PLUS_SLASH, TOKEN_MARK, URL64, at, before, cut, inside_word};
use assign::Name;
use format::{Inner, Judged};
use formats::FORMATS;
use login::Login;
use worded::Worded;

pub(crate) use format::{Format, Search};

/// What an anchor leads to.
#[derive(Clone, Copy, Debug)]
enum Anchor {
    Name(Name),
    Armour,
    WrappedArmour,
    Putty,
    WebToken,
    Url,
    Login(Login),
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

const ANCHORS: [(Anchor, &str); 25] = [
    (Anchor::Armour, "-----BEGIN"),
    (Anchor::WrappedArmour, blocks::WRAPPED_ARMOUR),
    (Anchor::Putty, "PuTTY-User-Key-File"),
    (Anchor::WebToken, "eyJ"),
    (Anchor::WebToken, "eyA"),
    (Anchor::Url, "://"),
    (Anchor::Login(Login::User), " -u"),
    (Anchor::Login(Login::User), " -U "),
    (Anchor::Login(Login::User), "--user"),
    (Anchor::Login(Login::User), "--proxy-user"),
    (Anchor::Login(Login::Password), " -p "),
    (Anchor::Login(Login::Glued), " -p"),
    (Anchor::Login(Login::Store), " -a "),
    (Anchor::Login(Login::Store), "--pass "),
    (Anchor::Login(Login::Store), "--pass="),
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

/// How far before a digit a token that holds it may begin: no further than a stream keeps of what has gone.
const LOOKBACK: usize = 300;
const WORD_BYTES: ByteSet = URL64.or(DOT).or(PLUS_SLASH).or(EQUALS).or(TOKEN_MARK);

/// The tables of the secret detectors, built once.
#[derive(Debug)]
pub(crate) struct Secrets {
    anchors: AhoCorasick,
    meanings: Vec<Anchor>,
    formats: Vec<Format>,
    /// Formats by the first two bytes of their prefix, as places in `formats`.
    by_prefix: Vec<Vec<usize>>,
    /// Those whose prefix may be glued to another word, by its last two bytes.
    by_prefix_end: Vec<Vec<usize>>,
    /// Formats with a mark that is too short to be searched for: it stands behind a digit.
    by_digit: Vec<usize>,
    worded: Option<Worded>,
}

/// The tables of all scanners, made when the first of them reads a text.
static TABLES: LazyLock<Option<Secrets>> = LazyLock::new(|| Secrets::of(FORMATS.to_vec(), true));

impl Secrets {
    /// Returns what comes with the crate.
    pub(crate) fn built_in() -> Option<&'static Self> {
        TABLES.as_ref()
    }

    /// Returns the tables of an operator's formats. There are few, so each prefix is searched for.
    pub(crate) fn own(formats: Vec<Format>) -> Option<Self> {
        Self::of(formats, false)
    }

    fn of(formats: Vec<Format>, built_in: bool) -> Option<Self> {
        let mut words = Anchors::default();
        if built_in {
            words.names();
        }
        let mut by_prefix = vec![Vec::new(); BUCKETS];
        let mut by_prefix_end = vec![Vec::new(); BUCKETS];
        let mut by_digit = Vec::new();
        for (index, format) in formats.iter().enumerate() {
            match format.search() {
                Some(Search::Prefix(prefix)) => {
                    let prefix_bytes = prefix.as_bytes();
                    insert(&mut by_prefix, at(prefix_bytes, 0), at(prefix_bytes, 1), index);
                    let end = prefix.len();
                    if format.may_be_glued(b'a') {
                        insert(
                            &mut by_prefix_end,
                            at(prefix_bytes, end - 2),
                            at(prefix_bytes, end - 1),
                            index,
                        );
                    }
                    if !built_in {
                        words.add(Anchor::Prefix, prefix);
                    }
                }
                Some(Search::Mark(inner)) if inner.mark.len() < 3 => by_digit.push(index),
                Some(Search::Mark(inner)) => words.add(Anchor::Inner(index), inner.mark),
                Some(Search::Words) | None => {}
            }
        }
        let anchors =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&words.literals).ok()?;
        let worded = Worded::of(&formats);
        let meanings = words.meanings;
        Some(Self { anchors, meanings, formats, by_prefix, by_prefix_end, by_digit, worded })
    }

    /// The formats.
    pub(crate) fn formats(&self) -> impl Iterator<Item = &Format> {
        self.formats.iter()
    }

    /// What the anchors in `text` lead to.
    pub(crate) fn at_anchors(&self, text: &[u8], found: &mut Vec<Span>) {
        for hit in self.anchors.find_iter(text) {
            let Some(&anchor) = self.meanings.get(hit.pattern().as_usize()) else { continue };
            let (start, end) = (hit.start(), hit.end());
            let span = match anchor {
                Anchor::Name(Name::Password) => {
                    let netrc = login::netrc(text, start, end);
                    netrc.or_else(|| assign::find(text, Name::Password, start, end))
                }
                Anchor::Name(name) => assign::find(text, name, start, end),
                Anchor::Armour => blocks::private_key(text, start),
                Anchor::WrappedArmour => blocks::wrapped_private_key(text, start),
                Anchor::Putty => blocks::putty_key(text, start),
                Anchor::WebToken => blocks::json_web_token(text, start),
                Anchor::Url => login::url_password(text, start),
                Anchor::Login(login) => login::behind_option(text, login, end),
                Anchor::Inner(index) => self.formats.get(index).and_then(|format| inner(format, text, start)),
                Anchor::Prefix => self.prefixed(text, start),
                Anchor::Webhook => webhook::find(text, start, end),
            };
            found.extend(span);
        }
    }

    /// The tokens that begin in the word before a digit at `digit`, at or after `from`.
    pub(crate) fn around_digit(&self, text: &[u8], from: usize, digit: usize, found: &mut Vec<Span>) {
        let start = WORD_BYTES.run_back(text, digit, LOOKBACK.min(digit - from));
        let mut last = before(text, start);
        for (offset, &byte) in cut(text, start, digit + 1).iter().enumerate() {
            let place = start + offset;
            if (ALNUM.has(byte) || byte == b'$') && !ALNUM.has(last) {
                found.extend(self.prefixed(text, place));
            }
            found.extend(self.glued(text, last, byte, place + 1));
            last = byte;
        }
        for format in self.by_digit.iter().filter_map(|&index| self.formats.get(index)) {
            found.extend(inner(format, text, digit + 1));
        }
        if let Some(worded) = &self.worded {
            found.extend(worded.around_digit(&self.formats, text, digit));
        }
    }

    fn prefixed(&self, text: &[u8], start: usize) -> Option<Span> {
        let candidates = self.by_prefix.get(bucket(at(text, start), at(text, start + 1)))?;
        candidates.iter().filter_map(|&index| self.formats.get(index)).find_map(|format| {
            text.get(start..)?.starts_with(format.prefix().as_bytes()).then_some(())?;
            format.judge(text, start).map(|judged| span(format, judged))
        })
    }

    /// Returns the token whose prefix ends at `end` and is glued to a word; the two bytes before that are `last` and `byte`.
    fn glued(&self, text: &[u8], last: u8, byte: u8, end: usize) -> Option<Span> {
        self.glued_formats(text, last, byte, end)
            .find_map(|(format, start)| format.judge(text, start).map(|judged| span(format, judged)))
    }

    /// Returns the formats whose prefix ends at `end` behind a letter or digit, and where it begins.
    fn glued_formats<'t>(
        &'t self,
        text: &'t [u8],
        last: u8,
        byte: u8,
        end: usize,
    ) -> impl Iterator<Item = (&'t Format, usize)> {
        let candidates = self.by_prefix_end.get(bucket(last, byte)).into_iter().flatten();
        candidates.filter_map(|&index| self.formats.get(index)).filter_map(move |format| {
            let start = end.checked_sub(format.prefix().len())?;
            let whole = cut(text, start, end) == format.prefix().as_bytes();
            (whole && ALNUM.has(before(text, start))).then_some((format, start))
        })
    }
}

fn insert(buckets: &mut [Vec<usize>], first: u8, second: u8, index: usize) {
    if let Some(bucket) = buckets.get_mut(bucket(first, second)) {
        bucket.push(index);
    }
}

fn span(format: &Format, judged: Judged) -> Span {
    let Judged { start, end, confidence, evidence } = judged;
    Span { class: Class::Secret, kind: format.kind, start, end, confidence, evidence }
}

/// The literals that are searched for, and what each leads to.
#[derive(Default)]
struct Anchors {
    literals: Vec<String>,
    meanings: Vec<Anchor>,
}

impl Anchors {
    fn add(&mut self, anchor: Anchor, literal: &str) {
        self.meanings.push(anchor);
        self.literals.push(literal.to_owned());
    }

    /// What is searched for besides formats.
    fn names(&mut self) {
        for (name, word) in NAMES {
            let mut capital = word.to_owned();
            capital.get_mut(..1).map(str::make_ascii_uppercase);
            let mut spellings = vec![word.to_owned(), word.to_ascii_uppercase(), capital];
            spellings.sort();
            spellings.dedup();
            for spelling in spellings {
                self.add(Anchor::Name(name), &spelling);
            }
        }
        for (anchor, literal) in ANCHORS {
            self.add(anchor, literal);
        }
    }
}

/// Returns whether the label of a block of PEM armour names a private key.
pub(crate) fn is_private_label(label: &[u8]) -> bool {
    super::text::contains_folded(label, b"private key") || super::text::contains_folded(label, b"secret key")
}

const BUCKETS: usize = 4096;

fn bucket(first: u8, second: u8) -> usize {
    usize::from(first & 63) << 6 | usize::from(second & 63)
}

/// A token that is known by a mark inside of it, which begins at `start`.
fn inner(format: &Format, text: &[u8], start: usize) -> Option<Span> {
    let Some(Search::Mark(Inner { mark, before, after })) = format.search() else { return None };
    let end = start + mark.len();
    (cut(text, start, end) == mark.as_bytes()).then_some(())?;
    let head = before.0.run_back(text, start, before.2 + 1);
    let tail = after.0.run(text, end, after.2 + 1);
    let fits = |len: usize, (_, least, most): (ByteSet, usize, usize)| (least..=most).contains(&len);
    let closed = !inside_word(text, head) && !inside_word(text, tail);
    let whole = closed && fits(start - head, before) && fits(tail - end, after);
    // A token is said to begin at its first digit: letters in front of it may have been let go by a stream.
    let head = head + cut(text, head, tail).iter().position(u8::is_ascii_digit)?;
    let value = cut(text, head, tail);
    let random =
        !quality::is_placeholder(value) && (format.proof != Proof::Random || quality::is_random(value));
    (whole && random).then_some(Span {
        class: Class::Secret,
        kind: format.kind,
        start: head,
        end: tail,
        confidence: 0.9,
        evidence: Evidence::Format,
    })
}
