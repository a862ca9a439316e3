//! The place from which text that has not arrived could still make a difference.
//!
//! Most text is decided as soon as it is there. Text waits if a detector might begin with it, or continue in it:
//! the beginning of a prefix (`gh`, `-----B`), a word with a digit in it, the value after a name, the host of a
//! link. Which detectors count depends on the actions: only those that change the text decide how long
//! it is held. Personal data is harder than the rest, because any word may turn out to be the beginning of an
//! email address.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::super::pii;
use super::super::policy::Chosen;
use super::super::secrets::{
    self,
    blocks::{LONGEST_BLOCK, WRAPPED_ARMOUR},
};
use super::super::text::{DIGIT, LETTER, before, cut};
use super::super::{Class, Scanner, hidden};

/// How far behind a number the text may still tell what it is: the longest number, and its context.
const NUMBER_REACH: usize = 96;
/// The longest mark that stands in the place of something.
const LONGEST_MARK: usize = 64;
/// What begins a token that may be longer than the window.
const LONG_TOKENS: [&[u8]; 5] = [b"eyJ", b"eyA", b"bedrock-api-key-", b"$krb5", WRAPPED_ARMOUR.as_bytes()];

static KEY_BLOCK: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"-----BEGIN"));
static PUTTY_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"PuTTY-User-Key-File"));

/// What of a text is open, class by class: the first place from which on text that has not arrived could still
/// change what is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open<'a> {
    text: &'a [u8],
    secret: usize,
    token: usize,
    pii: usize,
    hidden: usize,
}

impl<'a> Open<'a> {
    /// Returns what of `text` is open to findings of `classes`.
    pub(super) fn of(scanner: &Scanner, classes: &[Class], text: &'a [u8]) -> Self {
        let end = text.len();
        let secrets = scanner.secrets().filter(|_| classes.contains(&Class::Secret));
        let secret = secrets.map(|secrets| secrets.open(text)).min();
        Self {
            text,
            secret: secret.unwrap_or(end),
            token: if classes.contains(&Class::Secret) { token(text) } else { end },
            pii: if classes.contains(&Class::Pii) { last_word(text).min(number(text)) } else { end },
            hidden: if classes.contains(&Class::Hidden) { hidden::open(text) } else { end },
        }
    }

    /// Returns where the text ends.
    pub(super) fn end(&self) -> usize {
        self.text.len()
    }

    /// Returns the first place, at or after `mark`, from which on text that has not arrived could change what is found of
    /// `classes`. No more than `hold_back` bytes are open, except for what must be seen whole.
    pub(super) fn horizon(&self, classes: &[Class], mark: usize, hold_back: usize) -> usize {
        let end = self.text.len();
        let near = classes.iter().map(|class| match class {
            Class::Secret => self.secret,
            Class::Pii => self.pii,
            Class::Hidden => self.hidden,
        });
        let near = near.min().unwrap_or(end).max(end.saturating_sub(hold_back));
        let whole = match classes.contains(&Class::Secret) {
            true => block(self.text, mark).min(self.token),
            false => end,
        };
        near.min(whole).max(mark)
    }
}

/// Moves `end` to where it splits no candidate, and leaves none behind that may become another.
pub(super) fn settle(mut end: usize, mark: usize, text: &[u8], chosen: &Chosen) -> usize {
    let own = own_mark(text);
    let found = || chosen.changes.iter().chain(&chosen.reports);
    let open = |end: usize| {
        let unsettled = found().filter(move |span| {
            let split = span.start < end && end < span.end;
            split || span.start < end && (span.end == text.len() || span.start >= own)
        });
        unsettled.map(|span| span.start).min()
    };
    while let Some(start) = open(end) {
        end = start;
    }
    end.max(mark)
}

