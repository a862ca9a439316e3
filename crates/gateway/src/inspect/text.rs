//! The texts of an answer on their way past the span redactors.
//!
//! Redactors read one text for each choice, all its visible parts together, and one for its reasoning. An
//! answer has parts. This module keeps which piece of a text came from which part, so that what is settled
//! of the text is settled in the parts, also where a span begins in one part and ends in the next.

use std::collections::{BTreeMap, VecDeque};

use backstop_engine::{Redaction, Released, SpanEdit};
use backstop_hooks::Text;
use backstop_llm::live::{AnswerEditor, FreshText, PartKey, TextEdit, TextKind};

/// The texts of one answer.
#[derive(Debug, Default)]
pub(super) struct Lines(BTreeMap<usize, Line>);

/// One text, as far as it is not settled.
#[derive(Debug, Default)]
struct Line {
    pieces: VecDeque<Piece>,
    end: usize,
    /// The end of the text, which redactors have not read.
    rest: String,
}

/// A piece of a text that came from one part.
#[derive(Clone, Copy, Debug)]
struct Piece {
    part: PartKey,
    /// Where it begins in the text.
    start: usize,
    /// Where it begins in the part.
    from: usize,
    len: usize,
}

impl Piece {
    const fn end(&self) -> usize {
        self.start + self.len
    }

    /// A place in the text as a place in the part.
    const fn place(&self, at: usize) -> usize {
        at.saturating_sub(self.start).saturating_add(self.from)
    }
}

/// The number under which redactors read a text.
fn number(part: PartKey, kind: TextKind) -> usize {
    let choice = usize::try_from(part.choice).unwrap_or(usize::MAX / 2);
    choice.saturating_mul(2).saturating_add(usize::from(kind == TextKind::Thinking))
}

impl Lines {
    /// Lets the redactors read more of an answer, and settles what they let go.
    pub(super) fn push(
        &mut self,
        fresh: &FreshText,
        from: usize,
        redaction: &mut Redaction,
        editor: &mut dyn AnswerEditor,
    ) {
        let number = number(fresh.part, fresh.kind);
        let line = self.0.entry(number).or_default();
        line.grow(fresh.part, from, fresh.text.len());
        line.settle(&redaction.push(number, &fresh.text), editor);
    }

    /// Takes more of an answer that has ended: redactors read it at [`Self::finish`], with one look.
    pub(super) fn end_with(&mut self, fresh: &FreshText, from: usize) {
        let line = self.0.entry(number(fresh.part, fresh.kind)).or_default();
        line.grow(fresh.part, from, fresh.text.len());
        line.rest.push_str(&fresh.text);
    }

    /// The texts are whole: settles the rest of them.
    pub(super) fn finish(&mut self, redaction: &mut Redaction, editor: &mut dyn AnswerEditor) {
        for (number, mut line) in std::mem::take(&mut self.0) {
            let rest = std::mem::take(&mut line.rest);
            line.settle(&redaction.finish_with(number, &rest), editor);
        }
    }
}

impl Line {
    fn grow(&mut self, part: PartKey, from: usize, len: usize) {
        match self.pieces.back_mut().filter(|piece| piece.part == part) {
            Some(piece) => piece.len += len,
            None => self.pieces.push_back(Piece { part, start: self.end, from, len }),
        }
        self.end += len;
    }

    fn settle(&mut self, released: &Released, editor: &mut dyn AnswerEditor) {
        while let Some(piece) = self.pieces.front().copied().filter(|piece| piece.start < released.up_to) {
            let up_to = released.up_to.min(piece.end());
            let edits = released.edits.iter().filter_map(|edit| within(edit, &piece)).collect();
            editor.settle(piece.part, piece.place(up_to), edits);
            if up_to < piece.end() {
                if let Some(piece) = self.pieces.front_mut() {
                    *piece =
                        Piece { start: up_to, from: piece.place(up_to), len: piece.end() - up_to, ..*piece };
                }
                return;
            }
            self.pieces.pop_front();
        }
    }
}

/// The part of an edit that lies in a piece. The replacement stands where the span begins.
fn within(edit: &SpanEdit, piece: &Piece) -> Option<TextEdit> {
    let (start, end) = (edit.start.max(piece.start), edit.end.min(piece.end()));
    (start < end).then(|| TextEdit {
        span: piece.place(start)..piece.place(end),
        replacement: if edit.start >= piece.start { edit.replacement.clone() } else { Text::default() },
    })
}
