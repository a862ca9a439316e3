//! A worker's thread: takes messages, gives scripts their slices, and looks after what they left.
//!
//! **Law.** Whoever asks goes first. In each turn of the thread all messages are taken that are there, the functions are
//! called whose turn it is, and then *one* script does *one* thing by itself: it takes an answer to a request, or a timer of it
//! fires. Scripts take turns in this, and one whose thing took long rests as long. So a call waits for one slice of what
//! nobody asked for, at most, however many timers are due.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::lane::Gauge;
use super::message::{Message, Run};
use super::resident::{OwnWork, Resident, State, Waiting};
use crate::bridge::CallScope;
use crate::call::{Answer, Callee, FunctionId};
use crate::error::{Ended, ScriptError};
use crate::limits::Limits;
use crate::loaded::SlotCore;
use crate::realm::{self, Failure, HostScope, Realm, Started, after};

/// What a script that was interrupted gets to run the jobs that it left.
const TIDYING: Duration = Duration::from_millis(50);

/// What code that runs gets of a time after which nobody waits for its answer: a little less, so that it is known by then where
/// it was.
fn short_of(budget: Duration) -> Duration {
    budget - (budget / 16).min(Duration::from_millis(50))
}

/// The same of the time of a load, which more waits for.
fn short_of_load(load: Duration) -> Duration {
    load - (load / 8).min(Duration::from_millis(500))
}

/// How many messages are taken in one turn.
const MOST_MESSAGES: usize = 1024;

/// See the module.
pub(super) struct Worker {
    receiver: mpsc::Receiver<Message>,
    sender: mpsc::Sender<Message>,
    gauge: Arc<Gauge>,
    handle: Handle,
    given_up: Arc<AtomicUsize>,
    residents: HashMap<u64, Resident>,
    /// When each script may do what it does by itself; those that have nothing to do are not in it.
    own: BTreeMap<u64, Instant>,
    /// The script that did something by itself last.
    last: u64,
    /// Runs whose turn it is.
    ready: VecDeque<Run>,
}

