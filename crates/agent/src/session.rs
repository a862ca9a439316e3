//! Sessions as an agent holds them: found or begun, claimed while a turn runs.
//!
//! The claim is a lease in the store. While a turn runs it is renewed in the background; if it is lost, the
//! turn stops at once and writes nothing more, since another process may already go on. A turn that has not
//! noticed yet, because it was stopped or the machine slept, is refused by the store, which looks at the lease
//! with each write. Without a turn the session is free.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use backstop_hooks::points::SessionEndReason;
use backstop_hooks::{Json, SessionId, SessionKey};
use backstop_store::{LeaseError, LeaseHolder, Session, Store, Timestamp, TranscriptError};
use tokio::task::JoinHandle;

use crate::error::AgentError;
use crate::settings::AgentSettings;
use crate::tools::{CancelToken, ToolContext};

/// Which session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one under this key.
    New {
        /// The conversation.
        key: SessionKey,
    },
    /// This one.
    Resume(SessionId),
    /// The latest one of this conversation that has not ended; a new one if there is none.
    LatestOf(SessionKey),
}

/// Why a conversation is begun afresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fresh {
    /// Somebody wants to talk about something else.
    New,
    /// Somebody wants what was said forgotten.
    Reset,
}

impl Fresh {
    pub(crate) fn reason(self) -> SessionEndReason {
        match self {
            Self::New => SessionEndReason::New,
            Self::Reset => SessionEndReason::Reset,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Reset => "reset",
        }
    }
}

type Dropped = Arc<Mutex<Option<LeaseHolder>>>;

fn take(dropped: &Dropped) -> Option<LeaseHolder> {
    dropped.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A session in which turns can be run. Its background processes end when it is dropped.
pub struct AgentSession {
    record: Session,
    /// Who held the last claim, if that was dropped, and is perhaps not given back yet.
    dropped: Dropped,
    tools: ToolContext,
    /// Turns of one session run one after the other.
    pub(crate) turns: tokio::sync::Mutex<()>,
}

impl fmt::Debug for AgentSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentSession")
            .field("id", &self.record.id)
            .field("key", &self.record.key)
            .finish_non_exhaustive()
    }
}

impl AgentSession {
    fn of(record: Session, tools: ToolContext) -> Self {
        Self { record, dropped: Dropped::default(), tools, turns: tokio::sync::Mutex::new(()) }
    }

    /// The session's id.
    pub fn id(&self) -> &SessionId {
        &self.record.id
    }

    /// The conversation it belongs to.
    pub fn key(&self) -> &SessionKey {
        &self.record.key
    }

    /// The session as it was stored when it was opened.
    pub fn record(&self) -> &Session {
        &self.record
    }

    pub(crate) fn tools(&self) -> &ToolContext {
        &self.tools
    }
}

/// A session as it was found or begun.
pub(crate) struct Opened {
    pub(crate) session: AgentSession,
    /// It was there before.
    pub(crate) found: bool,
}

/// Finds or begins a session.
pub(crate) async fn open(
    store: &Arc<dyn Store>,
    settings: &AgentSettings,
    tools: ToolContext,
    choice: SessionChoice,
) -> Result<Opened, AgentError> {
    let existing = match &choice {
        SessionChoice::New { .. } => None,
        SessionChoice::Resume(id) => {
            let session = store.session(id).await?.ok_or_else(|| AgentError::NoSession(id.clone()))?;
            if let Some(end) = session.ended {
                return Err(AgentError::Ended { id: session.id, key: session.key, reason: end.reason });
            }
            Some(session)
        }
        SessionChoice::LatestOf(key) => {
            store.latest_session(key).await?.filter(|session| session.ended.is_none())
        }
    };
    let found = existing.is_some();
    let session = match (existing, choice) {
        (Some(record), _) => AgentSession::of(record, tools),
        (None, SessionChoice::New { key } | SessionChoice::LatestOf(key)) => {
            begin(store, settings, tools, key, None).await?
        }
        (None, SessionChoice::Resume(id)) => return Err(AgentError::NoSession(id)),
    };
    Ok(Opened { session, found })
}

/// Begins a session.
pub(crate) async fn begin(
    store: &Arc<dyn Store>,
    settings: &AgentSettings,
    tools: ToolContext,
    key: SessionKey,
    resumed_from: Option<SessionId>,
) -> Result<AgentSession, AgentError> {
    let now = Timestamp::now();
    let session = Session {
        id: format!("s-{}", uuid::Uuid::now_v7().simple()).into(),
        key,
        agent: settings.agent_id.clone(),
        workspace: tools.workspace.root().display().to_string(),
        created_at: now,
        updated_at: now,
        ended: None,
        resumed_from,
        meta: Json::default(),
    };
    store.create_session(session.clone()).await?;
    Ok(AgentSession::of(session, tools))
}

