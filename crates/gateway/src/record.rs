//! Records of finished requests. Metrics and the access log are views of them.
//!
//! Laws:
//!
//! - *One record per request*, whatever became of it: refused early, answered, or broken off.
//! - *No text.* A record contains words of closed lists, [labels] that the operator configured, and numbers. It contains nothing
//!   that a client chose or a model said.
//! - *No cost without a reader*: nothing is recorded unless there is a [`RequestSink`].
//!
//! Times are measured in the gateway. The time that it *added* is the sum of two spans: from the request's head until the first
//! provider is asked, without the time in which the client sent its body; and from what the provider sent (the first byte of a
//! stream, otherwise the last byte) until the first byte left. It includes waiting for a person.

mod calls;
pub(crate) mod labels;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use backstop_hooks::conversation::TokenUsage;
use backstop_hooks::{SessionId, Trace, TraceId, TraceParent};
use backstop_llm::StopReason;
use http::{Method, StatusCode};

use self::calls::Calls;
pub use self::calls::{Maker, ProviderCall, RequestPart};
use self::labels::Labels;
pub use self::labels::{Label, Word};
use crate::auth::{AuthError, Caller};
use crate::endpoint::{Endpoint, Operation};
use crate::error::Failure;
use crate::headers::Way;
use crate::settings::Pricing;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// A provider answered, and the answer left as a whole.
    Answered,
    /// A hook stopped the request or its answer.
    Blocked,
    /// The proxy did not pass it on: nobody can judge it, it is not open, or it makes no sense.
    Refused,
    /// Whoever sent it may not come in.
    Denied,
    /// Its agent or user had no room for it.
    OverQuota,
    /// Too much was going on, or the proxy was about to stop.
    Overloaded,
    /// A provider answered with an error, which was passed on.
    ProviderError,
    /// No provider answered, or its answer broke off.
    Failed,
    /// The client went away.
    Aborted,
}

impl Outcome {
    /// Its name for programs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::OverQuota => "over_quota",
            Self::Overloaded => "overloaded",
            Self::ProviderError => "provider_error",
            Self::Failed => "failed",
            Self::Aborted => "aborted",
        }
    }

    fn of(failure: &Failure) -> Self {
        match failure {
            Failure::Refused(
                AuthError::Token
                | AuthError::Ended
                | AuthError::Signed(_)
                | AuthError::Agent
                | AuthError::Host
                | AuthError::Origin,
            ) => Self::Denied,
            Failure::Quota(_) => Self::OverQuota,
            Failure::Overloaded | Failure::Stopping => Self::Overloaded,
            Failure::NoKey { .. } | Failure::Upstream { .. } => Self::Failed,
            Failure::Broken => Self::Aborted,
            _ => Self::Refused,
        }
    }
}

/// The record of one request.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// When its head had come.
    pub at: SystemTime,
    /// Its method.
    pub method: Word,
    /// What was asked.
    pub operation: Word,
    /// In which wire.
    pub wire: Word,
    /// Which provider was asked last.
    pub provider: Label,
    /// Which model it was for.
    pub model: Label,
    /// Whose it was.
    pub agent: Label,
    /// On behalf of which user, if a token names one.
    pub user: Label,
    /// What became of it.
    pub outcome: Outcome,
    /// The status of its answer; 0 where none left.
    pub status: u16,
    /// From its head to the end of its answer.
    pub elapsed: Duration,
    /// From its head to the first byte of its answer.
    pub first_byte: Option<Duration>,
    /// How much of that is the gateway's own; `None` where no provider was asked.
    pub added: Option<Duration>,
    /// The tokens that the provider counted, as far as somebody read the answer.
    pub tokens: TokenUsage,
    /// What they cost, in millionths of the operator's currency, where it has a price.
    pub cost_micros: u64,
    /// Bytes of the answer that left.
    pub answer_bytes: u64,
    /// Headers of the client that were not passed on.
    pub request_headers_left_out: u32,
    /// Headers of the provider that were not passed on.
    pub answer_headers_left_out: u32,
    /// The span of the request. Dispatches about it have the same trace, or are in spans below it.
    pub trace: Trace,
    /// The conversation to which it belongs; where a redactor objects to the name that its client chose, one of our own.
    pub conversation: Option<SessionId>,
    /// The calls of providers, in order, if a sink [records traces](RequestSink::traces).
    pub calls: Vec<ProviderCall>,
    /// The parts that were judged by themselves, if a sink records traces.
    pub parts: Vec<RequestPart>,
}

