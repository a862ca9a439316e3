//! What people answer.

use backstop_hooks::{Decision, Text};

use super::people::Answerer;
use super::state::ApprovalRecord;
use crate::Timestamp;

/// The most characters of what a person says with a denial.
pub const MAX_WORD_CHARS: usize = 512;

/// A person's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonsAnswer {
    pub(crate) decision: Decision,
    pub(crate) word: Option<Text>,
    pub(crate) by: Answerer,
    pub(crate) at: Timestamp,
    pub(crate) has_grants: bool,
}

impl PersonsAnswer {
    /// Creates an answer; `by` says who gives it.
    pub fn new(decision: Decision, by: impl Into<Answerer>, at: Timestamp) -> Self {
        Self { decision, word: None, by: by.into(), at, has_grants: false }
    }

    /// Says that grants were written with the answer, so that the call that asked adds none.
    #[must_use]
    pub fn with_grants(self) -> Self {
        Self { has_grants: true, ..self }
    }

    /// Sets what the model is told, if the answer is a denial: one line, cut to [`MAX_WORD_CHARS`].
    #[must_use]
    pub fn with_word(mut self, word: &str) -> Self {
        let line = word.split(|c: char| c.is_whitespace() || c.is_control()).filter(|part| !part.is_empty());
        let line = line.collect::<Vec<_>>().join(" ");
        let cut: String = line.chars().take(MAX_WORD_CHARS).collect();
        self.word = (self.decision == Decision::Deny && !cut.is_empty()).then(|| cut.into());
        self
    }
}

/// The answer that counts, and whether this call gave it. Where more people have to allow the call, the question still waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// The approval as it is now.
    pub record: ApprovalRecord,
    /// `false` if the same answer had been given before.
    pub first: bool,
}