/// A claimed session. Dropping it gives the claim back.
#[derive(Debug)]
pub(crate) struct Claim {
    store: Arc<dyn Store>,
    session: SessionId,
    holder: LeaseHolder,
    lost: Arc<AtomicBool>,
    stop: CancelToken,
    keeper: JoinHandle<()>,
    dropped: Dropped,
    released: bool,
}

impl Claim {
    /// Claims the session and keeps the claim up. `stop` fires when the claim is lost.
    pub(crate) async fn take(
        store: &Arc<dyn Store>,
        session: &AgentSession,
        ttl: Duration,
        stop: &CancelToken,
    ) -> Result<Self, LeaseError> {
        let holder = LeaseHolder::unique();
        // INVARIANT (fencing): each claim has a holder of its own, so that a turn which was dropped can neither write
        // under the claim of the next one nor give it back.
        let dropped = take(&session.dropped);
        if let Some(dropped) = dropped {
            store.release_lease(session.id(), &dropped).await?;
        }
        store.lease_session(session.id(), &holder, ttl, Timestamp::now()).await?;
        let lost = Arc::new(AtomicBool::new(false));
        let keeper = tokio::spawn(keep(
            Arc::clone(store),
            session.id().clone(),
            holder.clone(),
            ttl,
            Arc::clone(&lost),
            stop.clone(),
        ));
        Ok(Self {
            store: Arc::clone(store),
            session: session.id().clone(),
            holder,
            lost,
            stop: stop.clone(),
            keeper,
            dropped: Arc::clone(&session.dropped),
            released: false,
        })
    }

    /// Tells, now and later, whether the claim is lost.
    pub(crate) fn watch(&self) -> ClaimWatch {
        ClaimWatch {
            session: self.session.clone(),
            holder: self.holder.clone(),
            lost: Arc::clone(&self.lost),
            stop: self.stop.clone(),
        }
    }

    /// Gives the claim back and waits until that is done.
    pub(crate) async fn release(mut self) -> Result<(), AgentError> {
        self.keeper.abort();
        self.released = true;
        Ok(self.store.release_lease(&self.session, &self.holder).await?)
    }
}

/// Tells whether a claim is lost.
#[derive(Clone, Debug)]
pub(crate) struct ClaimWatch {
    session: SessionId,
    holder: LeaseHolder,
    lost: Arc<AtomicBool>,
    stop: CancelToken,
}

impl ClaimWatch {
    /// Whether another process may work in the session now.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Who writes under this claim.
    pub(crate) fn holder(&self) -> &LeaseHolder {
        &self.holder
    }

    /// What came of a write. One that was refused because the claim is gone ends the turn, as the loss itself would
    /// have.
    pub(crate) fn fenced<T>(&self, written: Result<T, TranscriptError>) -> Result<T, AgentError> {
        if let Err(TranscriptError::LeaseLost(session)) = written {
            self.lost.store(true, Ordering::Release);
            self.stop.cancel();
            return Err(LeaseError::Lost(session).into());
        }
        Ok(written?)
    }

    /// Goes on only with the claim.
    pub(crate) fn check(&self) -> Result<(), LeaseError> {
        if self.is_lost() { Err(LeaseError::Lost(self.session.clone())) } else { Ok(()) }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.keeper.abort();
        if self.released {
            return;
        }
        *self.dropped.lock().unwrap_or_else(PoisonError::into_inner) = Some(self.holder.clone());
        let (store, session, holder) = (Arc::clone(&self.store), self.session.clone(), self.holder.clone());
        // Without a runtime the process is going away, and the claim runs out by itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = store.release_lease(&session, &holder).await;
            });
        }
    }
}

async fn keep(
    store: Arc<dyn Store>,
    session: SessionId,
    holder: LeaseHolder,
    ttl: Duration,
    lost: Arc<AtomicBool>,
    stop: CancelToken,
) {
    let mut safe_until = tokio::time::Instant::now() + ttl;
    loop {
        tokio::time::sleep(ttl / 3).await;
        let asked = tokio::time::Instant::now();
        match store.renew_lease(&session, &holder, ttl, Timestamp::now()).await {
            Ok(_) => safe_until = asked + ttl,
            // The store may be busy for a moment; until the claim runs out nobody else can take it.
            Err(LeaseError::Store(_)) if tokio::time::Instant::now() + ttl / 3 < safe_until => {}
            Err(error) => {
                tracing::error!(session = %session, %error, "the claim on the session was lost");
                lost.store(true, Ordering::Release);
                stop.cancel();
                return;
            }
        }
    }
}
