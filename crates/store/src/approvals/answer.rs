//! What people answer.

use backstop_hooks::{Decision, Params, Text};

use super::people::Answerer;
use super::state::ApprovalRecord;
use super::substitute::{self, Given, UnfitSubstitute};
use crate::Timestamp;

/// The most characters of what a person says with a denial.
pub const MAX_WORD_CHARS: usize = 512;

/// A person's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct PersonsAnswer {
    /// What it counts as where several answer. Something that stands in the place of the call is an allowing answer.
    pub(crate) decision: Decision,
    /// What stands in the place of the call, if something does: then the call itself does not run.
    pub(crate) given: Option<Given>,
    pub(crate) word: Option<Text>,
    pub(crate) by: Answerer,
    pub(crate) at: Timestamp,
    pub(crate) has_grants: bool,
}

impl PersonsAnswer {
    /// Creates an answer; `by` says who gives it.
    pub fn new(decision: Decision, by: impl Into<Answerer>, at: Timestamp) -> Self {
        Self { decision, given: None, word: None, by: by.into(), at, has_grants: false }
    }

    /// Creates an answer that changes the call: other arguments, all of them, for the same tool. Secrets stay masked in them as they
    /// were shown ([`NewApproval::restored`](crate::NewApproval::restored)).
    ///
    /// # Errors
    ///
    /// [`UnfitSubstitute::LargeArguments`] for more than [`MAX_WHOLE_BYTES`](crate::MAX_WHOLE_BYTES) of JSON.
    pub fn edit(arguments: Params, by: impl Into<Answerer>, at: Timestamp) -> Result<Self, UnfitSubstitute> {
        let given = substitute::fit(Given::Edit { arguments })?;
        Ok(Self { given: Some(given), ..Self::new(Decision::AllowOnce, by, at) })
    }

    /// Creates an answer that is the result of the call, which does not run.
    ///
    /// # Errors
    ///
    /// [`UnfitSubstitute`] for a result that is empty, or has more than [`MAX_RESULT_BYTES`](crate::MAX_RESULT_BYTES).
    pub fn respond(
        result: impl Into<Text>,
        by: impl Into<Answerer>,
        at: Timestamp,
    ) -> Result<Self, UnfitSubstitute> {
        let given = substitute::fit(Given::Respond { result: result.into() })?;
        Ok(Self { given: Some(given), ..Self::new(Decision::AllowOnce, by, at) })
    }

    /// Says that grants were written with the answer, so that the call that asked adds none.
    #[must_use]
    pub fn with_grants(self) -> Self {
        Self { has_grants: true, ..self }
    }

    /// Sets what the model is told, if the answer is a denial: one line of at most [`MAX_WORD_CHARS`]; one that is cut ends with `…`.
    #[must_use]
    pub fn with_word(mut self, word: &str) -> Self {
        let line = word.split(|c: char| c.is_whitespace() || c.is_control()).filter(|part| !part.is_empty());
        let line = cut(&line.collect::<Vec<_>>().join(" "), MAX_WORD_CHARS);
        self.word = (self.decision == Decision::Deny && !line.is_empty()).then(|| line.into());
        self
    }
}

/// Returns a text of at most so many characters; one that is cut ends with `…`.
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.chars().nth(most) {
        None => text.to_owned(),
        Some(_) => text.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
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
