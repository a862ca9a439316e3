//! What is counted of those who are told away from the machine: people on surfaces, and witnesses of the audit trail.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use backstop_store::Timestamp;
use backstop_surfaces::{Became, Came, Counts, SurfaceName};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit;

use super::family::Bounded;
use super::labels::{ListenerLabels, Surface, SurfaceLabels, Witness, WitnessLabels};
use super::{Metrics, Registering};

/// The families.
pub(super) struct Elsewhere {
    messages: Bounded<SurfaceLabels, Counter>,
    answers: Bounded<SurfaceLabels, Counter>,
    received: Bounded<SurfaceLabels, Counter>,
    connections: Bounded<ListenerLabels, Gauge>,
    witness_failures: Bounded<WitnessLabels, Counter>,
    witness_success: Bounded<WitnessLabels, Gauge>,
    /// The witnesses that are told.
    witnesses: Mutex<BTreeSet<String>>,
}

impl Elsewhere {
    pub(super) fn registered(all: &mut Registering) -> Self {
        let messages = all.counters("surface_messages", "Messages about questions, by surface");
        let answers = all.counters("surface_answers", "Answers of people, by surface");
        let received = all.counters("surface_received", "What came over connections of surfaces");
        let name = "surface_connections";
        let connections: Bounded<ListenerLabels, Gauge> = Bounded::new(name, 1, &all.dropped, Gauge::default);
        all.registry.register(
            name,
            "Connections that stand, over which a surface hears people",
            connections.family(),
        );
        let witness_failures = all.counters("witness_failures", "How often a witness was told in vain");
        let name = "witness_last_success_timestamp";
        let witness_success: Bounded<WitnessLabels, Gauge> =
            Bounded::new(name, 1, &all.dropped, Gauge::default);
        let help = "When a witness last took a checkpoint of the audit trail; 0 before the first";
        all.registry.register_with_unit(name, help, Unit::Seconds, witness_success.family());
        Self {
            messages,
            answers,
            received,
            connections,
            witness_failures,
            witness_success,
            witnesses: Mutex::default(),
        }
    }
}

/// The words for answers.
const COUNTED: &str = "counted";
const REFUSED: &str = "refused";

fn of(surface: &SurfaceName, result: &'static str) -> SurfaceLabels {
    SurfaceLabels { surface: Surface(surface.clone()), result }
}

impl Counts for Metrics {
    fn stands(&self, surface: &SurfaceName) {
        // So that the first of anything is seen as a change.
        let Elsewhere { messages, answers, .. } = &self.0.elsewhere;
        for result in Became::ALL.map(Became::as_str) {
            messages.with(&of(surface, result), |_| ());
        }
        for result in [COUNTED, REFUSED] {
            answers.with(&of(surface, result), |_| ());
        }
    }

    fn message(&self, surface: &SurfaceName, became: Became) {
        self.0.elsewhere.messages.with(&of(surface, became.as_str()), |counter| {
            counter.inc();
        });
    }

    fn answer(&self, surface: &SurfaceName, does_count: bool) {
        let result = if does_count { COUNTED } else { REFUSED };
        self.0.elsewhere.answers.with(&of(surface, result), |counter| {
            counter.inc();
        });
    }

    fn listens(&self, surface: &SurfaceName) {
        let Elsewhere { received, connections, .. } = &self.0.elsewhere;
        for came in Came::ALL {
            received.with(&of(surface, came.as_str()), |_| ());
        }
        connections.with(&ListenerLabels { surface: Surface(surface.clone()) }, |_| ());
    }

    fn connected(&self, surface: &SurfaceName, stands: bool) {
        let by = if stands { 1 } else { -1 };
        self.0.elsewhere.connections.with(&ListenerLabels { surface: Surface(surface.clone()) }, |gauge| {
            gauge.inc_by(by);
        });
    }

    fn came(&self, surface: &SurfaceName, came: Came) {
        self.0.elsewhere.received.with(&of(surface, came.as_str()), |counter| {
            counter.inc();
        });
    }
}

impl Metrics {
    /// Says which witnesses of the audit trail are told from now on. One that is told no longer is not late either.
    pub fn witnesses(&self, names: impl IntoIterator<Item = String>) {
        let all = &self.0.elsewhere;
        let now: BTreeSet<String> = names.into_iter().collect();
        let mut told = all.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        for gone in told.difference(&now) {
            all.witness_success.forget(&WitnessLabels { witness: Witness(gone.clone()) });
        }
        for name in &now {
            let labels = WitnessLabels { witness: Witness(name.clone()) };
            all.witness_failures.with(&labels, |_| ());
            all.witness_success.with(&labels, |_| ());
        }
        *told = now;
    }

    /// Returns what became of telling each witness that is told: its name, when it last took a checkpoint, and how often it was told in vain.
    pub(crate) fn witnessed(&self) -> Vec<(String, Option<Timestamp>, u64)> {
        let all = &self.0.elsewhere;
        let told = all.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        let state = |name: &String| {
            let labels = WitnessLabels { witness: Witness(name.clone()) };
            let (mut seconds, mut failures) = (0, 0);
            all.witness_success.with(&labels, |gauge| seconds = gauge.get());
            all.witness_failures.with(&labels, |counter| failures = counter.get());
            let took = (seconds > 0).then(|| Timestamp::from_millis(seconds.saturating_mul(1_000)));
            (name.clone(), took, failures)
        };
        told.iter().map(state).collect()
    }

    /// Counts what came of telling a witness just now, unless it is one that is told no longer.
    pub fn witness(&self, name: &str, did_vouch: bool) {
        let all = &self.0.elsewhere;
        let told = all.witnesses.lock().unwrap_or_else(PoisonError::into_inner);
        if !told.contains(name) {
            return;
        }
        let labels = WitnessLabels { witness: Witness(name.to_owned()) };
        if did_vouch {
            let seconds = Timestamp::now().as_millis().div_euclid(1_000);
            all.witness_success.with(&labels, |gauge| {
                gauge.set(seconds);
            });
        } else {
            all.witness_failures.with(&labels, |counter| {
                counter.inc();
            });
        }
    }
}
