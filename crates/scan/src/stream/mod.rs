//! Cleans text that arrives in pieces.
//!
//! **Law.** However a text is split into pieces, the concatenated output is what
//! [`Redactor::apply`](super::Redactor::apply) produces for the whole text.
//!
//! The law follows from locality: whether a span is found depends on a bounded neighbourhood of it. A stream
//! keeps the text before the split as context, judges what it holds, and releases everything before its
//! *horizon*: the place from which text that has not arrived yet could still make a difference.
//! An ordinary word is not held at all. After `password = "` the value is held. If personal data is removed,
//! the last word is held, which may begin an email address, and the few words that may still name a number. At most
//! `hold_back` bytes are held, with two exceptions that would otherwise leak: a private key is held from its
//! first line to its last, and a web token to its end, both bounded by [`Stream::LONGEST_BLOCK`]. Hidden
//! characters in the held text do not count, up to the same bound.
//!
//! What is only reported holds nothing back. It has a horizon of its own, and is reported later than its text
//! if it needs more context.

mod horizon;

use std::ops::Range;

use super::policy::{Action, Chosen, Edit, Finding, Redactor};
use super::secrets::blocks::LONGEST_BLOCK;
use super::squeezed::Squeezed;
use super::{Class, Scope, pii, span};
use horizon::{Open, could_be_alone, settle};

/// How much text before the cut is kept to judge what comes after it.
const CONTEXT: usize = 320;

/// Cleans one text that arrives in pieces.
#[derive(Debug)]
pub struct Stream {
    redactor: Redactor,
    hold_back: usize,
    /// The classes of which something is changed, and those that are looked for.
    changed: Vec<Class>,
    wanted: Vec<Class>,
    window: Window,
    /// The bytes of a character that has not arrived whole.
    partial: Vec<u8>,
    findings: Vec<Finding>,
    blocked: bool,
}

/// What is certain about a text so far. Offsets are those of the whole text.
#[derive(Clone, Debug, PartialEq)]
pub struct Certain {
    /// Later text makes no difference up to this offset.
    pub up_to: usize,
    /// The new findings. Changes lie between the previous result and this one; findings that are
    /// only reported may lie before.
    pub edits: Vec<Edit>,
}

/// The text that is at hand.
#[derive(Default)]
struct Window {
    text: String,
    /// Up to here the text has been let go.
    mark: usize,
    /// Up to here what is only reported has been told; never behind the mark.
    told: usize,
    /// What was changed behind that place.
    changed: Vec<Range<usize>>,
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
    /// The minimum of `hold_back`: with less, ordinary tokens would not fit.
    pub const LEAST_HOLD_BACK: usize = 512;
    /// The most bytes that are ever held: an open key block or web token.
    pub const LONGEST_BLOCK: usize = LONGEST_BLOCK;

    /// Creates a stream that holds back at most `hold_back` bytes, but no fewer than [`Self::LEAST_HOLD_BACK`].
    #[must_use]
    pub fn new(redactor: Redactor, hold_back: usize) -> Self {
        Self {
            changed: redactor.policy.changed(&redactor.scanner),
            wanted: redactor.policy.wanted(),
            redactor,
            hold_back: hold_back.max(Self::LEAST_HOLD_BACK),
            window: Window::default(),
            partial: Vec::new(),
            findings: Vec::new(),
            blocked: false,
        }
    }

    /// Takes the next piece and returns the clean text that is certain by now. Bytes that are not UTF-8 become
    /// replacement characters.
    pub fn push(&mut self, piece: impl AsRef<[u8]>) -> String {
        self.decode(piece.as_ref(), false);
        self.advance(false)
    }

    /// Ends the text and returns the rest of it.
    pub fn finish(&mut self) -> String {
        self.decode(&[], true);
        self.advance(true)
    }

    /// Takes the next piece and returns what is certain by now as spans instead of as text. Do not mix the two
    /// forms in one stream.
    pub fn push_edits(&mut self, piece: &str) -> Certain {
        self.decode(piece.as_bytes(), false);
        self.advance_edits(false)
    }

    /// Ends the text and returns the findings in the rest of it.
    pub fn finish_edits(&mut self) -> Certain {
        self.decode(&[], true);
        self.advance_edits(true)
    }

    /// Takes the rest of the text and returns the findings in what was open: one look instead of the two of [`Self::push_edits`]
    /// and [`Self::finish_edits`].
    pub fn finish_edits_with(&mut self, rest: &str) -> Certain {
        self.decode(rest.as_bytes(), true);
        self.advance_edits(true)
    }

