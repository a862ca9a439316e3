//! The life of sessions, told to hooks that only watch.
//!
//! A session *begins* when it is created, and again when a process goes on with one whose end was told. It *ends* when
//! another takes its place (`new`, `reset`), when it grew old (`idle`, `daily`), when it is deleted, and, as far as this
//! process is concerned, when the process does (`shutdown`, `restart`); a session that is left behind like that can be gone
//! on with. One whose process was killed has told nobody: the next one tells its end as `unknown`. The law: *each
//! beginning that a process tells has one end*, unless the process is killed.
//!
//! Nobody waits for these hooks: they are told in order by one worker, which the end of the process waits for
//! ([`SHUTDOWN_DRAIN`], for all sessions together).

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use backstop_engine::Engine;
use backstop_hooks::points::{
    BeforeReset, BeforeResetEvent, SessionEnd, SessionEndEvent, SessionEndReason, SessionStart,
    SessionStartEvent,
};
use backstop_hooks::{CallContext, ObservePoint, SessionId};
use backstop_store::{Session, Store, StoreError, Timestamp};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

/// How long the end of a process waits for hooks that watch sessions, for all of them together.
pub(crate) const SHUTDOWN_DRAIN: Duration = Duration::from_secs(2);
/// The most sessions of which a process remembers that it told their beginning. Beyond it the one that was begun first
/// ends as `unknown`.
const MOST_BEGUN: usize = 4_096;

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Which sessions of this process have begun, and the worker that tells of them.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    engine: Engine,
    store: Arc<dyn Store>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    begun: HashMap<SessionId, (u64, Session)>,
    count: u64,
    telling: Option<(UnboundedSender<Job>, JoinHandle<()>)>,
}

impl Lifecycle {
    pub(crate) fn new(engine: Engine, store: Arc<dyn Store>) -> Self {
        Self { engine, store, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this process has told the session's beginning, and not yet its end.
    pub(crate) fn has_begun(&self, id: &SessionId) -> bool {
        self.state().begun.contains_key(id)
    }

    /// Tells that a session begins, once.
    pub(crate) async fn begin(
        &self,
        session: &Session,
        resumed_from: Option<SessionId>,
    ) -> Result<(), StoreError> {
        let surplus = {
            let mut state = self.state();
            state.count += 1;
            let number = state.count;
            if state.begun.insert(session.id.clone(), (number, session.clone())).is_some() {
                return Ok(());
            }
            let full = state.begun.len() > MOST_BEGUN;
            let first = state.begun.values().min_by_key(|(number, _)| *number).filter(|_| full);
            first.map(|(_, session)| session.clone())
        };
        let event = SessionStartEvent {
            session_id: session.id.clone(),
            session_key: Some(session.key.clone()),
            resumed_from,
        };
        self.tell::<SessionStart>(event, session);
        match surplus {
            Some(surplus) => self.end(&surplus, SessionEndReason::Unknown, None).await,
            None => Ok(()),
        }
    }

    /// Tells that a session is over.
    pub(crate) async fn end(
        &self,
        session: &Session,
        reason: SessionEndReason,
        next_session_id: Option<SessionId>,
    ) -> Result<(), StoreError> {
        self.state().begun.remove(&session.id);
        if !self.engine.has_hooks::<SessionEnd>() {
            return Ok(());
        }
        let messages = self.store.transcript(&session.id).await?.len();
        let lasted = session.created_at.until(Timestamp::now());
        let event = SessionEndEvent {
            session_id: session.id.clone(),
            session_key: Some(session.key.clone()),
            message_count: u32::try_from(messages).unwrap_or(u32::MAX),
            duration_ms: Some(u64::try_from(lasted.as_millis()).unwrap_or(u64::MAX)),
            reason,
            next_session_id,
        };
        self.tell::<SessionEnd>(event, session);
        Ok(())
    }

    /// Tells that a conversation is about to be forgotten.
    pub(crate) async fn reset(&self, session: &Session, reason: &str) -> Result<(), StoreError> {
        if !self.engine.has_hooks::<BeforeReset>() {
            return Ok(());
        }
        let entries = self.store.transcript(&session.id).await?;
        let messages = entries.into_iter().map(|entry| entry.message).collect();
        let event = BeforeResetEvent { messages: Some(messages), reason: Some(reason.to_owned()) };
        self.tell::<BeforeReset>(event, session);
        Ok(())
    }

    /// Ends all sessions of this process, and waits until that was told, for at most [`SHUTDOWN_DRAIN`].
    pub(crate) async fn shut_down(&self, reason: SessionEndReason) {
        let begun: Vec<Session> = self.state().begun.values().map(|(_, session)| session.clone()).collect();
        for session in begun {
            if let Err(error) = self.end(&session, reason, None).await {
                tracing::warn!(session = %session.id, %error, "the end of a session could not be told");
            }
        }
        let Some((queue, mut worker)) = self.state().telling.take() else { return };
        drop(queue);
        if tokio::time::timeout(SHUTDOWN_DRAIN, &mut worker).await.is_err() {
            tracing::warn!("hooks that watch sessions did not end in time");
            worker.abort();
        }
    }

    fn tell<P: ObservePoint>(&self, event: P::Event, session: &Session) {
        if !self.engine.has_hooks::<P>() {
            return;
        }
        let (engine, call) = (self.engine.clone(), context(session));
        let job: Job = Box::pin(async move {
            engine.observe::<P>(&event, &call).await;
        });
        let mut state = self.state();
        let (queue, _) = state.telling.get_or_insert_with(|| {
            let (queue, jobs) = unbounded_channel();
            (queue, tokio::spawn(work(jobs)))
        });
        // The worker takes jobs until this sender is gone.
        let _ = queue.send(job);
    }
}

async fn work(mut jobs: UnboundedReceiver<Job>) {
    while let Some(job) = jobs.recv().await {
        job.await;
    }
}

fn context(session: &Session) -> CallContext {
    CallContext {
        agent_id: Some(session.agent.clone()),
        session_key: Some(session.key.clone()),
        session_id: Some(session.id.clone()),
        workspace_dir: Some(session.workspace.clone()),
        ..CallContext::default()
    }
}
