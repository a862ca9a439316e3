//! What the texts of an answer say, how far they are settled, and what stands there instead.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use backstop_hooks::Text;

use super::findings::Findings;
use super::steps::{step, steps};
use super::{AlreadySent, FreshText, PartKey, TextEdit, TextKind};

/// One text of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextId(usize);

/// The texts of one answer.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Results of tools, and fields that nobody knows.
    pub(crate) findings: Findings,
    texts: Vec<Entry>,
    by_part: BTreeMap<PartKey, TextId>,
    /// Texts that have news for the judge.
    news: Vec<TextId>,
    /// Choices in which no more text begins.
    ended: BTreeSet<u32>,
    /// How many texts of a choice have edits.
    edited_texts: BTreeMap<u32, usize>,
    /// How many texts of a choice are not settled to their end, each frame of a copy asks.
    unsettled: BTreeMap<u32, usize>,
    edited: bool,
    /// Of all texts.
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    part: PartKey,
    kind: TextKind,
    text: String,
    /// The text leaves as a whole or not at all.
    together: bool,
    /// No more text comes.
    whole: bool,
    /// How far the judge has seen it.
    shown: usize,
    has_news: bool,
    settled: usize,
    /// It is whole, and settled to its end.
    is_settled: bool,
    /// How far it has left.
    left: usize,
    /// Its end has left.
    closed: bool,
    /// In order, not overlapping.
    edits: Vec<TextEdit>,
}

impl Ledger {
    /// One without texts.
    pub(crate) fn new(findings: Findings) -> Self {
        Self { findings, ..Self::default() }
    }

    /// Begins a text. With `together` it leaves as a whole or not at all.
    pub(crate) fn begin(&mut self, part: PartKey, kind: TextKind, together: bool) -> TextId {
        let id = TextId(self.texts.len());
        self.texts.push(Entry {
            part,
            kind,
            text: String::new(),
            together,
            whole: false,
            shown: 0,
            has_news: false,
            settled: 0,
            is_settled: false,
            left: 0,
            closed: false,
            edits: Vec::new(),
        });
        self.by_part.insert(part, id);
        *self.unsettled.entry(part.choice).or_default() += 1;
        id
    }

    /// Counts a text among those that are settled, or no more.
    fn count(&mut self, id: TextId) {
        step();
        let Some(entry) = self.texts.get_mut(id.0) else { return };
        let is_settled = entry.whole && entry.settled >= entry.text.len();
        if std::mem::replace(&mut entry.is_settled, is_settled) != is_settled {
            let unsettled = self.unsettled.entry(entry.part.choice).or_default();
            *unsettled = if is_settled { unsettled.saturating_sub(1) } else { *unsettled + 1 };
        }
    }

    /// Adds text; says where in the text of the part it stands.
    pub(crate) fn append(&mut self, id: TextId, more: &str) -> Range<usize> {
        let Some(entry) = self.texts.get_mut(id.0) else { return 0..0 };
        let from = entry.text.len();
        entry.text.push_str(more);
        self.bytes += more.len();
        let piece = from..entry.text.len();
        if !more.is_empty() && !std::mem::replace(&mut entry.has_news, true) {
            self.news.push(id);
        }
        self.count(id);
        piece
    }

    /// No more text comes.
    pub(crate) fn close(&mut self, id: TextId) {
        let Some(entry) = self.texts.get_mut(id.0) else { return };
        if !std::mem::replace(&mut entry.whole, true) && !std::mem::replace(&mut entry.has_news, true) {
            self.news.push(id);
        }
        self.count(id);
    }

    /// No more text begins in a choice.
    pub(crate) fn end_choice(&mut self, choice: u32) {
        self.ended.insert(choice);
    }

    /// What the judge has not seen.
    pub(crate) fn fresh(&mut self) -> Vec<FreshText> {
        let news = std::mem::take(&mut self.news);
        let shown = news.into_iter().filter_map(|id| {
            let entry = self.texts.get_mut(id.0)?;
            entry.has_news = false;
            let text = entry.text.get(entry.shown..)?.to_owned();
            entry.shown = entry.text.len();
            Some(FreshText { part: entry.part, kind: entry.kind, text, last: entry.whole })
        });
        shown.collect()
    }

    pub(crate) fn settle(&mut self, part: PartKey, up_to: usize, edits: Vec<TextEdit>) {
        let Some(id) = self.by_part.get(&part).copied() else { return };
        let Some(entry) = self.texts.get_mut(id.0) else { return };
        entry.settled =
            entry.settled.max(if up_to == usize::MAX { up_to } else { up_to.min(entry.text.len()) });
        self.count(id);
        let Some(entry) = self.texts.get_mut(id.0).filter(|_| !edits.is_empty()) else { return };
        self.edited = true;
        if entry.edits.is_empty() {
            *self.edited_texts.entry(part.choice).or_default() += 1;
        }
        edits.into_iter().for_each(|edit| entry.edit(edit));
    }

