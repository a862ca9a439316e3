//! The stages of a turn, as they end: for whoever records traces.
//!
//! The law: *no cost without a reader*. Without a [`StageSink`] a turn has no trace and nothing is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_hooks::{AgentId, SessionId, ToolCallId, ToolName, Trace, TraceParent};
use backstop_llm::{Api, ModelResponse};

/// A stage that is over.
#[derive(Debug)]
pub enum Stage<'a> {
    /// The turn itself.
    Turn {
        /// Whose.
        agent: &'a AgentId,
        /// In which session.
        session: &'a SessionId,
        /// How it ended: `answered`, `silent`, `blocked`, `failed` or `cancelled`.
        outcome: &'static str,
        /// What broke it, in one word.
        error: Option<&'static str>,
        /// How long it took.
        elapsed: Duration,
    },
    /// A call of a model.
    ModelCall {
        /// The provider's name.
        provider: &'a str,
        /// In which wire it was asked.
        api: Api,
        /// The model.
        model: &'a str,
        /// What it answered, if it did.
        answer: Option<&'a ModelResponse>,
        /// Why it did not, in one word.
        error: Option<&'static str>,
        /// How long it took.
        elapsed: Duration,
    },
    /// A call of a tool that ran.
    ToolCall {
        /// The tool.
        tool: &'a ToolName,
        /// The call.
        id: &'a ToolCallId,
        /// Whether the tool says that it failed.
        failed: bool,
        /// How long it took.
        elapsed: Duration,
    },
}

/// Somebody who is told of stages.
pub trait StageSink: Send + Sync + 'static {
    /// Takes note of a stage that is over. `trace` is the span of its turn. Must not wait.
    fn ended(&self, trace: Trace, stage: &Stage<'_>);
}

/// Who is told, and below which span turns stand.
#[derive(Clone, Default)]
pub(crate) struct Stages {
    pub(crate) sink: Option<Arc<dyn StageSink>>,
    pub(crate) parent: Option<TraceParent>,
}

impl Stages {
    /// The span of a turn that begins; `None` where nobody is told.
    pub(crate) fn begin(&self) -> Option<Trace> {
        self.sink.as_ref().map(|_| Trace::begin(self.parent))
    }

    /// Tells of a stage in the turn of that span.
    pub(crate) fn tell<'a>(&self, trace: Option<Trace>, stage: impl FnOnce() -> Stage<'a>) {
        if let Some((sink, trace)) = self.sink.as_ref().zip(trace) {
            sink.ended(trace, &stage());
        }
    }
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("parent", &self.parent).finish_non_exhaustive()
    }
}
