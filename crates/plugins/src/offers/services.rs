//! Services of plugins: what runs beside a host that lives.
//!
//! A host starts them once it is there ([`PluginSet::start_services`]), and stops them before it ends, or before the next set's are
//! started: two services of one plugin would want the same port. A service that does not start is named, and nothing else is
//! kept from working: a service is no gate.
//!
//! Limits: a start has [`START`], a stop [`STOP`], those of different plugins at the same time. A service whose runtime was thrown
//! away (out of memory, stuck) is not started again before the plugins are reloaded.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_script::Arguments;

use crate::manifest::PluginId;
use crate::openclaw::{Offered, Scripted};
use crate::registration::OfferKind;
use crate::set::{PluginSet, Running};

/// How long the start of a service may take.
pub const START: Duration = Duration::from_secs(10);
/// How long a service may take to stop.
pub const STOP: Duration = Duration::from_secs(5);

/// A service that did not start, or did not stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceFault {
    /// The plugin.
    pub plugin: PluginId,
    /// The service, or what else of the plugin it was.
    pub service: String,
    /// What it did not do, and why.
    pub why: String,
}

impl fmt::Display for ServiceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of plugin `{}` {}", self.service, self.plugin, self.why)
    }
}

/// The services of a plugin that run.
#[derive(Debug, Default)]
pub(crate) struct Started(Mutex<Vec<Offered>>);

impl Started {
    fn push(&self, service: Offered) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(service);
    }

    /// Those that run, the one started last first. Whoever takes them stops them: each is stopped once.
    fn take(&self) -> Vec<Offered> {
        let mut started = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        started.reverse();
        started
    }
}

impl PluginSet {
    /// Starts the services of all plugins. Answers those that did not start.
    pub async fn start_services(&self) -> Vec<ServiceFault> {
        let starting = self.plugins().map(start);
        join(starting).await
    }

    /// Stops the services that were started. Answers those that did not stop.
    pub async fn stop_services(&self) -> Vec<ServiceFault> {
        let stopping = self.plugins().map(stop);
        join(stopping).await
    }
}

/// All of them at the same time.
async fn join(all: impl Iterator<Item = impl Future<Output = Vec<ServiceFault>>>) -> Vec<ServiceFault> {
    futures_util::future::join_all(all).await.into_iter().flatten().collect()
}

async fn start(plugin: &Running) -> Vec<ServiceFault> {
    let mut faults = Vec::new();
    for (script, service) in of_kind(plugin, OfferKind::Service) {
        match script.call_if_there(service, "start", &Arguments::default(), START).await {
            Ok(_) => plugin.started.push(service.clone()),
            Err(error) => faults.push(fault(plugin, service, format!("did not start: {error}"))),
        }
    }
    faults
}

async fn stop(plugin: &Running) -> Vec<ServiceFault> {
    let Some(script) = &plugin.script else { return Vec::new() };
    let mut faults = Vec::new();
    for service in plugin.started.take() {
        if let Err(error) = script.call_if_there(&service, "stop", &Arguments::default(), STOP).await {
            faults.push(fault(plugin, &service, format!("did not stop: {error}")));
        }
    }
    faults
}

pub(crate) fn fault(plugin: &Running, what: &Offered, why: String) -> ServiceFault {
    let service = format!("{} `{}`", what.offer.kind, what.offer.name);
    ServiceFault { plugin: plugin.id.clone(), service, why }
}

/// What a script has of a kind.
pub(crate) fn of_kind(plugin: &Running, kind: OfferKind) -> impl Iterator<Item = (&Arc<Scripted>, &Offered)> {
    let script = plugin.script.as_ref();
    script.into_iter().flat_map(move |script| {
        let offers = script.offers.iter().filter(move |offered| offered.offer.kind == kind);
        offers.map(move |offered| (script, offered))
    })
}
