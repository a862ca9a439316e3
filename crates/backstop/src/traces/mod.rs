//! Traces, as views of receipts and records.
//!
//! Laws:
//!
//! - *One source.* The span of a dispatch is made from its receipt, that of a request and of each call of a provider from the request's
//!   record, those of a turn from its stages. Each is a sink beside the log, the metrics and the audit trail.
//! - *No text.* See [`backstop_telemetry`]. Names are those that records have: constants, and what the operator configured.
//! - *Who is judged does not choose.* A client, an agent or an environment may name the span below which ours stand, and nothing else: not
//!   where spans go, and not whether a trace is recorded.
//!
//! Processes with the same configuration of traces share one queue, which is why a configuration that is read anew loses no span.

mod dispatch;
#[cfg(feature = "clients")]
mod event;
#[cfg(feature = "gateway")]
mod request;
#[cfg(feature = "agent")]
mod turn;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use backstop_config::{ConfigError, Loaded, Problem, ProblemKind};
#[cfg(any(feature = "agent", feature = "gateway"))]
use backstop_hooks::conversation::TokenUsage;
use backstop_store::DigestKey;
#[cfg(any(feature = "agent", feature = "gateway"))]
use backstop_telemetry::keys;
use backstop_telemetry::{Exporter, InvalidSettings, Span, told_id};

use crate::lower;

/// How long the end of a process waits until spans are sent.
const PATIENCE: Duration = Duration::from_secs(2);

/// Sends spans to the collector that `telemetry.traces` names. Its clones send together.
#[derive(Clone)]
pub struct Traces {
    exporter: Arc<Exporter>,
    /// By what digests in spans are keyed, as those in the trail are.
    key: Option<Arc<DigestKey>>,
}

/// What sends in this process, by its configuration.
static SENDING: Mutex<Vec<(backstop_config::Traces, Weak<Exporter>)>> = Mutex::new(Vec::new());

impl Traces {
    /// Returns what sends for this configuration; `None` where there are no traces. `is_agents`: the environment may be an agent's, so
    /// that nothing is sent if a variable could lead it elsewhere. The log says so. Digests of what was judged are keyed if there is a
    /// key, since whoever receives spans could guess, too.
    ///
    /// # Errors
    ///
    /// [`ConfigError`] if the configuration can't be used.
    pub fn of(
        loaded: &Loaded,
        is_agents: bool,
        key: Option<&Arc<DigestKey>>,
    ) -> Result<Option<Self>, ConfigError> {
        let configured = &loaded.config.telemetry.traces;
        let Some(endpoint) = &configured.endpoint else { return Ok(None) };
        if is_agents && !lower::telemetry::is_fixed(configured) {
            tracing::warn!(
                "a hook that judges alone sends no traces: their way could be changed by its environment"
            );
            return Ok(None);
        }
        let mut sending = SENDING.lock().unwrap_or_else(PoisonError::into_inner);
        sending.retain(|(_, exporter)| exporter.strong_count() > 0);
        let known = sending.iter().find(|(other, _)| other == configured);
        if let Some(exporter) = known.and_then(|(_, exporter)| exporter.upgrade()) {
            return Ok(Some(Self { exporter, key: key.cloned() }));
        }
        let Some(settings) = lower::telemetry::traces(loaded, is_agents)? else { return Ok(None) };
        let exporter = Exporter::start(&settings).map_err(|error| {
            let file =
                configured.ca_file.as_ref().filter(|_| matches!(error, InvalidSettings::Authorities(_)));
            let at = file.map_or(&endpoint.at, |file| &file.at);
            Problem::new(ProblemKind::BadValue, at.clone(), error.to_string())
        })?;
        let exporter = Arc::new(exporter);
        sending.push((configured.clone(), Arc::downgrade(&exporter)));
        Ok(Some(Self { exporter, key: key.cloned() }))
    }

    /// How many spans of recorded traces no collector has, since the process began.
    pub fn dropped() -> u64 {
        Exporter::dropped_by_all()
    }

    /// Waits, at most two seconds, until everything that was recorded so far is sent or dropped. Returns whether it is.
    pub async fn flush(&self) -> bool {
        self.flush_within(PATIENCE).await
    }

    /// As [`flush`](Self::flush), with another patience.
    pub async fn flush_within(&self, patience: Duration) -> bool {
        self.exporter.flush(patience).await
    }

    fn record(&self, span: Span) {
        self.exporter.record(span);
    }
}

/// Returns what is told of the id of a tool call: one that was made of what the call asks for is keyed where there is a key.
fn told_call(id: &str, key: Option<&DigestKey>) -> String {
    key.and_then(|key| key.keyed_call(id)).unwrap_or_else(|| told_id(id))
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Traces").field("exporter", &self.exporter).field("key", &self.key).finish()
    }
}

/// Tells of tokens, where any were counted. Those that are read include those of a cache, as the conventions count.
#[cfg(any(feature = "agent", feature = "gateway"))]
fn used(span: &mut Span, tokens: TokenUsage) {
    if tokens.total() == 0 {
        return;
    }
    let TokenUsage { input, output, cache_read, cache_write } = tokens;
    span.set(keys::INPUT_TOKENS, input.saturating_add(cache_read).saturating_add(cache_write));
    span.set(keys::OUTPUT_TOKENS, output);
    span.set_if(keys::CACHE_READ_TOKENS, (cache_read > 0).then_some(cache_read));
    span.set_if(keys::CACHE_WRITE_TOKENS, (cache_write > 0).then_some(cache_write));
}
