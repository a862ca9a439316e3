//! Which part of an unfinished text may still become a secret.
//!
//! This is the counterpart of detection and is kept next to it. If a detector looks beyond a place to decide about a value
//! that begins there, this module reports the place until that text has arrived. Both share the tables, so a
//! format added to them is held back automatically.

use super::blocks::WRAPPED_ARMOUR;
use super::{Anchor, Secrets, WORD_BYTES, assign, bucket, login, webhook};
use crate::template::may_go_on;
use crate::text::{ALNUM, SPACE, at, before, cut};

/// How far before the end of a text a secret may begin that has not ended, and the name of one; blocks aside.
const REACH: usize = 512;
/// The longest token that is known by a mark inside of it.
const LONGEST_INNER: usize = 300;
/// What begins a secret that is longer than the reach, or is searched for as it stands.
const BEGINNINGS: [&[u8]; 5] =
    [b"-----BEGIN", WRAPPED_ARMOUR.as_bytes(), b"PuTTY-User-Key-File", b"eyJ", b"eyA"];

impl Secrets {
    /// Returns the first place from which on text that has not arrived could make a secret, or make one longer. Blocks
    /// and tokens longer than the reach are somebody else's.
    pub(crate) fn open(&self, text: &[u8]) -> usize {
        let worded = self.worded.as_ref().and_then(|worded| worded.open(text));
        let found =
            [self.prefixed_open(text), marked(text), worded, self.assigned(text), webhook::open(text)];
        found.into_iter().flatten().chain(beginning(text)).min().unwrap_or(text.len())
    }

    /// A token that is known by its prefix.
    fn prefixed_open(&self, text: &[u8]) -> Option<usize> {
        let tail = cut(text, text.len().saturating_sub(REACH), text.len());
        let run = tail.iter().rev().take_while(|&&b| b < 0x80 && !SPACE.has(b)).count();
        let from = text.len() - run;
        (from..text.len()).find_map(|start| {
            let boundary =
                (ALNUM.has(at(text, start)) || at(text, start) == b'$') && !ALNUM.has(before(text, start));
            if boundary && self.may_begin(text, start) {
                return Some(start);
            }
            let end = start + 1;
            let mut glued = self.glued_formats(text, before(text, start), at(text, start), end);
            let open = glued.any(|(format, start)| {
                format.may_be_glued(before(text, start)) && may_go_on(&format.parts, text, start)
            });
            (open && end < text.len()).then_some(end)
        })
    }

    fn may_begin(&self, text: &[u8], start: usize) -> bool {
        let (first, second) = (at(text, start), at(text, start + 1));
        if start + 1 == text.len() {
            return self.formats.iter().any(|format| format.prefix().as_bytes().first() == Some(&first));
        }
        let candidates = self.by_prefix.get(bucket(first, second)).into_iter().flatten();
        let mut formats = candidates.filter_map(|&index| self.formats.get(index));
        formats.any(|format| may_go_on(&format.parts, text, start))
    }

    /// A value behind a name, and a password behind a user.
    fn assigned(&self, text: &[u8]) -> Option<usize> {
        let from = text.len().saturating_sub(REACH);
        let open = |hit: aho_corasick::Match| {
            let (start, end) = (from + hit.start(), from + hit.end());
            match *self.meanings.get(hit.pattern().as_usize())? {
                Anchor::Name(name) => assign::open(text, name, start, end),
                Anchor::Url => login::open_url(text, start),
                Anchor::Login(login) => login::open(text, login, end),
                _ => None,
            }
        };
        self.anchors.find_iter(cut(text, from, text.len())).filter_map(open).min()
    }
}

/// A token that is known by a mark inside of it: all of them hold digits, and begin with the first.
fn marked(text: &[u8]) -> Option<usize> {
    let word = WORD_BYTES.run_back(text, text.len(), LONGEST_INNER);
    cut(text, word, text.len()).iter().position(u8::is_ascii_digit).map(|digit| word + digit)
}

/// Returns the beginning of a beginning.
fn beginning(text: &[u8]) -> Option<usize> {
    let begun = |literal: &&[u8]| {
        let longest = (1..literal.len()).rev().find(|&len| text.ends_with(cut(literal, 0, len)))?;
        let start = text.len() - longest;
        let token = matches!(literal.first(), Some(b'e' | b'L'));
        (!token || !ALNUM.has(before(text, start))).then_some(start)
    };
    BEGINNINGS.iter().filter_map(begun).min()
}
