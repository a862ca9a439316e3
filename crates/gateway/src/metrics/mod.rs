//! Metrics in Prometheus' formats, as a view of receipts and request records.
//!
//! Laws:
//!
//! - *One source.* Dispatches are counted from the engine's receipts ([`ReceiptSink`]), requests from their
//!   [records](crate::record) ([`RequestSink`]), and what surfaces and witnesses were told where that is done. Nothing is counted in two places.
//! - *Bounded by construction.* Label values are constants, names from the operator's configuration, and ids of registered hooks; no
//!   label type can hold what a client sends. A family has at most [`MOST_SERIES`] series. Observations beyond that are counted in
//!   `backstop_series_dropped_total`.
//! - *No text*, no digest, no session: metrics do not reveal who said what.
//!
//! Limits: tokens are counted only for answers that are read, which they are while any hook inspects them; costs only for models
//! with a price in `budgets.prices`. Counters start at zero with the process.

mod elsewhere;
mod family;
mod labels;
mod tally;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use backstop_engine::{Receipt, ReceiptSink};
use backstop_hooks::PointId;
use backstop_store::Timestamp;
use prometheus_client::encoding::{prometheus_text, text as open_metrics};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::timeout;

use self::elsewhere::Elsewhere;
use self::family::Bounded;
use self::labels::{
    AnswerLabels, DispatchLabels, Done, FailureLabels, HeaderLabels, Hook, Point, PointLabels, RequestLabels,
    RouteLabels, ShadowLabels, SpanLabels, SpenderLabels, Stated, TokenKind, TokenLabels, UserLabels,
    UserRequestLabels, UserTokenLabels,
};
use self::tally::Tally;
pub(crate) use self::tally::{OfRule, Sums};
use crate::record::{Label, RequestRecord, RequestSink};

/// The most series of one family, counting each bucket of a histogram.
pub(crate) const MOST_SERIES: usize = 2_000;

/// How many bounds the buckets of a histogram have.
const BUCKETS: usize = 13;
/// Seconds to the first byte of an answer, which is a model's time.
const FIRST_BYTE: [f64; BUCKETS] =
    [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Seconds that the gateway or its hooks take.
const ADDED: [f64; BUCKETS] =
    [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5, 30.0];

/// How long a scrape waits for the number of questions.
const PATIENCE: Duration = Duration::from_secs(2);

/// What a process knows of what waits in it. Asked at each scrape.
#[async_trait]
pub trait Waiting: Send + Sync + 'static {
    /// How many questions wait for a person; `None` where that can't be found out now.
    async fn approvals(&self) -> Option<u64>;

    /// How far the audit trail is behind; `None` where there is none.
    fn audit(&self) -> Option<AuditLag>;

    /// How many spans of recorded traces no collector has, since the process began.
    fn spans_dropped(&self) -> u64 {
        0
    }
}

/// How far an audit trail is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditLag {
    /// Receipts that wait to be written.
    pub waiting: u64,
    /// How long those that are being written have waited for it.
    pub oldest: Duration,
    /// Receipts that were not written, and never will be.
    pub lost: u64,
    /// Entries that a killed process had left unsigned and this one has signed: nothing proves that they were not changed before.
    pub late: u64,
}

/// In which form metrics are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// OpenMetrics 1.0.0, which scrapers ask for.
    OpenMetrics,
    /// Prometheus' own text, version 0.0.4.
    Prometheus,
}

impl Format {
    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
        }
    }
}

/// What goes on in a gateway at the moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    pub(crate) requests: usize,
    pub(crate) streams: usize,
    /// Access tokens that can't be read.
    pub(crate) unreadable_tokens: usize,
}

/// The metrics of a process. Its clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Families>);

