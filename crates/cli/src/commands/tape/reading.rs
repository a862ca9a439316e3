//! Reading the tape: segment after segment, with what is missing or can't be read.
//!
//! The law: *what is not there is told*. Whoever can write the folder can put anything into it, so a segment that is damaged, or that is
//! to somebody else, does not keep the others from being read; and it counts, in words and in the exit code. So do calls that were not
//! recorded: an agent can make its calls too long to be.

use std::collections::VecDeque;

use backstop::config::Loaded;
use backstop::tape::{Identity, RecordedCall, Segment, TapeError, TapeLine, read_line};

use super::{Span, began, identity, opened, time, unread};
use crate::error::Error;
use crate::exit::Exit;
use crate::output::{Output, plain};
use crate::session::Surroundings;

/// How many damaged segments are named.
const NAMED: u64 = 10;
/// How much earlier than its last call a segment may begin, in milliseconds: the minute that one lasts, and a queue on a slow disk.
const LONGEST_SEGMENT: i64 = 60 * 60 * 1000;

/// The calls of a tape, a segment at a time.
pub(in crate::commands) struct Reading<'s> {
    identity: Identity,
    span: &'s Span,
    left: VecDeque<Segment>,
    found: Found,
    output: &'s Output,
}

/// What was met besides calls.
#[derive(Default)]
struct Found {
    /// Segments that were read, or a part of them.
    opened: u64,
    /// Segments to another recipient.
    foreign: u64,
    /// Segments that can't be read to their end, and were not just cut off.
    damaged: u64,
    /// Segments without an end that may be written now.
    open: u64,
    /// Segments without an end that nobody writes any more.
    torn: u64,
    /// Lines that are neither calls nor gaps.
    unread: u64,
    /// Calls that were not recorded.
    missing: u64,
}

impl<'s> Reading<'s> {
    pub(in crate::commands) fn open(
        span: &'s Span,
        loaded: &Loaded,
        surroundings: &'s Surroundings,
    ) -> Result<Self, Error> {
        let identity = identity(&span.identity)?;
        let tape = opened(span.folder.as_deref(), loaded, surroundings)?;
        let mut left = VecDeque::from(tape.segments().map_err(|error| unread(tape.folder(), &error))?);
        let is_in = |segment: &Segment| {
            let began = began(segment);
            let ends_early = span
                .since
                .is_some_and(|since| began.as_millis().saturating_add(LONGEST_SEGMENT) < since.as_millis());
            !ends_early && span.until.is_none_or(|until| began < until)
        };
        left.retain(is_in);
        Ok(Self { identity, span, left, found: Found::default(), output: &surroundings.output })
    }

    /// The calls of the next segment; `None` behind the last one.
    pub(in crate::commands) fn next(&mut self) -> Option<Vec<RecordedCall>> {
        let segment = self.left.pop_front()?;
        let mut calls = Vec::new();
        let read = segment.read::<TapeError>(&self.identity, |line| {
            match read_line(line) {
                Err(_) => self.found.unread += 1,
                Ok(TapeLine::Missing(lost)) => {
                    self.found.missing = self.found.missing.saturating_add(lost);
                }
                Ok(TapeLine::Call(call)) => {
                    let at = time(&call);
                    let is_in = self.span.since.is_none_or(|since| at >= since)
                        && self.span.until.is_none_or(|until| at < until);
                    if is_in {
                        calls.push(*call);
                    }
                }
            }
            Ok(())
        });
        let found = &mut self.found;
        match read {
            Ok(true) => found.opened += 1,
            Ok(false) => {
                found.opened += 1;
                match segment.is_abandoned() {
                    true => found.torn += 1,
                    false => found.open += 1,
                }
            }
            Err(TapeError::OtherKey) => found.foreign += 1,
            // It was pruned in the meantime.
            Err(TapeError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                found.damaged += 1;
                if found.damaged <= NAMED {
                    let file = plain(&segment.path.display().to_string());
                    self.output.say(&format!("`{file}` can't be read: {error}"));
                }
            }
        }
        Some(calls)
    }

    /// Says what was not there. Returns how a command ends that read all there was.
    pub(in crate::commands) fn exit(&self) -> Exit {
        self.found.exit()
    }

    /// Says what was not there, and returns how it ended.
    pub(in crate::commands) fn end(self) -> Result<Exit, Error> {
        let exit = self.found.exit();
        let Found { opened, foreign, damaged, open, torn, unread, missing } = self.found;
        if opened == 0 && foreign > 0 {
            return Err(Error::Failed(format!(
                "the key opens none of {foreign} segments: they were recorded to another recipient"
            )));
        }
        let say = |count: u64, told: &str| {
            if count > 0 {
                self.output.say(&format!("{count} {told}"));
            }
        };
        say(
            missing,
            "calls are missing: they came faster than they were written, or could not be masked or written",
        );
        say(open, "segments have no end yet: they may be being written, and their last calls are not there");
        say(torn, "segments have no end: their process was killed and took the last calls along");
        say(foreign, "segments were recorded to another recipient, and are not read");
        say(damaged, "segments are damaged, and are read up to there");
        say(unread, "lines are no recorded calls, and are left out");
        Ok(exit)
    }
}

impl Found {
    /// How a command ends that met this. What may be being written now is no fault.
    fn exit(&self) -> Exit {
        let Self { opened: _, foreign, damaged, open: _, torn, unread, missing } = self;
        match [foreign, damaged, torn, unread, missing].iter().all(|count| **count == 0) {
            true => Exit::Success,
            false => Exit::Incomplete,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_not_there_is_no_success() {
        let whole = Found { opened: 9, open: 1, ..Found::default() };
        assert_eq!(whole.exit(), Exit::Success);
        let missing = Found { opened: 9, missing: 1, ..Found::default() };
        let torn = Found { opened: 9, torn: 1, ..Found::default() };
        let foreign = Found { opened: 9, foreign: 1, ..Found::default() };
        let damaged = Found { opened: 9, damaged: 1, ..Found::default() };
        let unread = Found { opened: 9, unread: 1, ..Found::default() };
        for found in [missing, torn, foreign, damaged, unread] {
            assert_eq!(found.exit(), Exit::Incomplete);
        }
    }
}
