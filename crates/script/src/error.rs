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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It wanted more memory than its limit.
    OutOfMemory {
        /// The limit, in bytes.
        most: usize,
        /// Where it was, if the engine had the room to say so.
        at: Option<Place>,
    },
    /// Its jobs (promises, microtasks) went on without an end.
    EndlessJobs {
        /// How long they were let go on.
        within: Duration,
    },
    /// A timer, a continuation or code of a load kept the thread longer than a slice.
    SliceOver {
        /// The slice.
        within: Duration,
        /// Where it was.
        at: Option<Place>,
    },
}

impl Ended {
    /// Where the script was, if that is known.
    fn at(&self) -> Option<&Place> {
        match self {
            Self::OutOfMemory { at, .. } | Self::SliceOver { at, .. } => at.as_ref(),
            Self::EndlessJobs { .. } => None,
        }
    }

    /// What its author can do.
    fn hint(&self) -> &'static str {
        match self {
            Self::OutOfMemory { .. } => "hold less at once, and let go of what is done with",
            Self::EndlessJobs { .. } => "end the chain of promises, or have it wait for a timer",
            Self::SliceOver { .. } => "end the loop, or the regular expression, that runs there",
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory { most, .. } => {
                write!(
                    f,
                    "it ran out of its {} MB of memory (or threw `null`, which looks the same)",
                    most >> 20
                )
            }
            Self::EndlessJobs { within } => {
                write!(f, "its promises and microtasks went on for {} ms without an end", within.as_millis())
            }
            Self::SliceOver { within, .. } => {
                write!(f, "it kept its thread for more than {} ms", within.as_millis())
            }
        }
    }
}

/// When there is a runtime again.
fn pause(again_in: Duration) -> String {
    match again_in.as_millis() {
        0 => String::new(),
        pause => format!("; it is loaded again at a call in {pause} ms or later"),
    }
}

/// A place as the beginning of a message.
fn before(place: Option<&Place>) -> String {
    place.map(|place| format!("{place}: ")).unwrap_or_default()
}

/// What the engine says of calls that stand too deep in each other.
const TOO_DEEP: &str = "Maximum call stack size exceeded";

/// The hint of an error that a script threw, if it is one of the engine's whose reason its author may not see.
fn hint_of(message: &str) -> &'static str {
    match message.ends_with(TOO_DEEP) {
        true => "\n  hint: make the recursion a loop; how deep calls may stand in each other is bounded",
        false => "",
    }
}

/// The hint of an answer that did not come in time.
fn hint_of_late(at: Option<&Place>) -> &'static str {
    match at {
        Some(_) => "it was still running there: end the loop, or the regular expression",
        None => "it waited for something that did not come in time, or ran code that can't be interrupted",
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
    #[error("{}{message}{}", before(place.as_ref()), hint_of(message))]
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
    #[error(
        "{}no answer within {} ms\n  hint: {}",
        before(at.as_ref()), budget.as_millis(), hint_of_late(at.as_ref())
    )]
    TimedOut {
        /// The time that it had.
        budget: Duration,
        /// Where it was interrupted, if it ran.
        at: Option<Place>,
    },
    /// The runtime was ended; the next call makes a new one, not before `again_in`.
    #[error(
        "{}the runtime was ended: {why}{}\n  hint: {}",
        before(why.at()), pause(*again_in), why.hint()
    )]
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