    /// Returns the findings of the text form so far, with offsets in the whole text.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns whether something was found that must not pass. The text before it may already have been released.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Returns how many bytes are currently held.
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
        let (step, edits) = self.judge(last);
        let text = self.window.text.get(mark..step.mark).unwrap_or_default();
        let clean = super::policy::written(text, mark, &edits);
        self.blocked |= edits.iter().any(|edit| edit.finding.action == Action::Block);
        self.findings.extend(edits.into_iter().map(|edit| edit.shifted(offset).finding));
        self.window.go_on(step);
        clean
    }

    fn advance_edits(&mut self, last: bool) -> Certain {
        let offset = self.window.offset;
        let (step, edits) = self.judge(last);
        let edits: Vec<Edit> = edits.into_iter().map(|edit| edit.shifted(offset)).collect();
        self.blocked |= edits.iter().any(|edit| edit.finding.action == Action::Block);
        let up_to = offset + step.mark;
        self.window.go_on(step);
        Certain { up_to, edits }
    }

    /// Up to where the window is certain, and what becomes of what was found there.
    fn judge(&self, last: bool) -> (Step, Vec<Edit>) {
        let Window { text, mark, told, offset, changed } = &self.window;
        let (mark, told, bytes) = (*mark, *told, text.as_bytes());
        let brief = *offset == 0 && bytes.len() <= pii::LONGEST_ALONE;
        if told == bytes.len() {
            return (Step { mark, told, changed: changed.clone(), context: context(told, None) }, Vec::new());
        }
        let scope = Scope { alone: brief && last && pii::is_alone(bytes), brief: brief && last };
        let found = self.redactor.scanner.candidates(bytes, scope);
        let squeezed = Squeezed::of_open(bytes);
        let mut chosen = self.redactor.chosen(found);
        chosen.changes.retain(|span| span.start >= mark);
        chosen.reports.retain(|span| span.start >= told);
        let undecided = !last && brief && could_be_alone(bytes);
        let horizons = (!last).then(|| Horizons::of(self, bytes, squeezed.as_ref()));
        let certain = |classes: &[Class], from: usize, chosen: &Chosen| match &horizons {
            None => bytes.len(),
            Some(_) if undecided && classes.contains(&Class::Pii) => from,
            Some(horizons) => {
                let end = horizons.of_classes(classes, from);
                floor_boundary(text, settle(end, from, bytes, chosen)).max(from)
            }
        };
        let reports = std::mem::take(&mut chosen.reports);
        let up_to = certain(&self.changed, mark, &chosen);
        chosen.reports = reports;
        let told_to = certain(&self.wanted, told, &chosen).min(up_to);
        chosen.changes.retain(|span| span.end <= up_to);
        let changes = span::resolve(chosen.changes);
        chosen.reports.retain(|span| span.end <= told_to);
        let mut reports = span::resolve(chosen.reports);
        reports.retain(|span| !changed.iter().any(|gone| gone.start < span.end && span.start < gone.end));
        let gone = changed.iter().cloned().chain(changes.iter().map(|span| span.start..span.end));
        let gone = gone.filter(|gone| gone.end > told_to).collect();
        let spans = span::woven(changes, reports);
        let context = context(told_to, squeezed.as_ref());
        (Step { mark: up_to, told: told_to, changed: gone, context }, self.redactor.edits(text, spans))
    }
}

/// From where on text that has not arrived could still make a difference, also to the text without what hides.
struct Horizons<'a> {
    hold_back: usize,
    as_it_is: Open<'a>,
    squeezed: Option<(&'a Squeezed, Open<'a>)>,
}

impl<'a> Horizons<'a> {
    fn of(stream: &Stream, text: &'a [u8], squeezed: Option<&'a Squeezed>) -> Self {
        let open = |text| Open::of(&stream.redactor.scanner, &stream.wanted, text);
        Self {
            hold_back: stream.hold_back,
            as_it_is: open(text),
            squeezed: squeezed.map(|squeezed| (squeezed, open(squeezed.settled()))),
        }
    }

    /// For findings of `classes`, behind `from`.
    fn of_classes(&self, classes: &[Class], from: usize) -> usize {
        let as_it_is = self.as_it_is.horizon(classes, from, self.hold_back);
        let least = self.as_it_is.end().saturating_sub(LONGEST_BLOCK);
        let without = self.squeezed.as_ref().map(|(squeezed, open)| {
            let end = open.horizon(classes, squeezed.place(from), self.hold_back);
            squeezed.end_in_whole(end).max(least)
        });
        without.map_or(as_it_is, |without| without.min(as_it_is))
    }
}

/// What a stream has become certain of. Offsets are those of the window.
struct Step {
    mark: usize,
    told: usize,
    changed: Vec<Range<usize>>,
    /// From where on the text is kept to judge what comes after.
    context: usize,
}

/// Returns how far back text is kept that stands before `told`: enough of it, also of what a reader has of it.
fn context(told: usize, squeezed: Option<&Squeezed>) -> usize {
    let as_it_is = told.saturating_sub(CONTEXT);
    let read = squeezed
        .map_or(as_it_is, |squeezed| squeezed.end_in_whole(squeezed.place(told).saturating_sub(CONTEXT)));
    read.min(as_it_is).max(told.saturating_sub(LONGEST_BLOCK))
}

impl Window {
    fn go_on(&mut self, step: Step) {
        let keep = floor_boundary(&self.text, step.context);
        self.text.drain(..keep);
        self.offset += keep;
        self.mark = step.mark - keep;
        self.told = step.told - keep;
        self.changed =
            step.changed.into_iter().map(|gone| gone.start.saturating_sub(keep)..gone.end - keep).collect();
    }
}

/// Returns whether these bytes are the beginning of a character that goes on in the next piece.
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
