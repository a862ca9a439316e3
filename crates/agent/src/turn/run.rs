//! What every step of a turn needs: the engine under this run's name, the stop switch, the door out.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use backstop_engine::{Blocked, Decided, DecidedParts, Engine, Receipt};
use backstop_hooks::{CallContext, DecidePoint, ObservePoint, Point, PointId, RunId, SessionId, Text};

use super::observers::Observers;
use crate::agent::Agent;
use crate::error::AgentError;
use crate::output::Outlet;
use crate::report::TurnError;
use crate::session::{AgentSession, ClaimWatch};
use crate::tools::{CancelToken, Toolbox};

/// Why a turn does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A hook stopped it.
    Blocked {
        /// Where.
        point: PointId,
        /// By whom and why.
        blocked: Blocked,
        /// What the user may read, where it is not the reason.
        message: Option<Text>,
    },
    /// A hook took the turn and says nothing.
    Silent,
    /// The model failed.
    Failed(TurnError),
    /// The switch was turned: by the user, or because the claim on the session was lost.
    Stopped,
    /// The turn can't be kept.
    Broken(AgentError),
}

impl<E: Into<AgentError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Broken(error.into())
    }
}

/// One turn's name and surroundings.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) agent: &'a Agent,
    pub(crate) session: &'a AgentSession,
    /// The tools as they were when the turn began.
    pub(crate) toolbox: Arc<Toolbox>,
    pub(crate) id: RunId,
    pub(crate) call: CallContext,
    pub(crate) stop: CancelToken,
    pub(crate) claim: ClaimWatch,
    pub(crate) observers: Observers,
    receipts: AtomicU64,
    release: ReleaseOnDrop,
}

/// A turn whose future is dropped gives back what the engine holds for it. The session is put in order by
/// the next turn.
#[derive(Debug)]
struct ReleaseOnDrop {
    engine: Engine,
    session: SessionId,
    run: RunId,
    armed: bool,
}

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        let (engine, session, run) = (self.engine.clone(), self.session.clone(), self.run.clone());
        // Without a runtime the process is going away, and takes its memory along.
        if let (true, Ok(runtime)) = (self.armed, tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = engine.end_run(Some(&session), &run).await {
                    tracing::warn!(%error, "what a dropped turn held could not be given back");
                }
            });
        }
    }
}

impl<'a> Run<'a> {
    pub(crate) fn new(
        agent: &'a Agent,
        session: &'a AgentSession,
        id: RunId,
        call: CallContext,
        stop: CancelToken,
        claim: ClaimWatch,
    ) -> Self {
        let observers = Observers::start(agent.engine.clone(), call.clone(), agent.outlet.clone());
        let (engine, of) = (agent.engine.clone(), session.id().clone());
        let release = ReleaseOnDrop { engine, session: of, run: id.clone(), armed: true };
        let toolbox = agent.toolbox();
        let receipts = AtomicU64::new(0);
        Self { agent, session, toolbox, id, call, stop, claim, observers, release, receipts }
    }

    /// Ends the run: waits for hooks that only watch. Answers how many dispatches met a hook.
    pub(crate) async fn finish(mut self, patience: Duration) -> (RunId, u64) {
        self.release.armed = false;
        let met = self.receipts.load(Ordering::Relaxed);
        (self.id, met + self.observers.drain(patience).await)
    }

    pub(crate) fn outlet(&self) -> &Outlet {
        &self.agent.outlet
    }

    pub(crate) fn note(&self, receipt: &Receipt) {
        if !receipt.steps.is_empty() {
            self.receipts.fetch_add(1, Ordering::Relaxed);
            self.outlet().receipt(receipt);
        }
    }

    /// Waits for `work`, or for the stop switch.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Stop::Stopped),
            done = work => Ok(done),
        }
    }

    /// Lets the hooks at `P` decide.
    pub(crate) async fn decide<P: DecidePoint>(&self, event: P::Event) -> Result<Decided<P>, Stop> {
        let decided = self.unless_stopped(self.agent.engine.decide::<P>(event, &self.call)).await?;
        self.note(decided.receipt());
        Ok(decided)
    }

    /// Lets the hooks at `P` decide; a block ends the turn.
    pub(crate) async fn pass<P: DecidePoint>(&self, event: P::Event) -> Result<DecidedParts<P>, Stop> {
        let mut decided = self.decide::<P>(event).await?.into_parts();
        match decided.blocked.take() {
            None => Ok(decided),
            Some(blocked) => Err(Stop::Blocked { point: P::INFO.id, blocked, message: None }),
        }
    }

    /// Lets the hooks at `P`, on the way into the transcript, decide. A turn that is stopped still writes down how
    /// far it came.
    pub(crate) async fn write<P: DecidePoint>(&self, event: P::Event) -> DecidedParts<P> {
        let decided = self.agent.engine.decide::<P>(event, &self.call).await;
        self.note(decided.receipt());
        decided.into_parts()
    }

    /// Shows an event to the hooks that watch at `P`, in the order of these calls and without waiting. The
    /// event is made only if somebody watches.
    pub(crate) fn tell<P: ObservePoint>(&self, event: impl FnOnce() -> <P as Point>::Event) {
        if self.agent.engine.has_hooks::<P>() {
            self.observers.tell::<P>(event());
        }
    }
}