impl Worker {
    pub(super) fn new(
        receiver: mpsc::Receiver<Message>,
        sender: mpsc::Sender<Message>,
        gauge: Arc<Gauge>,
        handle: Handle,
        given_up: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            receiver,
            sender,
            gauge,
            handle,
            given_up,
            residents: HashMap::new(),
            own: BTreeMap::new(),
            last: 0,
            ready: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) {
        super::lane::note_stack();
        let abandoned = self.gauge.abandoned();
        while self.take_messages().is_continue() {
            self.drive();
            self.own_turn();
            if abandoned.load(Ordering::Relaxed) {
                break;
            }
        }
        self.residents.clear();
        if abandoned.load(Ordering::Relaxed) {
            self.given_up.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Takes what messages are there. Waits for one if there is nothing else to do, until there is.
    fn take_messages(&mut self) -> ControlFlow<()> {
        let next =
            if self.ready.is_empty() { self.own.values().min().copied() } else { Some(Instant::now()) };
        let mut message = match next {
            None => self.receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
            Some(at) => self.receiver.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        for _ in 0..MOST_MESSAGES {
            match message {
                Ok(Message::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return ControlFlow::Break(());
                }
                Ok(message) => self.take(message),
                Err(mpsc::RecvTimeoutError::Timeout) => break,
            }
            message = self.receiver.try_recv().map_err(|error| match error {
                mpsc::TryRecvError::Empty => mpsc::RecvTimeoutError::Timeout,
                mpsc::TryRecvError::Disconnected => mpsc::RecvTimeoutError::Disconnected,
            });
        }
        ControlFlow::Continue(())
    }

    fn take(&mut self, message: Message) {
        // INVARIANT (messages keep their order): whoever asked before a script was loaded, unloaded or let go of a function is
        // answered as if it was not yet.
        if !matches!(message, Message::Run(_) | Message::Answered { .. } | Message::Cancel { .. }) {
            self.drive();
        }
        match message {
            Message::Load { slot, reply } => self.load(slot, reply),
            Message::Run(run) => self.ready.push_back(run),
            Message::Cancel { run } => self.cancel(run),
            Message::Answered { script, generation, request, result } => {
                let Some(resident) = self.residents.get_mut(&script) else { return };
                // INVARIANT: `requests` holds those of this runtime alone, so an answer of an earlier one is dropped.
                if resident.generation == generation && resident.requests.remove(&request).is_some() {
                    resident.answers.push_back((request, result));
                    self.note_own_work(script);
                }
            }
            Message::Release { script, function } => {
                if self.residents.get(&script).is_some_and(|resident| function.is_of(resident.generation)) {
                    self.slice(script, |realm| realm.release(function.number()));
                }
            }
            Message::Heap { script, reply } => {
                let heap =
                    self.residents.get(&script).and_then(|resident| resident.realm.as_ref()).map(Realm::heap);
                // A caller that has gone wants no answer.
                let _ = reply.send(heap);
            }
            Message::Unload { script } => {
                if let Some(mut resident) = self.residents.remove(&script) {
                    resident.fail(ScriptError::Gone);
                    self.own.remove(&script);
                }
            }
            Message::Stop => {}
        }
    }

    fn load(&mut self, slot: Arc<SlotCore>, reply: Option<oneshot::Sender<Result<(), ScriptError>>>) {
        let id = slot.id;
        self.residents.insert(id, Resident::new(slot, reply));
        self.make(id);
    }

    /// Makes a script's runtime and begins to evaluate it.
    fn make(&mut self, script: u64) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        resident.generation = resident.slot.generation.fetch_add(1, Ordering::AcqRel).saturating_add(1);
        resident.kept.clear();
        let slot = Arc::clone(&resident.slot);
        let scope = CallScope { script: Arc::clone(&slot.source.name), generation: resident.generation };
        let scope =
            HostScope::new(scope, Arc::clone(&slot.permissions), Arc::clone(&slot.bridge), slot.limits);
        let until = after(Instant::now(), short_of_load(slot.limits.load));
        self.gauge.begin(script, until);
        let made = Realm::new(&slot.source, slot.limits, Arc::new(scope), self.gauge.abandoned());
        let started = made.map(|mut realm| {
            let started = realm.load(slot.source.boot.as_deref(), until);
            (realm, started)
        });
        match started {
            Ok((realm, Started::Waits(promise))) => {
                resident.realm = Some(realm);
                resident.state = State::Loading { promise, until };
            }
            Ok((_, Started::Done(Err(failure)))) => resident.load_failed(failure.of_load(&slot.limits)),
            Ok((_, Started::Done(Ok(_)))) => resident.load_failed(ScriptError::Gone),
            Err(error) => resident.load_failed(error),
        }
        self.gauge.end();
        self.slice(script, |_| Ok(()));
    }

    fn cancel(&mut self, run: u64) {
        self.ready.retain(|ready| ready.id != run);
        let mut cancelled = None;
        for (script, resident) in &mut self.residents {
            resident.queued.retain(|queued| queued.id != run);
            if let Some(at) = resident.waiting.iter().position(|waiting| waiting.run.id == run) {
                resident.waiting.remove(at);
                cancelled = Some(*script);
                break;
            }
        }
        if let Some(script) = cancelled {
            self.slice(script, |realm| realm.over(run, true));
        }
    }

    /// Notes when a script may do what it does by itself.
    fn note_own_work(&mut self, script: u64) {
        match self.residents.get(&script).and_then(Resident::own_work) {
            Some(at) => self.own.insert(script, at),
            None => self.own.remove(&script),
        };
    }

    /// Has the next script that may do something by itself do one thing.
    fn own_turn(&mut self) {
        let now = Instant::now();
        let may = |(script, at): (&u64, &Instant)| (*at <= now).then_some(*script);
        let after = self.own.range((Bound::Excluded(self.last), Bound::Unbounded)).find_map(may);
        let Some(script) = after.or_else(|| self.own.iter().find_map(may)) else { return };
        self.last = script;
        match self.residents.get_mut(&script).and_then(|resident| resident.take_own_work(now)) {
            Some(OwnWork::Timer(timer)) => self.slice(script, |realm| realm.fire(timer)),
            Some(OwnWork::Answer(request, result)) => self.slice(script, |realm| match &result {
                Ok(text) => realm.settle(request, true, text.as_str()),
                Err(error) => realm.settle(request, false, &realm::error_text(error)),
            }),
            None => {}
        }
        if let Some(resident) = self.residents.get_mut(&script) {
            resident.rest_after(now);
        }
        self.note_own_work(script);
    }

    /// Gives runs their turn until all of them wait for something.
    fn drive(&mut self) {
        while let Some(run) = self.ready.pop_front() {
            self.turn(run);
        }
    }

    /// Asks the function whose turn it is in `run`, and those after it as long as they have no opinion at once.
    fn turn(&mut self, mut run: Run) {
        loop {
            if run.progress.is_cancelled() {
                return;
            }
            let Some(item) = run.item() else { return run.finish() };
            let (script, callee) = (item.script, item.callee.clone());
            if self.residents.get(&script).is_some_and(|resident| {
                matches!(resident.state, State::Ended { .. })
                    && resident.refusal().is_none()
                    && !(resident.slot.source.once && resident.generation > 0)
            }) {
                self.make(script);
            }
            let Some(resident) = self.residents.get_mut(&script) else {
                return run.end(Err(ScriptError::Gone));
            };
            match &resident.state {
                State::Loading { until, .. } if Instant::now() < *until => return resident.queued.push(run),
                State::Loading { .. } => {
                    let budget = resident.slot.limits.load;
                    resident.load_failed(ScriptError::TimedOut { budget, at: None });
                    return run.end(Err(ScriptError::TimedOut { budget, at: None }));
                }
                State::Ended { error, .. } => {
                    let error = resident.refusal().unwrap_or_else(|| error.clone());
                    return run.end(Err(error));
                }
                State::Live => {}
            }
            if let Err(error) = resident.may_call(&callee) {
                return run.end(Err(error));
            }
            match self.call(script, &callee, run) {
                Some(next) => run = next,
                None => return,
            }
        }
    }

    /// One call; gives the run back if the function has no opinion, and was asked in full.
    fn call(&mut self, script: u64, callee: &Callee, mut run: Run) -> Option<Run> {
        let resident = self.residents.get_mut(&script)?;
        let limits = resident.slot.limits;
        let generation = resident.generation;
        let now = Instant::now();
        let slice_end = after(now, limits.slice);
        self.gauge.begin(script, slice_end);
        let Some(realm) = &mut resident.realm else { return None };
        let until = run.until(short_of).min(slice_end);
        let started =
            realm.call(run.id, callee, &run.arguments.list, &run.arguments.keep, until, run.progress.flag());
        let (outcome, why) = match started {
            Started::Waits(promise) => {
                resident.waiting.push(Waiting { run, promise });
                self.gauge.end();
                self.finish_slice(script, Ok(()), after(now, limits.slice));
                return None;
            }
            Started::Done(Ok(answer)) => (Ok(answer), Ok(())),
            Started::Done(Err(failure)) => Self::weigh(failure, run.budget(), &limits),
        };
        let interrupted = matches!(outcome, Err(ScriptError::TimedOut { .. }));
        let why =
            why.and_then(|()| if run.arguments.has_signal() { realm.over(run.id, false) } else { Ok(()) });
        self.gauge.end();
        let next = match outcome {
            Ok(None) => {
                run.step();
                Some(run)
            }
            Ok(Some(answer)) => {
                run.end(Ok(answer.of(generation)));
                None
            }
            Err(error) => {
                run.end(Err(error));
                None
            }
        };
        let jobs_until = if interrupted { after(Instant::now(), TIDYING) } else { slice_end };
        self.finish_slice(script, why, jobs_until);
        next
    }

    /// What a failure means for the caller, and for the runtime.
    fn weigh(
        failure: Failure,
        budget: Duration,
        limits: &Limits,
    ) -> (Result<Option<Answer>, ScriptError>, Result<(), Ended>) {
        if failure.out_of_memory {
            let why = Ended::OutOfMemory { most: limits.memory, at: failure.at.map(|at| *at) };
            let error = ScriptError::Ended { why: why.clone(), again_in: Duration::ZERO };
            return (Err(error), Err(why));
        }
        (Err(failure.said(budget.min(limits.slice))), Ok(()))
    }

    /// A slice that belongs to no call.
    fn slice(&mut self, script: u64, run: impl FnOnce(&Realm) -> Result<(), Ended>) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let Some(realm) = &resident.realm else { return };
        let (until, held) = resident.slice();
        self.gauge.begin(script, until);
        realm.start_clock(until, held);
        let ran = run(realm);
        self.gauge.end();
        self.finish_slice(script, ran, until);
    }

    /// Runs the jobs that a slice left, takes out what it put out, and looks who has an answer.
    fn finish_slice(&mut self, script: u64, ran: Result<(), Ended>, until: Instant) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let Some(realm) = &resident.realm else { return };
        self.gauge.begin(script, until);
        realm.start_clock(until, resident.slice().1);
        let ended = ran.and_then(|()| realm.run_jobs()).err();
        let settled = if ended.is_none() { Self::settled(resident) } else { Vec::new() };
        self.gauge.end();
        self.empty_outbox(script);
        let mut why = ended;
        for (run, outcome) in settled {
            let full = self.conclude(script, run, outcome);
            why = why.or(full);
        }
        let Some(resident) = self.residents.get_mut(&script) else { return };
        if let Some(why) = why {
            return resident.end(why);
        }
        self.look_at_load(script);
    }