    pub(crate) fn replace(&mut self, part: PartKey, new: &str) -> Result<(), AlreadySent> {
        let entry = self.by_part.get(&part).and_then(|id| self.texts.get_mut(id.0)).ok_or(AlreadySent)?;
        if entry.closed {
            return if entry.rendered(0..usize::MAX) == new { Ok(()) } else { Err(AlreadySent) };
        }
        let left = entry.rendered(0..entry.left);
        let rest = new.strip_prefix(left.as_str()).ok_or(AlreadySent)?;
        let had_edits = !entry.edits.is_empty();
        let before: Vec<TextEdit> = std::mem::take(&mut entry.edits)
            .into_iter()
            .filter(|edit| edit.span.start < entry.left)
            .collect();
        entry.edits = before;
        let span = entry.left..entry.text.len();
        if entry.text.get(span.clone()) != Some(rest) {
            self.edited = true;
            entry.edits.push(TextEdit { span, replacement: Text::from(rest) });
        }
        let count = self.edited_texts.entry(part.choice).or_default();
        *count = (*count + usize::from(!entry.edits.is_empty())).saturating_sub(usize::from(had_edits));
        Ok(())
    }

    /// Whether anything is edited anywhere.
    pub(crate) fn is_edited(&self) -> bool {
        self.edited || self.findings.is_edited()
    }

    /// How many bytes all texts have.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Who reads a text.
    pub(crate) fn kind(&self, id: TextId) -> Option<TextKind> {
        self.texts.get(id.0).map(|entry| entry.kind)
    }

    /// Whether the text is edited.
    pub(crate) fn has_edits(&self, id: TextId) -> bool {
        self.texts.get(id.0).is_some_and(|entry| !entry.edits.is_empty())
    }

    /// Whether a frame that ends at `up_to` of the text may leave.
    pub(crate) fn may_leave(&self, id: TextId, up_to: usize) -> bool {
        let Some(entry) = self.texts.get(id.0) else { return false };
        match entry.together {
            true => entry.settled == usize::MAX || (entry.whole && entry.settled >= entry.text.len()),
            false => entry.settled >= up_to,
        }
    }

    /// Whether all texts of a choice are there, whole and settled.
    pub(crate) fn choice_is_settled(&self, choice: u32) -> bool {
        step();
        self.ended.contains(&choice) && self.unsettled.get(&choice).is_none_or(|count| *count == 0)
    }

    /// Whether a text of a choice is edited.
    pub(crate) fn choice_is_edited(&self, choice: u32) -> bool {
        self.edited_texts.get(&choice).is_some_and(|count| *count > 0)
    }

    /// What stands in place of a piece; `None` if it stays.
    pub(crate) fn replacement(&self, id: TextId, piece: Range<usize>) -> Option<String> {
        let entry = self.texts.get(id.0).filter(|entry| !entry.edits.is_empty())?;
        if entry.together {
            return Some(String::new());
        }
        let touches = |edit: &TextEdit| edit.span.start < piece.end;
        entry.edits_from(piece.start).first().is_some_and(touches).then(|| entry.rendered(piece))
    }

    /// What was put behind the end of a text: no piece of the answer carries it.
    pub(crate) fn tail(&self, id: TextId) -> Option<String> {
        let entry = self.texts.get(id.0).filter(|entry| !entry.together)?;
        let first = entry.edits.partition_point(|edit| edit.span.start < entry.text.len());
        let behind = entry.edits.get(first..).unwrap_or_default();
        let tail: String = behind.iter().map(|edit| edit.replacement.as_str()).collect();
        (!tail.is_empty()).then_some(tail)
    }

    /// A piece has left.
    pub(crate) fn left(&mut self, id: TextId, up_to: usize) {
        if let Some(entry) = self.texts.get_mut(id.0) {
            entry.left = entry.left.max(up_to);
        }
    }

    /// The end of a text has left.
    pub(crate) fn end_left(&mut self, id: TextId) {
        if let Some(entry) = self.texts.get_mut(id.0) {
            entry.closed = true;
        }
    }

    /// Whether something of a text, as it reads now, has left.
    pub(crate) fn has_left(&self, id: TextId) -> bool {
        self.texts.get(id.0).is_some_and(|entry| !entry.rendered(0..entry.left).is_empty())
    }

