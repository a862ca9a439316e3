//! One text: what is held of it, what each redactor said about it, and what may be released.

use backstop_hooks::drop_contained;

use super::{RedactionStream, Settled, SpanEdit};

/// What may be released of a text after a step. Offsets are bytes of the text as the model wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Released {
    /// The clean text that may leave now.
    pub text: String,
    /// The offset in the model's text up to which everything has been released.
    pub up_to: usize,
    /// What was replaced between the last `up_to` and this one, in the order of the text.
    pub edits: Vec<SpanEdit>,
}

/// A text on its way past the redactors.
#[derive(Debug)]
pub(super) struct Reading {
    readers: Vec<Reader>,
    /// What has not gone yet.
    held: String,
    /// Where `held` begins.
    offset: usize,
}

/// The text so far, as far as a redactor may still speak of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SoFar<'a> {
    pub(super) held: &'a str,
    offset: usize,
}

/// One redactor's part in a text.
#[derive(Debug, Default)]
pub(super) struct Reader {
    state: State,
    up_to: usize,
    /// Settled, but not gone yet.
    edits: Vec<SpanEdit>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unread,
    Reading(Stream),
    /// The redactor failed. Where that does not block, the text passes without it.
    GivenUp,
}

/// A redactor's own part of the reading.
#[derive(Debug)]
struct Stream(Option<Box<dyn RedactionStream>>);

impl Drop for Stream {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

impl Reading {
    pub(super) fn new(readers: usize) -> Self {
        let readers = std::iter::repeat_with(Reader::default).take(readers).collect();
        Self { readers, held: String::new(), offset: 0 }
    }

    pub(super) fn grow(&mut self, piece: &str) {
        self.held.push_str(piece);
    }

    pub(super) fn parts(&mut self) -> (&mut [Reader], SoFar<'_>) {
        (&mut self.readers, SoFar { held: &self.held, offset: self.offset })
    }

    /// Nothing goes.
    pub(super) fn nothing(&self) -> Released {
        Released { up_to: self.offset, ..Released::default() }
    }

    /// Lets go of everything that all redactors have settled, but of no span in part.
    pub(super) fn release(&mut self) -> Released {
        let end = self.offset + self.held.len();
        let settled = self.readers.iter().filter_map(Reader::bound).min().unwrap_or(end).min(end);
        let mut edits = self.united();
        let open = edits.iter().find(|edit| edit.start < settled && settled < edit.end);
        let up_to = open.map_or(settled, |edit| edit.start);
        edits.retain(|edit| edit.end <= up_to);
        for reader in &mut self.readers {
            reader.edits.retain(|edit| edit.end > up_to);
        }
        let text = self.let_go(up_to, &edits);
        Released { text, up_to, edits }
    }

    /// Returns the edits of all redactors, those that overlap as one.
    fn united(&self) -> Vec<SpanEdit> {
        let ranked = self.readers.iter().enumerate();
        let mut all: Vec<_> =
            ranked.flat_map(|(rank, reader)| reader.edits.iter().map(move |edit| (rank, edit))).collect();
        all.sort_by_key(|(rank, edit)| (edit.start, *rank));
        let mut united: Vec<(usize, SpanEdit)> = Vec::with_capacity(all.len());
        for (rank, edit) in all {
            match united.last_mut().filter(|(_, last)| edit.start < last.end) {
                None => united.push((rank, edit.clone())),
                Some((first, last)) => {
                    last.end = last.end.max(edit.end);
                    if rank < *first {
                        *first = rank;
                        (last.replacement, last.kind) = (edit.replacement.clone(), edit.kind);
                    }
                }
            }
        }
        united.into_iter().map(|(_, edit)| edit).collect()
    }

    fn let_go(&mut self, up_to: usize, edits: &[SpanEdit]) -> String {
        let rest = self.held.split_off(up_to.saturating_sub(self.offset).min(self.held.len()));
        let gone = std::mem::replace(&mut self.held, rest);
        let offset = std::mem::replace(&mut self.offset, up_to);
        if edits.is_empty() {
            return gone;
        }
        let mut clean = String::with_capacity(gone.len());
        let mut done = 0;
        for edit in edits {
            clean.push_str(gone.get(done..edit.start - offset).unwrap_or_default());
            clean.push_str(&edit.replacement);
            done = edit.end - offset;
        }
        clean.push_str(gone.get(done..).unwrap_or_default());
        clean
    }
}

impl Reader {
    /// Returns what the redactor says to a step; nothing where it has been given up.
    pub(super) fn tell(
        &mut self,
        open: impl FnOnce() -> Option<Box<dyn RedactionStream>>,
        told: impl FnOnce(&mut dyn RedactionStream) -> Settled,
    ) -> Settled {
        if matches!(self.state, State::Unread) {
            self.state = State::Reading(Stream(open()));
        }
        match &mut self.state {
            State::Reading(Stream(Some(stream))) => told(stream.as_mut()),
            State::Reading(Stream(None)) | State::Unread | State::GivenUp => Settled::default(),
        }
    }

    /// Does without the redactor from now on.
    pub(super) fn give_up(&mut self) {
        self.state = State::GivenUp;
    }

    /// Takes what the redactor said, if it makes sense.
    pub(super) fn take(
        &mut self,
        settled: Settled,
        so_far: SoFar<'_>,
        last: bool,
    ) -> Result<Settled, &'static str> {
        if matches!(self.state, State::GivenUp) {
            return Ok(settled);
        }
        if settled.block.is_some() {
            return Ok(settled);
        }
        if settled.up_to < self.up_to || !so_far.is_place(settled.up_to) {
            return Err("it settled a place that is not in the text, or less than before");
        }
        if last && settled.up_to != so_far.end() {
            return Err("it left the end of the text open");
        }
        let mut done = self.up_to;
        for edit in &settled.edits {
            let sound = done <= edit.start && edit.start < edit.end && edit.end <= settled.up_to;
            if !sound || !so_far.is_place(edit.start) || !so_far.is_place(edit.end) {
                return Err("its edits are not in the order of the text, or not in what it settled");
            }
            done = edit.end;
        }
        self.up_to = settled.up_to;
        self.edits.extend_from_slice(&settled.edits);
        Ok(settled)
    }

    /// Up to where the text may go as far as this redactor is concerned.
    fn bound(&self) -> Option<usize> {
        (!matches!(self.state, State::GivenUp)).then_some(self.up_to)
    }
}

impl SoFar<'_> {
    fn end(self) -> usize {
        self.offset + self.held.len()
    }

    fn is_place(self, at: usize) -> bool {
        at.checked_sub(self.offset).is_some_and(|at| self.held.is_char_boundary(at))
    }
}
