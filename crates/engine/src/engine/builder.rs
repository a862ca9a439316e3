//! How an engine is put together.

use std::fmt;
use std::sync::Arc;

use backstop_store::{AnswerStore, SqliteStore, Store};

use super::{Engine, Inner};
use crate::answers::Answers;
use crate::approvals::{ApprovalSettings, Approvals, Withdrawals};
use crate::interceptor::Interceptors;
use crate::operator::OperatorSettings;
use crate::receipt::ReceiptSink;
use crate::recording::CallRecorder;
use crate::registry::{Registry, Snapshot};

/// Builds an [`Engine`].
pub struct EngineBuilder {
    snapshot: Snapshot,
    store: Option<Arc<dyn Store>>,
    answer_store: Option<Arc<dyn AnswerStore>>,
    sinks: Vec<Arc<dyn ReceiptSink>>,
    approvals: ApprovalSettings,
    shared_decisions: bool,
    recorder: Option<Arc<dyn CallRecorder>>,
}

impl EngineBuilder {
    pub(super) fn new() -> Self {
        Self {
            snapshot: Snapshot::empty(OperatorSettings::default()),
            store: None,
            answer_store: None,
            sinks: Vec::new(),
            approvals: ApprovalSettings::default(),
            shared_decisions: false,
            recorder: None,
        }
    }

    /// Sets the hooks to start with.
    #[must_use]
    pub fn snapshot(mut self, snapshot: Snapshot) -> Self {
        self.snapshot = snapshot;
        self
    }

    /// Sets where approvals, grants and decisions are kept; in memory when not set.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.store = Some(store);
        self
    }

    /// Sets where questions, answers and grants are kept, if not in the store. Rows in the store then answer nothing.
    #[must_use]
    pub fn answer_store(mut self, store: Arc<dyn AnswerStore>) -> Self {
        self.answer_store = Some(store);
        self
    }

    /// Adds a sink that is shown every receipt.
    #[must_use]
    pub fn sink(mut self, sink: Arc<dyn ReceiptSink>) -> Self {
        self.sinks.push(sink);
        self
    }

    /// Sets who records the tool calls that are judged.
    #[must_use]
    pub fn recorder(mut self, recorder: Arc<dyn CallRecorder>) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Sets how approvals are kept.
    #[must_use]
    pub fn approvals(mut self, settings: ApprovalSettings) -> Self {
        self.approvals = settings;
        self
    }

    /// Sets whether other processes judge answers of models too, so that their decisions about tool calls
    /// count here. Each tool call then costs a read from the store.
    #[must_use]
    pub fn shared_decisions(mut self, shared: bool) -> Self {
        self.shared_decisions = shared;
        self
    }

    /// Builds the engine.
    pub fn build(self) -> Engine {
        let registry = Arc::new(Registry::new(self.snapshot));
        let store = self.store.unwrap_or_else(|| Arc::new(SqliteStore::in_memory()));
        let answers_apart = self.answer_store.is_some();
        Engine(Arc::new(Inner {
            interceptors: Interceptors::new(Arc::clone(&registry)),
            registry,
            sinks: self.sinks,
            approvals: Approvals {
                store: self.answer_store.unwrap_or_else(|| Arc::<dyn Store>::clone(&store)),
                settings: self.approvals,
                withdrawals: Withdrawals::default(),
            },
            store,
            answers: Answers::default(),
            shared_decisions: self.shared_decisions,
            answers_apart,
            recorder: self.recorder,
        }))
    }
}

impl fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineBuilder").field("hooks", &self.snapshot).finish_non_exhaustive()
    }
}
