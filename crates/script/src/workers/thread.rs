//! A worker's thread: takes messages, gives scripts their slices, and looks after what they left.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::lane::Gauge;
use super::message::{Message, Run};
use super::resident::{Resident, State, Waiting};
use crate::bridge::CallScope;
use crate::call::{Answer, Callee, FunctionId};
use crate::error::{Ended, ScriptError};
use crate::loaded::SlotCore;
use crate::realm::{self, Failure, HostScope, Realm, Started, after};

/// What a script that was interrupted gets to run the jobs that it left.
const TIDYING: Duration = Duration::from_millis(50);

/// A timer of a script: when, whose, of which runtime, which.
type Due = Reverse<(Instant, u64, u32, u64)>;

/// See the module.
pub(super) struct Worker {
    receiver: mpsc::Receiver<Message>,
    sender: mpsc::Sender<Message>,
    gauge: Arc<Gauge>,
    handle: Handle,
    given_up: Arc<AtomicUsize>,
    residents: HashMap<u64, Resident>,
    timers: BinaryHeap<Due>,
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
            timers: BinaryHeap::new(),
            ready: VecDeque::new(),
        }
    }

    pub(super) fn run(mut self) {
        super::lane::note_stack();
        let abandoned = self.gauge.abandoned();
        loop {
            let message = match self.timers.peek() {
                None => self.receiver.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
                Some(Reverse((due, ..))) => {
                    self.receiver.recv_timeout(due.saturating_duration_since(Instant::now()))
                }
            };
            match message {
                Ok(Message::Stop) | Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Ok(message) => self.take(message),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            self.fire_due();
            self.drive();
            if abandoned.load(Ordering::Relaxed) {
                break;
            }
        }
        self.residents.clear();
        if abandoned.load(Ordering::Relaxed) {
            self.given_up.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Load { slot, reply } => self.load(slot, reply),
            Message::Run(run) => self.ready.push_back(run),
            Message::Cancel { run } => self.cancel(run),
            Message::Answered { script, generation, request, result } => {
                let Some(resident) = self.residents.get_mut(&script) else { return };
                resident.requests.remove(&request);
                if resident.generation != generation {
                    return;
                }
                self.slice(script, |realm| match &result {
                    Ok(text) => realm.settle(request, true, text.as_str()),
                    Err(error) => realm.settle(request, false, &realm::error_text(error)),
                });
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
        resident.generation = resident.generation.saturating_add(1);
        resident.kept.clear();
        let slot = Arc::clone(&resident.slot);
        let scope = CallScope { script: Arc::clone(&slot.source.name), generation: resident.generation };
        let scope =
            HostScope::new(scope, Arc::clone(&slot.permissions), Arc::clone(&slot.bridge), slot.limits);
        let until = after(Instant::now(), slot.limits.load);
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
            Ok((_, Started::Done(Err(failure)))) => resident.load_failed(failure.said(slot.limits.load)),
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

    fn fire_due(&mut self) {
        let now = Instant::now();
        let mut due = Vec::new();
        while let Some(Reverse((at, ..))) = self.timers.peek()
            && *at <= now
        {
            due.extend(self.timers.pop());
        }
        for Reverse((_, script, generation, timer)) in due {
            if self.residents.get(&script).is_some_and(|resident| resident.generation == generation) {
                self.slice(script, |realm| realm.fire(timer));
            }
        }
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
                matches!(resident.state, State::Ended { .. }) && resident.refusal().is_none()
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
                    resident.load_failed(ScriptError::TimedOut { budget });
                    return run.end(Err(ScriptError::TimedOut { budget }));
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
        let until = run.until().min(slice_end);
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
            Started::Done(Err(failure)) => Self::weigh(failure, run.budget().min(limits.slice)),
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
    fn weigh(failure: Failure, budget: Duration) -> (Result<Option<Answer>, ScriptError>, Result<(), Ended>) {
        if failure.out_of_memory {
            let error = ScriptError::Ended { why: Ended::OutOfMemory, again_in: Duration::ZERO };
            return (Err(error), Err(Ended::OutOfMemory));
        }
        (Err(failure.said(budget)), Ok(()))
    }

    /// A slice that belongs to no call.
    fn slice(&mut self, script: u64, run: impl FnOnce(&Realm) -> Result<(), Ended>) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let Some(realm) = &resident.realm else { return };
        let until = after(Instant::now(), resident.slot.limits.slice);
        self.gauge.begin(script, until);
        realm.start_clock(until);
        let ran = run(realm);
        self.gauge.end();
        self.finish_slice(script, ran, until);
    }

    /// Runs the jobs that a slice left, takes out what it put out, and looks who has an answer.
    fn finish_slice(&mut self, script: u64, ran: Result<(), Ended>, until: Instant) {
        let Some(resident) = self.residents.get_mut(&script) else { return };
        let Some(realm) = &resident.realm else { return };
        self.gauge.begin(script, until);
        realm.start_clock(until);
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
                let budget = run.budget().min(resident.slot.limits.slice);
                let (outcome, ended) = Self::weigh(failure, budget);
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
        self.timers
            .extend(outbox.timers.into_iter().map(|(due, timer)| Reverse((due, script, generation, timer))));
        for (request, answering) in outbox.requests {
            let sender = self.sender.clone();
            let task = self.handle.spawn(async move {
                let result = answering.await;
                // A thread that has gone wants no answer.
                let _ = sender.send(Message::Answered { script, generation, request, result });
            });
            resident.requests.insert(request, task.abort_handle());
        }
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
            None => resident.load_failed(ScriptError::TimedOut { budget: load }),
            Some(Err(failure)) => resident.load_failed(failure.said(load)),
            Some(Ok(_)) => match realm.loaded(resident.slot.source.boot.is_some()) {
                Err(failure) => resident.load_failed(failure.said(load)),
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
            let first = label(&self.first_kept);
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