    /// Calls whose promise is settled.
    fn settled(resident: &mut Resident) -> Vec<(Run, Result<Option<Answer>, Failure>)> {
        let Some(realm) = &resident.realm else { return Vec::new() };
        let mut settled = Vec::new();
        let mut at = 0;
        while let Some(waiting) = resident.waiting.get(at) {
            match realm.look(&waiting.promise, Some(&waiting.run.arguments.keep)) {
                Some(outcome) => settled.push((resident.waiting.remove(at).run, outcome)),
                None => at += 1,
            }
        }
        settled
    }

    fn conclude(
        &mut self,
        script: u64,
        mut run: Run,
        outcome: Result<Option<Answer>, Failure>,
    ) -> Option<Ended> {
        let resident = self.residents.get_mut(&script)?;
        let generation = resident.generation;
        let realm = resident.realm.as_ref()?;
        let mut why = if run.arguments.has_signal() { realm.over(run.id, false).err() } else { None };
        match outcome {
            Ok(None) => {
                run.step();
                self.ready.push_back(run);
            }
            Ok(Some(answer)) => run.end(Ok(answer.of(generation))),
            Err(failure) => {
                let (outcome, ended) = Self::weigh(failure, run.budget(), &resident.slot.limits);
                why = why.or(ended.err());
                if let Err(error) = outcome {
                    run.end(Err(error));
                }
            }
        }
        why
    }

