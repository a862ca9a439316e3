//! Decisions of `after_llm_call`: what each tool call of an answer may do.
//!
//! The gate that judges a model's answer and the gate in front of the tool may be in different
//! processes. This store carries the decision of the first to the second, keyed by session, run and call, so that runs
//! never see each other's decisions. If a call was decided twice (a duplicate id), the denial counts.
//!
//! A gate in front of a tool often knows only the call's id, because it does not see the
//! conversation that the proxy saw. It may ask by the id alone ([`DecisionStore::decision_on_call`]). Then
//! the newest decisions of all runs count, and a denial wins over any number of allowances. Providers generate
//! these ids at random, so two conversations share one only if a model writes them itself (`call_0`).
//! At worst such an id denies too much, for as long as the caller's maximum age.

use async_trait::async_trait;
use backstop_hooks::{RunId, SessionId, Text, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::{StoreError, Timestamp};

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
    /// Returns whether `self` gives way to `other`: an allowance does, the first denial stays.
    pub(crate) fn yields_to(&self, other: &Self) -> bool {
        matches!((self, other), (Self::Allow, Self::Deny { .. }))
    }
}

/// Decisions about tool calls.
#[async_trait]
pub trait DecisionStore {
    /// Stores the decisions about one answer's calls, all or none.
    async fn put_decisions(
        &self,
        session: &SessionId,
        run: &RunId,
        decisions: Vec<(ToolCallId, ToolDecision)>,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns the decision about a call; `None` if none was made.
    async fn decision(
        &self,
        session: &SessionId,
        run: &RunId,
        call: &ToolCallId,
    ) -> Result<Option<ToolDecision>, StoreError>;

    /// Returns the decision about a call of any session and run, made at `since` or later; a denial wins. `None`
    /// if none was made, and for an empty id, which identifies no call.
    async fn decision_on_call(
        &self,
        call: &ToolCallId,
        since: Timestamp,
    ) -> Result<Option<ToolDecision>, StoreError>;

    /// Forgets the decisions made before `before`. Returns how many there were.
    async fn prune_decisions(&self, before: Timestamp) -> Result<usize, StoreError>;

    /// Forgets the decisions of a run that has ended.
    async fn clear_decisions(&self, session: &SessionId, run: &RunId) -> Result<(), StoreError>;
}
