//! What a program can get wrong, in words that its author can act on.
//!
//! Nothing that the program wrote is quoted but the name of a method: it may hold what is judged, and these words end up in
//! receipts.

use std::process::ExitStatus;
use std::time::Duration;

use backstop_hooks::{HookError, Malformed};

/// Why a program is ended, or has ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Its files are not those that were looked at.
    #[error(
        "is not started: {0}\nhint: look at it with `backstop plugins inspect`, then `backstop plugins trust` it and load it anew"
    )]
    Changed(String),
    /// A line is no JSON.
    #[error(
        "wrote a line to its standard output that is no JSON (column {column})\nhint: standard output is for the protocol; print to standard error, or send `log`"
    )]
    NotJson {
        /// Where it stops being JSON, counted from 1.
        column: usize,
    },
    /// A line is JSON and no message of the protocol.
    #[error(
        "wrote a line that is no message of the protocol\nhint: an answer has `jsonrpc`, `id`, and one of `result` and `error`, and nothing else"
    )]
    NoMessage,
    /// It asks for something that is not on offer.
    #[error("sent `{0}`, which this host does not offer\nhint: a program may send `log` and answers")]
    UnknownMethod(String),
    /// An answer to a question that was not asked, or was answered.
    #[error(
        "answered with an id that is not open\nhint: answer each request once, with the id that it came with"
    )]
    UnknownId,
    /// A line without end.
    #[error("wrote a line of more than {most} bytes")]
    LongLine {
        /// How many there may be.
        most: usize,
    },
    /// Much that nobody asked for.
    #[error("wrote more than {most} bytes without an answer among them\nhint: log less")]
    Flood {
        /// How many there may be.
        most: usize,
    },
    /// It does not read.
    #[error("did not read its standard input for {} s\nhint: read it while events are worked on", .0.as_secs())]
    DoesNotRead(Duration),
    /// It goes on with what nobody waits for, and does not say when it is done.
    #[error("did not answer within {} s of a cancellation\nhint: answer cancelled requests, too, with anything", .0.as_secs())]
    IgnoresCancel(Duration),
    /// It has ended.
    #[error("ended ({how}){}", if *.in_answer { " in the middle of an answer" } else { "" })]
    Ended {
        /// How, as the system tells.
        how: String,
        /// There was a beginning of a line.
        in_answer: bool,
    },
    /// Its pipe broke.
    #[error("could not be spoken to: {0}")]
    Pipe(String),
    /// It was not started.
    #[error("could not be started: {0}")]
    Start(String),
    /// It was started and did not say what it is, or said it wrong.
    #[error("{0}")]
    Handshake(String),
    /// It was told to end.
    #[error("has been shut down")]
    ShutDown,
}

impl Fault {
    pub(super) fn ended(status: Option<ExitStatus>, in_answer: bool) -> Self {
        let how = status.map_or_else(|| "it is not known how".to_owned(), |status| status.to_string());
        Self::Ended { how, in_answer }
    }

    /// What this means for a call: nobody answered, or somebody did and it is not known what.
    pub(super) fn hook_error(&self, plugin: &str) -> HookError {
        let message = format!("the process of `{plugin}` {self}");
        match self {
            Self::Ended { in_answer: false, .. }
            | Self::DoesNotRead(_)
            | Self::IgnoresCancel(_)
            | Self::Pipe(_)
            | Self::Start(_)
            | Self::ShutDown => HookError::Unreachable(message),
            _ => Malformed::new(message).into(),
        }
    }
}
