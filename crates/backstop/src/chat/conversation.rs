//! One conversation: its session, what is shown of it, and its run, if there is one.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use backstop_agent::tools::CancelToken;
use backstop_agent::{AgentSession, Leaving, Output, SessionChoice, TurnInput, TurnOutcome};
use backstop_gateway::chat::{ChatLine, ChatOpen, ChatPerson, ChatSeen, MayNoMore};
use backstop_hooks::{Requester, SessionId};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle};

use super::talk::Talk;
use super::tasks::Tasks;
use super::{ChatSeat, ChatSeats};

pub(super) struct Conversation {
    pub(super) id: SessionId,
    pub(super) who: ChatPerson,
    talk: Arc<Talk>,
    run: Mutex<Option<Arc<Run>>>,
    used: Mutex<Instant>,
    /// It is being left, and nothing begins in it any more.
    is_over: AtomicBool,
    /// The configuration by which it went on last.
    generation: AtomicU64,
    /// What looks, between runs, whether its person may still talk.
    watch: Mutex<Option<AbortHandle>>,
    /// What ends it where nobody says anything for long.
    some_day: OnceLock<AbortHandle>,
    seat: tokio::sync::Mutex<Option<Seated>>,
    /// What ends in its own time, and is waited for with all others.
    endings: Arc<Tasks>,
}

/// What stops a run, and why it was.
#[derive(Default)]
struct Run {
    cancel: CancelToken,
    why: OnceLock<&'static str>,
}

struct Seated {
    generation: u64,
    session: AgentSession,
    seat: ChatSeat,
}

impl Seated {
    async fn open(
        seats: &dyn ChatSeats,
        talk: &Arc<Talk>,
        choice: SessionChoice,
        who: &ChatPerson,
    ) -> Result<Self, String> {
        let generation = seats.generation();
        let seat = seats.make(Arc::clone(talk) as Arc<dyn Output>).await?;
        let why = match seat.agent.open_session(choice).await {
            // INVARIANT (its person's alone): whoever asked, and however, gets no session of another.
            Ok(session) if *session.key() == who.key() => return Ok(Self { generation, session, seat }),
            Ok(_) => "This conversation is somebody else's.".to_owned(),
            Err(error) => error.to_string(),
        };
        seat.end().await;
        Err(why)
    }

    async fn end(self) {
        let Self { session, seat, .. } = self;
        // What it left running ends with it.
        drop(session);
        seat.agent.shut_down(Leaving::Shutdown).await;
        seat.end().await;
    }
}

impl Conversation {
    pub(super) async fn open(
        seats: &dyn ChatSeats,
        endings: &Arc<Tasks>,
        who: &ChatPerson,
        choice: SessionChoice,
    ) -> Result<Arc<Self>, String> {
        let talk = Arc::new(Talk::default());
        if matches!(choice, SessionChoice::Resume(_)) {
            talk.add(ChatLine::Note("It goes on. What was said before is in its session.".to_owned()));
        }
        let seated = Seated::open(seats, &talk, choice, who).await?;
        Ok(Arc::new(Self {
            id: seated.session.id().clone(),
            who: who.clone(),
            talk,
            run: Mutex::default(),
            used: Mutex::new(Instant::now()),
            is_over: AtomicBool::new(false),
            generation: AtomicU64::new(seated.generation),
            watch: Mutex::default(),
            some_day: OnceLock::new(),
            seat: tokio::sync::Mutex::new(Some(seated)),
            endings: Arc::clone(endings),
        }))
    }

    pub(super) fn is(&self, who: &ChatPerson, id: &SessionId) -> bool {
        self.id == *id && self.who == *who
    }