/// Somebody who is shown the record of every request.
///
/// A sink is called at the end of a request, on the task of its connection; it must not wait.
pub trait RequestSink: Send + Sync + 'static {
    /// Takes note of a request that is over.
    fn ended(&self, record: &RequestRecord);

    /// Returns whether this sink records the trace; `None` if it records none at all. If a sink says either, calls of providers are
    /// noted, and providers are told of the trace.
    fn traces(&self, trace: TraceId) -> Option<bool> {
        let _ = trace;
        None
    }
}

/// The sinks of a gateway, and the names that they may be told.
#[derive(Clone)]
pub(crate) struct Records {
    sinks: Arc<[Arc<dyn RequestSink>]>,
    labels: Arc<Labels>,
    pricing: Option<Arc<dyn Pricing>>,
}

impl Records {
    pub(crate) fn new(
        sinks: Arc<[Arc<dyn RequestSink>]>,
        labels: Labels,
        pricing: Option<Arc<dyn Pricing>>,
    ) -> Self {
        Self { sinks, labels: Arc::new(labels), pricing }
    }

    /// The record of a request that has come.
    pub(crate) fn begin(&self, method: &Method) -> Recorder {
        if self.sinks.is_empty() {
            return Recorder::default();
        }
        let trace = Trace::begin(None);
        let facts = Facts {
            trace: Some(trace),
            is_sampled: self.traces(trace.trace_id),
            method: labels::method(method),
            operation: Word::NONE,
            wire: Word::NONE,
            provider: Label::none(),
            model: Label::unread(),
            agent: Label::none(),
            ..Facts::default()
        };
        Recorder(Some(Arc::new(Noted {
            records: self.clone(),
            at: SystemTime::now(),
            begun: Instant::now(),
            facts: Mutex::new(facts),
        })))
    }
}

impl Records {
    /// Whether anybody records the trace; `None` where nobody records any.
    fn traces(&self, trace: TraceId) -> Option<bool> {
        self.sinks.iter().filter_map(|sink| sink.traces(trace)).reduce(|one, other| one | other)
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records").field("sinks", &self.sinks.len()).finish_non_exhaustive()
    }
}

/// Notes what becomes of a request, for its record. Its clones note for the same one; the default notes nothing.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Option<Arc<Noted>>);

#[derive(Debug)]
struct Noted {
    records: Records,
    at: SystemTime,
    begun: Instant,
    facts: Mutex<Facts>,
}

#[derive(Debug, Default)]
struct Facts {
    method: Word,
    operation: Word,
    wire: Word,
    provider: Label,
    model: Label,
    agent: Label,
    user: Label,
    /// How long the client sent its body.
    body: Duration,
    /// When the first provider was asked.
    asked: Option<Instant>,
    /// When what left first had come from the provider.
    came: Option<Instant>,
    /// When the first byte left.
    left: Option<Instant>,
    status: Option<StatusCode>,
    /// What is known to have become of it, unless it ends otherwise.
    outcome: Option<Outcome>,
    tokens: TokenUsage,
    cost_micros: u64,
    bytes: u64,
    /// Headers that were left out, of requests and of answers.
    left_out: (u32, u32),
    /// `None` in facts of no request.
    trace: Option<Trace>,
    /// Whether the trace is recorded; `None` where none is.
    is_sampled: Option<bool>,
    conversation: Option<SessionId>,
    calls: Calls,
}

impl Recorder {
    fn facts(&self) -> Option<(&Noted, MutexGuard<'_, Facts>)> {
        let noted = self.0.as_deref()?;
        Some((noted, noted.facts.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Notes whose request it is, and for what.
    pub(crate) fn accepted(&self, caller: &Caller, endpoint: Endpoint) {
        let Some((noted, mut facts)) = self.facts() else { return };
        facts.agent = noted.records.labels.agent(caller.agent.as_ref(), caller.is_proved);
        facts.user = noted.records.labels.user(caller.user.as_deref());
        (facts.operation, facts.wire) = (labels::operation(endpoint.operation), labels::wire(endpoint));
        if !endpoint.has_document() || endpoint.operation == Operation::Live {
            facts.model = Label::none();
        }
    }

    /// Notes below which span of its client it stands.
    pub(crate) fn below(&self, parent: TraceParent) {
        let Some((noted, mut facts)) = self.facts() else { return };
        facts.trace = Some(Trace::begin(Some(parent)));
        facts.is_sampled = noted.records.traces(parent.trace_id);
    }

    /// The span of the request; `None` where nothing is noted.
    pub fn trace(&self) -> Option<Trace> {
        self.facts()?.1.trace
    }

    /// Whether it stands below a span of its client; `None` where no traces are recorded.
    pub(crate) fn is_traced(&self) -> Option<bool> {
        let (_, facts) = self.facts()?;
        facts.is_sampled?;
        Some(facts.trace?.parent_span_id.is_some())
    }

    /// Notes the conversation to which it belongs.
    pub(crate) fn converses(&self, conversation: &SessionId) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.conversation.get_or_insert_with(|| conversation.clone());
    }

    /// Notes a part that is judged in a span of its own.
    pub(crate) fn has_part(&self, span: Trace) {
        let Some((_, mut facts)) = self.facts() else { return };
        if facts.is_sampled.is_some() {
            facts.calls.part(span);
        }
    }

    /// Begins a call of a provider and returns what that is told of its span; `None` where no traces are recorded.
    pub(crate) fn calls(&self, maker: Maker) -> Option<TraceParent> {
        let (_, mut facts) = self.facts()?;
        let (is_sampled, trace) = (facts.is_sampled?, facts.trace?);
        Some(TraceParent { trace_id: trace.trace_id, span_id: facts.calls.begin(maker), is_sampled })
    }

    /// Notes the status of a provider's answer.
    pub(crate) fn provider_answered(&self, status: StatusCode) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.calls.answered(status.as_u16());
    }

    /// Notes that a call of a provider came to nothing.
    pub(crate) fn call_failed(&self) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.calls.end(None);
    }