    /// Whether something visible of a choice leaves or has left.
    pub(crate) fn choice_has_visible(&self, choice: u32) -> bool {
        let (first, last) = (PartKey { choice, part: 0 }, PartKey { choice, part: u32::MAX });
        let of_choice = self.by_part.range(first..=last).filter_map(|(_, id)| self.texts.get(id.0));
        let mut visible = of_choice.inspect(|_| step()).filter(|entry| entry.kind == TextKind::Visible);
        visible.any(|entry| !entry.rendered(0..usize::MAX).is_empty())
    }

    /// What a text says, with its edits.
    pub(crate) fn says(&self, id: TextId) -> String {
        let entry = self.texts.get(id.0);
        entry.map(|entry| entry.rendered(0..usize::MAX)).unwrap_or_default()
    }

    /// What of a text has left, as it left.
    pub(crate) fn sent(&self, id: TextId) -> String {
        self.texts.get(id.0).map(|entry| entry.rendered(0..entry.left)).unwrap_or_default()
    }

    /// What stands in place of a whole text; `None` if it stays.
    pub(crate) fn whole_replacement(&self, id: TextId) -> Option<String> {
        let entry = self.texts.get(id.0).filter(|entry| !entry.edits.is_empty())?;
        Some(if entry.together { String::new() } else { entry.rendered(0..usize::MAX) })
    }
}

impl Entry {
    /// Takes an edit in: what has left stays, characters stay whole, edits that overlap become one.
    fn edit(&mut self, edit: TextEdit) {
        let mut start = edit.span.start.clamp(self.left.min(self.text.len()), self.text.len());
        let mut end = edit.span.end.clamp(start, self.text.len());
        start = (0..=start).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        end = (end..=self.text.len()).find(|at| self.text.is_char_boundary(*at)).unwrap_or(end);
        let mut merged = TextEdit { span: start..end, replacement: edit.replacement };
        let place = self.edits.partition_point(|old| old.span.end <= start && old.span.start < start);
        while let Some(old) = self.edits.get(place).filter(|old| {
            old.span.start < merged.span.end || (old.span.start == merged.span.start && old.span.end <= end)
        }) {
            let text = if old.span.start <= merged.span.start {
                format!("{}{}", old.replacement, merged.replacement)
            } else {
                format!("{}{}", merged.replacement, old.replacement)
            };
            let span = old.span.start.min(merged.span.start)..old.span.end.max(merged.span.end);
            merged = TextEdit { span, replacement: text.into() };
            self.edits.remove(place);
        }
        self.edits.insert(place, merged);
    }

    /// The edits that touch what stands from `start` on: edits are in order, and none overlaps another.
    fn edits_from(&self, start: usize) -> &[TextEdit] {
        let first = self.edits.partition_point(|edit| edit.span.end <= start && edit.span.start < start);
        self.edits.get(first..).unwrap_or_default()
    }

    /// How a piece reads now. An edit's replacement stands in the piece in which the edit begins; one behind the
    /// end of the text stands in the last one only if `piece` is open at the end.
    fn rendered(&self, piece: Range<usize>) -> String {
        let end = piece.end.min(self.text.len());
        let (mut out, mut at) = (String::new(), piece.start);
        steps(end.saturating_sub(piece.start));
        for edit in self.edits_from(piece.start) {
            step();
            if edit.span.start > end {
                break;
            }
            let begins = edit.span.start >= piece.start && edit.span.start < piece.end;
            if edit.span.start > at && edit.span.start <= end {
                out.push_str(self.text.get(at..edit.span.start).unwrap_or_default());
                at = edit.span.start;
            }
            if begins {
                out.push_str(&edit.replacement);
            }
            if edit.span.start < end {
                at = at.max(edit.span.end);
            }
        }
        out.push_str(self.text.get(at..end).unwrap_or_default());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_edited_as_long_as_a_text_of_it_reads_differently() {
        let mut ledger = Ledger::default();
        let part = |choice, part| PartKey { choice, part };
        for part in [part(0, 0), part(0, 1), part(1, 0)] {
            let id = ledger.begin(part, TextKind::Visible, false);
            ledger.append(id, "text");
        }
        let masked = || vec![TextEdit { span: 0..1, replacement: "*".into() }];
        let edited = |ledger: &Ledger| [0, 1].map(|choice| ledger.choice_is_edited(choice));
        ledger.settle(part(0, 0), 4, Vec::new());
        assert_eq!(edited(&ledger), [false, false]);
        ledger.settle(part(0, 0), 4, masked());
        ledger.settle(part(0, 0), 4, masked());
        ledger.settle(part(0, 1), 4, masked());
        assert_eq!(edited(&ledger), [true, false]);
        ledger.replace(part(0, 0), "text").unwrap();
        assert_eq!(edited(&ledger), [true, false]);
        ledger.replace(part(0, 1), "text").unwrap();
        ledger.replace(part(1, 0), "other").unwrap();
        assert_eq!(edited(&ledger), [false, true]);
    }
}
