//! The stages of a turn, as they end: for whoever records traces.
//!
//! Laws:
//!
//! - *No cost without a reader.* Without a [`StageSink`] a turn has no trace, nothing is told, and no model hears of a span.
//! - *A model is told of its own span.* What is sent is written from numbers; a parent whose digits a redactor would take out is none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::{
    AgentId, CallContext, SessionId, SpanId, ToolCallId, ToolName, Trace, TraceId, TraceParent,
};
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
        /// Its span, of which the provider was told.
        span: SpanId,
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

    /// Whether it records this trace, of which models are told; `None` if it records no traces.
    fn traces(&self, trace: TraceId) -> Option<bool> {
        let _ = trace;
        None
    }
}

/// Who is told, and below which span turns stand.
#[derive(Clone, Default)]
pub(crate) struct Stages {
    pub(crate) sink: Option<Arc<dyn StageSink>>,
    pub(crate) parent: Option<TraceParent>,
}

impl Stages {
    /// The span of a turn that begins; `None` where nobody is told.
    pub(crate) fn begin(&self, engine: &Engine, call: &CallContext) -> Option<Trace> {
        self.sink.as_ref()?;
        // Any 32 digits are a trace, also those of a secret.
        let parent = self.parent.filter(|parent| stays(engine, call, &parent.to_string()));
        Some(Trace::begin(parent))
    }

    /// The span of a model call that begins in the turn of that span; `None` where nobody is told.
    pub(crate) fn call(&self, trace: Option<Trace>) -> Option<ModelSpan> {
        let (sink, trace) = self.sink.as_ref().zip(trace)?;
        let (trace_id, span_id) = (trace.trace_id, SpanId::fresh());
        let told = sink.traces(trace_id).map(|is_sampled| TraceParent { trace_id, span_id, is_sampled });
        Some(ModelSpan { id: span_id, told })
    }

    /// Tells of a stage in the turn of that span.
    pub(crate) fn tell<'a>(&self, trace: Option<Trace>, stage: impl FnOnce() -> Stage<'a>) {
        if let Some((sink, trace)) = self.sink.as_ref().zip(trace) {
            sink.ended(trace, &stage());
        }
    }
}

/// The span of a model call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelSpan {
    pub(crate) id: SpanId,
    /// What the provider is told of it.
    pub(crate) told: Option<TraceParent>,
}

/// Whether redactors leave a word as it is.
fn stays(engine: &Engine, call: &CallContext, word: &str) -> bool {
    const WORD: usize = 0;
    let mut redaction = engine.redaction(call).unrecorded();
    if redaction.is_empty() {
        return true;
    }
    let is_edited = !redaction.push(WORD, word).edits.is_empty() || !redaction.finish(WORD).edits.is_empty();
    !is_edited && !redaction.is_blocked()
}

impl fmt::Debug for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stages").field("parent", &self.parent).finish_non_exhaustive()
    }
}
