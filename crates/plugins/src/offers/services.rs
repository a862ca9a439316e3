//! Services of plugins: what runs beside a host that lives.
//!
//! A host starts them once it is there ([`PluginSet::start_services`]), and stops them before it ends, or before the next set's are
//! started: two services of one plugin would want the same port. A service that does not start is named, and nothing else is
//! kept from working: a service is no gate.
//!
//! A runtime that is thrown away (out of memory, or beside a script that was stuck) takes its services with it. That is logged, and they are
//! started again in the next one, after [`FIRST_PAUSE`], and after twice as long each time up to [`LONGEST_PAUSE`] where it is lost again
//! within [`SOUND`]. Those of a plugin that is itself stuck stay gone until it is loaded anew, which is logged as well.
//!
//! Limits: a start has [`START`], a stop [`STOP`], those of different plugins at the same time.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_script::{Arguments, ScriptError};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::manifest::PluginId;
use crate::openclaw::{Lost, Offered, Scripted};
use crate::registration::OfferKind;
use crate::set::{PluginSet, Running};

/// How long the start of a service may take.
pub const START: Duration = Duration::from_secs(10);
/// How long a service may take to stop.
pub const STOP: Duration = Duration::from_secs(5);
/// How long it takes until services that were lost are started again.
pub const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest that it takes.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);
/// After this long without a loss the next one counts as the first.
pub const SOUND: Duration = Duration::from_secs(10 * 60);

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
pub(crate) struct Started {
    services: Arc<Services>,
    /// Starts again what is lost.
    keeper: Mutex<Option<JoinHandle<()>>>,
}

/// Those that were started and are to run.
#[derive(Debug, Default)]
struct Services(Mutex<Vec<Service>>);

#[derive(Clone, Debug)]
struct Service {
    offered: Offered,
    /// Whether it runs, or may: it is to be stopped.
    runs: bool,
}

impl Services {
    fn all(&self) -> std::sync::MutexGuard<'_, Vec<Service>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runtime in which they ran is gone.
    fn are_lost(&self) {
        self.all().iter_mut().for_each(|service| service.runs = false);
    }

    fn next_lost(&self) -> Option<Offered> {
        self.all().iter().find(|service| !service.runs).map(|service| service.offered.clone())
    }

    fn set(&self, offered: &Offered, runs: bool) {
        let mut all = self.all();
        if let Some(service) = all.iter_mut().find(|service| service.offered.is(offered)) {
            service.runs = runs;
        }
    }

    fn forget(&self, offered: &Offered) {
        self.all().retain(|service| !service.offered.is(offered));
    }
}

impl Started {
    fn push(&self, service: Offered) {
        self.services.all().push(Service { offered: service, runs: true });
    }

    /// Has what is lost from now on started again.
    fn keep(&self, plugin: &PluginId, script: &Arc<Scripted>, lost: watch::Receiver<Lost>) {
        let services = Arc::clone(&self.services);
        let keeper = Keeper { plugin: plugin.clone(), script: Arc::clone(script), services, lost };
        let before = self.keeper().replace(tokio::spawn(keeper.run()));
        if let Some(before) = before {
            before.abort();
        }
    }

    fn keeper(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that run, the one started last first. Whoever takes them stops them: each is stopped once, and none is started again.
    async fn take(&self) -> Vec<Offered> {
        let keeper = self.keeper().take();
        if let Some(keeper) = keeper {
            keeper.abort();
            // It ends by that, and then it starts nothing any more.
            let _ = keeper.await;
        }
        let started = std::mem::take(&mut *self.services.all());
        started.into_iter().rev().filter(|service| service.runs).map(|service| service.offered).collect()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper().take() {
            keeper.abort();
        }
    }
}

/// Whoever starts the services of one plugin again.
struct Keeper {
    plugin: PluginId,
    script: Arc<Scripted>,
    services: Arc<Services>,
    lost: watch::Receiver<Lost>,
}

impl Keeper {
    async fn run(mut self) {
        let (mut pause, mut since) = (FIRST_PAUSE, tokio::time::Instant::now());
        while self.lost.changed().await.is_ok() {
            if since.elapsed() > SOUND {
                pause = FIRST_PAUSE;
            }
            loop {
                let Lost { why, for_good, .. } = self.lost.borrow_and_update().clone();
                self.services.are_lost();
                let plugin = &self.plugin;
                if for_good {
                    tracing::warn!(
                        "services of plugin `{plugin}` are gone until `backstop plugins reload`: {why}"
                    );
                    return;
                }
                tracing::warn!("services of plugin `{plugin}` are gone, and are started again: {why}");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
                if self.start_again().await {
                    break;
                }
            }
            since = tokio::time::Instant::now();
        }
    }

    /// Starts what is lost; whether there was a runtime to start it in.
    async fn start_again(&self) -> bool {
        while let Some(service) = self.services.next_lost() {
            // Whoever ends us meanwhile stops it.
            self.services.set(&service, true);
            let Err(error) = self.script.call_if_there(&service, "start", &Arguments::default(), START).await
            else {
                continue;
            };
            self.services.set(&service, false);
            let has_no_runtime = matches!(
                error,
                ScriptError::Ended { .. }
                    | ScriptError::Gone
                    | ScriptError::Runtime { .. }
                    | ScriptError::TooManyStuck { .. }
            );
            if has_no_runtime {
                return false;
            }
            self.services.forget(&service);
            tracing::warn!("{}", fault_of(&self.plugin, &service, format!("did not start again: {error}")));
        }
        true
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
    let Some(lost) = plugin.script.as_ref().map(|script| script.lost()) else { return faults };
    for (script, service) in of_kind(plugin, OfferKind::Service) {
        match script.call_if_there(service, "start", &Arguments::default(), START).await {
            Ok(_) => plugin.started.push(service.clone()),
            Err(error) => faults.push(fault(plugin, service, format!("did not start: {error}"))),
        }
    }
    if let Some(script) = plugin.script.as_ref().filter(|_| !plugin.started.services.all().is_empty()) {
        plugin.started.keep(&plugin.id, script, lost);
    }
    faults
}

async fn stop(plugin: &Running) -> Vec<ServiceFault> {
    let Some(script) = &plugin.script else { return Vec::new() };
    let mut faults = Vec::new();
    for service in plugin.started.take().await {
        if let Err(error) = script.call_if_there(&service, "stop", &Arguments::default(), STOP).await {
            faults.push(fault(plugin, &service, format!("did not stop: {error}")));
        }
    }
    faults
}

pub(crate) fn fault(plugin: &Running, what: &Offered, why: String) -> ServiceFault {
    fault_of(&plugin.id, what, why)
}

fn fault_of(plugin: &PluginId, what: &Offered, why: String) -> ServiceFault {
    let service = format!("{} `{}`", what.offer.kind, what.offer.name);
    ServiceFault { plugin: plugin.clone(), service, why }
}

/// What a script has of a kind.
pub(crate) fn of_kind(plugin: &Running, kind: OfferKind) -> impl Iterator<Item = (&Arc<Scripted>, &Offered)> {
    let script = plugin.script.as_ref();
    script.into_iter().flat_map(move |script| {
        let offers = script.offers.iter().filter(move |offered| offered.offer.kind == kind);
        offers.map(move |offered| (script, offered))
    })
}
