//! The traces of a gateway, across configurations that are read anew.

use std::sync::{PoisonError, RwLock};

use backstop::Traces;
use backstop::gateway::{RequestRecord, RequestSink};
use backstop::hooks::TraceId;

/// What sends the spans of requests now.
#[derive(Debug, Default)]
pub(super) struct LiveTraces(RwLock<Option<Traces>>);

impl LiveTraces {
    pub(super) fn of(traces: Option<&Traces>) -> Self {
        Self(RwLock::new(traces.cloned()))
    }

    /// Takes what a configuration says that was read anew, for requests that end from now on.
    pub(super) fn renew(&self, traces: Option<&Traces>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = traces.cloned();
    }

    fn now(&self) -> Option<Traces> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RequestSink for LiveTraces {
    fn ended(&self, record: &RequestRecord) {
        if let Some(traces) = self.now() {
            RequestSink::ended(&traces, record);
        }
    }

    fn traces(&self, trace: TraceId) -> Option<bool> {
        self.now().and_then(|traces| traces.traces(trace))
    }
}
