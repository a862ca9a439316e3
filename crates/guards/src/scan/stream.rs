//! Cleaning text that arrives in pieces.
//!
//! **Law.** However a text is cut into pieces, what comes out, put together, is what
//! [`Redactor::apply`](super::Redactor::apply) makes of the whole.
//!
//! The law follows from locality: whether a span is found depends on a bounded neighbourhood of it. A stream
//! keeps the text before the cut as context, judges what it holds, and lets go of everything before its
//! *horizon*: the place from which on text that has not arrived yet could still make a difference. In prose
//! that is the start of the last word; behind a number it is the few words that may still name it; behind
//! `password = "` it is the value. At most `hold_back` bytes are held, with two exceptions that would
//! otherwise leak: a private key is held from its first line on until its last, and a web token until its
//! end, both bounded by [`Stream::LONGEST_BLOCK`].

use super::policy::{Action, Edit, Finding, Redactor};
use super::secrets::blocks::LONGEST_BLOCK;
use super::text::{DIGIT, LETTER, before, cut};
use super::{Scope, Span, hidden, pii, secrets, span};

/// How much text before the cut is kept to judge what comes after it.
const CONTEXT: usize = 1024;
/// How far behind a number the text may still tell what it is: the longest number, and its context.
const NUMBER_REACH: usize = 96;
/// How far behind a keyword the text may still belong to its value.
const VALUE_REACH: usize = 384;
/// What begins a token that may be longer than the window.
const LONG_TOKENS: [&[u8]; 4] = [b"eyJ", b"eyA", b"bedrock-api-key-", b"$krb5"];

/// Cleans one text that arrives in pieces.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    hold_back: usize,
    window: Window,
    /// The bytes of a character that has not arrived whole.
    partial: Vec<u8>,
    findings: Vec<Finding>,
    blocked: bool,
}

/// What is certain of a text so far. Offsets are those of the whole text.
#[derive(Clone, Debug, PartialEq)]
pub struct Certain {
    /// Up to here nothing that comes later makes a difference.
    pub up_to: usize,
    /// What was found and not told before.
    pub edits: Vec<Edit>,
}

/// The text that is at hand.
#[derive(Default)]
struct Window {
    text: String,
    /// Up to here the text has been let go.
    mark: usize,
    /// Where in the whole text this one begins.
    offset: usize,
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("len", &self.text.len())
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

impl Stream {
    /// The default of `hold_back`, in bytes.
    pub const DEFAULT_HOLD_BACK: usize = 512;
    /// The least `hold_back`: below, ordinary tokens would not fit.
    pub const LEAST_HOLD_BACK: usize = 512;
    /// The most that is ever held, in bytes: an open key block or web token.
    pub const LONGEST_BLOCK: usize = LONGEST_BLOCK;

    /// A stream that holds back at most `hold_back` bytes, but no fewer than [`Self::LEAST_HOLD_BACK`].
    #[must_use]
    pub fn new(redactor: Redactor, hold_back: usize) -> Self {
        Self {
            redactor,
            hold_back: hold_back.max(Self::LEAST_HOLD_BACK),
            window: Window::default(),
            partial: Vec::new(),
            findings: Vec::new(),
            blocked: false,
        }
    }

    /// Takes the next piece; answers the clean text that is certain by now. Bytes that are no UTF-8 become
    /// replacement characters.
    pub fn push(&mut self, piece: impl AsRef<[u8]>) -> String {
        self.decode(piece.as_ref(), false);
        self.advance(false)
    }

    /// Ends the text; answers the rest of it.
    pub fn finish(&mut self) -> String {
        self.decode(&[], true);
        self.advance(true)
    }

    /// Takes the next piece; answers what is certain by now as spans, instead of as text. Of one stream, use
    /// either this form or the other.
    pub fn push_edits(&mut self, piece: &str) -> Certain {
        self.decode(piece.as_bytes(), false);
        self.advance_edits(false)
    }

    /// Ends the text; answers what was found in the rest of it.
    pub fn finish_edits(&mut self) -> Certain {
        self.decode(&[], true);
        self.advance_edits(true)
    }

    /// What the text form found up to now, with offsets in the whole text.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Whether something was found that must not pass. The text before it may have been let go already.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// How many bytes are held at the moment.
    #[must_use]
    pub fn held(&self) -> usize {
        self.window.text.len() - self.window.mark + self.partial.len()
    }