    fn run(&self) -> MutexGuard<'_, Option<Arc<Run>>> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_running(&self) -> bool {
        self.run().is_some()
    }

    pub(super) fn unused_for(&self) -> Duration {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn use_it(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn listed(&self) -> ChatOpen {
        ChatOpen {
            id: self.id.to_string(),
            begins: self.talk.lines().begins().to_owned(),
            is_running: self.is_running(),
        }
    }

    pub(super) fn seen(&self) -> ChatSeen {
        let is_running = self.is_running();
        self.talk.lines().seen(is_running)
    }

    pub(super) fn mark(&self) -> u64 {
        self.talk.lines().mark()
    }

    /// Stops the run. Returns whether there was one. Who stops it first says why.
    pub(super) fn stop(&self, why: &'static str) -> bool {
        let Some(run) = self.run().clone() else { return false };
        run.why.get_or_init(|| why);
        run.cancel.cancel();
        true
    }

    /// Is ended by this task where nobody says anything for long. What has ended needs it no more.
    pub(super) fn ends_some_day(&self, task: &JoinHandle<()>) {
        self.some_day.get_or_init(|| task.abort_handle());
    }

    /// Ends it, once its run has come to its end.
    pub(super) async fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(task) = self.some_day.get() {
            task.abort();
        }
        self.watched_by(None);
        self.stop("Stopped: the conversation was left.");
        self.unseat().await;
        self.talk.changed();
    }

    /// Ends what it runs on, with all that the agent left running, once its run has come to its end. What is said next finds the session as it was.
    async fn unseat(&self) {
        if let Some(before) = self.seat.lock().await.take() {
            before.end().await;
        }
    }

    /// Ends what it runs on, unless that is by this configuration.
    pub(super) async fn unseat_before(&self, generation: u64) {
        let mut seat = self.seat.lock().await;
        if let Some(before) = seat.take_if(|seated| seated.generation != generation) {
            before.end().await;
        }
    }

    /// Has this task look, and none before it. Nothing looks at what is over.
    fn watched_by(&self, watch: Option<AbortHandle>) {
        let mut watching = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *watching, watch);
        let over = if self.is_over.load(Ordering::SeqCst) { watching.take() } else { None };
        for task in [before, over].into_iter().flatten() {
            task.abort();
        }
    }

    /// Ends what the agent left running once its person may talk no more, although no run goes on.
    fn watch(self: &Arc<Self>, until: MayNoMore) {
        let weak = Arc::downgrade(self);
        let looks = tokio::spawn(until);
        self.watched_by(Some(looks.abort_handle()));
        // Its own task: who says something meanwhile must not cut off what it ends.
        tokio::spawn(async move {
            let is_cut_off = looks.await.is_err_and(|error| error.is_cancelled());
            // Where looking failed, nobody would learn of it any more.
            if !is_cut_off && let Some(one) = weak.upgrade() {
                one.unseat().await;
            }
        });
    }

    /// Begins a run about a message.
    pub(super) fn say(
        self: Arc<Self>,
        seats: Arc<dyn ChatSeats>,
        sender: Requester,
        message: String,
        mut until: MayNoMore,
    ) -> Result<(), String> {
        let run = Arc::new(Run::default());
        match &mut *self.run() {
            Some(_) => {
                return Err("The agent still works on the message before. Wait, or stop it.".to_owned());
            }
            none => *none = Some(Arc::clone(&run)),
        }
        self.watched_by(None);
        self.use_it();
        self.talk.said(&message);
        let input = TurnInput { sender: Some(sender), ..TurnInput::user(message) };
        let running = Running { one: self, is_told: false };
        tokio::spawn(async move {
            // All of it, so that it is dropped where this ends.
            let mut running = running;
            let one = Arc::clone(&running.one);
            let mut turn = std::pin::pin!(one.turn(seats.as_ref(), input, &run.cancel));
            let outcome = tokio::select! {
                outcome = &mut turn => outcome,
                () = &mut until => {
                    run.why.get_or_init(|| "Stopped: whoever said this may talk no more.");
                    run.cancel.cancel();
                    // It ends what it began, and withdraws what it asked.
                    turn.await
                }
            };
            one.talk.ended(outcome, run.why.get().copied());
            running.is_told = true;
            // INVARIANT (a run lasts as long as the right to it): what was stopped leaves nothing running.
            if run.why.get().is_some() {
                one.unseat().await;
            } else {
                one.watch(until);
            }
        });
        Ok(())
    }

    /// Takes a message through a turn.
    async fn turn(
        &self,
        seats: &dyn ChatSeats,
        input: TurnInput,
        cancel: &CancelToken,
    ) -> Result<TurnOutcome, String> {
        let mut seat = self.seat.lock().await;
        if self.is_over.load(Ordering::SeqCst) {
            return Ok(TurnOutcome::Cancelled);
        }
        if let Some(before) = seat.take_if(|seated| seated.generation != seats.generation()) {
            before.end().await;
        }
        let seated = match seat.take() {
            Some(seated) => seated,
            None => {
                let choice = SessionChoice::Resume(self.id.clone());
                let seated = Seated::open(seats, &self.talk, choice, &self.who).await?;
                if self.generation.swap(seated.generation, Ordering::SeqCst) != seated.generation {
                    self.talk.add(ChatLine::Note(
                        "The configuration was read anew. It holds from here on.".to_owned(),
                    ));
                }
                seated
            }
        };
        let seated = seat.insert(seated);
        let report = seated.seat.agent.turn(&seated.session, input, cancel).await;
        report.map(|report| report.outcome).map_err(|error| error.to_string())
    }
}

/// A run, which is over when this is dropped, however it ended; after a panic once what it left running has ended, which nobody would watch.
struct Running {
    one: Arc<Conversation>,
    /// Its person was told how it ended, and whoever told them sees to what it left running.
    is_told: bool,
}

impl Drop for Running {
    fn drop(&mut self) {
        let Self { one, is_told } = self;
        if !std::mem::replace(is_told, true) {
            one.talk.ended(Err("a bug in Backstop".to_owned()), None);
            // Without a runtime the process is going away, and takes along what it left.
            if Handle::try_current().is_ok() {
                let ends = Self { one: Arc::clone(one), is_told: true };
                one.endings.spawn(None, async move {
                    ends.one.unseat().await;
                    drop(ends);
                });
                return;
            }
        }
        one.run().take();
        one.use_it();
        one.talk.changed();
    }
}