    /// Notes the model that it is for. The first name counts.
    pub(crate) fn is_for(&self, model: &str) {
        let Some((noted, mut facts)) = self.facts() else { return };
        if facts.model == Label::unread() {
            facts.model = noted.records.labels.model(model);
        }
    }

    /// Notes how long the client sent its body.
    pub(crate) fn body_took(&self, time: Duration) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.body += time;
    }

    /// Notes the provider that is asked now.
    pub(crate) fn asks(&self, provider: &str) {
        let Some((noted, mut facts)) = self.facts() else { return };
        facts.provider = noted.records.labels.provider(provider);
        let Facts { provider, calls, .. } = &mut *facts;
        calls.sent(provider);
        facts.asked.get_or_insert_with(Instant::now);
    }

    /// Notes that the provider sent something. Of an event stream the first counts, of other answers the last before
    /// something leaves.
    pub(crate) fn came(&self, is_stream: bool) {
        let Some((_, mut facts)) = self.facts() else { return };
        if facts.left.is_none() && !(is_stream && facts.came.is_some()) {
            facts.came = Some(Instant::now());
        }
    }

    /// Notes the status of the answer.
    pub(crate) fn has_status(&self, status: StatusCode) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.status = Some(status);
    }

    /// Notes that bytes of the answer left.
    pub(crate) fn left(&self, bytes: usize) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.left.get_or_insert_with(Instant::now);
        facts.bytes = facts.bytes.saturating_add(bytes as u64);
    }

    /// Notes why there is no answer, or no whole one. What is known already stays.
    pub(crate) fn failed(&self, failure: &Failure) {
        self.becomes(Outcome::of(failure));
    }

    /// Notes what became of it. What is known already stays.
    pub(crate) fn becomes(&self, outcome: Outcome) {
        let Some((_, mut facts)) = self.facts() else { return };
        facts.outcome.get_or_insert(outcome);
    }

    /// Notes that a hook stopped the request or its answer.
    pub fn blocked(&self) {
        self.becomes(Outcome::Blocked);
    }

    /// Notes what a model used, besides what is noted already.
    pub fn used(&self, model: &str, usage: TokenUsage) {
        let Some((noted, mut facts)) = self.facts() else { return };
        calls::add(&mut facts.tokens, usage);
        facts.calls.used(None, usage);
        let cost = noted.records.pricing.as_ref().and_then(|pricing| pricing.micros(model, usage));
        facts.cost_micros = facts.cost_micros.saturating_add(cost.unwrap_or_default());
    }

    /// Notes which model answered, and why it stopped.
    pub(crate) fn heard(&self, model: &str, stop: &StopReason) {
        let Some((noted, mut facts)) = self.facts() else { return };
        if facts.is_sampled.is_some() {
            let model = (!model.is_empty()).then(|| noted.records.labels.model(model));
            facts.calls.used(model, TokenUsage::default());
            facts.calls.stopped(calls::finish(stop));
        }
    }

    /// Notes headers that no table let pass. Where several providers are asked, those of the one with the most count.
    pub(crate) fn leaves_out(&self, way: Way, count: u32) {
        if count == 0 {
            return;
        }
        let Some((_, mut facts)) = self.facts() else { return };
        let noted = match way {
            Way::Request => &mut facts.left_out.0,
            Way::Answer => &mut facts.left_out.1,
        };
        *noted = count.max(*noted);
    }

    /// What ends the record when it is dropped.
    pub(crate) fn ending(&self) -> RecordEnd {
        RecordEnd { recorder: self.clone(), is_whole: false, has_left: false, bytes: 0 }
    }
}

