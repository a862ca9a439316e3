//! Decisions of `after_llm_call`: what each tool call of an answer may do.
//!
//! The gate that judges a model's answer and the gate in front of the tool may be in different
//! processes. What the first decided travels here, keyed by session, run and call, so that runs never see
//! each other's decisions. A call that was decided twice (a doubled id) keeps the denial.

use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, Text, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::StoreError;

/// Whether a tool call may go on to the next gates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "kebab-case")]
pub enum ToolDecision {
    /// It may.
    Allow,
    /// It may not.
    Deny {
        /// Why.
        reason: Text,
    },
}

impl ToolDecision {
    /// Whether `self` gives way to `other`: an allowance does, the first denial stays.
    pub(crate) fn yields_to(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Allow, Self::Deny { .. }))
    }
}

/// Decisions about tool calls.
#[async_trait]
pub trait DecisionStore {
    /// Writes the decisions about one answer's calls, all or none.
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
    ) -> Result<(), StoreError>;

    /// The decision about a call; `None` if none was made.
    async fn decision(
        &self,
        session: &SessionId,
        run: &RunId,
        call: &ToolCallId,
    ) -> Result<Option<ToolDecision>, StoreError>;

    /// Forgets the decisions of a run that is over.
    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError>;
}
