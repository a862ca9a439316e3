//! Runs all redactors over the texts of one answer.

use std::collections::BTreeMap;
use std::time::Duration;

use backstop_hooks::{CallContext, FailurePolicy, contained};
use tokio::time::Instant;

use super::reading::{Reader, Reading, Released};
use super::{RedactionStream, Seat, Settled, Tally};
use crate::aside::aside;
use crate::foreign::too_deep;
use crate::receipt::{BlockCause, Blocked, Failure, Said, Step};
use crate::registry::Snapshot;
use crate::runner::chain::{blocked, failed};

/// The redactors that are about a call, and how far they are with each text.
#[derive(Debug)]
pub(super) struct Union {
    seats: Vec<Working>,
    texts: BTreeMap<usize, Reading>,
    blocked: Option<Blocked>,
}

/// What redactors are asked about a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// There is more of it.
    More,
    /// This is the rest of it.
    End,
    /// It is whole, and sealed.
    Seal,
}

/// One redactor and what it did so far.
#[derive(Debug)]
struct Working {
    seat: Seat,
    tally: Tally,
    elapsed: Duration,
    failure: Option<Failure>,
    blocked: bool,
}

impl Union {
    pub(super) fn new(snapshot: &Snapshot, call: &CallContext) -> Self {
        let about = |seat: &&Seat| seat.meta.is_about(None, call);
        let seats: Vec<_> = snapshot.redactors().iter().filter(about).cloned().map(Working::new).collect();
        let blocked = if seats.is_empty() { None } else { too_deep(call) };
        Self { seats, texts: BTreeMap::new(), blocked }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub(super) fn blocked(&self) -> Option<&Blocked> {
        self.blocked.as_ref()
    }

    /// Returns how long the redactors took.
    pub(super) fn elapsed(&self) -> Duration {
        self.seats.iter().map(|working| working.elapsed).sum()
    }

    /// Returns whether something was taken out.
    pub(super) fn replaced(&self) -> bool {
        self.seats.iter().any(|working| working.tally.replaced())
    }

    pub(super) fn push(&mut self, text: usize, piece: &str, call: &CallContext) -> Released {
        self.advance(text, piece, call, Asks::More)
    }

    /// Takes the rest of a text, or all of it.
    pub(super) fn finish(&mut self, text: usize, rest: &str, call: &CallContext) -> Released {
        let reads_once = || self.seats.iter().all(|working| working.seat.reads_once);
        let begun = (!rest.is_empty() && !reads_once()).then(|| self.push(text, rest, call));
        let rest = if begun.is_some() { "" } else { rest };
        let mut released = self.advance(text, rest, call, Asks::End);
        if let Some(mut begun) = begun {
            begun.text.push_str(&released.text);
            begun.edits.append(&mut released.edits);
            released = Released { up_to: released.up_to, ..begun };
        }
        self.texts.remove(&text);
        released
    }

    /// The whole of a text that is sealed.
    pub(super) fn seal(&mut self, text: usize, whole: &str, call: &CallContext) -> Released {
        let released = self.advance(text, whole, call, Asks::Seal);
        self.texts.remove(&text);
        released
    }

    /// Returns the whole of a text.
    pub(super) fn whole(&mut self, text: usize, whole: &str, call: &CallContext) -> String {
        self.finish(text, whole, call).text
    }

    fn advance(&mut self, text: usize, piece: &str, call: &CallContext, asks: Asks) -> Released {
        let last = asks != Asks::More;
        let seats = self.seats.len();
        let reading = self.texts.entry(text).or_insert_with(|| Reading::new(seats));
        if self.blocked.is_some() {
            return reading.nothing();
        }
        reading.grow(piece);
        let (readers, so_far) = reading.parts();
        let size = if last { so_far.held.len() } else { piece.len() };
        let mut each = self.seats.iter_mut().zip(readers);
        let stopped = aside(size, || {
            each.find_map(|(working, reader)| {
                let told = |stream: &mut dyn RedactionStream| match asks {
                    Asks::More => stream.push(piece),
                    Asks::End if piece.is_empty() => stream.finish(),
                    Asks::End => stream.finish_with(piece),
                    Asks::Seal => stream.seal(piece),
                };
                let settled = working.ask(reader, call, told);
                let settled = settled
                    .and_then(|settled| reader.take(settled, so_far, last).map_err(Failure::malformed));
                working.note(reader, settled)
            })
        });
        if let Some(blocked) = stopped {
            self.blocked = Some(blocked);
            return reading.nothing();
        }
        reading.release()
    }

    /// Returns what each redactor did, as steps of a receipt.
    pub(super) fn into_steps(self, again: bool) -> Vec<Step> {
        self.seats.into_iter().map(|working| working.into_step(again)).collect()
    }
}

impl Working {
    fn new(seat: Seat) -> Self {
        Self { seat, tally: Tally::default(), elapsed: Duration::ZERO, failure: None, blocked: false }
    }

    /// Returns what the redactor says, within its budget.
    fn ask(
        &mut self,
        reader: &mut Reader,
        call: &CallContext,
        told: impl FnOnce(&mut dyn RedactionStream) -> Settled,
    ) -> Result<Settled, Failure> {
        let start = Instant::now();
        let redactor = &self.seat.redactor;
        let open = || redactor.get().map(|redactor| redactor.open(call));
        let said = contained(|| call.nesting.descend(|| reader.tell(open, told)));
        let took = start.elapsed();
        self.elapsed = self.elapsed.saturating_add(took);
        let budget = self.seat.meta.budget;
        match said {
            Ok(_) if took > budget => Err(Failure::timed_out(budget, None)),
            Ok(settled) => Ok(settled),
            Err(_) => Err(Failure::panicked()),
        }
    }

    /// Takes note of what the redactor said; returns why the text must not pass.
    fn note(&mut self, reader: &mut Reader, settled: Result<Settled, Failure>) -> Option<Blocked> {
        match settled {
            Ok(settled) => {
                self.tally.add(&settled);
                self.blocked = settled.block.is_some();
                let reason = settled.block?;
                Some(blocked(&self.seat.meta, BlockCause::Decision, Some(reason.into())))
            }
            Err(failure) => {
                reader.give_up();
                let blocks = failure.blocks(self.seat.meta.on_failure);
                let stopped = blocks.then(|| failed(&self.seat.meta, &failure));
                self.failure = Some(failure);
                stopped
            }
        }
    }

    fn into_step(self, again: bool) -> Step {
        let said = match (&self.failure, self.blocked) {
            (Some(_), _) => Said::Failed,
            (None, true) => Said::Blocked,
            (None, false) if self.tally.replaced() => Said::Rewrote,
            (None, false) => Said::Nothing,
        };
        let on_failure = self.seat.meta.on_failure;
        let passed = |failure: &Failure| failure.blocks(FailurePolicy::Closed) && !failure.blocks(on_failure);
        Step {
            said,
            again,
            spans: self.tally.into_counts(),
            passed_despite_failure: self.failure.as_ref().is_some_and(passed),
            failure: self.failure,
            elapsed: self.elapsed,
            ..Step::of(self.seat.meta)
        }
    }
}
