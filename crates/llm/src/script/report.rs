//! What happened while a script was played.

use std::collections::VecDeque;
use std::fmt;

use crate::model::ModelRequest;
use crate::wire::Api;

/// How many requests are remembered; older ones are forgotten.
const MAX_RECORDED: usize = 256;

/// A request that a scripted model was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRequest {
    /// The wire on which it came.
    pub api: Api,
    /// Whether a stream was asked for.
    pub stream: bool,
    /// What was asked.
    pub request: ModelRequest,
}

/// A request that the script did not foresee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The request, from 1.
    pub request: u64,
    /// The turn that was chosen, from 1; `None` if none was left.
    pub turn: Option<usize>,
    /// What was expected.
    pub expected: String,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptReport {
    /// Requests answered, faults included.
    pub requests: u64,
    /// Turns in the script.
    pub turns: usize,
    /// Turns, from 1, that were never used.
    pub unused: Vec<usize>,
    /// Requests that the script did not foresee, oldest first. Bounded.
    pub mismatches: Vec<Mismatch>,
}

impl ScriptReport {
    /// Whether each request was foreseen and each turn was used.
    pub fn is_clean(&self) -> bool {
        self.unused.is_empty() && self.mismatches.is_empty()
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.turn {
            Some(turn) => {
                write!(f, "request {}: turn {turn} of the script expects {}", self.request, self.expected)
            }
            None => write!(f, "request {}: {}", self.request, self.expected),
        }
    }
}

impl fmt::Display for ScriptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} requests, {} of {} turns used",
            self.requests,
            self.turns - self.unused.len(),
            self.turns
        )?;
        for mismatch in &self.mismatches {
            write!(f, "\n{mismatch}")?;
        }
        Ok(())
    }
}

/// The last things of a kind.
#[derive(Debug)]
pub(super) struct Recent<T>(VecDeque<T>);

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T: Clone> Recent<T> {
    pub(super) fn push(&mut self, item: T) {
        if self.0.len() == MAX_RECORDED {
            self.0.pop_front();
        }
        self.0.push_back(item);
    }

    pub(super) fn to_vec(&self) -> Vec<T> {
        self.0.iter().cloned().collect()
    }
}
