//! One life of a program: requests go out, answers come back, until something is wrong.
//!
//! Answers of one read are looked at together before any of them is given to who waits for it, so that of a program which
//! answers twice in one breath no answer counts.
//!
//! A call that nobody waits for any more keeps its place among those that are worked on until the program has answered it, or
//! has not for too long: otherwise a program would be asked about more at once than it said it can do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use backstop_hooks::HookError;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::fault::Fault;
use super::input::{Input, MOST_LINES};
use super::life::Life;
use super::wire::{self, Call};

/// Most calls that wait for their turn.
const MOST_WAITING: usize = 1024;

type Answer = Result<Value, String>;

/// A program that runs, as its callers see it.
#[derive(Debug)]
pub(crate) struct Session {
    plugin: Arc<str>,
    /// What it may ask, if it may.
    life: Option<Arc<dyn Life>>,
    input: Input,
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    requests: Mutex<Requests>,
    cancelled: Notify,
}

#[derive(Debug, Default)]
struct Requests {
    last: u64,
    open: HashMap<u64, Open>,
    /// Why there are no more.
    over: Option<Fault>,
}

#[derive(Debug)]
struct Open {
    /// Who waits for the answer; nobody any more since then.
    caller: Result<oneshot::Sender<Answer>, Instant>,
    _slot: Option<OwnedSemaphorePermit>,
}

impl Session {
    /// A session with the program that has this input. It works on one request until [`widen`](Self::widen) says
    /// otherwise.
    pub(super) fn new(plugin: Arc<str>, input: Input, life: Option<Arc<dyn Life>>) -> Arc<Self> {
        Arc::new(Self {
            plugin,
            life,
            input,
            slots: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
            requests: Mutex::default(),
            cancelled: Notify::new(),
        })
    }

    /// Says how many requests the program works on at once.
    pub(super) fn widen(&self, concurrency: usize) {
        self.slots.add_permits(concurrency.saturating_sub(1));
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it may ask, if it may.
    pub(crate) fn life(&self) -> Option<&Arc<dyn Life>> {
        self.life.as_ref()
    }

    /// Asks the program something that is neither an event nor a tool, when it is its turn.
    pub(crate) async fn ask(&self, method: &str, params: &impl serde::Serialize) -> Result<Value, HookError> {
        let slot = self.slot().await?;
        let answer = self.request(|id| wire::request(id, method, params), Some(slot)).await;
        answer.map_err(|fault| fault.hook_error(&self.plugin))?.map_err(HookError::failed)
    }

    /// Sends what wants no answer. A program that does not read is found out otherwise.
    pub(crate) fn tell(&self, line: Vec<u8>) {
        let _ = self.input.send(line);
    }

    /// Asks the program, when it is its turn.
    pub(super) async fn call(&self, call: Call<'_>) -> Result<Value, HookError> {
        let slot = self.slot().await?;
        let answer = self.request(|id| call.line(id), Some(slot)).await;
        match answer.map_err(|fault| fault.hook_error(&self.plugin))? {
            Ok(answer) => Ok(answer),
            Err(message) => Err(HookError::failed(message)),
        }
    }

    /// A place among the requests that are worked on.
    async fn slot(&self) -> Result<OwnedSemaphorePermit, HookError> {
        if let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(slot);
        }
        let _waiting = Waiting::begin(&self.waiting).ok_or_else(|| {
            HookError::Overloaded(format!("{MOST_WAITING} calls wait for the process of `{}`", self.plugin))
        })?;
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        slot.map_err(|_| self.fault().hook_error(&self.plugin))
    }

    /// Sends a request and waits for its answer. Dropped before that, it tells the program.
    pub(super) async fn request(
        &self,
        line: impl FnOnce(u64) -> Vec<u8>,
        slot: Option<OwnedSemaphorePermit>,
    ) -> Result<Answer, Fault> {
        let (caller, answer) = oneshot::channel();
        let id = {
            let mut requests = self.requests();
            if let Some(fault) = &requests.over {
                return Err(fault.clone());
            }
            requests.last += 1;
            let id = requests.last;
            requests.open.insert(id, Open { caller: Ok(caller), _slot: slot });
            id
        };
        // Whoever is dropped from here on is known to the program, or soon will be.
        let _told = Cancel { session: self, id };
        if self.input.send(line(id)).is_err() {
            self.requests().open.remove(&id);
            return Err(self.requests().over.clone().unwrap_or_else(|| {
                Fault::Pipe(format!("{MOST_LINES} lines wait for it to read its standard input"))
            }));
        }
        answer.await.map_err(|_| self.fault())
    }

    fn fault(&self) -> Fault {
        self.requests().over.clone().unwrap_or(Fault::ShutDown)
    }

    /// Gives answers to who waits for them: all of them or none.
    pub(super) fn answer(&self, answers: Vec<(u64, Answer)>) -> Result<(), Fault> {
        let mut requests = self.requests();
        let mut open = Vec::with_capacity(answers.len());
        for (id, answer) in answers {
            let request = requests.open.remove(&id).ok_or(Fault::UnknownId)?;
            open.push((request, answer));
        }
        drop(requests);
        for (request, answer) in open {
            if let Ok(caller) = request.caller {
                // Who has gone in the meantime misses nothing.
                let _ = caller.send(answer);
            }
        }
        Ok(())
    }

    /// Whether the program works on anything, or has not said that it is done.
    pub(super) fn is_idle(&self) -> bool {
        self.requests().open.is_empty()
    }

    /// Whether there will be no more answers.
    pub(super) fn is_over(&self) -> bool {
        self.requests().over.is_some()
    }

    /// Returns when a request was cancelled so long ago that its program has forgotten it.
    pub(super) async fn overdue(&self, grace: std::time::Duration) {
        loop {
            let oldest =
                self.requests().open.values().filter_map(|open| open.caller.as_ref().err().copied()).min();
            let Some(since) = oldest else {
                self.cancelled.notified().await;
                continue;
            };
            if since.elapsed() >= grace {
                return;
            }
            tokio::time::sleep_until(since + grace).await;
        }
    }

    /// Nothing more is sent.
    pub(super) fn close_input(&self) {
        self.input.close();
    }

    /// There will be no more answers.
    pub(super) fn end(&self, fault: &Fault) {
        let open = {
            let mut requests = self.requests();
            requests.over.get_or_insert_with(|| fault.clone());
            std::mem::take(&mut requests.open)
        };
        self.slots.close();
        drop(open);
        if let Some(life) = &self.life {
            life.over();
        }
    }
}

/// A request whose caller may go away.
struct Cancel<'a> {
    session: &'a Session,
    id: u64,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.session.requests().open.get_mut(&self.id) {
            open.caller = Err(Instant::now());
        } else {
            return;
        }
        self.session.cancelled.notify_one();
        // A program that reads nothing any more is not told that either.
        let _ = self.session.input.send(wire::cancel(self.id));
    }
}

/// One of those that wait for their turn.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < MOST_WAITING {
            return Some(Self(count));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
