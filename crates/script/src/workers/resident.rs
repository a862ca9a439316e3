//! A script on a worker's thread: its runtime, or why it has none, and what waits for it.
//!
//! What a script does because somebody asked it goes before what it does by itself, which is to take the answers to its
//! requests and to have its timers fire: see [`Resident::own_work`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rquickjs::{Persistent, Promise};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::message::Run;
use crate::bridge::HostError;
use crate::error::{Ended, ScriptError};
use crate::json::JsonText;
use crate::loaded::SlotCore;
use crate::realm::Realm;

/// After this long without an ending, a runtime counts as sound again.
const SOUND: Duration = Duration::from_secs(60);
/// What a script does by itself may take this long without a rest.
const QUICK: Duration = Duration::from_millis(5);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What a script does by itself.
pub(super) enum OwnWork {
    /// The host has answered this request.
    Answer(u64, Result<JsonText, HostError>),
    /// This timer is due.
    Timer(u64),
}

/// A call that waits for a promise.
pub(super) struct Waiting {
    pub(super) run: Run,
    pub(super) promise: Persistent<Promise<'static>>,
}

/// The state of a script's runtime.
pub(super) enum State {
    /// It is evaluated, and awaits something.
    Loading { promise: Persistent<Promise<'static>>, until: Instant },
    /// It can be asked.
    Live,
    /// It has no runtime.
    Ended { error: ScriptError, since: Instant },
}

/// See the module.
pub(super) struct Resident {
    pub(super) slot: Arc<SlotCore>,
    // INVARIANT: promises are let go of before the realm is; see `Resident::clear` and the order of fields.
    pub(super) state: State,
    pub(super) waiting: Vec<Waiting>,
    pub(super) realm: Option<Realm>,
    /// Calls for when it is loaded.
    pub(super) queued: Vec<Run>,
    pub(super) reply: Option<oneshot::Sender<Result<(), ScriptError>>>,
    pub(super) requests: HashMap<u64, AbortHandle>,
    /// Answers to requests of this runtime, in the order in which they came. There is at most one for each request.
    pub(super) answers: VecDeque<(u64, Result<JsonText, HostError>)>,
    /// Until then it does nothing by itself.
    resting: Option<Instant>,
    pub(super) generation: u32,
    /// What this runtime kept while it was loaded.
    pub(super) kept: Vec<(u32, String)>,
    endings: u32,
    loaded_at: Instant,
}

impl Drop for Resident {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Resident {
    pub(super) fn new(slot: Arc<SlotCore>, reply: Option<oneshot::Sender<Result<(), ScriptError>>>) -> Self {
        Self {
            slot,
            state: State::Ended { error: ScriptError::Gone, since: Instant::now() },
            waiting: Vec::new(),
            realm: None,
            queued: Vec::new(),
            reply,
            requests: HashMap::new(),
            answers: VecDeque::new(),
            resting: None,
            generation: 0,
            kept: Vec::new(),
            endings: 0,
            loaded_at: Instant::now(),
        }
    }

    /// Lets go of everything that the runtime holds, and of the runtime.
    fn clear(&mut self) -> Vec<Run> {
        self.state = State::Ended { error: ScriptError::Gone, since: Instant::now() };
        for (_, request) in self.requests.drain() {
            request.abort();
        }
        self.answers.clear();
        let runs = self.waiting.drain(..).map(|waiting| waiting.run).collect();
        self.realm = None;
        runs
    }

    /// When there is something that it does by itself and may do. An answer goes before a timer.
    pub(super) fn own_work(&self) -> Option<Instant> {
        let realm = self.realm.as_ref()?;
        let at = if self.answers.is_empty() { realm.next_timer()? } else { self.loaded_at };
        Some(self.resting.map_or(at, |resting| resting.max(at)))
    }

    /// Takes one thing that it does by itself and may do now.
    pub(super) fn take_own_work(&mut self, now: Instant) -> Option<OwnWork> {
        if let Some((request, result)) = self.answers.pop_front() {
            return Some(OwnWork::Answer(request, result));
        }
        self.realm.as_ref()?.take_due(now).map(OwnWork::Timer)
    }

    /// What it did by itself took from `began` until now. It rests as long, so that no more than half of a thread's time
    /// goes into what nobody asked for.
    pub(super) fn rest_after(&mut self, began: Instant) {
        let took = began.elapsed();
        self.resting = (took > QUICK).then(|| crate::realm::after(Instant::now(), took));
    }

    /// Until when code may keep the thread that begins now, and how long that is in all: of a load, what is left of its time, since
    /// what it evaluates is one stretch of code.
    pub(super) fn slice(&self) -> (Instant, Duration) {
        let limits = &self.slot.limits;
        match &self.state {
            State::Loading { until, .. } => (*until, limits.load),
            State::Live | State::Ended { .. } => {
                (crate::realm::after(Instant::now(), limits.slice), limits.slice)
            }
        }
    }

    /// The script can be asked from now on.
    pub(super) fn is_live(&mut self) {
        self.state = State::Live;
        self.loaded_at = Instant::now();
        if self.generation == 1 {
            // The first runtime is made once.
            let _ = self.slot.first_kept.set(self.kept.clone());
        }
    }

    /// The runtime is ended; what waits for it fails.
    pub(super) fn end(&mut self, why: Ended) {
        if self.loaded_at.elapsed() > SOUND {
            self.endings = 0;
        }
        self.endings = self.endings.saturating_add(1);
        let error = ScriptError::Ended { why, again_in: self.pause() };
        let was_live = matches!(self.state, State::Live);
        let slot = Arc::clone(&self.slot);
        self.fail(error.clone());
        if was_live {
            slot.ended(&error);
        }
    }

    /// There is no runtime, for this reason.
    pub(super) fn fail(&mut self, error: ScriptError) {
        let runs = self.clear();
        for run in runs.into_iter().chain(self.queued.drain(..)) {
            run.end(Err(error.clone()));
        }
        if let Some(reply) = self.reply.take() {
            // A caller that has gone wants no answer.
            let _ = reply.send(Err(error.clone()));
        }
        self.state = State::Ended { error, since: Instant::now() };
    }

    /// A load after the first one did not come to an end: the next try has to wait longer.
    pub(super) fn load_failed(&mut self, error: ScriptError) {
        self.endings = self.endings.saturating_add(1).max(2);
        self.fail(error);
    }

    fn pause(&self) -> Duration {
        match self.endings {
            0 | 1 => Duration::ZERO,
            more => FIRST_PAUSE.saturating_mul(1 << (more - 2).min(16)).min(LONGEST_PAUSE),
        }
    }

    /// Why it can't be loaded again yet.
    pub(super) fn refusal(&self) -> Option<ScriptError> {
        let State::Ended { error, since } = &self.state else { return None };
        let left = self.pause().saturating_sub(since.elapsed());
        if left.is_zero() {
            return None;
        }
        Some(match error {
            ScriptError::Ended { why, .. } => ScriptError::Ended { why: why.clone(), again_in: left },
            other => other.clone(),
        })
    }
}