/// Returns whether a text that begins like this may turn out to be short and hold what is judged by its being short.
pub(super) fn could_be_alone(text: &[u8]) -> bool {
    let whole_words = text.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    // What follows a link may be nothing: blanks, quotes, what is not seen.
    pii::is_alone(cut(text, 0, whole_words)) || contains(text, b"://")
}

/// Returns where a mark begins that may stand in the place of something, and that has not ended: `[redacted:em`.
fn own_mark(text: &[u8]) -> usize {
    let tail = cut(text, text.len().saturating_sub(LONGEST_MARK), text.len());
    let inside = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b':' | b'#');
    let start = text.len() - tail.iter().rev().take_while(|b| inside(b)).count();
    if before(text, start) == b'[' { start - 1 } else { text.len() }
}

fn word_start(text: &[u8], end: usize) -> usize {
    cut(text, 0, end).iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1)
}

/// Returns the start of the last word, and of the few letters before it that a number may begin with: `AA 12 34 56 B`.
fn last_word(text: &[u8]) -> usize {
    let mut start = word_start(text, text.len());
    for _ in 0..3 {
        let end = start.saturating_sub(1);
        if start == 0 || !ends_in_few_letters(text, end) {
            break;
        }
        start = word_start(text, end);
    }
    start
}

/// Returns whether the letters before `end` are so few that they may be the first group of a number.
fn ends_in_few_letters(text: &[u8], end: usize) -> bool {
    (1..=4).contains(&(end - LETTER.run_back(text, end, 5)))
}

/// Returns the start of the groups around the first number that is near enough to the end to be named by what follows.
fn number(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(NUMBER_REACH);
    let Some(digit) =
        cut(text, from, text.len()).iter().position(u8::is_ascii_digit).map(|offset| from + offset)
    else {
        return text.len();
    };
    let mut start = word_start(text, digit);
    for _ in 0..12 {
        let end = start.saturating_sub(1);
        let head = word_start(text, end);
        let word = cut(text, head, end);
        let group = word.iter().any(|&b| DIGIT.has(b)) || ends_in_few_letters(text, end);
        if start == 0 || !group {
            break;
        }
        start = head;
    }
    start
}

/// Returns the first line of a key block that is not complete yet.
fn block(text: &[u8], mark: usize) -> usize {
    let from = mark.max(text.len().saturating_sub(LONGEST_BLOCK));
    let rest = cut(text, from, text.len());
    let mut starts = KEY_BLOCK.find_iter(rest).map(|offset| from + offset);
    let armour = starts.find(|&start| is_open(text, start));
    let putty = PUTTY_KEY.find(rest).map(|offset| from + offset);
    let putty = putty.filter(|&start| {
        let body = cut(text, start, text.len());
        memchr::memmem::find(body, b"Private-MAC:")
            .is_none_or(|mac| !cut(body, mac, body.len()).contains(&b'\n'))
    });
    armour.into_iter().chain(putty).min().unwrap_or(text.len())
}

fn is_open(text: &[u8], start: usize) -> bool {
    const LINE: usize = 96;
    let body = cut(text, start, text.len());
    let label = cut(body, 11, LINE.min(body.len()));
    let cut_off = contains(cut(body, 11, body.len()), b"-----BEGIN");
    let named = secrets::is_private_label(label) || body.len() < LINE;
    let closed = memchr::memmem::find(body, b"-----END").is_some_and(|end| {
        let line = cut(body, end + 8, body.len());
        line.len() >= LINE || contains(line, b"-----")
    });
    named && !closed && !cut_off
}

/// Returns the start of a long token that the text ends with.
fn token(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(LONGEST_BLOCK);
    let word = word_start(text, text.len()).max(from);
    let begins = |start: usize| {
        let rest = cut(text, start, text.len());
        let boundary = start == word || !before(text, start).is_ascii_alphanumeric();
        boundary && LONG_TOKENS.iter().any(|mark| rest.starts_with(mark))
    };
    (word..text.len()).find(|&start| begins(start)).unwrap_or(text.len())
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(text, needle).is_some()
}
