//! Programs that may ask their host: plugins that run elsewhere, and have the same `api` there.
//!
//! The law: *a question is answered or the program is at fault*. Each life of a program is served by a [`Life`] of its own, so that what
//! an earlier one registered is told from what this one does.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::fault::Fault;
use super::session::Session;
use super::wire;

/// Who serves a program, life after life.
pub(crate) trait Lives: Send + Sync {
    /// The next life begins.
    ///
    /// # Errors
    ///
    /// Why it must not.
    fn begin(&self) -> Result<Arc<dyn Life>, Fault>;
}

/// Who serves one life of a program.
pub(crate) trait Life: fmt::Debug + Send + Sync {
    /// What is sent before anything else.
    fn preface(&self) -> Vec<u8>;

    /// What `initialize` says.
    fn greeting(&self) -> Value;

    /// Reads the answer to `initialize`, and says how many calls the program works on at once.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    fn greeted(&self, answer: Value) -> Result<usize, Fault>;

    /// The program asks. This must not wait.
    ///
    /// # Errors
    ///
    /// The fault of a program that asks what nobody answers.
    fn asked(&self, question: Question, method: &str, params: Value) -> Result<(), Fault>;

    /// The life is over: what is still worked on for it is nobody's any more.
    fn over(&self) {}

    /// Which life it is, from 1.
    fn generation(&self) -> u32;
}

/// A question, to be answered once.
#[must_use = "who asked waits for the answer"]
pub(crate) struct Question {
    pub(super) session: Arc<Session>,
    pub(super) id: Value,
}

impl Question {
    /// Its id, where that is a number.
    pub(crate) fn number(&self) -> Option<u64> {
        self.id.as_u64()
    }

    /// Answers it: with a value, or with what is wrong, in words and as data.
    pub(crate) fn answer(self, answer: Result<Value, (String, Value)>) {
        self.session.tell(wire::reply(&self.id, answer));
    }
}