    fn decode(&mut self, piece: &[u8], last: bool) {
        self.partial.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.partial);
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.window.text.push_str(chunk.valid());
            let cut_off = chunks.peek().is_none() && !last && may_continue(chunk.invalid());
            if cut_off {
                self.partial = chunk.invalid().to_vec();
            } else if !chunk.invalid().is_empty() {
                self.window.text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn advance(&mut self, last: bool) -> String {
        let (mark, offset) = (self.window.mark, self.window.offset);
        let (end, edits) = self.judge(last);
        let clean = super::policy::written(self.window.text.get(mark..end).unwrap_or_default(), mark, &edits);
        self.blocked |= edits.iter().any(|edit| edit.finding.action == Action::Block);
        self.findings.extend(edits.into_iter().map(|edit| edit.shifted(offset).finding));
        self.window.let_go(end);
        clean
    }

    fn advance_edits(&mut self, last: bool) -> Certain {
        let offset = self.window.offset;
        let (end, edits) = self.judge(last);
        let edits: Vec<Edit> = edits.into_iter().map(|edit| edit.shifted(offset)).collect();
        self.blocked |= edits.iter().any(|edit| edit.finding.action == Action::Block);
        self.window.let_go(end);
        Certain { up_to: offset + end, edits }
    }

    /// Up to where the window is certain, and what becomes of what was found there.
    fn judge(&self, last: bool) -> (usize, Vec<Edit>) {
        let Window { text, mark, offset } = &self.window;
        let (mark, offset) = (*mark, *offset);
        let bytes = text.as_bytes();
        let brief = offset == 0 && bytes.len() <= pii::LONGEST_ALONE;
        if mark == bytes.len() || !last && brief && mark == 0 && could_be_alone(bytes) {
            return (mark, Vec::new());
        }
        let scope = Scope { alone: brief && last && pii::is_alone(bytes), brief: brief && last };
        let mut found = self.redactor.scanner.candidates(bytes, scope);
        found.retain(|span| span.start >= mark);
        let end = if last { bytes.len() } else { settle(self.horizon(bytes, mark), mark, &found) };
        let end = floor_boundary(text, end);
        if end <= mark {
            return (mark, Vec::new());
        }
        found.retain(|span| span.end <= end);
        (end, self.redactor.edits(text, span::resolve(found)))
    }

    /// The first place from which on text that has not arrived could make a difference.
    fn horizon(&self, text: &[u8], mark: usize) -> usize {
        let floor = text.len().saturating_sub(self.hold_back);
        let near = [last_word(text), number(text), self.value(text), escape(text)];
        let near = near.into_iter().min().unwrap_or(0).max(floor);
        [near, block(text, mark), token(text)].into_iter().min().unwrap_or(0).max(mark)
    }

    /// The start of a quoted value that may not be complete.
    fn value(&self, text: &[u8]) -> usize {
        let from = text.len().saturating_sub(VALUE_REACH);
        let tail = cut(text, from, text.len());
        let quotes = |b: &u8| matches!(b, b'"' | b'\'' | b'`');
        let Some(name) = self.redactor.scanner.first_name(tail) else { return text.len() };
        let quote = cut(tail, name, tail.len()).iter().position(quotes);
        quote.map_or(text.len(), |offset| from + name + offset)
    }
}

impl Window {
    fn let_go(&mut self, end: usize) {
        let keep = floor_boundary(&self.text, end.saturating_sub(CONTEXT));
        self.text.drain(..keep);
        self.offset += keep;
        self.mark = end - keep;
    }
}

/// Whether these bytes are the beginning of a character that goes on in the next piece.
fn may_continue(bytes: &[u8]) -> bool {
    let wanted = match bytes.first() {
        Some(0xC2..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF4) => 4,
        _ => return false,
    };
    bytes.len() < wanted
}

fn floor_boundary(text: &str, mut at: usize) -> usize {
    while at > 0 && !text.is_char_boundary(at) {
        at -= 1;
    }
    at.min(text.len())
}

/// Whether a text that begins like this may turn out to be short and hold what is judged by its being short.
fn could_be_alone(text: &[u8]) -> bool {
    let whole_words = text.iter().rposition(u8::is_ascii_whitespace).unwrap_or(0);
    let link = contains(text, b"://") && !text.contains(&b' ');
    pii::is_alone(cut(text, 0, whole_words)) || link
}

/// Moves `end` to where it splits no candidate.
fn settle(mut end: usize, mark: usize, found: &[Span]) -> usize {
    while let Some(open) =
        found.iter().filter(|span| span.start < end && end < span.end).map(|span| span.start).min()
    {
        end = open;
    }
    end.max(mark)
}

fn word_start(text: &[u8], end: usize) -> usize {
    cut(text, 0, end).iter().rposition(u8::is_ascii_whitespace).map_or(0, |space| space + 1)
}

/// The start of the last word, and of the few letters before it that a number may begin with: `AA 12 34 56 B`.
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

/// Whether the letters before `end` are so few that they may be the first group of a number.
fn ends_in_few_letters(text: &[u8], end: usize) -> bool {
    (1..=4).contains(&(end - LETTER.run_back(text, end, 5)))
}

/// The start of the groups around the first number that is near enough to the end to be named by what follows.
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

/// The start of a control sequence that is not complete yet.
fn escape(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(hidden::LONGEST_SEQUENCE);
    cut(text, from, text.len()).iter().position(|&b| b == 0x1b).map_or(text.len(), |offset| from + offset)
}

/// The first line of a key block that is not complete yet.
fn block(text: &[u8], mark: usize) -> usize {
    let from = mark.max(text.len().saturating_sub(LONGEST_BLOCK));
    let mut starts =
        memchr::memmem::find_iter(cut(text, from, text.len()), b"-----BEGIN").map(|offset| from + offset);
    let armour = starts.find(|&start| is_open(text, start));
    let putty =
        memchr::memmem::find(cut(text, from, text.len()), b"PuTTY-User-Key-File").map(|offset| from + offset);
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

/// The start of a long token that the text ends with.
fn token(text: &[u8]) -> usize {
    let from = text.len().saturating_sub(LONGEST_BLOCK);
    let word = word_start(text, text.len()).max(from);
    let run = cut(text, word, text.len());
    let starts = LONG_TOKENS.iter().filter_map(|mark| {
        memchr::memmem::find_iter(run, mark).find(|&offset| !before(run, offset).is_ascii_alphanumeric())
    });
    starts.min().map_or(text.len(), |offset| word + offset)
}

fn contains(text: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(text, needle).is_some()
}
