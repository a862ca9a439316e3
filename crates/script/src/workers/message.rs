//! What is handed to a worker's thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::bridge::HostError;
use crate::call::{Answer, Arguments, Callee};
use crate::error::ScriptError;
use crate::json::JsonText;
use crate::loaded::SlotCore;

/// A message to a worker's thread.
pub(crate) enum Message {
    /// Make a script's runtime and evaluate it.
    Load { slot: Arc<SlotCore>, reply: Option<oneshot::Sender<Result<(), ScriptError>>> },
    /// Ask functions in order.
    Run(Run),
    /// Nobody waits for this run any more.
    Cancel { run: u64 },
    /// The host has answered a request.
    Answered { script: u64, generation: u32, request: u64, result: Result<JsonText, HostError> },
    /// A kept function is not needed any more.
    Release { script: u64, function: crate::call::FunctionId },
    /// How much heap a script uses.
    Heap { script: u64, reply: oneshot::Sender<Option<u64>> },
    /// A script is not needed any more.
    Unload { script: u64 },
    /// The thread is not needed any more.
    Stop,
}

/// One function of a run.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) script: u64,
    pub(crate) callee: Callee,
    pub(crate) budget: Duration,
}

/// How far a run is; read by the timer outside.
#[derive(Debug)]
pub(crate) struct Progress {
    at: Mutex<(usize, Instant)>,
    cancelled: Arc<AtomicBool>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { at: Mutex::new((0, Instant::now())), cancelled: Arc::default() }
    }

    /// The item whose turn it is, and since when.
    pub(crate) fn look(&self) -> (usize, Instant) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&self, at: usize, now: Instant) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = (at, now);
    }

    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancelled)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) ended_at: Option<(usize, Result<Answer, ScriptError>)>,
    pub(crate) took: Vec<Duration>,
}

impl Reply {
    pub(crate) fn failed(at: usize, error: ScriptError) -> Self {
        Self { ended_at: Some((at, Err(error))), took: Vec::new() }
    }
}

/// Functions that are asked in order until one answers or fails.
pub(crate) struct Run {
    pub(crate) id: u64,
    items: Vec<Item>,
    at: usize,
    since: Instant,
    pub(crate) arguments: Arguments,
    pub(crate) progress: Arc<Progress>,
    took: Vec<Duration>,
    reply: oneshot::Sender<Reply>,
}

impl Run {
    pub(crate) fn new(
        id: u64,
        items: Vec<Item>,
        arguments: Arguments,
        progress: Arc<Progress>,
        reply: oneshot::Sender<Reply>,
    ) -> Self {
        let (_, since) = progress.look();
        let took = Vec::with_capacity(items.len());
        Self { id, items, at: 0, since, arguments, progress, took, reply }
    }

    /// The function whose turn it is.
    pub(crate) fn item(&self) -> Option<&Item> {
        self.items.get(self.at)
    }

    /// The time of the function whose turn it is.
    pub(crate) fn budget(&self) -> Duration {
        self.item().map(|item| item.budget).unwrap_or_default()
    }

    /// When the part of its time is up that the function gets whose turn it is.
    pub(crate) fn until(&self, part: fn(Duration) -> Duration) -> Instant {
        crate::realm::after(self.since, part(self.budget()))
    }

    /// The function whose turn it was has no opinion.
    pub(crate) fn step(&mut self) {
        let now = Instant::now();
        self.took.push(now.saturating_duration_since(self.since));
        self.at += 1;
        self.since = now;
        self.progress.step(self.at, now);
    }

    /// All were asked, and none answered.
    pub(crate) fn finish(self) {
        // A caller that has gone wants no answer.
        let _ = self.reply.send(Reply { ended_at: None, took: self.took });
    }

    /// The function whose turn it is answered, or failed.
    pub(crate) fn end(mut self, result: Result<Answer, ScriptError>) {
        self.took.push(self.since.elapsed());
        // A caller that has gone wants no answer.
        let _ = self.reply.send(Reply { ended_at: Some((self.at, result)), took: self.took });
    }
}
