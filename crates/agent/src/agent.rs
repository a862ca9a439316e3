//! The agent: what it is made of, and its two verbs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use backstop_engine::{Attendance, Engine};
use backstop_hooks::TraceParent;
use backstop_hooks::points::SessionEndReason;
use backstop_store::{Store, Timestamp};

use crate::error::AgentError;
use crate::lifecycle::Lifecycle;
use crate::models::Models;
use crate::output::{Outlet, Output};
use crate::report::{TurnInput, TurnReport};
use crate::session::{self, AgentSession, Claim, Fresh, Opened, SessionChoice};
use crate::settings::AgentSettings;
use crate::stage::{StageSink, Stages};
use crate::tools::{CancelToken, Limits, ToolContext, Toolbox, Workspace};
use crate::turn;

/// What an agent is made of.
pub struct AgentParts {
    /// Judges everything. Its hooks may change between turns and within one.
    pub engine: Engine,
    /// Keeps sessions, transcripts, runs.
    pub store: Arc<dyn Store>,
    /// Finds models.
    pub models: Arc<dyn Models>,
    /// What the model may be offered.
    pub toolbox: Toolbox,
    /// Where the tools work.
    pub workspace: Workspace,
    /// Bounds of each tool call.
    pub limits: Limits,
    /// How the agent works.
    pub settings: AgentSettings,
    /// Who can be asked for an approval.
    pub attendance: Attendance,
    /// Where the user sees it all.
    pub output: Arc<dyn Output>,
}

impl fmt::Debug for AgentParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentParts")
            .field("engine", &self.engine)
            .field("store", &self.store)
            .field("models", &self.models)
            .field("toolbox", &self.toolbox)
            .field("settings", &self.settings)
            .field("attendance", &self.attendance)
            .finish_non_exhaustive()
    }
}

/// Why a process leaves its sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaving {
    /// It stops.
    Shutdown,
    /// It stops, and another begins in its place.
    Restart,
}

/// An agent. One agent can run turns of several sessions at once.
#[derive(Debug)]
pub struct Agent {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) models: Arc<dyn Models>,
    toolbox: Mutex<Arc<Toolbox>>,
    pub(crate) settings: AgentSettings,
    pub(crate) attendance: Attendance,
    pub(crate) outlet: Outlet,
    lifecycle: Lifecycle,
    workspace: Workspace,
    limits: Limits,
    pub(crate) stages: Stages,
}

impl Agent {
    /// An agent of these parts.
    pub fn new(parts: AgentParts) -> Self {
        let AgentParts { engine, store, models, toolbox, workspace, limits, settings, attendance, output } =
            parts;
        let outlet = Outlet::new(output, settings.verbosity);
        let lifecycle = Lifecycle::new(engine.clone(), Arc::clone(&store));
        let toolbox = Mutex::new(Arc::new(toolbox));
        let stages = Stages::default();
        Self {
            engine,
            store,
            models,
            toolbox,
            settings,
            attendance,
            outlet,
            lifecycle,
            workspace,
            limits,
            stages,
        }
    }

    /// Tells of the stages of its turns, which stand below the span `parent`, if there is one.
    #[must_use]
    pub fn told_to(mut self, sink: Arc<dyn StageSink>, parent: Option<TraceParent>) -> Self {
        self.stages = Stages { sink: Some(sink), parent };
        self
    }