    /// Sets the timers and begins the requests that a slice asked for.
    fn empty_outbox(&mut self, script: u64) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let Some(realm) = &resident.realm else { return };
        let outbox = realm.take_outbox();
        let generation = resident.generation;
        if matches!(resident.state, State::Loading { .. }) {
            resident.kept.extend(outbox.kept);
        }
        for (request, answering) in outbox.requests {
            let sender = self.sender.clone();
            let task = self.handle.spawn(async move {
                let result = answering.await;
                // A thread that has gone wants no answer.
                let _ = sender.send(Message::Answered { script, generation, request, result });
            });
            resident.requests.insert(request, task.abort_handle());
        }
        self.note_own_work(script);
    }

    /// Whether a load has come to its end.
    fn look_at_load(&mut self, script: u64) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let State::Loading { promise, until } = &resident.state else { return };
        let late = Instant::now() >= *until;
        let Some(realm) = &mut resident.realm else { return };
        let load = resident.slot.limits.load;
        match realm.look(promise, None) {
            None if !late => {}
            None => resident.load_failed(ScriptError::TimedOut { budget: load, at: None }),
            Some(Err(failure)) => {
                let error = failure.of_load(&resident.slot.limits);
                resident.load_failed(error);
            }
            Some(Ok(_)) => match realm.loaded(resident.slot.source.boot.is_some()) {
                Err(failure) => {
                    let error = failure.of_load(&resident.slot.limits);
                    resident.load_failed(error);
                }
                Ok(()) => {
                    resident.is_live();
                    if let Some(reply) = resident.reply.take() {
                        // A caller that has gone wants no answer.
                        let _ = reply.send(Ok(()));
                    }
                    self.ready.extend(resident.queued.drain(..));
                }
            },
        }
    }
}

impl Resident {
    /// Whether a function may be called in this runtime.
    fn may_call(&self, callee: &Callee) -> Result<(), ScriptError> {
        let limit = self.slot.limits.pending;
        if self.waiting.len() >= limit {
            return Err(ScriptError::Busy { limit });
        }
        let Callee::Kept(id) = callee else { return Ok(()) };
        if !id.is_of(self.generation) {
            return Err(ScriptError::Changed { name: id.to_string() });
        }
        if id.is_of_load() && self.generation > 1 {
            let label = |all: &[(u32, String)]| {
                all.iter().find(|(number, _)| *number == id.number()).map(|(_, label)| label.clone())
            };
            let first = self.slot.first_kept.get().and_then(|first| label(first));
            if first.is_none() || first != label(&self.kept) {
                return Err(ScriptError::Changed { name: id.to_string() });
            }
        }
        Ok(())
    }
}

impl Answer {
    fn of(mut self, generation: u32) -> Self {
        for function in &mut self.functions {
            function.id = FunctionId::of(function.id.number(), generation);
        }
        self
    }
}
