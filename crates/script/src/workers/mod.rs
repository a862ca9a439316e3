//! The threads that scripts run on.
//!
//! A few threads own many runtimes: a thread for each script would cost a wake-up for each function at a point, where
//! a run of them on one thread is one message. Scripts that nobody vouches for get a thread of their own.
//!
//! **Law.** The verdict about a call comes from a timer outside of the script's thread. A thread whose script can't
//! be interrupted is *given up*: its number is bounded, the script that held it is off until it is loaded anew, and
//! the others of that thread are loaded again on another. A thread that was given up ends as soon as the native
//! code lets go of it.

mod lane;
mod message;
mod resident;
mod thread;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub(crate) use lane::{Lane, stack_is_short};
pub(crate) use message::{Item, Message, Progress, Reply, Run};

use crate::bridge::Bridge;
use crate::call::{Arguments, Callee, RunOutcome};
use crate::error::ScriptError;
use crate::limits::Limits;
use crate::loaded::{Loaded, Slot};
use crate::permissions::Permissions;
use crate::source::{Placement, ScriptSource};

/// The longest that is waited for code that is interrupted to say where it was.
const LAST_WORD: Duration = Duration::from_millis(250);

/// The same of code that is loaded.
const LAST_WORD_OF_LOAD: Duration = Duration::from_secs(1);

/// How many threads, and how patient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerSettings {
    /// Threads for scripts that share one.
    pub threads: usize,
    /// How many scripts a shared thread takes before the next thread is begun.
    pub fill: usize,
    /// Threads for scripts that want one of their own; beyond these they share among themselves.
    pub most_alone: usize,
    /// Threads that may be given up at once; after that nothing is replaced.
    pub most_given_up: usize,
    /// How long after its time a slice may go on before its thread is given up.
    pub grace: Duration,
}

impl Default for WorkerSettings {
    fn default() -> Self {
        Self { threads: 2, fill: 64, most_alone: 8, most_given_up: 4, grace: Duration::from_millis(250) }
    }
}

/// See the module. Clones are the same workers; they end when the last clone and the last script are gone.
#[derive(Clone)]
pub struct Workers(Arc<Inner>);

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workers").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

pub(crate) struct Inner {
    settings: WorkerSettings,
    handle: Handle,
    shared: Mutex<Vec<Arc<Lane>>>,
    alone: Mutex<Vec<Arc<Lane>>>,
    given_up: Arc<AtomicUsize>,
    next: AtomicU64,
    slots: Mutex<HashMap<u64, Weak<Slot>>>,
}

/// One function of a run.
#[derive(Debug, Clone)]
pub struct RunItem<'a> {
    /// Whose it is.
    pub script: &'a Loaded,
    /// It.
    pub callee: Callee,
    /// The time that it has, from when it is its turn.
    pub budget: Duration,
}

impl Workers {
    /// Workers whose requests to the host run on `handle`. Threads are started as they are needed.
    #[must_use]
    pub fn start(settings: WorkerSettings, handle: Handle) -> Self {
        Self(Arc::new(Inner {
            settings,
            handle,
            shared: Mutex::default(),
            alone: Mutex::default(),
            given_up: Arc::default(),
            next: AtomicU64::new(1),
            slots: Mutex::default(),
        }))
    }

    /// How many threads are given up to scripts that could not be interrupted, at this moment.
    #[must_use]
    pub fn given_up(&self) -> usize {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// Loads a script: evaluates its modules and waits for what they await, within [`Limits::load`].
    ///
    /// # Errors
    ///
    /// What is wrong with its modules, what it threw, or that it did not end in time.
    pub async fn load(
        &self,
        source: ScriptSource,
        permissions: Permissions,
        limits: Limits,
        bridge: Arc<dyn Bridge>,
    ) -> Result<Loaded, ScriptError> {
        let id = self.0.next_id();
        let lane = self.0.pick(source.placement)?;
        let slot = Arc::new(Slot::new(id, source, permissions, limits, bridge, Arc::clone(&self.0), lane));
        self.0.slots.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::downgrade(&slot));
        let loaded = Loaded::new(Arc::clone(&slot));
        let (reply, answer) = oneshot::channel();
        let lane = slot.lane()?;
        lane.send(Message::Load { slot: Arc::clone(slot.core()), reply: Some(reply) });
        let mut answer = answer;
        match tokio::time::timeout(limits.load, &mut answer).await {
            Ok(Ok(result)) => result.map(|()| loaded),
            Ok(Err(_)) => Err(ScriptError::Gone),
            Err(_) => {
                Inner::watch(&self.0, &lane);
                // A late end of a load is none: it only says where its code was.
                let late = tokio::time::timeout(LAST_WORD_OF_LOAD, answer).await.ok().and_then(Result::ok);
                let error = late.and_then(Result::err);
                Err(error.unwrap_or(ScriptError::TimedOut { budget: limits.load, at: None }))
            }
        }
    }