    /// How the agent works.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// The tools that a turn which begins now is offered.
    pub fn toolbox(&self) -> Arc<Toolbox> {
        Arc::clone(&self.toolbox.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other tools in place, for turns that begin from now on.
    pub fn set_toolbox(&self, toolbox: Toolbox) {
        *self.toolbox.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(toolbox);
    }

    /// Finds or begins a session. A turn of it that another process left behind, because it was killed, is
    /// closed: its open tool calls get results that say so, and what it had taken is given back. The latest session of a
    /// conversation that has grown old by [`AgentSettings::expiry`] ends, and another begins.
    ///
    /// # Errors
    ///
    /// [`AgentError`]: no such session, it has ended, another process works in it, the storage failed.
    pub async fn open_session(&self, choice: SessionChoice) -> Result<AgentSession, AgentError> {
        let by_conversation = matches!(choice, SessionChoice::LatestOf(_));
        let Opened { session, found } =
            session::open(&self.store, &self.settings, self.tools(), choice).await?;
        let was_killed = turn::recover_session(self, &session).await?;
        let record = session.record();
        if !found {
            self.lifecycle.begin(record, None).await?;
        } else if !self.lifecycle.has_begun(&record.id) {
            if was_killed {
                self.lifecycle.end(record, SessionEndReason::Unknown, None).await?;
            }
            self.lifecycle.begin(record, Some(record.id.clone())).await?;
        }
        if by_conversation && let Some(next) = self.renew_session(&session).await? {
            return Ok(next);
        }
        Ok(session)
    }

    /// Ends a session that has grown old by [`AgentSettings::expiry`], and begins the one that follows it; `None` if it
    /// has not.
    ///
    /// # Errors
    ///
    /// [`AgentError`]: another process works in the session, the storage failed.
    pub async fn renew_session(&self, session: &AgentSession) -> Result<Option<AgentSession>, AgentError> {
        let stored = self.store.session(session.id()).await?;
        let reason =
            stored.and_then(|stored| self.settings.expiry.reason(stored.updated_at, Timestamp::now()));
        match reason {
            Some(reason) => Ok(Some(self.succeed(session, reason).await?)),
            None => Ok(None),
        }
    }

    /// Ends a session and begins its conversation afresh. Waits for the turn that is going on.
    ///
    /// # Errors
    ///
    /// [`AgentError`]: another process works in the session, it has ended, the storage failed.
    pub async fn reset_session(
        &self,
        session: &AgentSession,
        fresh: Fresh,
    ) -> Result<AgentSession, AgentError> {
        self.lifecycle.reset(session.record(), fresh.name()).await?;
        self.succeed(session, fresh.reason()).await
    }

    /// Ends the sessions of this process, as far as hooks are told of it, and waits for these hooks: 2 s for all of them
    /// together. A session that is left like this can be gone on with.
    pub async fn shut_down(&self, reason: Leaving) {
        let reason = match reason {
            Leaving::Shutdown => SessionEndReason::Shutdown,
            Leaving::Restart => SessionEndReason::Restart,
        };
        self.lifecycle.shut_down(reason).await;
    }

    /// Ends a session, whose place another takes.
    async fn succeed(
        &self,
        session: &AgentSession,
        reason: SessionEndReason,
    ) -> Result<AgentSession, AgentError> {
        let _no_turn = session.turns.lock().await;
        let claim = Claim::take(&self.store, session, self.settings.lease, &CancelToken::new()).await?;
        let ended = self.store.end_session(session.id(), reason, Timestamp::now()).await;
        claim.release().await?;
        if !ended? {
            let (id, key) = (session.id().clone(), session.key().clone());
            let stored = self.store.session(&id).await?.and_then(|stored| stored.ended);
            return Err(AgentError::Ended { id, key, reason: stored.map_or(reason, |end| end.reason) });
        }
        let (key, from) = (session.key().clone(), Some(session.id().clone()));
        let next = session::begin(&self.store, &self.settings, self.tools(), key, from.clone()).await?;
        self.lifecycle.end(session.record(), reason, Some(next.id().clone())).await?;
        self.lifecycle.begin(next.record(), from).await?;
        Ok(next)
    }

    fn tools(&self) -> ToolContext {
        let mut context = ToolContext::new(self.workspace.clone(), self.limits.clone());
        context.launcher = self.settings.launcher.as_slice().into();
        context.withheld = Arc::new(self.settings.withheld.clone());
        context
    }

    /// Takes one message through a turn. Turns of one session wait for each other. When `cancel` fires, running
    /// tools are ended, open calls get results that say so, and the turn ends as
    /// [`Cancelled`](crate::TurnOutcome::Cancelled).
    ///
    /// # Errors
    ///
    /// [`AgentError`] when the turn can't be kept: another process has the session, the storage failed.
    /// Everything else that can go wrong is an outcome.
    pub async fn turn(
        &self,
        session: &AgentSession,
        input: TurnInput,
        cancel: &CancelToken,
    ) -> Result<TurnReport, AgentError> {
        let _one_at_a_time = tokio::select! {
            biased;
            turn = session.turns.lock() => turn,
            () = cancel.cancelled() => return Ok(TurnReport::never_begun()),
        };
        // A turn's future is large; one allocation keeps it off the callers' stacks.
        Box::pin(turn::run(self, session, input, cancel)).await
    }
}
