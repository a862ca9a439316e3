//! Metric families with a bounded number of series.

use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

use super::MOST_SERIES;

/// A set of labels.
pub(super) trait Labels:
    EncodeLabelSet + Clone + Hash + Eq + fmt::Debug + Send + Sync + 'static
{
}

impl<S: EncodeLabelSet + Clone + Hash + Eq + fmt::Debug + Send + Sync + 'static> Labels for S {}

/// What is counted for each of them.
pub(super) trait Metric: EncodeMetric + TypedMetric + fmt::Debug + Send + Sync + 'static {}

impl<M: EncodeMetric + TypedMetric + fmt::Debug + Send + Sync + 'static> Metric for M {}

/// How often there was no room in a family, by the name of that.
#[derive(Clone, Debug, Default)]
pub(super) struct Dropped(Family<[(&'static str, &'static str); 1], Counter>);

impl Dropped {
    pub(super) fn family(&self) -> Family<[(&'static str, &'static str); 1], Counter> {
        self.0.clone()
    }
}

/// A family of at most [`MOST_SERIES`] series.
pub(super) struct Bounded<S, M> {
    family: Family<S, M, fn() -> M>,
    most: usize,
    /// How many sets of labels there are. Held by whoever adds one, so that two can't both take the last place.
    known: Mutex<usize>,
    dropped: Counter,
}

impl<S: Labels, M: Metric> Bounded<S, M> {
    /// A family whose metrics have so many `series` each.
    pub(super) fn new(name: &'static str, series: usize, dropped: &Dropped, make: fn() -> M) -> Self {
        let dropped = dropped.0.get_or_create(&[("family", name)]).clone();
        let most = MOST_SERIES.checked_div(series).unwrap_or(MOST_SERIES);
        Self { family: Family::new_with_constructor(make), most, known: Mutex::new(0), dropped }
    }

    /// What is registered.
    pub(super) fn family(&self) -> Family<S, M, fn() -> M> {
        self.family.clone()
    }

    /// Takes the series of these labels away, if there is one.
    pub(super) fn forget(&self, labels: &S) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if self.family.remove(labels) {
            *known = known.saturating_sub(1);
        }
    }

    /// Counts for these labels, if there is room for them.
    pub(super) fn with(&self, labels: &S, count: impl FnOnce(&M)) {
        if let Some(metric) = self.family.get(labels) {
            return count(&metric);
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // Somebody may have added them meanwhile.
        let is_there = self.family.get(labels).is_some();
        if !is_there && *known >= self.most {
            self.dropped.inc();
            return;
        }
        *known = known.saturating_add(usize::from(!is_there));
        count(&self.family.get_or_create(labels));
    }
}
