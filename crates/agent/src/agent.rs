//! The agent: what it is made of, and its two verbs.

use std::fmt;
use std::sync::Arc;

use backstop_engine::{Attendance, Engine};
use backstop_store::Store;

use crate::error::AgentError;
use crate::models::Models;
use crate::output::{Outlet, Output};
use crate::report::{TurnInput, TurnReport};
use crate::session::{self, AgentSession, SessionChoice};
use crate::settings::AgentSettings;
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

/// An agent. One agent can run turns of several sessions at once.
#[derive(Debug)]
pub struct Agent {
    pub(crate) engine: Engine,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) toolbox: Toolbox,
    pub(crate) settings: AgentSettings,
    pub(crate) attendance: Attendance,
    pub(crate) outlet: Outlet,
    workspace: Workspace,
    limits: Limits,
}

impl Agent {
    /// An agent of these parts.
    pub fn new(parts: AgentParts) -> Self {
        let AgentParts { engine, store, models, toolbox, workspace, limits, settings, attendance, output } =
            parts;
        let outlet = Outlet::new(output, settings.verbosity);
        Self { engine, store, models, toolbox, settings, attendance, outlet, workspace, limits }
    }

    /// How the agent works.
    pub fn settings(&self) -> &AgentSettings {
        &self.settings
    }

    /// Finds or begins a session. A turn of it that another process left behind, because it was killed, is
    /// closed: its open tool calls get results that say so, and what it had taken is given back.
    ///
    /// # Errors
    ///
    /// [`AgentError`]: no such session, it has ended, another process works in it, the storage failed.
    pub async fn open_session(&self, choice: SessionChoice) -> Result<AgentSession, AgentError> {
        let tools = ToolContext::new(self.workspace.clone(), self.limits.clone());
        let session = session::open(&self.store, &self.settings, tools, choice).await?;
        turn::recover_session(self, &session).await?;
        Ok(session)
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
