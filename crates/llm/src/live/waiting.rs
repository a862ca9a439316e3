//! Frames that wait for what is decided about them, and what was decided.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use super::PartKey;
use super::findings::{FieldPlace, ResultKey};
use super::frame::{Frame, FrameLines};
use super::ledger::Ledger;
use super::span::{Node, Splices, quote};
use super::steps::{step, steps};
use super::stream::TextPiece;

/// What was decided about the calls.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    released: bool,
    removed: BTreeSet<PartKey>,
    note: Option<String>,
}

impl Calls {
    /// Decides: `removed` never leave, the others may.
    pub(crate) fn decide(&mut self, removed: &[PartKey], note: Option<&str>) {
        self.released = true;
        self.removed.extend(removed);
        self.note = note.filter(|note| !note.is_empty() && !self.removed.is_empty()).map(str::to_owned);
    }

    /// Whether calls may leave.
    pub(crate) fn are_released(&self) -> bool {
        self.released
    }

    /// Whether a call never leaves.
    pub(crate) fn is_removed(&self, part: PartKey) -> bool {
        step();
        self.removed.contains(&part)
    }

    /// Whether some call never leaves.
    pub(crate) fn any_removed(&self) -> bool {
        !self.removed.is_empty()
    }

    /// Whether a choice lost a call.
    pub(crate) fn lost_one(&self, choice: u32) -> bool {
        let (first, last) = (PartKey { choice, part: 0 }, PartKey { choice, part: u32::MAX });
        self.removed.range(first..=last).next().is_some()
    }

    /// What is said in a choice that lost a call.
    pub(crate) fn note(&self, choice: u32) -> Option<&str> {
        self.note.as_deref().filter(|_| self.lost_one(choice))
    }
}

/// A frame that waits.
#[derive(Debug)]
pub(crate) struct Waiting<M> {
    pub(super) raw: Frame,
    /// `None` for a frame without data.
    pub(super) mark: Option<M>,
    pub(super) texts: Texts,
    pub(super) call: bool,
    pub(super) repeats: Vec<u32>,
    /// The call that the frame belongs to because nobody knows its type.
    pub(super) unknown: Option<PartKey>,
    /// Results in the frame's data, and where they stand.
    pub(super) results: Vec<(ResultKey, Range<usize>)>,
    /// Fields that nobody knows: their calls, and where they stand.
    pub(super) fields: Vec<(PartKey, FieldPlace)>,
}

/// The texts of a frame.
#[derive(Debug)]
pub(super) enum Texts {
    None,
    One(TextPiece),
    Many(Vec<TextPiece>),
}

impl Texts {
    pub(super) fn as_slice(&self) -> &[TextPiece] {
        match self {
            Self::None => &[],
            Self::One(only) => std::slice::from_ref(only),
            Self::Many(pieces) => pieces,
        }
    }
}

impl From<Vec<TextPiece>> for Texts {
    fn from(mut pieces: Vec<TextPiece>) -> Self {
        match (pieces.len(), pieces.pop()) {
            (1, Some(only)) => Self::One(only),
            (_, Some(last)) => {
                pieces.push(last);
                Self::Many(pieces)
            }
            (_, None) => Self::None,
        }
    }
}

/// What was edited so far.
pub(crate) struct Edits<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) calls: &'a Calls,
}

impl<M> Waiting<M> {
    /// What the wire marked the frame with; `None` if it has no data.
    pub(crate) fn mark(&self) -> Option<&M> {
        self.mark.as_ref()
    }

    /// The texts that the frame carries.
    pub(crate) fn texts(&self) -> &[TextPiece] {
        self.texts.as_slice()
    }

    /// Whether nothing in the frame is judged that is neither a text nor a call: only then may it be repeated as it came.
    pub(crate) fn is_plain(&self) -> bool {
        self.results.is_empty() && self.fields.is_empty()
    }

    /// The frame as it came.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.raw.bytes
    }

    /// Splices for the texts that read differently now.
    pub(crate) fn text_splices(&self, ledger: &Ledger) -> Splices {
        let mut splices = Splices::default();
        for text in self.texts.as_slice() {
            if let Some(new) = ledger.replacement(text.id, text.piece.clone()) {
                splices.replace(text.literal.clone(), quote(&new));
            }
        }
        splices
    }

    /// Writes the frame as it came but for results that were edited and fields that were refused.
    pub(crate) fn write_plain(&self, edits: &Edits<'_>, out: &mut BytesMut) {
        if self.results.is_empty() && self.fields.is_empty() {
            out.extend_from_slice(&self.raw.bytes);
        } else {
            self.write_edited(edits, out, |_| Splices::default());
        }
    }

    /// Puts results that were edited in their place, and what says nothing in that of fields that were refused.
    fn splice_findings(&self, edits: &Edits<'_>, splices: &mut Splices) {
        for (result, span) in &self.results {
            if let Some(new) = edits.ledger.findings.edit(*result) {
                splices.replace(span.clone(), new);
            }
        }
        for (part, place) in self.fields.iter().filter(|(part, _)| edits.calls.is_removed(*part)) {
            splices.replace(place.span(), place.refused(*part));
        }
    }

    /// Writes the frame with edits of its data: `edit` is given the root of the data.
    pub(crate) fn write_edited(
        &self,
        edits: &Edits<'_>,
        out: &mut BytesMut,
        edit: impl FnOnce(&Node<'_>) -> Splices,
    ) {
        // The frame has been read before, so it can be read again.
        if let Ok(lines) = FrameLines::read(&self.raw)
            && let Some(data) = &lines.data
            && let Some(root) = Node::root(data)
        {
            let mut splices = edit(&root);
            self.splice_findings(edits, &mut splices);
            if !splices.is_empty() {
                out.extend_from_slice(lines.with_data(&splices.apply(data)).as_bytes());
                return;
            }
        }
        out.extend_from_slice(&self.raw.bytes);
    }

    /// A frame that is neither a call nor a copy.
    pub(super) fn plain(raw: Frame, mark: Option<M>, texts: Texts) -> Self {
        let (repeats, results, fields) = (Vec::new(), Vec::new(), Vec::new());
        Self { raw, mark, texts, call: false, repeats, unknown: None, results, fields }
    }

    pub(super) fn may_leave(&self, ledger: &Ledger, calls: &Calls) -> bool {
        steps(1 + self.texts.as_slice().len() + self.repeats.len() + self.results.len());
        (!self.call || calls.released)
            && self.texts.as_slice().iter().all(|text| ledger.may_leave(text.id, text.piece.end))
            && self.repeats.iter().all(|choice| ledger.choice_is_settled(*choice))
            && self.results.iter().all(|(result, _)| ledger.findings.is_settled(*result))
    }
}
