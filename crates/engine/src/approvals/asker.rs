//! Who can be asked, and how.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::Decision;
use backstop_store::{Answerer, ApprovalRecord, People};

/// A human's answer, or `None` when this asker can't get one.
pub type AskFuture<'a> = Pin<Box<dyn Future<Output = Option<Decision>> + Send + 'a>>;

/// Shows a question to a human and returns the answer. It is dropped when the question was answered
/// elsewhere or timed out. This is the extension point for other ways of asking: consoles, channels.
pub trait Asker: Send + Sync + 'static {
    /// Asks. The record is already in the store, and the caller writes the answer there. If an asker
    /// panics, there is no answer, and the question stays open for others until its deadline.
    fn ask<'a>(&'a self, record: &'a ApprovalRecord) -> AskFuture<'a>;

    /// How long whoever waits for the answer still does, if not as long as the hooks want. A question ends no later, unless its call would run
    /// if nobody answers: whoever is judged may say how long.
    fn patience(&self) -> Option<Duration> {
        None
    }

    /// Who answers through this asker, for the record.
    fn name(&self) -> &str;

    /// Who of `people` answers through this asker: nobody of them, unless it knows better.
    fn answerer(&self, people: &Arc<People>) -> Answerer {
        let _ = people;
        self.name().into()
    }
}

/// Who can be asked.
#[derive(Clone)]
pub enum Attendance {
    /// Somebody attends this asker; others may answer through the store.
    Present(Arc<dyn Asker>),
    /// Nobody is here, but the run waits for an answer through the store.
    Queue,
    /// Nobody is here and the run does not wait: the call is denied. A human finds it among the approvals, and can allow it
    /// later.
    Nobody,
    /// The host puts the question to its own user. The call is returned as denied, with the question as its
    /// reason. If that user can't be reached, a human finds the question among the approvals.
    Host,
    /// As [`Host`](Self::Host), but for a question that the operator's routes lead to certain people: that user may not answer it, so the run
    /// waits for them, as with [`Present`](Self::Present).
    HostOr(Arc<dyn Asker>),
}

impl Attendance {
    /// Returns who can be asked a question that leads to certain people, or does not.
    pub(crate) fn of_question(&self, is_routed: bool) -> Self {
        match self {
            Self::HostOr(asker) if is_routed => Self::Present(Arc::clone(asker)),
            Self::HostOr(_) => Self::Host,
            other => other.clone(),
        }
    }
}

impl fmt::Debug for Attendance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Present(asker) => write!(f, "Present({})", asker.name()),
            Self::Queue => f.write_str("Queue"),
            Self::Nobody => f.write_str("Nobody"),
            Self::Host => f.write_str("Host"),
            Self::HostOr(asker) => write!(f, "HostOr({})", asker.name()),
        }
    }
}