/// Ends a record when it is dropped, and shows it to all sinks.
#[derive(Debug)]
pub(crate) struct RecordEnd {
    recorder: Recorder,
    is_whole: bool,
    /// Counted here and added at the end, so that a piece of an answer costs no lock.
    has_left: bool,
    bytes: usize,
}

impl RecordEnd {
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Notes that bytes of the answer left.
    pub(crate) fn left(&mut self, bytes: usize) {
        if !self.has_left {
            self.has_left = true;
            self.recorder.left(0);
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Notes that the answer left as a whole: otherwise the client went away.
    pub(crate) fn complete(&mut self) {
        self.is_whole = true;
    }
}

impl Drop for RecordEnd {
    fn drop(&mut self) {
        let Some((noted, mut facts)) = self.recorder.facts() else { return };
        facts.bytes = facts.bytes.saturating_add(self.bytes as u64);
        let status = facts.status;
        let outcome = match facts.outcome {
            Some(outcome) => outcome,
            None if !self.is_whole => Outcome::Aborted,
            None if status.is_some_and(|status| status.is_client_error() || status.is_server_error()) => {
                Outcome::ProviderError
            }
            None => Outcome::Answered,
        };
        let since = |from: Instant, to: Instant| to.saturating_duration_since(from);
        let added = facts.asked.map(|asked| {
            let before = since(noted.begun, asked).saturating_sub(facts.body);
            let after = facts.came.zip(facts.left).map(|(came, left)| since(came, left));
            before.saturating_add(after.unwrap_or_default())
        });
        let (calls, parts) = facts.calls.over();
        let record = RequestRecord {
            trace: facts.trace.unwrap_or_else(|| Trace::begin(None)),
            conversation: facts.conversation.take(),
            calls,
            parts,
            at: noted.at,
            method: facts.method,
            operation: facts.operation,
            wire: facts.wire,
            provider: facts.provider.clone(),
            model: facts.model.clone(),
            agent: facts.agent.clone(),
            user: facts.user.clone(),
            outcome,
            status: status.map_or(0, |status| status.as_u16()),
            elapsed: noted.begun.elapsed(),
            first_byte: facts.left.map(|left| since(noted.begun, left)),
            added,
            tokens: facts.tokens,
            cost_micros: facts.cost_micros,
            answer_bytes: facts.bytes,
            request_headers_left_out: facts.left_out.0,
            answer_headers_left_out: facts.left_out.1,
        };
        drop(facts);
        for sink in noted.records.sinks.iter() {
            sink.ended(&record);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use backstop_hooks::Secret;

    #[derive(Default)]
    struct Kept(Mutex<Vec<RequestRecord>>);

    impl RequestSink for Kept {
        fn ended(&self, record: &RequestRecord) {
            self.0.lock().unwrap().push(record.clone());
        }
    }

    fn records() -> (Arc<Kept>, Records) {
        let kept = Arc::new(Kept::default());
        let labels = Labels::of(&Settings::new(Secret::new("0123456789abcdef".to_owned())));
        let sinks: [Arc<dyn RequestSink>; 1] = [Arc::clone(&kept) as Arc<dyn RequestSink>];
        (kept, Records::new(Arc::new(sinks), labels, None))
    }

    #[test]
    fn a_record_says_once_how_it_ended() {
        for (status, is_whole, noted, outcome) in [
            (200, true, None, Outcome::Answered),
            (200, false, None, Outcome::Aborted),
            (429, true, None, Outcome::ProviderError),
            (200, true, Some(Outcome::Blocked), Outcome::Blocked),
            (200, false, Some(Outcome::Failed), Outcome::Failed),
        ] {
            let (kept, records) = records();
            let recorder = records.begin(&Method::POST);
            recorder.has_status(StatusCode::from_u16(status).unwrap());
            if let Some(noted) = noted {
                recorder.becomes(noted);
                recorder.becomes(Outcome::Overloaded);
            }
            let mut end = recorder.ending();
            if is_whole {
                end.complete();
            }
            drop((end, recorder));
            let kept = kept.0.lock().unwrap();
            assert_eq!(kept.len(), 1);
            assert_eq!((kept[0].outcome, kept[0].status), (outcome, status));
        }
    }

    #[test]
    fn without_a_sink_nothing_is_noted() {
        let (_, records) = records();
        let records = Records { sinks: Arc::new([]), ..records };
        assert!(records.begin(&Method::GET).0.is_none());
    }
}
