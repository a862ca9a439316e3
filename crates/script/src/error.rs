//! Why a script could not be loaded or asked.
//!
//! Texts that a script wrote (messages, stacks) are bounded, and so is what is quoted of its sources. Places are
//! paths relative to the script's folder, with lines and columns of the source as its author wrote it.

use std::fmt;
use std::time::Duration;

/// A place in one of a script's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file, relative to the script's folder.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// Why a runtime was ended although its script did not ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It wanted more memory than its limit.
    OutOfMemory,
    /// Its jobs (promises, microtasks) went on without an end.
    EndlessJobs,
    /// A timer or a continuation kept the thread longer than a slice.
    SliceOver,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfMemory => "it ran out of memory, or threw `null`, which is what that looks like",
            Self::EndlessJobs => "its promises and microtasks went on without an end",
            Self::SliceOver => "a timer or a continuation of it did not end in time",
        })
    }
}

/// Why a script could not be loaded or asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    /// The source is no JavaScript or TypeScript that is read here.
    #[error("{place}: {message}")]
    Syntax {
        /// Where.
        place: Place,
        /// What is wrong.
        message: String,
    },
    /// A module could not be found or read.
    #[error("cannot load `{specifier}`, imported by {importer}: {reason}")]
    Module {
        /// What was imported, as written.
        specifier: String,
        /// The file with the import, or what else asked for it.
        importer: String,
        /// Why, and the next step.
        reason: String,
    },
    /// The script threw, or rejected its promise.
    #[error("{}{message}", place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default())]
    Thrown {
        /// Name and message of the error, or the value.
        message: String,
        /// Where, if the stack says.
        place: Option<Place>,
        /// `error.code`, if it is a text.
        code: Option<String>,
        /// The stack, with paths relative to the script's folder.
        stack: String,
    },
    /// No answer in time. The script was interrupted, or its answer, when it comes, is dropped.
    #[error("no answer within {} ms", budget.as_millis())]
    TimedOut {
        /// The time that it had.
        budget: Duration,
    },
    /// The runtime was ended; the next call makes a new one, not before `again_in`.
    #[error("the runtime was ended: {why}; it is loaded again at a call in {} ms or later", again_in.as_millis())]
    Ended {
        /// Why.
        why: Ended,
        /// How long calls fail without a try.
        again_in: Duration,
    },
    /// The script kept its thread and could not be interrupted. It stays off until it is loaded anew.
    #[error("the script could not be interrupted and is off\n  hint: load it anew once it is mended")]
    Stuck,
    /// Too many threads had to be given up to scripts that could not be interrupted.
    #[error(
        "{given_up} threads were given up to scripts that could not be interrupted; no more are started\n  hint: remove the script that is named in the log, and restart"
    )]
    TooManyStuck {
        /// How many.
        given_up: usize,
    },
    /// The answer is no plain data.
    #[error("malformed answer: `{path}` {reason}")]
    Malformed {
        /// The place in the answer, such as `answer.params.path`.
        path: String,
        /// What it is.
        reason: String,
    },
    /// There is no such function.
    #[error("the script has no function {name}")]
    NoFunction {
        /// Its name.
        name: String,
    },
    /// A function's place in the runtime is taken by another since the runtime was made anew.
    #[error("the script registered other functions when it was loaded again, so {name} is not asked")]
    Changed {
        /// The function that was meant.
        name: String,
    },
    /// As many calls are under way as may be.
    #[error("{limit} calls of the script are under way already")]
    Busy {
        /// The limit.
        limit: usize,
    },
    /// The script was unloaded, or its workers were stopped.
    #[error("the script is not loaded any more")]
    Gone,
    /// The program that the script runs in can't be asked, or its answer can't be read.
    #[error("{reason}")]
    Elsewhere {
        /// What is wrong.
        reason: String,
        /// Whether it said something that nobody can read. It said nothing otherwise.
        is_malformed: bool,
    },
    /// The runtime could not be made.
    #[error("cannot make a runtime: {reason}")]
    Runtime {
        /// Why.
        reason: String,
    },
}

/// Cuts `text` to `most` bytes at the boundary of a character, and says so.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let mut end = most;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}... ({} bytes left out)", text.get(..end).unwrap_or_default(), text.len() - end)
}
