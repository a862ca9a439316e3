//! What goes into a turn and what comes out of it.

use backstop_hooks::conversation::{ImageSource, TokenUsage};
use backstop_hooks::{PointId, Requester, RunId, Text, Trigger};
use backstop_llm::ModelError;

use crate::models::UnknownModel;

/// What started a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TurnTrigger {
    /// A human's message.
    #[default]
    User,
    /// The background monitor of that name.
    Heartbeat {
        /// Which monitor.
        name: Option<String>,
    },
    /// A scheduled job.
    Cron {
        /// Which job.
        job_id: String,
    },
}

impl TurnTrigger {
    pub(crate) fn kind(&self) -> Trigger {
        match self {
            Self::User => Trigger::User,
            Self::Heartbeat { .. } => Trigger::Heartbeat,
            Self::Cron { .. } => Trigger::Cron,
        }
    }
}

/// A picture that comes with a message.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageAttachment {
    /// Media type, such as `image/png`.
    pub mime_type: String,
    /// The picture, or where it is.
    pub source: ImageSource,
}

/// What a turn is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnInput {
    /// The message.
    pub prompt: Text,
    /// Pictures that come with it.
    pub attachments: Vec<ImageAttachment>,
    /// What started the turn.
    pub trigger: TurnTrigger,
    /// Who sent the message, as far as the host could prove it.
    pub sender: Option<Requester>,
}

impl TurnInput {
    /// A user's message without anything else.
    pub fn user(prompt: impl Into<Text>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnOutcome {
    /// The model, or a hook in its place, answered. The text is what was shown last.
    Answered {
        /// The answer.
        text: Text,
    },
    /// There is no answer, on purpose.
    Silent,
    /// A hook stopped the turn. There is no answer.
    Blocked {
        /// The hook, or the point where it stands if it has no name.
        by: String,
        /// Where.
        point: PointId,
        /// What the user may read about it.
        message: Text,
    },
    /// The turn broke off. What was answered before stays in the transcript.
    Failed {
        /// Why.
        error: TurnError,
    },
    /// The user ended it.
    Cancelled,
}

/// Why a turn broke off.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The model could not be asked, or broke off.
    #[error("the model call failed: {0}")]
    Model(#[from] ModelError),
    /// A provider or model was chosen that does not exist.
    #[error(transparent)]
    UnknownModel(#[from] UnknownModel),
    /// The answer's parts contradict each other.
    #[error("the model's answer contradicts what it had streamed; nothing of it was kept")]
    Inconsistent,
    /// The model went on and on.
    #[error(
        "the turn reached its limit of {limit} model calls without a final answer\nhint: send another message to let it go on, or raise `agent.max_iterations`"
    )]
    TooManyIterations {
        /// The limit.
        limit: u32,
    },
}

/// A turn that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnReport {
    /// The run.
    pub run_id: RunId,
    /// How it ended.
    pub outcome: TurnOutcome,
    /// How many model calls were answered.
    pub iterations: u32,
    /// Tokens used by all model calls.
    pub usage: TokenUsage,
    /// How many dispatches met a hook.
    pub receipts: u64,
}

impl TurnReport {
    /// The report of a turn that was cancelled while it waited for another one.
    pub(crate) fn never_begun() -> Self {
        Self {
            run_id: new_run_id(),
            outcome: TurnOutcome::Cancelled,
            iterations: 0,
            usage: TokenUsage::default(),
            receipts: 0,
        }
    }
}

pub(crate) fn new_run_id() -> RunId {
    RunId::new(format!("r-{}", uuid::Uuid::now_v7().simple()))
}