struct Families {
    registry: Registry,
    requests: Bounded<RequestLabels, Counter>,
    first_byte: Bounded<RouteLabels, Histogram>,
    added: Bounded<RouteLabels, Histogram>,
    tokens: Bounded<TokenLabels, Counter>,
    cost: Bounded<SpenderLabels, Counter<f64, AtomicU64>>,
    user_requests: Bounded<UserRequestLabels, Counter>,
    user_tokens: Bounded<UserTokenLabels, Counter>,
    user_cost: Bounded<UserLabels, Counter<f64, AtomicU64>>,
    dispatches: Bounded<DispatchLabels, Counter>,
    dispatch_seconds: Bounded<PointLabels, Histogram>,
    answers: Bounded<AnswerLabels, Counter>,
    failures: Bounded<FailureLabels, Counter>,
    shadows: Bounded<ShadowLabels, Counter>,
    headers_left_out: Bounded<HeaderLabels, Counter>,
    redactions: Bounded<SpanLabels, Counter>,
    elsewhere: Elsewhere,
    requests_running: Gauge,
    streams_open: Gauge,
    unreadable_tokens: Gauge,
    approvals_waiting: Gauge<f64, AtomicU64>,
    audit_waiting: Gauge,
    audit_lag: Gauge<f64, AtomicU64>,
    audit_lost: Counter,
    audit_signed_late: Counter,
    spans_dropped: Counter,
    waiting: Mutex<Option<Source>>,
    began: Timestamp,
    tally: Tally,
}

/// Who knows what waits.
struct Source {
    waiting: Arc<dyn Waiting>,
    /// How many of its lost receipts are counted.
    counted: u64,
    /// How many of the entries that it signed late are.
    late: u64,
}

/// Puts families into a registry.
struct Registering {
    registry: Registry,
    dropped: family::Dropped,
}

impl Registering {
    fn counters<S: family::Labels, N>(
        &mut self,
        name: &'static str,
        help: &str,
    ) -> Bounded<S, Counter<N, AtomicU64>>
    where
        Counter<N, AtomicU64>: family::Metric,
    {
        let family = Bounded::new(name, 1, &self.dropped, Counter::default);
        self.registry.register(name, help, family.family());
        family
    }

    /// Histograms of seconds; `name` without the unit.
    fn histograms<S: family::Labels>(
        &mut self,
        name: &'static str,
        help: &str,
        make: fn() -> Histogram,
    ) -> Bounded<S, Histogram> {
        // Each has a bucket without a bound, a sum and a count besides.
        let family = Bounded::new(name, BUCKETS.saturating_add(3), &self.dropped, make);
        self.registry.register_with_unit(name, help, Unit::Seconds, family.family());
        family
    }
}

impl Metrics {
    /// Metrics of a process in which nothing has happened yet. `version` is that of the program.
    pub fn new(version: &'static str) -> Self {
        let mut all =
            Registering { registry: Registry::with_prefix("backstop"), dropped: family::Dropped::default() };
        let requests = all.counters("requests", "Requests that are over");
        let first_byte = all.histograms(
            "first_byte",
            "Time from the head of a request to the first byte of its answer",
            || Histogram::new(FIRST_BYTE),
        );
        let added =
            all.histograms("added", "How much of the time to the first byte is the proxy's own", || {
                Histogram::new(ADDED)
            });
        let tokens =
            all.counters("tokens", "Tokens that providers counted, as far as their answers were read");
        let cost = all.counters("cost", "What tokens cost, in the currency of budgets.prices");
        let user_requests = all.counters("user_requests", "Requests of users whom tokens name");
        let user_tokens = all.counters("user_tokens", "Tokens of users whom tokens name");
        let user_cost = all.counters("user_cost", "What their tokens cost");
        let dispatches = all.counters("dispatches", "Dispatches of hook points, by what came out");
        let dispatch_seconds =
            all.histograms("dispatch", "Time that a dispatch took, without waiting for a person", || {
                Histogram::new(ADDED)
            });
        let answers = all.counters("hook_answers", "What hooks said");
        let failures = all.counters("hook_failures", "How hooks failed");
        let shadows = all.counters("shadow_answers", "What hooks in shadow would have done");
        let headers_left_out = all.counters("headers_left_out", "Headers that were not passed on");
        let redactions = all.counters("redactions", "Spans that redactors found");
        let elsewhere = Elsewhere::registered(&mut all);
        let Registering { mut registry, dropped } = all;
        let gauge = |registry: &mut Registry, name: &str, help: &str| {
            let gauge = Gauge::default();
            registry.register(name, help, gauge.clone());
            gauge
        };
        let requests_running = gauge(&mut registry, "requests_running", "Requests that are being answered");
        let streams_open =
            gauge(&mut registry, "streams_open", "Answers that are under way as streams of events");
        let help = "Access tokens in the store that can't be read, and open nothing";
        let unreadable_tokens = gauge(&mut registry, "access_tokens_unreadable", help);
        let audit_waiting = gauge(&mut registry, "audit_waiting", "Receipts that wait to be written");
        let approvals_waiting = Gauge::default();
        let help = "Questions that wait for a person, 1000 at the most; NaN where the store does not say";
        registry.register("approvals_waiting", help, approvals_waiting.clone());
        let audit_lag = Gauge::default();
        let help = "How long the receipts that are being written have waited for it";
        registry.register_with_unit("audit_lag", help, Unit::Seconds, audit_lag.clone());
        let audit_lost = Counter::default();
        registry.register(
            "audit_lost",
            "Receipts that were not written and never will be",
            audit_lost.clone(),
        );
        let audit_signed_late = Counter::default();
        registry.register(
            "audit_signed_late",
            "Entries of the audit trail that a killed process had left unsigned",
            audit_signed_late.clone(),
        );
        let spans_dropped = Counter::default();
        registry.register(
            "spans_dropped",
            "Spans of recorded traces that no collector has",
            spans_dropped.clone(),
        );
        let help = "What was not counted since its family had 2000 series";
        registry.register("series_dropped", help, dropped.family());
        let build = prometheus_client::metrics::family::Family::<[(&str, &str); 1], Gauge>::default();
        build.get_or_create(&[("version", version)]).set(1);
        registry.register("build", "The program", build);
        Self(Arc::new(Families {
            registry,
            requests,
            first_byte,
            added,
            tokens,
            cost,
            user_requests,
            user_tokens,
            user_cost,
            dispatches,
            dispatch_seconds,
            answers,
            failures,
            shadows,
            headers_left_out,
            redactions,
            elsewhere,
            requests_running,
            streams_open,
            unreadable_tokens,
            approvals_waiting,
            audit_waiting,
            audit_lag,
            audit_lost,
            audit_signed_late,
            spans_dropped,
            waiting: Mutex::default(),
            began: Timestamp::now(),
            tally: Tally::default(),
        }))
    }