    /// Asks functions in order until one answers or fails, and says which. Neighbours that live on one thread are
    /// handed over in one message.
    pub async fn call_run(&self, items: &[RunItem<'_>], arguments: &Arguments) -> RunOutcome {
        let mut took = Vec::with_capacity(items.len());
        let mut at = 0;
        while let Some(first) = items.get(at) {
            if let Some(elsewhere) = first.script.elsewhere() {
                let began = Instant::now();
                let said = elsewhere.call(first.callee.clone(), arguments, first.budget).await;
                took.push(began.elapsed());
                if let Some(said) = said.transpose() {
                    return RunOutcome { ended_at: Some((at, said)), took };
                }
                at += 1;
                continue;
            }
            let (lane, end) = match self.0.group(items, at) {
                Ok(group) => group,
                Err(error) => return RunOutcome { ended_at: Some((at, Err(error))), took },
            };
            let group: Vec<Item> = items
                .get(at..end)
                .unwrap_or_default()
                .iter()
                .filter_map(|item| {
                    let script = item.script.slot()?.id();
                    Some(Item { script, callee: item.callee.clone(), budget: item.budget })
                })
                .collect();
            debug_assert!(!group.is_empty(), "a group begins with {first:?}");
            let reply = Inner::ask(&self.0, &lane, group, arguments).await;
            took.extend(reply.took);
            if let Some((index, ended)) = reply.ended_at {
                return RunOutcome { ended_at: Some((at + index, ended)), took };
            }
            at = end;
        }
        RunOutcome { ended_at: None, took }
    }
}

impl Inner {
    pub(crate) fn next_id(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A thread for one more script.
    pub(crate) fn pick(&self, placement: Placement) -> Result<Arc<Lane>, ScriptError> {
        let given_up = self.given_up.load(Ordering::Relaxed);
        if given_up > self.settings.most_given_up {
            return Err(ScriptError::TooManyStuck { given_up });
        }
        let (lanes, most, fill) = match placement {
            Placement::Shared => (&self.shared, self.settings.threads.max(1), self.settings.fill.max(1)),
            Placement::Alone => (&self.alone, self.settings.most_alone.max(1), 1),
        };
        let mut lanes = lanes.lock().unwrap_or_else(PoisonError::into_inner);
        // Who is no lane's resident any more takes its lane with it.
        lanes.retain(|lane| {
            !lane.is_abandoned() && (Arc::strong_count(lane) > 1 || placement == Placement::Shared)
        });
        if let Some(lane) = lanes.iter().find(|lane| lane.residents() < fill) {
            return Ok(Arc::clone(lane));
        }
        if lanes.len() < most {
            let lane = Lane::start(self.handle.clone(), Arc::clone(&self.given_up))?;
            lanes.push(Arc::clone(&lane));
            return Ok(lane);
        }
        lanes.iter().min_by_key(|lane| lane.residents()).cloned().ok_or(ScriptError::Gone)
    }

    /// The thread of the item at `at`, and where the items end that live there as well.
    fn group(&self, items: &[RunItem<'_>], at: usize) -> Result<(Arc<Lane>, usize), ScriptError> {
        let Some(first) = items.get(at) else { return Err(ScriptError::Gone) };
        let lane = first.script.slot().ok_or(ScriptError::Gone)?.lane()?;
        let mut end = at + 1;
        while let Some(slot) = items.get(end).and_then(|item| item.script.slot())
            && slot.lane().is_ok_and(|other| Arc::ptr_eq(&other, &lane))
        {
            end += 1;
        }
        Ok((lane, end))
    }

    /// Hands a run to a thread, and waits for it no longer than the budgets of its items allow.
    pub(crate) async fn ask(
        inner: &Arc<Self>,
        lane: &Arc<Lane>,
        items: Vec<Item>,
        arguments: &Arguments,
    ) -> Reply {
        let budgets: Vec<Duration> = items.iter().map(|item| item.budget).collect();
        let (reply, mut answer) = oneshot::channel();
        let progress = Arc::new(Progress::new());
        let id = inner.next_id();
        let mut guard = Waiting { lane, id, progress: Arc::clone(&progress), armed: true };
        lane.send(Message::Run(Run::new(id, items, arguments.clone(), Arc::clone(&progress), reply)));
        loop {
            let (at, started) = progress.look();
            let budget = budgets.get(at).copied().unwrap_or_default();
            let end = crate::realm::after(started, budget);
            // Nobody wakes this when the next item begins, which may have less time than this one.
            let next = budgets.iter().skip(at.saturating_add(1)).min().copied().unwrap_or(budget);
            let until = end.min(crate::realm::after(Instant::now(), next));
            match tokio::time::timeout_at(tokio::time::Instant::from_std(until), &mut answer).await {
                Ok(answered) => {
                    guard.armed = false;
                    return answered.unwrap_or_else(|_| Reply::failed(at, ScriptError::Gone));
                }
                Err(_) if progress.look() != (at, started) || Instant::now() < end => {}
                Err(_) => {
                    drop(guard);
                    Self::watch(inner, lane);
                    let late = inner.heard_late(lane, &mut answer).await.and_then(|reply| reply.ended_at);
                    let place = late.and_then(|(_, said)| match said {
                        Err(ScriptError::TimedOut { at: place, .. }) => place,
                        _ => None,
                    });
                    return Reply::failed(at, ScriptError::TimedOut { budget, at: place });
                }
            }
        }
    }

    /// What is heard from a thread whose code is over its time, and which is interrupted now. A late answer is no answer: it only
    /// says where the code was.
    async fn heard_late<T>(&self, lane: &Lane, answer: &mut oneshot::Receiver<T>) -> Option<T> {
        lane.gauge().running()?;
        tokio::time::timeout(self.settings.grace.min(LAST_WORD), answer).await.ok()?.ok()
    }

    /// Gives the slice that runs on `lane` its grace, and the thread up if that was not enough.
    pub(crate) fn watch(inner: &Arc<Self>, lane: &Arc<Lane>) {
        let Some((slice, overdue)) = lane.gauge().running() else { return };
        let at = crate::realm::after(overdue, inner.settings.grace);
        let (inner, lane) = (Arc::clone(inner), Arc::clone(lane));
        let handle = inner.handle.clone();
        handle.spawn(async move {
            tokio::time::sleep_until(tokio::time::Instant::from_std(at)).await;
            if lane.gauge().running().is_some_and(|(now, _)| now == slice) {
                inner.give_up(&lane, slice);
            }
        });
    }

    /// Gives a thread up that is over its time and its grace already.
    pub(crate) fn check(&self, lane: &Lane) {
        if let Some((slice, overdue)) = lane.gauge().running()
            && Instant::now() > crate::realm::after(overdue, self.settings.grace)
        {
            self.give_up(lane, slice);
        }
    }

    fn give_up(&self, lane: &Lane, slice: u64) {
        let script = lane.gauge().script();
        // Only if that script is still the one: another that is on time must not be off for it.
        if lane.gauge().running().is_none_or(|(now, _)| now != slice) || !lane.abandon() {
            return;
        }
        let all: Vec<Arc<Slot>> = self
            .slots
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        // INVARIANT: whoever is dropped here is not dropped under the lock, which that takes.
        for slot in all.into_iter().filter(|slot| slot.is_on(lane)) {
            let is_it = slot.id() == script;
            if is_it {
                slot.is_stuck();
            }
            slot.core().ended(if is_it { &ScriptError::Stuck } else { &ScriptError::Gone });
        }
    }

    pub(crate) fn forget(&self, id: u64) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// Tells the thread when the caller does not wait any more.
struct Waiting<'a> {
    lane: &'a Lane,
    id: u64,
    progress: Arc<Progress>,
    armed: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.progress.cancel();
            self.lane.send(Message::Cancel { run: self.id });
        }
    }
}
