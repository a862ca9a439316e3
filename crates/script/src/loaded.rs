//! A script that is loaded, as its host holds it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::bridge::{Bridge, CallScope};
use crate::call::{Answer, Arguments, Callee, FunctionId};
use crate::elsewhere::Elsewhere;
use crate::error::ScriptError;
use crate::limits::Limits;
use crate::permissions::Permissions;
use crate::source::ScriptSource;
use crate::workers::{Inner, Item, Lane, Message};

/// What a thread needs to make a script's runtime.
pub(crate) struct SlotCore {
    pub(crate) id: u64,
    pub(crate) source: ScriptSource,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) limits: Limits,
    pub(crate) bridge: Arc<dyn Bridge>,
    /// How often its runtime was made, on whichever thread.
    pub(crate) generation: AtomicU32,
    /// What its first runtime kept while it was loaded: number and label.
    pub(crate) first_kept: OnceLock<Vec<(u32, String)>>,
}

impl SlotCore {
    /// Tells the host that the runtime that there was is gone.
    pub(crate) fn ended(&self, why: &ScriptError) {
        let generation = self.generation.load(Ordering::Acquire);
        let scope = CallScope { script: Arc::clone(&self.source.name), generation };
        self.bridge.ended(&scope, why);
    }
}

struct Home {
    lane: Arc<Lane>,
    stuck: bool,
}

/// A script and where it lives.
pub(crate) struct Slot {
    core: Arc<SlotCore>,
    workers: Arc<Inner>,
    home: Mutex<Home>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let home = self.home.get_mut().unwrap_or_else(PoisonError::into_inner);
        home.lane.leave();
        home.lane.send(Message::Unload { script: self.core.id });
        self.workers.forget(self.core.id);
    }
}

impl Slot {
    pub(crate) fn new(
        id: u64,
        source: ScriptSource,
        permissions: Permissions,
        limits: Limits,
        bridge: Arc<dyn Bridge>,
        workers: Arc<Inner>,
        lane: Arc<Lane>,
    ) -> Self {
        lane.enter();
        let core = Arc::new(SlotCore {
            id,
            source,
            permissions: Arc::new(permissions),
            limits,
            bridge,
            generation: AtomicU32::new(0),
            first_kept: OnceLock::new(),
        });
        Self { core, workers, home: Mutex::new(Home { lane, stuck: false }) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.core.id
    }

    pub(crate) fn core(&self) -> &Arc<SlotCore> {
        &self.core
    }

    /// Whether it lives on this thread.
    pub(crate) fn is_on(&self, lane: &Lane) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.home.lock().unwrap_or_else(PoisonError::into_inner).lane), lane)
    }

    /// The script held a thread that had to be given up.
    pub(crate) fn is_stuck(&self) {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).stuck = true;
    }

    /// The thread that the script lives on; another one if its own was given up, where it is loaded again.
    pub(crate) fn lane(&self) -> Result<Arc<Lane>, ScriptError> {
        let lane = Arc::clone(&self.home.lock().unwrap_or_else(PoisonError::into_inner).lane);
        self.workers.check(&lane);
        let mut home = self.home.lock().unwrap_or_else(PoisonError::into_inner);
        if home.stuck {
            return Err(ScriptError::Stuck);
        }
        if home.lane.is_abandoned() {
            let next = self.workers.pick(self.core.source.placement)?;
            home.lane.leave();
            next.enter();
            next.send(Message::Load { slot: Arc::clone(&self.core), reply: None });
            home.lane = next;
        }
        Ok(Arc::clone(&home.lane))
    }
}

/// A script that is loaded. It is unloaded when the last clone is dropped.
#[derive(Clone)]
pub struct Loaded(Place);

/// Where a script lives.
#[derive(Clone)]
enum Place {
    /// On a worker's thread.
    Here(Arc<Slot>),
    /// In another program.
    Elsewhere(Arc<dyn Elsewhere>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaded").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Loaded {
    pub(crate) fn new(slot: Arc<Slot>) -> Self {
        Self(Place::Here(slot))
    }

    /// A script that lives in another program.
    #[must_use]
    pub fn elsewhere_at(place: Arc<dyn Elsewhere>) -> Self {
        Self(Place::Elsewhere(place))
    }

    pub(crate) fn slot(&self) -> Option<&Slot> {
        match &self.0 {
            Place::Here(slot) => Some(slot),
            Place::Elsewhere(_) => None,
        }
    }

    pub(crate) fn elsewhere(&self) -> Option<&Arc<dyn Elsewhere>> {
        match &self.0 {
            Place::Here(_) => None,
            Place::Elsewhere(place) => Some(place),
        }
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.0 {
            Place::Here(slot) => &slot.core.source.name,
            Place::Elsewhere(place) => place.name(),
        }
    }

    /// The functions that it kept by a name while it was loaded: number and name. Nothing where it lives in another program.
    #[must_use]
    pub fn kept(&self) -> Vec<(u32, String)> {
        self.slot().and_then(|slot| slot.core.first_kept.get().cloned()).unwrap_or_default()
    }

    /// Calls a function and waits for its answer no longer than `budget`; `None` is `undefined` or `null`. When the
    /// returned future is dropped, the script is interrupted, or its signal is aborted.
    ///
    /// # Errors
    ///
    /// That it threw, answered no data, or did not answer in time; that its runtime has ended, or it is off.
    pub async fn call(
        &self,
        callee: impl Into<Callee>,
        arguments: &Arguments,
        budget: Duration,
    ) -> Result<Option<Answer>, ScriptError> {
        let slot = match &self.0 {
            Place::Here(slot) => slot,
            Place::Elsewhere(place) => return place.call(callee.into(), arguments, budget).await,
        };
        let lane = slot.lane()?;
        let item = Item { script: slot.id(), callee: callee.into(), budget };
        let reply = Inner::ask(&slot.workers, &lane, vec![item], arguments).await;
        reply.ended_at.map(|(_, result)| result).transpose()
    }

    /// Calls the export `name`; see [`Loaded::call`].
    ///
    /// # Errors
    ///
    /// As [`Loaded::call`].
    pub async fn call_export(
        &self,
        name: &str,
        arguments: &Arguments,
        budget: Duration,
    ) -> Result<Option<Answer>, ScriptError> {
        self.call(Callee::Export(name.to_owned()), arguments, budget).await
    }

    /// Lets go of a kept function.
    pub fn release(&self, function: FunctionId) {
        match &self.0 {
            Place::Elsewhere(place) => place.release(function),
            Place::Here(slot) => {
                if let Ok(lane) = slot.lane() {
                    lane.send(Message::Release { script: slot.id(), function });
                }
            }
        }
    }

    /// Bytes of heap that the script uses now, if it has a runtime and its thread answers within `budget`.
    pub async fn heap(&self, budget: Duration) -> Option<u64> {
        let slot = match &self.0 {
            Place::Here(slot) => slot,
            Place::Elsewhere(place) => return place.heap(budget).await,
        };
        let lane = slot.lane().ok()?;
        let (reply, answer) = oneshot::channel();
        lane.send(Message::Heap { script: slot.id(), reply });
        tokio::time::timeout(budget, answer).await.ok()?.ok()?
    }
}