    /// Says who knows what waits, from now on.
    pub fn ask(&self, waiting: Arc<dyn Waiting>) {
        // What was lost by whoever was asked so far is counted to its end.
        self.audit();
        *self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Source { waiting, counted: 0, late: 0 });
    }

    fn audit(&self) {
        let all = &*self.0;
        let mut source = all.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Source { waiting, counted, late }) = &mut *source else { return };
        let lag = waiting.audit().unwrap_or_default();
        all.audit_waiting.set(i64::try_from(lag.waiting).unwrap_or(i64::MAX));
        all.audit_lag.set(lag.oldest.as_secs_f64());
        all.audit_lost.inc_by(lag.lost.saturating_sub(*counted));
        *counted = lag.lost.max(*counted);
        all.audit_signed_late.inc_by(lag.late.saturating_sub(*late));
        *late = lag.late.max(*late);
        all.spans_dropped.inc_by(waiting.spans_dropped().saturating_sub(all.spans_dropped.get()));
    }

    /// Since when all of it is counted.
    pub(crate) fn began(&self) -> Timestamp {
        self.0.began
    }

    /// The sums that people are shown.
    pub(crate) fn sums(&self) -> Sums {
        self.0.tally.sums()
    }

    /// All metrics as they are now.
    pub(crate) async fn told(&self, now: Now, format: Format) -> String {
        let all = &*self.0;
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        all.requests_running.set(count(now.requests));
        all.streams_open.set(count(now.streams));
        all.unreadable_tokens.set(count(now.unreadable_tokens));
        self.audit();
        let waiting = {
            let source = all.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            source.as_ref().map(|source| Arc::clone(&source.waiting))
        };
        if let Some(waiting) = waiting {
            let asked = timeout(PATIENCE, waiting.approvals()).await.ok().flatten();
            let approvals = asked.and_then(|count| u32::try_from(count).ok());
            all.approvals_waiting.set(approvals.map_or(f64::NAN, f64::from));
        }
        let mut text = String::new();
        // Writing into a text can't fail.
        let _ = match format {
            Format::OpenMetrics => open_metrics::encode(&mut text, &all.registry),
            Format::Prometheus => prometheus_text::encode(&mut text, &all.registry),
        };
        text
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Counts a request for its user, if its token named one. Apart from other labels, so that users do not multiply series.
    fn user_ended(&self, record: &RequestRecord) {
        let (all, user) = (&*self.0, &record.user);
        if *user == Label::none() {
            return;
        }
        let labels = UserRequestLabels { user: user.clone(), outcome: record.outcome };
        all.user_requests.with(&labels, |counter| {
            counter.inc();
        });
        for (kind, count) in TokenKind::each(record.tokens).into_iter().filter(|(_, count)| *count > 0) {
            let labels = UserTokenLabels { user: user.clone(), kind };
            all.user_tokens.with(&labels, |counter| {
                counter.inc_by(count);
            });
        }
        if record.cost_micros > 0 {
            let cost = Duration::from_micros(record.cost_micros).as_secs_f64();
            all.user_cost.with(&UserLabels { user: user.clone() }, |counter| {
                counter.inc_by(cost);
            });
        }
    }
}

impl RequestSink for Metrics {
    fn ended(&self, record: &RequestRecord) {
        let all = &*self.0;
        let RequestRecord { wire, provider, model, agent, outcome, tokens, .. } = record;
        let (wire, outcome) = (*wire, *outcome);
        let (provider, model, agent) = (provider.clone(), model.clone(), agent.clone());
        self.user_ended(record);
        all.tally.ended(record);
        let of_route = RouteLabels { wire, provider: provider.clone() };
        if let (Some(first_byte), Some(added)) = (record.first_byte, record.added) {
            all.first_byte.with(&of_route, |histogram| histogram.observe(first_byte.as_secs_f64()));
            all.added.with(&of_route, |histogram| histogram.observe(added.as_secs_f64()));
        }
        for (kind, count) in TokenKind::each(*tokens) {
            if count > 0 {
                let (provider, model, agent) = (provider.clone(), model.clone(), agent.clone());
                let labels = TokenLabels { provider, model, agent, kind };
                all.tokens.with(&labels, |counter| {
                    counter.inc_by(count);
                });
            }
        }
        for (of, count) in
            [("requests", record.request_headers_left_out), ("answers", record.answer_headers_left_out)]
        {
            if count > 0 {
                all.headers_left_out.with(&HeaderLabels { provider: provider.clone(), of }, |counter| {
                    counter.inc_by(count.into());
                });
            }
        }
        if record.cost_micros > 0 {
            let labels =
                SpenderLabels { provider: provider.clone(), model: model.clone(), agent: agent.clone() };
            // As exact as a sum of money in floating point is.
            let cost = Duration::from_micros(record.cost_micros).as_secs_f64();
            all.cost.with(&labels, |counter| {
                counter.inc_by(cost);
            });
        }
        let labels = RequestLabels { wire, provider, model, agent, outcome };
        all.requests.with(&labels, |counter| {
            counter.inc();
        });
    }
}

impl ReceiptSink for Metrics {
    fn reads_idle(&self, _: PointId) -> bool {
        false
    }

    fn record(&self, receipt: &Receipt) {
        let all = &*self.0;
        all.tally.received(receipt);
        let point = Point(receipt.point);
        let labels = DispatchLabels { point, verdict: Stated(receipt.verdict) };
        all.dispatches.with(&labels, |counter| {
            counter.inc();
        });
        if receipt.steps.is_empty() {
            return;
        }
        let took = receipt.elapsed.as_secs_f64();
        all.dispatch_seconds.with(&PointLabels { point }, |histogram| histogram.observe(took));
        for step in &receipt.steps {
            let hook = Hook(step.hook.id.clone());
            let point = Point(step.hook.point);
            let labels = AnswerLabels { point, hook, said: Stated(step.said) };
            all.answers.with(&labels, |counter| {
                counter.inc();
            });
            if let Some(would) = step.would {
                let hook = Hook(step.hook.id.clone());
                all.shadows.with(&ShadowLabels { point, hook, would: Stated(would) }, |counter| {
                    counter.inc();
                });
            }
            if let Some(failure) = &step.failure {
                let labels = FailureLabels { point, hook: labels.hook, kind: Stated(failure.kind) };
                all.failures.with(&labels, |counter| {
                    counter.inc();
                });
            }
            for span in &step.spans {
                let (class, kind) = (span.kind.class, span.kind.kind);
                for (done, count) in [(Done::Replaced, span.replaced), (Done::Reported, span.reported)] {
                    if count > 0 {
                        let labels = SpanLabels { class, kind, done };
                        all.redactions.with(&labels, |counter| {
                            counter.inc_by(count.into());
                        });
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
